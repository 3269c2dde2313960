//! One round: an engine is made, threads storm, and everything is judged while nothing runs.

use super::Turn;
use super::board::Board;
use super::fault::{Faults, Rule};
use super::journal::Journal;
use super::kinds::Kind;
use super::machine::{self, Machine};
use super::movers::Movers;
use super::oracle::Oracle;
use super::plan::{Found, Make, Naming, Plan, Report, Variant};
use super::ranges::Ranges;
use super::shared::{Shared, Tally};
use super::subject::{self, Subject};
use super::verdict;
use super::watched::{Watched, Way};
use super::worker::{Stretches, Worker};
use fastrand::Rng;
use pageyard::engine::CmaArea;
use pageyard::{CpuId, Cx, FrameRange, Frames, PAGEBLOCK_ORDER, PerCpu};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Lines of a log that a fault shows.
const LINES: usize = 120;
/// How long the threads sleep whose waking interrupts others in the middle of a call.
const NAP: Duration = Duration::from_micros(40);

/// Runs a round and adds what it did to a report; returns whether it is the last.
pub(super) fn run<P: PerCpu>(
    plan: &Plan,
    variant: &Variant<'_, P>,
    machine: &Machine,
    &Turn { number, seed, start }: &Turn,
    report: &mut Report,
) -> bool {
    let mut rng = Rng::with_seed(seed);
    let threads = variant.threads.unwrap_or(plan.threads);
    let cpus = if variant.naming == Naming::Own { threads } else { variant.cpus };
    let map = machine.map();
    let mut config = machine::config(&mut rng, cpus);
    let way = match rng.u8(..8) {
        0 => Some(Way::Observed),
        1 => Some(Way::Cleared { on_alloc: rng.bool(), on_free: rng.bool() }),
        _ => None,
    };
    let way = way.filter(|_| plan.mix.has(Kind::Watched) && matches!(variant.make, Make::Pageyard(_)));
    if let Some(Way::Cleared { on_alloc, on_free }) = way {
        (config.init_on_alloc, config.init_on_free) = (on_alloc, on_free);
    }
    let (oracle, faults) = (Oracle::new(machine.frames()), Faults::new(plan.ignored));
    let watched = way.map(|way| Watched::new(&oracle, &faults, machine.frames(), way));
    let mut memory = match subject::metadata::<P>(&map, &config) {
        Ok(memory) => memory,
        Err(why) => unreachable!("{}: {why}", machine.name),
    };
    let subject = match variant.make {
        Make::Other(make) => Subject::Other(make(&map, cpus)),
        Make::Pageyard(make) => Subject::new(&map, config, make(), watched.as_ref(), &mut memory)
            .unwrap_or_else(|why| unreachable!("{}: {why}", machine.name)),
    };
    // Small machines are short of memory most of the time, roomy ones half empty.
    let tight = machine.managed() < 1 << 14;
    let share = if tight { [12, 14][rng.usize(..2)] } else { [3, 6, 9][rng.usize(..3)] };
    let movers = (machine.managed() as usize / 4).clamp(16, 8192);
    let area =
        (plan.mix.has(Kind::Cma) && rng.bool()).then(|| declare(&subject, machine, &mut rng)).flatten();
    let shared = Shared {
        subject,
        area,
        shrinks: plan.mix.has(Kind::Offline) && rng.bool(),
        machine,
        oracle: &oracle,
        movers: Movers::new(movers, machine.frames()),
        ranges: Ranges::new(machine.pageblocks()),
        faults: &faults,
        watched: watched.as_ref(),
        journals: (0..threads).map(|_| Journal::new(start)).collect(),
        mix: plan.mix,
        naming: variant.naming,
        waits: variant.waits,
        largest: variant.largest,
        cpus,
        apart: rng.bool(),
        cap: machine.managed() * share / 10 / u64::from(threads) + 4,
        may_take: AtomicBool::new(true),
        quiet: AtomicBool::new(false),
        handling: AtomicU32::new(0),
        drains: AtomicU64::new(0),
        drained: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        tally: Tally::default(),
    };
    // The counts are checked after each stretch: often, or after the threads had time to get into each other's way.
    let drawn = [(60, 30), (200, 20), (700, 12), (2000, 6)][rng.usize(..4)];
    let (calls, times) = plan.stretches.unwrap_or(drawn);
    let stretch = |n| if n % 5 == 4 { (100, Some(Board::default())) } else { (calls, None) };
    let stretches = Stretches {
        stretches: (0..times).map(stretch).collect(),
        barrier: Barrier::new(threads as usize),
        signals: variant.signals.filter(|_| plan.mix.has(Kind::Signals)),
        seed,
    };
    let left = storm(&shared, variant, &stretches, threads);
    if !shared.faults.any() {
        let judged = catch_unwind(AssertUnwindSafe(|| verdict::judge(&shared, &left, &map)));
        if let Err(payload) = judged {
            Worker::new(&shared, 0, 0).panicked(&*payload);
        }
    }
    add_up(&shared.tally, report);
    report.watched += u64::from(watched.is_some());
    let enough = (variant.enough)(report, shared.subject.lists());
    let Some(fault) = shared.faults.take() else { return enough };
    let mut lines: Vec<(u64, String)> = shared
        .journals
        .iter()
        .enumerate()
        .flat_map(|(thread, journal)| journal.about(thread, fault.pfn))
        .collect();
    lines.sort();
    let most = if fault.pfn.is_some() { LINES } else { LINES / 8 };
    let log = lines.split_off(lines.len().saturating_sub(most)).into_iter().map(|l| l.1).collect();
    report.faults.push(Found {
        fault,
        seed,
        round: number,
        machine: machine.name,
        after: start.elapsed(),
        log,
    });
    enough || !plan.go_on
}

/// Makes a contiguous area of up to half of a zone's pageblocks, where the zone has some.
fn declare<P: PerCpu>(subject: &Subject<'_, P>, machine: &Machine, rng: &mut Rng) -> Option<CmaArea> {
    let zone = machine.zones[rng.usize(..machine.zones.len())].1;
    let first = zone.start.align_up(PAGEBLOCK_ORDER);
    let whole = zone.end().0.saturating_sub(first.0) >> PAGEBLOCK_ORDER.get();
    let frames = rng.u64(1..=(whole / 2).clamp(1, 16)) << PAGEBLOCK_ORDER.get();
    subject.declare_cma(&Cx::on(CpuId(0)), FrameRange::new(first, Frames(frames)))
}

/// Runs the threads of a round; returns what they hold.
fn storm<P: PerCpu>(
    shared: &Shared<'_, P>,
    variant: &Variant<'_, P>,
    stretches: &Stretches,
    threads: u32,
) -> Vec<super::worker::Left> {
    let (done, enter) = (AtomicBool::new(false), variant.enter);
    std::thread::scope(|scope| {
        let storming: Vec<_> = (0..threads)
            .map(|me| {
                scope.spawn(move || {
                    let _guard = enter();
                    Worker::new(shared, me, stretches.seed).run(stretches)
                })
            })
            .collect();
        if threads > 1 {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(SeqCst) {
                        std::thread::sleep(NAP);
                    }
                });
            }
        }
        let left = storming.into_iter().map(|thread| thread.join().unwrap_or_default()).collect();
        done.store(true, SeqCst);
        left
    })
}

fn add_up(tally: &Tally, report: &mut Report) {
    report.rounds += 1;
    for (sum, n) in report.kinds.iter_mut().zip(&tally.kinds) {
        *sum += n.load(SeqCst);
    }
    for (sum, n) in report.done.iter_mut().zip(&tally.done) {
        *sum += n.load(SeqCst);
    }
    report.refused += tally.refused.load(SeqCst);
    report.moves += tally.moves.load(SeqCst);
    report.panics += tally.panics.load(SeqCst);
    for (sum, n) in report.handlers.iter_mut().zip(&tally.handlers) {
        *sum += n.load(SeqCst);
    }
    report.by_handlers += tally.by_handlers.load(SeqCst);
    report.contested += tally.contested.load(SeqCst);
    report.closed += tally.closed.load(SeqCst);
}

impl<P: PerCpu> Shared<'_, P> {
    /// Raises a fault that is found while nothing runs.
    pub(super) fn wrong(&self, rule: Rule, pfn: Option<u64>, text: impl FnOnce() -> String) {
        self.faults.say(rule, None, pfn, text);
    }
}
