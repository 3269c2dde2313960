//! The driver: a compaction of one zone, as a state machine that does a bounded piece of work at a time.

use super::job::Job;
use super::knobs::Moves;
use super::moving::{Ending, Moving};
use super::pass::{Captured, Pass, Search, Settled};
use super::plan::Plan;
use super::view::Cluster;
use super::view::CompactionView;
use pageyard_core::allocator::Cx;
use pageyard_core::compaction::Migrate;
use pageyard_core::compaction::Step;
use pageyard_core::compaction::{Contention, Outcome, Work};
use pageyard_core::units::Pfn;

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is more to do.
    Working,
    /// It has ended: nothing is held any more.
    Done(Outcome),
}

/// The state of a compaction. Each state holds only what it needs, and gives that back when it is left.
#[expect(clippy::large_enum_variant, reason = "there is no allocator here to box a variant with")]
enum State<'a, M: CompactionView, O: Migrate> {
    /// It has not begun.
    Ready { job: Job<'a, M>, interrupted: bool },
    /// Running. What the engine lent comes first, and so is dropped first: the engine makes no callbacks, so if an
    /// owner panics when the phase is dropped, all of that has been given back.
    Running(Pass<'a, M, O>, Phase<'a, O>),
    /// It has ended.
    Ended(End<'a, M>),
}

/// The next step of a running compaction. A phase owns the frames that are isolated meanwhile.
enum Phase<'a, O: Migrate> {
    /// Ask whether it is done.
    Check,
    /// Look for frames to move.
    Isolate(Cluster<'a, O>),
    /// Move them.
    Move(Moving<'a, O>),
    /// Put back those that stayed, and let the blocks that were left merge.
    Settle(Cluster<'a, O>, Ending),
}

/// The remains of a compaction that has ended.
struct End<'a, M: CompactionView> {
    outcome: Outcome,
    work: Work,
    positions: (Pfn, Pfn),
    captured: Option<Captured<'a, M>>,
}

/// A compaction of one zone, between its beginning and its end.
///
/// It holds frames that are isolated, free frames to move them to, and leases of pageblocks. All of that goes back when
/// it ends or is dropped, also when a callback panics.
pub struct Compactor<'a, M: CompactionView, O: Migrate> {
    owner: &'a O,
    state: State<'a, M, O>,
}

impl<'a, M: CompactionView, O: Migrate> Compactor<'a, M, O> {
    /// Prepares a compaction; `None` where there is no such zone.
    pub fn new(map: &'a M, owner: &'a O, cx: &Cx, plan: Plan) -> Option<Compactor<'a, M, O>> {
        let job = Job::new(map, cx, plan)?;
        Some(Compactor { owner, state: State::Ready { job, interrupted: false } })
    }

    /// Works until about `budget` frames were examined or moved, or to the end.
    ///
    /// A step may go past its budget by a pageblock, 512 frames; by three where it searches the free lists first.
    pub fn step(&mut self, budget: u64) -> Progress {
        let before = self.work().examined();
        let mut turns = 0;
        loop {
            if let State::Ended(end) = &self.state {
                return Progress::Done(end.outcome);
            }
            if turns + (self.work().examined() - before) >= budget.max(1) {
                return Progress::Working;
            }
            turns += 1;
            self.turn();
        }
    }

    /// Works to the end.
    pub fn run(&mut self) -> Outcome {
        loop {
            if let Progress::Done(outcome) = self.step(u64::MAX) {
                return outcome;
            }
        }
    }

    /// Tells it that the CPU or the zone is wanted elsewhere: it ends at the next opportunity, as contended.
    ///
    /// [`Contention`] has the other reasons for that end.
    pub fn interrupt(&mut self) {
        match &mut self.state {
            State::Ready { interrupted, .. } => *interrupted = true,
            State::Running(pass, _) => pass.give_way(Contention::Interrupted),
            State::Ended(_) => {}
        }
    }

    /// Returns what it has done so far.
    #[must_use]
    pub fn work(&self) -> Work {
        match &self.state {
            State::Ready { .. } => Work::default(),
            State::Running(pass, _) => pass.work,
            State::Ended(end) => end.work,
        }
    }

    /// Returns where the migrate and the free scanner stand.
    #[must_use]
    pub fn positions(&self) -> (Pfn, Pfn) {
        match &self.state {
            State::Ready { job, .. } => (job.span.start, job.span.start),
            State::Running(pass, _) => (pass.migrate_pfn, pass.free_pfn),
            State::Ended(end) => end.positions,
        }
    }

    /// Returns how many frames it holds: isolated ones, free ones to move to, and free ones held back.
    #[must_use]
    pub fn holds(&self) -> (usize, usize, usize) {
        let State::Running(pass, phase) = &self.state else { return (0, 0, 0) };
        let isolated = match phase {
            Phase::Check => 0,
            Phase::Isolate(cluster) | Phase::Settle(cluster, _) => cluster.left(),
            Phase::Move(moving) => moving.held(),
        };
        (isolated, pass.targets.held(), pass.held.len())
    }

    /// Returns whether a block was captured for the request and not taken yet.
    #[must_use]
    pub fn has_captured(&self) -> bool {
        matches!(&self.state, State::Ended(End { captured: Some(_), .. }))
    }

    /// Takes the block that was captured for the request.
    pub fn take_captured(&mut self) -> Option<Pfn> {
        match &mut self.state {
            State::Ended(end) => end.captured.take().map(Captured::into_pfn),
            State::Ready { .. } | State::Running(..) => None,
        }
    }

    /// Does the work of the phase and moves on to the next one.
    ///
    /// Isolated frames stay in the phase while their owner is called, so a panic there does not lose them.
    fn turn(&mut self) {
        let (pass, phase) = match &mut self.state {
            State::Ready { job, interrupted } => {
                match Pass::begin(job, self.owner, *interrupted) {
                    Ok(pass) => self.state = State::Running(pass, Phase::Check),
                    Err(outcome) => self.finish(outcome, None),
                }
                return;
            }
            State::Running(pass, phase) => (pass, phase),
            State::Ended(_) => return,
        };
        match phase {
            Phase::Check => match pass.check() {
                Some(outcome) => self.finish(outcome, None),
                None => {
                    pass.begin_cluster();
                    *phase = Phase::Isolate(Cluster::<O>::new(self.owner, pass.job.plan.mode));
                }
            },
            Phase::Isolate(cluster) => match pass.isolate_scanned(cluster) {
                Search::GoOn => {}
                Search::Move => {
                    let downwards = pass.job.knobs.moves != Moves::Upwards;
                    *phase = Phase::Move(Moving::new(cluster.take(), downwards));
                }
                Search::Stop => self.finish(Outcome::Contended, None),
                Search::Settle => *phase = Phase::Settle(cluster.take(), Ending::Moved),
            },
            Phase::Move(moving) => {
                if let Some(ending) = pass.move_one(moving) {
                    *phase = Phase::Settle(moving.take(), ending);
                }
            }
            Phase::Settle(cluster, ending) => {
                cluster.put_back();
                match pass.settle(*ending) {
                    Settled::GoOn => *phase = Phase::Check,
                    Settled::Rescan => {
                        *phase = Phase::Isolate(Cluster::<O>::new(self.owner, pass.job.plan.mode))
                    }
                    Settled::Contended => self.finish(Outcome::Contended, None),
                    Settled::Captured(block) => self.finish(Outcome::Success, Some(block)),
                }
            }
        }
    }

    /// Ends the compaction and gives back what it holds.
    ///
    /// # Linux
    /// `out:` of `compact_zone`.
    fn finish(&mut self, outcome: Outcome, captured: Option<Captured<'a, M>>) {
        let (work, positions) = (self.work(), self.positions());
        let ended = matches!(self.state, State::Running(..));
        self.state = State::Ended(End { outcome, work, positions, captured });
        if ended {
            let (migrate, free) = positions;
            self.owner.step(Step::Ended { migrate, free, outcome });
        }
    }
}
