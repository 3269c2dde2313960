//! One run: an allocator, processes, packets, workers killed and replaced, and the account at the end.

use crate::board::{Board, Order, Slot, Who, Worker};
use crate::clock::Clock;
use crate::ends;
use crate::failure::Failure;
use crate::frames::Store;
use crate::outcome::{Counts, ForwardReport, Killed, Packets, Timed};
use crate::packet::restore;
use crate::process::Child;
use crate::rig::{Queue, Rig};
use crate::survey::Survey;
use crate::worker::{Job, Role, work};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How long rings may take to come to rest, and processes to stop, before that is an error.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the supervisor looks.
const LOOK: Duration = Duration::from_millis(1);

/// A worker that is to be killed goes on for fewer instructions than this: a few batches of whatever it does.
const STEPS: u32 = 8192;

/// Who takes completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    /// The worker that receives.
    Same,
    /// A worker of its own.
    Other,
}

impl Completion {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Completion::Same => "same",
            Completion::Other => "other",
        }
    }

    /// Returns its name in a sentence about a worker.
    pub fn article(self) -> &'static str {
        match self {
            Completion::Same => "the same",
            Completion::Other => "another",
        }
    }
}

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Who takes completions.
    pub completion: Completion,
    /// Packets to send, over all queues.
    pub packets: u64,
    /// When the source stops at the latest.
    pub time: Duration,
    /// Workers to kill.
    pub kills: u32,
}

/// The fixtures of a run.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The fixtures that all runs share.
    pub rig: &'a Rig,
    /// The board on which processes communicate.
    pub board: &'a Board,
    /// The allocator.
    pub store: &'a dyn Store,
    /// The clock.
    pub clock: Clock,
}

/// Runs once.
///
/// # Errors
/// A process failed, or frames or packets did not come to rest.
pub fn run(
    setting: Setting<'_>,
    plan: Plan,
    random: &mut fastrand::Rng,
    progress: &mut dyn FnMut(u64),
) -> Result<ForwardReport, Failure> {
    let before = Counts::read(setting.rig)?;
    let survey = Survey::settled(setting.rig, PATIENCE).dealt(setting.rig);
    sound(&survey)?;
    setting.store.rebuild(survey.users());
    clear(setting);
    let mut run = Run::start(setting, plan)?;
    let began = Instant::now();
    let killed = run.until_sent(plan, random, progress)?;
    run.until_through()?;
    let took = began.elapsed();
    let doubly_owned = run.doubly_owned;
    run.end()?;
    let survey = Survey::settled(setting.rig, PATIENCE);
    let (lines, through_ring) = (setting.store.lines(), setting.store.through_ring());
    let balance = survey.settle(setting.store);
    let after = Counts::read(setting.rig)?;
    let slots = || setting.board.slots.iter();
    Ok(ForwardReport {
        took,
        packets: Packets::of(setting.board, &before, &after),
        places: survey.places,
        balance,
        doubly_owned,
        empty: slots().map(|slot| slot.empty.load(Relaxed)).sum(),
        killed,
        cpu: Duration::from_nanos(slots().map(|slot| slot.cpu.load(Relaxed)).sum()),
        get: Timed::of(slots().map(|slot| &slot.get)),
        put: Timed::of(slots().map(|slot| &slot.put)),
        through_ring,
        lines,
    })
}

/// Processes at work; killed when this is dropped.
struct Run<'a> {
    setting: Setting<'a>,
    workers: Vec<(Job<'a>, Child)>,
    source: Child,
    sink: Child,
    doubly_owned: u32,
}

impl<'a> Run<'a> {
    fn start(setting: Setting<'a>, plan: Plan) -> Result<Run<'a>, Failure> {
        let Setting { rig, board, store, clock } = setting;
        let job =
            |worker: Worker, queue: u32, role: Role| Job { worker, queue, role, rig, board, store, clock };
        let mut jobs = Vec::new();
        for queue in 0..rig.sizes.queues {
            if plan.completion == Completion::Same {
                jobs.push(job(rig.receiver(queue), queue, Role::Both));
            } else {
                jobs.push(job(rig.receiver(queue), queue, Role::Receive));
                jobs.push(job(rig.completer(queue), queue, Role::Complete));
            }
        }
        board.give(Order::Run);
        let sink = Child::fork(|| {
            ends::receive(rig, board);
            Ok(())
        })?;
        let workers = jobs.into_iter().map(|job| Ok((job, Child::fork(|| work(&job))?)));
        let workers = workers.collect::<Result<_, Failure>>()?;
        let source = Child::fork(|| ends::send(rig, board))?;
        Ok(Run { setting, workers, source, sink, doubly_owned: 0 })
    }

    /// Looks after the processes until the source has sent all, and kills workers on the way.
    fn until_sent(
        &mut self,
        plan: Plan,
        random: &mut fastrand::Rng,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<Killed>, Failure> {
        let (began, board) = (Instant::now(), self.setting.board);
        let mut killed = Vec::new();
        let queues = u64::from(self.setting.rig.sizes.queues);
        loop {
            // Packets are sent in as many stages as there are workers to kill, and one more: one is killed early in
            // each but the last.
            let (stages, stage) = (u64::from(plan.kills) + 1, killed.len() as u64 + 1);
            board.quota.store((plan.packets * stage / stages).div_ceil(queues), Relaxed);
            std::thread::sleep(LOOK);
            self.check()?;
            let sent = |queue: usize| board.sent[queue].packets.load(Relaxed);
            let all: u64 = (0..queues as usize).map(sent).sum();
            progress(all);
            if began.elapsed() > plan.time {
                board.quota.store(0, Relaxed);
                return Ok(killed);
            }
            if stage < stages {
                let early = plan.packets * (stage - 1) / stages + plan.packets / stages / 8;
                if all >= early {
                    killed.push(self.kill(random.usize(..self.workers.len()), random.u32(..STEPS))?);
                }
            } else if (0..queues as usize).all(|queue| sent(queue) >= board.quota.load(Relaxed)) {
                return Ok(killed);
            }
        }
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.workers.iter_mut().try_for_each(|(_, child)| child.check())?;
        self.source.check()?;
        self.sink.check()
    }

    /// Kills a worker; finds what it had; has another one go on.
    fn kill(&mut self, which: usize, instructions: u32) -> Result<Killed, Failure> {
        let (job, child) = self.workers.swap_remove(which);
        child.kill_after(instructions)?;
        let began = Instant::now();
        let Setting { rig, board, store, .. } = self.setting;
        store.unlock_after(job.worker);
        self.pause()?;
        let slot = &board.slots[job.worker.index()];
        finish_move(rig, job.queue, slot);
        let survey = Survey::settled(rig, PATIENCE);
        sound(&survey)?;
        let balance = survey.settle(store);
        self.doubly_owned += balance.doubly_owned;
        let in_call = slot.in_call.swap(0, Relaxed) != 0;
        self.workers.push((job, Child::fork(|| work(&job))?));
        board.give(Order::Run);
        Ok(Killed { in_call, stranded: balance.missing, recovery: began.elapsed() })
    }

    /// Has the source and every worker stop with empty hands.
    fn pause(&mut self) -> Result<(), Failure> {
        let (began, board) = (Instant::now(), self.setting.board);
        board.give(Order::Pause);
        loop {
            let worker = |job: &Job<'_>| board.parked(Who::Worker(job.worker));
            if board.parked(Who::Source) && self.workers.iter().all(|(job, _)| worker(job)) {
                return Ok(());
            }
            self.check()?;
            if began.elapsed() > PATIENCE {
                return Err(Failure::Error("a process does not stop when it is told to".into()));
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Waits until workers have routed what was received, and given back what was sent.
    fn until_through(&mut self) -> Result<(), Failure> {
        let (began, rig) = (Instant::now(), self.setting.rig);
        let busy = || {
            let waits = |queue: &Queue| queue.input.rx.len() + queue.output.completion.len() > 0;
            !rig.is_quiet() || rig.queues.iter().any(waits)
        };
        let mut quiet = 0;
        // A ring can be empty for a moment: so for a few looks in a row.
        while quiet < 5 {
            std::thread::sleep(LOOK);
            quiet = if busy() { 0 } else { quiet + 1 };
            if began.elapsed() > PATIENCE {
                // What does not move shows in the account.
                break;
            }
        }
        self.check()
    }

    fn end(self) -> Result<(), Failure> {
        self.setting.board.give(Order::End);
        self.source.join()?;
        self.sink.join()?;
        self.workers.into_iter().try_for_each(|(_, child)| child.join())
    }
}

/// Puts right what a worker that was killed was doing between two rings.
///
/// A move from RX to TX that happened is finished: the RX entries are given back. One that did not happen needs
/// nothing, because its packets are on the RX ring; but a header that was being changed is put back, so that the next
/// worker can route it.
fn finish_move(rig: &Rig, queue: u32, slot: &Slot) {
    let (moving, queue) = (&slot.moving, &rig.queues[queue as usize]);
    let rx = &queue.input.rx;
    // The worker was waited for, so all of its stores are seen.
    if moving.packets.swap(0, Relaxed) > 0 && queue.output.tx.produced() == moving.tx_to.load(Relaxed) {
        rx.release(moving.rx_to.load(Relaxed));
    }
    let record = slot.routing.swap(0, Relaxed);
    let (index, word) = ((record >> 32) as u32, record as u32);
    if record != 0 && index.wrapping_sub(rx.consumed()) < rx.len() {
        let packet = rx.read(index);
        // SAFETY: it is on the RX ring, and the worker that consumes it is no more.
        if let Some(bytes) = unsafe { rig.memory.bytes_of(packet.addr, packet.len) } {
            restore(bytes, word);
        }
    }
}

fn sound(survey: &Survey) -> Result<(), Failure> {
    if survey.is_sound() {
        return Ok(());
    }
    Err(Failure::Error(format!(
        "the rings do not come to rest with each frame in one place: {:?}",
        survey.places
    )))
}

/// Sets every count of the board to zero; no one runs.
fn clear(setting: Setting<'_>) {
    let board = setting.board;
    let zero = |words: &[&AtomicU64]| words.iter().for_each(|word| word.store(0, Relaxed));
    for slot in &board.slots {
        zero(&[&slot.routing, &slot.cpu, &slot.foreign, &slot.empty]);
        for calls in [&slot.get, &slot.put] {
            zero(&[&calls.frames, &calls.ticks, &calls.disturbed, &calls.disturbed_frames]);
        }
    }
    // What the source has given up on stays: its packets are still missing from what the router received.
    board.sent.iter().for_each(|sent| zero(&[&sent.packets]));
    for arrived in &board.arrived {
        zero(&[&arrived.packets, &arrived.foreign, &arrived.damaged, &arrived.disordered]);
    }
    board.quota.store(0, Relaxed);
}
