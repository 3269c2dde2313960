//! Two threads do at the same time what only one may do.

use super::steps::{CPU0, any, sound};
use crate::check;
use crate::engine::Build;
use crate::maps::{self, normal};
use crate::naive::Naive;
use pageyard::{BlockId, CpuId, Cx, Migratetype, Order, PageAllocator, Pfn};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The fewest rounds of one case, and rounds in which both threads were inside the call at the same time.
const ROUNDS: u64 = 4000;
const OVERLAPS: u64 = 200;

/// Time after which a case ends with fewer of either, unless `PAGEYARD_RACE_MS` says another, and with none.
const ENOUGH_TIME: Duration = Duration::from_secs(2);
const MOST_TIME: Duration = Duration::from_secs(120);

/// Rounds in a row without a meeting after which a thread keeps its CPU while it waits.
const APART: u64 = 64;

/// How often a waiting thread looks for the other before it yields its CPU: at first, and once the two do not meet.
///
/// Where other work wants the CPUs, a thread that yields is away when the other one comes: the two would take turns for
/// ever. One that keeps its CPU for about a slice of the scheduler's is there.
const SPINS: [u32; 2] = [1 << 8, 1 << 18];

/// Lets the cases of this file take turns: with more spinning threads than CPUs, two calls would hardly overlap.
static TURN: Mutex<()> = Mutex::new(());

/// How long one thread waits for the other at most, in steps of [`delay`].
const MOST_LEAD: i64 = 2000;

/// The orders that threads meet over.
const ORDERS: [u8; 7] = [0, 1, 3, 5, 7, 8, 9];

/// Lets two threads start each round within a few instructions of each other.
///
/// Spinning, because a barrier that sleeps wakes one long after the other; yielding, because there may be one CPU.
struct Meeting {
    start: Instant,
    arrived: AtomicU64,
    gave_up: AtomicBool,
    /// Rounds since the two were inside their calls at the same time.
    apart: AtomicU64,
    /// The subject of the round: a block's first frame, or [`NO_ROUND`], and its order.
    pfn: AtomicU64,
    order: AtomicU8,
    /// How long the second thread waits before its call.
    delay: AtomicU64,
    /// The second thread's call: when it began and ended, and whether it won.
    second: [AtomicU64; 2],
    second_won: AtomicBool,
}

/// Stands for a block when there is no further round.
const NO_ROUND: u64 = u64::MAX;

impl Meeting {
    fn new() -> Meeting {
        Meeting {
            start: Instant::now(),
            arrived: AtomicU64::new(0),
            gave_up: AtomicBool::new(false),
            apart: AtomicU64::new(0),
            pfn: AtomicU64::new(0),
            order: AtomicU8::new(0),
            delay: AtomicU64::new(0),
            second: [AtomicU64::new(0), AtomicU64::new(0)],
            second_won: AtomicBool::new(false),
        }
    }

    /// Waits for the other thread; `step` counts this thread's meetings so far.
    fn meet(&self, step: &mut u64) {
        *step += 2;
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0_u32;
        // Now and then both ways in turn: where the two share one CPU, it is the other that helps.
        let patient = self.apart.load(Ordering::Acquire) / APART % 2 == 1;
        while self.arrived.load(Ordering::Acquire) < *step {
            assert!(!self.gave_up.load(Ordering::Acquire), "the other thread gave up");
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(SPINS[usize::from(patient)]) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    /// Calls `f` and says when that began and ended.
    fn timed(&self, f: impl FnOnce() -> bool) -> (bool, [u64; 2]) {
        let now = || self.start.elapsed().as_nanos() as u64;
        let begin = now();
        let won = f();
        (won, [begin, now()])
    }
}

/// Tells the other thread when this one panics, so that it does not wait forever.
struct Present<'a>(&'a Meeting);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.gave_up.store(true, Ordering::Release);
        }
    }
}

/// Runs `first` and `second` at the same time, round by round, `prepare` before each and `settle` after it with who
/// won.
///
/// # Panics
/// When the two were never inside their calls at the same time, although there are CPUs enough.
fn race(
    mut prepare: impl FnMut(u64) -> BlockId,
    first: impl Fn(BlockId) -> bool,
    second: impl Fn(BlockId) -> bool + Sync,
    mut settle: impl FnMut(BlockId, [bool; 2]),
) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let meeting = Meeting::new();
    let (mut wins, mut overlaps, mut rounds) = ([0_u64; 2], 0, 0);
    // How much earlier than the second thread the first one would come without waiting.
    let mut lead = 0_i64;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _present = Present(&meeting);
            let mut step = 0;
            loop {
                meeting.meet(&mut step);
                let pfn = meeting.pfn.load(Ordering::Acquire);
                if pfn == NO_ROUND {
                    break;
                }
                let block =
                    BlockId { pfn: Pfn(pfn), order: Order::of(meeting.order.load(Ordering::Acquire)) };
                delay(meeting.delay.load(Ordering::Acquire));
                let (won, times) = meeting.timed(|| second(block));
                meeting.second_won.store(won, Ordering::Release);
                meeting.second.iter().zip(times).for_each(|(slot, t)| slot.store(t, Ordering::Release));
                meeting.meet(&mut step);
            }
        });
        let _present = Present(&meeting);
        let mut step = 0;
        let mut apart = 0;
        let (enough, alone) = (enough_time(), one_cpu());
        while rounds < ROUNDS || overlaps < OVERLAPS {
            if meeting.start.elapsed() > if overlaps > 0 || alone { enough } else { MOST_TIME } {
                break;
            }
            if apart % 500 == 499 {
                // The two may share a CPU: a thread that wakes from a sleep is put on an idle one.
                std::thread::sleep(Duration::from_millis(1));
            }
            let block = prepare(rounds);
            meeting.pfn.store(block.pfn.0, Ordering::Release);
            meeting.order.store(block.order.get(), Ordering::Release);
            meeting.delay.store((-lead).max(0) as u64, Ordering::Release);
            meeting.meet(&mut step);
            delay(lead.max(0) as u64 + rounds % 32);
            let (won, mine) = meeting.timed(|| first(block));
            meeting.meet(&mut step);
            let theirs = meeting.second.each_ref().map(|t| t.load(Ordering::Acquire));
            let won = [won, meeting.second_won.load(Ordering::Acquire)];
            apart += 1;
            if mine[1] <= theirs[0] {
                lead = (lead + 8).min(MOST_LEAD);
            } else if theirs[1] <= mine[0] {
                lead = (lead - 8).max(-MOST_LEAD);
            } else {
                overlaps += 1;
                apart = 0;
            }
            meeting.apart.store(apart, Ordering::Release);
            wins.iter_mut().zip(won).for_each(|(count, won)| *count += u64::from(won));
            rounds += 1;
            settle(block, won);
        }
        meeting.pfn.store(NO_ROUND, Ordering::Release);
        meeting.meet(&mut step);
    });
    println!("{rounds} rounds, {overlaps} with both inside; they won {wins:?}");
    assert!(one_cpu() || overlaps > 0, "the threads never met in {rounds} rounds");
}

fn one_cpu() -> bool {
    std::thread::available_parallelism().is_ok_and(|n| n.get() == 1)
}

/// Returns the time after which a case may end. Many short runs see more schedules than a few long ones.
fn enough_time() -> Duration {
    let set = std::env::var("PAGEYARD_RACE_MS").ok().and_then(|ms| ms.parse().ok());
    set.map_or(ENOUGH_TIME, Duration::from_millis)
}

/// Waits for about as many nanoseconds.
fn delay(steps: u64) {
    (0..steps).for_each(|n| {
        std::hint::black_box(n);
    });
}

fn order_of(round: u64, largest: Order) -> Order {
    Order::of(ORDERS[round as usize % ORDERS.len()]).min(largest)
}

fn alloc<E: PageAllocator>(engine: &E, round: u64, order: Order) -> BlockId {
    let cpu = CpuId(round as u32 % 2);
    let pfn = engine.alloc(&Cx::on(cpu), &any(order));
    BlockId { pfn: pfn.unwrap_or_else(|e| panic!("most of memory is free: {e}")), order }
}

/// Builds an engine with two CPUs, races on it, and demands that all is free and merged in the end.
fn with_engine<B: Build>(build: &B, run: impl FnOnce(&B::Engine)) {
    let regions = maps::plain(8192).regions;
    let map = maps::checked(&regions);
    let engine = build.build(&map, 2).unwrap_or_else(|e| panic!("{e}"));
    run(&engine);
    sound(check::all_free(&engine, &Naive::new(&map, 2, build.largest_order())));
}

/// Two CPUs free one block: one `Ok` between them.
pub fn a_double_free_has_one_winner<B: Build>(build: &B) {
    with_engine(build, |engine| {
        let free =
            |cpu: u32| move |block: BlockId| engine.free(&Cx::on(CpuId(cpu)), block.pfn, block.order).is_ok();
        race(
            |round| alloc(engine, round, order_of(round, build.largest_order())),
            free(0),
            free(1),
            |block, won| assert!(won[0] != won[1], "both frees of {:?}: {won:?}", block),
        );
    });
}

/// Two threads split one block: one `Ok` between them.
pub fn a_double_split_has_one_winner<B: Build>(build: &B) {
    with_engine(build, |engine| {
        let split =
            |block: BlockId| engine.split(&Cx::on(CpuId(0)), block.pfn, block.order, Order::ZERO).is_ok();
        race(
            |round| alloc(engine, round, order_of(round, build.largest_order()).max(Order::of(1))),
            split,
            split,
            |block, won| {
                assert!(won[0] != won[1], "both splits of {:?}: {won:?}", block);
                free_parts(engine, block);
            },
        );
    });
}

/// One thread frees a block while another splits it: one `Ok` between them, and the parts are whole.
pub fn free_against_split_has_one_winner<B: Build>(build: &B) {
    with_engine(build, |engine| {
        race(
            |round| alloc(engine, round, order_of(round, build.largest_order()).max(Order::of(1))),
            |block| engine.free(&Cx::on(CPU0), block.pfn, block.order).is_ok(),
            |block| engine.split(&Cx::on(CpuId(0)), block.pfn, block.order, Order::ZERO).is_ok(),
            |block, won| {
                assert!(won[0] != won[1], "free and split of {:?}: {won:?}", block);
                if won[1] {
                    free_parts(engine, block);
                }
            },
        );
    });
}

fn free_parts<E: PageAllocator>(engine: &E, block: BlockId) {
    for n in 0..block.order.frames().0 {
        let part = Pfn(block.pfn.0 + n);
        engine
            .free(&Cx::on(CPU0), part, Order::ZERO)
            .unwrap_or_else(|e| panic!("part {n} of {block:?}: {e}"));
    }
}

/// Two threads claim one block: at most one gets it, and a block that neither got can be claimed afterwards.
pub fn a_claim_has_at_most_one_winner<B: Build>(build: &B) {
    let regions = [normal(0, 2048)];
    let map = maps::checked(&regions);
    let engine = build.build(&map, 2).unwrap_or_else(|e| panic!("{e}"));
    let claim = |block: BlockId| {
        engine.claim_exact(&Cx::on(CpuId(0)), block.pfn, block.order, Migratetype::Movable).is_ok()
    };
    race(
        |round| BlockId { pfn: Pfn(512 * (round % 4)), order: order_of(round, build.largest_order()) },
        claim,
        claim,
        |block, won| {
            assert!(won != [true, true], "both claims of {:?}", block);
            assert!(won != [false, false] || claim(block), "neither got {:?}, and it is not free", block);
            let freed = engine.free(&Cx::on(CPU0), block.pfn, block.order);
            freed.unwrap_or_else(|e| panic!("{:?} was claimed: {e}", block));
            engine.drain(pageyard::CpuSet::All);
        },
    );
    sound(check::all_free(&engine, &Naive::new(&map, 2, build.largest_order())));
}
