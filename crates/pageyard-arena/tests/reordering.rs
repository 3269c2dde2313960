//! Two races for a block that only a barrier decides: a store of one CPU waits in its store buffer while the other CPU
//! acts.
//!
//! A processor reads what comes later in the program while earlier stores wait to become visible. Ordinarily they wait
//! for nanoseconds, and a stress of millions of frees does not notice that a barrier is missing. Here the deciding
//! store waits behind stores that miss every cache, microseconds, which is long enough for a whole free elsewhere:
//!
//! * **A bias is taken away**: the CPU to which a pageblock is biased has read that it is, and its store to the tag
//!   waits. Another CPU takes the bias away, and frees the block by a compare-and-swap, which finds the old tag.
//! * **A bias begins**: a CPU has read that a pageblock is shared, and its compare-and-swap waits, because it comes
//!   after the stores before it. Another CPU biases the pageblock to itself, and frees the block by a load and a store,
//!   which waits in turn.
//!
//! Without the barrier both frees win. When each begins is adjusted after each round, so that both win about equally
//! often, whatever the machine: with both barriers taken out, a third of all rounds of the first had two winners, and
//! half of the second (2-core Zen 4 virtual machine, under load). `bench/mutants/run` takes each barrier away and
//! demands that these tests notice.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use core::arch::x86_64::{_mm_clflush, _rdtsc};
use fastrand::Rng;
use pageyard::engine::BiasState;
use pageyard::engine::Internals;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    BlockId, Config, CpuId, Cx, Frames, FreeError, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard,
    Pageyard, Pfn, Region, Request, RequestFlags, ZoneKind,
};
use pageyard_arena::rseq::{BiasedRseq, Rseq, possible_cpus, register_thread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

type Yard = OwnedPageyard<BiasedRseq>;

/// Rounds of a race, and how many instances are made at a time: each has one round, because a CPU whose bias was taken
/// away asks for fewer.
const ROUNDS: u64 = 8_000;
const TOGETHER: u64 = 200;
/// Rounds with a bias that a race must have. How many of all rounds have one depends on who comes first, and so on the
/// host: a race goes on until it had as many, but not for ever.
const BIASED: u64 = ROUNDS / 2;
const MOST: u64 = 8 * ROUNDS;
/// An order that no per-CPU list holds.
const HALF: Order = Order::of(8);
const PAGEBLOCK: Order = Order::of(9);

/// Both need two CPUs for themselves.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A line that a store finds in no cache, because it was flushed after the store before.
#[repr(align(64))]
struct Cold(AtomicU64);

impl Cold {
    /// Stores to it so many times. What is stored next becomes visible after all of these; what is read next is not
    /// kept back.
    #[inline(always)]
    fn store(&self, times: u32) {
        for _ in 0..times {
            self.0.store(1, Relaxed);
            // SAFETY: it is the address of a reference; flushing a line does not change it. A flush keeps its place
            // among stores.
            unsafe { _mm_clflush(std::ptr::from_ref(&self.0).cast()) };
        }
    }
}

/// A race of two CPUs for one block.
struct Race {
    /// Stores to a cold line before the free: of the home CPU, and of the other one.
    stores: [u32; 2],
    /// Pageblocks of an instance.
    pageblocks: u64,
    /// Prepares an instance on the home CPU; returns the block.
    prepare: fn(&Yard) -> BlockId,
    /// The home CPU's steps before its stores; returns whether the block is still contested.
    first: fn(&Yard, BlockId) -> bool,
}

/// The totals of a race.
#[derive(Debug, Default)]
struct Outcome {
    rounds: u64,
    /// Rounds that the home CPU won, that the other one won, that both won and that neither won.
    home: u64,
    other: u64,
    both: u64,
    neither: u64,
    /// Frees with an answer that is neither.
    odd: u64,
    /// Rounds in which the pageblock was biased to the home CPU.
    biased: u64,
}

/// The state shared by the two threads of a race: round numbers, the block, and when each begins.
#[derive(Default)]
struct Track {
    ready: AtomicU64,
    go: AtomicU64,
    done: AtomicU64,
    block: AtomicU64,
    start: AtomicU64,
    other_won: AtomicU64,
    odd: AtomicU64,
}

/// Lets the other thread go on, whatever happens to this one.
struct Leave<'a>(&'a Track);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        for word in [&self.0.ready, &self.0.go, &self.0.done] {
            word.store(u64::MAX, SeqCst);
        }
    }
}

/// Ticks from the moment at which both CPUs are told when they begin.
const NOTICE: u64 = 3000;
/// Ticks by which the next round differs, for the CPU that lost, and by chance.
const STEP: i64 = 10;
const CHANCE: i64 = 100;

/// How much later than the other CPU the home CPU begins, so that each wins about as often as the other.
#[derive(Default)]
struct Handicap(i64);

impl Handicap {
    /// Returns how much later each begins.
    fn next(&self, rng: &mut Rng) -> [u64; 2] {
        let ticks = self.0 + rng.i64(-CHANCE..=CHANCE);
        [ticks.max(0).unsigned_abs(), ticks.min(0).unsigned_abs()]
    }

    fn learn(&mut self, home_won: bool) {
        self.0 = (self.0 + if home_won { STEP } else { -STEP }).clamp(-20_000, 20_000);
    }
}

fn wait(word: &AtomicU64, round: u64) {
    let mut spins = 0;
    while word.load(SeqCst) < round {
        spins += 1;
        // The other thread may have lost its CPU.
        if spins % 20_000 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}

fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _rdtsc() }
}

fn wait_until(tick: u64) {
    while now() < tick {}
}

/// Frees a block; returns whether it was this call that did.
fn free(yard: &Yard, block: BlockId, track: &Track) -> bool {
    // Where two win, the second gives frames that are free already, which a checked build notices by a panic.
    let answer = catch_unwind(AssertUnwindSafe(|| yard.free(&Cx::on(CpuId(0)), block.pfn, block.order)));
    match answer {
        Ok(Ok(())) | Err(_) => true,
        Ok(Err(FreeError::NotAllocated)) => false,
        Ok(Err(_)) => {
            track.odd.fetch_add(1, SeqCst);
            false
        }
    }
}

fn request(order: Order) -> Request {
    Request::new(order, Migratetype::Movable).with(RequestFlags::MEMALLOC)
}

fn alloc(yard: &Yard, order: Order) -> BlockId {
    let pfn = yard.alloc(&Cx::on(CpuId(0)), &request(order)).expect("there is a free block");
    BlockId { pfn, order }
}

impl Race {
    fn yards(&self) -> Vec<Yard> {
        let frames = Frames(self.pageblocks << PAGEBLOCK.get());
        let regions = [Region::managed(Pfn(0), frames, NodeId(0), ZoneKind::Normal)];
        let map = MemoryMap::new(&regions).expect("one region is a map");
        let mut config = Config { pcp: false, ..Config::new(possible_cpus()) };
        config.watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..config.watermark };
        let yard = || {
            let rseq = Rseq::new().expect("this host has restartable sequences").biased();
            Pageyard::owned(&map, config, rseq).expect("there is memory for metadata")
        };
        (0..TOGETHER).map(|_| yard()).collect()
    }

    /// Runs it on two CPUs.
    fn run(&self, [home, other]: [usize; 2]) -> Outcome {
        let (mut outcome, mut handicap) = (Outcome::default(), Handicap::default());
        while outcome.rounds < ROUNDS || outcome.biased < BIASED && outcome.rounds < MOST {
            let (yards, track) = (self.yards(), Track::default());
            let mut rng = Rng::with_seed(outcome.rounds);
            let (outcome, handicap) = (&mut outcome, &mut handicap);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    pin(other);
                    self.other(&yards, &track);
                });
                scope.spawn(|| {
                    pin(home);
                    self.home(&yards, &track, &mut rng, (handicap, outcome));
                });
            });
        }
        outcome
    }

    fn home(
        &self,
        yards: &[Yard],
        track: &Track,
        rng: &mut Rng,
        (handicap, outcome): (&mut Handicap, &mut Outcome),
    ) {
        let (_registered, _leave) = (register_thread(), Leave(track));
        let cold = Cold(AtomicU64::new(0));
        for (yard, round) in yards.iter().zip(1..) {
            let block = (self.prepare)(yard);
            track.block.store(block.pfn.0, SeqCst);
            let later = handicap.next(rng);
            wait(&track.ready, round);
            let start = now() + NOTICE;
            track.start.store(start + later[1], SeqCst);
            track.go.store(round, SeqCst);
            wait_until(start + later[0]);
            let mut won = (self.first)(yard, block);
            if won {
                cold.store(self.stores[0]);
                won = free(yard, block, track);
            }
            wait(&track.done, round);
            outcome.rounds += 1;
            outcome.biased += u64::from(yard.bias_stats().armed > 0);
            let other_won = track.other_won.load(SeqCst) == round;
            if won != other_won {
                handicap.learn(won);
            }
            *match (won, other_won) {
                (true, false) => &mut outcome.home,
                (false, true) => &mut outcome.other,
                (true, true) => &mut outcome.both,
                (false, false) => &mut outcome.neither,
            } += 1;
        }
        outcome.odd += track.odd.load(SeqCst);
    }

    fn other(&self, yards: &[Yard], track: &Track) {
        let (_registered, _leave) = (register_thread(), Leave(track));
        let cold = Cold(AtomicU64::new(0));
        for (yard, round) in yards.iter().zip(1..) {
            track.ready.store(round, SeqCst);
            wait(&track.go, round);
            let block = BlockId { pfn: Pfn(track.block.load(SeqCst)), order: HALF };
            wait_until(track.start.load(SeqCst));
            cold.store(self.stores[1]);
            if free(yard, block, track) {
                track.other_won.store(round, SeqCst);
            }
            track.done.store(round, SeqCst);
        }
    }

    /// Demands that one free of each block wins.
    fn one_wins(&self) {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(cpus) = two_cpus() else {
            println!("skipped: there are no two CPUs that threads can be kept to");
            return;
        };
        // A panic of a second winner is counted, and not printed thousands of times.
        let shown = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run(cpus)));
        std::panic::set_hook(shown);
        let outcome = outcome.expect("every round ends");
        println!("{outcome:?}");
        assert_eq!(
            [outcome.both, outcome.neither, outcome.odd],
            [0; 3],
            "not one free of each block won: {outcome:?}"
        );
        assert!(outcome.biased >= BIASED, "the race was not run: {outcome:?}");
    }
}

/// Returns two CPUs that threads can be kept to.
fn two_cpus() -> Option<[usize; 2]> {
    // SAFETY: the set is a local variable of the size that is said.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &raw mut set);
        set
    };
    // SAFETY: it reads bits of a local variable.
    let mut cpus = (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) });
    let two = [cpus.next()?, cpus.next()?];
    std::thread::scope(|scope| two.iter().all(|cpu| scope.spawn(|| keep_to(*cpu)).join().unwrap_or(false)))
        .then_some(two)
}

/// Keeps the calling thread to a CPU; returns whether the system did so.
fn keep_to(cpu: usize) -> bool {
    // SAFETY: the set is a local variable of the size that is said.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0
    }
}

fn pin(cpu: usize) {
    assert!(keep_to(cpu), "it could be kept to CPU {cpu} before");
}

#[test]
fn a_bias_that_is_taken_away_leaves_one_winner() {
    let prepare = |yard: &Yard| {
        let block = alloc(yard, HALF);
        assert!(yard.is_biased_here(block.pfn), "a fresh pageblock is biased to the CPU that takes of it");
        block
    };
    let race = Race { stores: [8, 0], pageblocks: 2, prepare, first: |_, _| true };
    race.one_wins();
}

#[test]
fn a_bias_that_begins_leaves_one_winner() {
    // A pageblock that is given out whole is biased to no CPU. One half of it is contested, and the other is the only
    // free block.
    let prepare = |yard: &Yard| {
        let whole = alloc(yard, PAGEBLOCK);
        let cx = Cx::on(CpuId(0));
        yard.split(&cx, whole.pfn, PAGEBLOCK, HALF).expect("it is allocated");
        yard.free(&cx, Pfn(whole.pfn.0 + HALF.frames().0), HALF).expect("it is allocated");
        assert_eq!(yard.bias_of(whole.pfn), Some(BiasState::Shared));
        BlockId { pfn: whole.pfn, order: HALF }
    };
    // The free half makes the home CPU work on the pageblock, and so ask for it. If it gets the other one, that was
    // freed before.
    let first = |yard: &Yard, block: BlockId| alloc(yard, HALF) != block;
    let race = Race { stores: [8, 8], pageblocks: 1, prepare, first };
    race.one_wins();
}
