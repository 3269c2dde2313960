//! A thread that stops hides nothing that others free: requests that may not wait, for which nothing is swept, find all
//! of it.
//!
//! All of a machine is held but the room of the calls that are stopped. Meanwhile others free pageblocks, some as
//! wholes and some in parts, and take back everything that they can get, in blocks of each order in turn.

use crate::biased::{Biased, run_on};
use crate::common::{
    Blocks, Call, Engine, Ground, alone, cx, machine_of, movable, request, steps_on, stopped,
};
use pageyard::engine::BiasState;
use pageyard::engine::Internals;
use pageyard::{
    CpuId, CpuSet, Cx, Frames, Migratetype, Order, PageAllocator, PerCpu, Pfn, RequestFlags, TryLock,
};

/// Three words of the index, and so two levels below the root.
const PAGEBLOCKS: u64 = 130;
/// Pageblocks that a call has to itself.
const ROOM: u64 = 2;
/// Frames that others free: more than the calls' room and the rest together, and in words of the index in which no
/// other pageblock is free.
const FREED: [u64; 11] = [20, 21, 22, 23, 32, 33, 34, 35, 63, 70, 71];
/// Orders of the requests, and how many frames of what others free make blocks of each.
const ORDERS: [(u8, u64); 4] = [(10, 5 * 1024), (9, 11 * 512), (4, 11 * 512), (0, 11 * 512)];
/// Steps that are tried of one call, and pairs of steps of two.
const STEPS: u64 = 300;
const PAIRS: u64 = 120;

/// A kind of call.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Allocates a block.
    Alloc(u8, Migratetype),
    /// Frees one.
    Free(u8),
    /// Frees it as a part of a pageblock whose other parts are held.
    FreePart(u8),
    /// Puts a frame into a list, and takes it out.
    Hit,
    Drain,
    Split,
    Exact(u8),
    Isolation,
    /// Frees single frames, more than a list holds.
    Bulk,
    BulkAlloc,
    Offline,
}

use Kind::{Alloc, Bulk, BulkAlloc, Drain, Exact, Free, FreePart, Hit, Isolation, Offline, Split};

const KINDS: [Kind; 21] = [
    Alloc(0, Migratetype::Movable),
    Alloc(4, Migratetype::Movable),
    Alloc(7, Migratetype::Movable),
    Alloc(9, Migratetype::Movable),
    Alloc(10, Migratetype::Movable),
    Alloc(0, Migratetype::Unmovable),
    Alloc(9, Migratetype::Reclaimable),
    Free(0),
    Free(9),
    Free(10),
    FreePart(0),
    FreePart(4),
    FreePart(8),
    Hit,
    Drain,
    Split,
    Exact(3),
    Exact(9),
    Isolation,
    Bulk,
    BulkAlloc,
];

/// A call of a kind in its room: the `n`th of those that are stopped at once.
#[derive(Clone, Copy)]
struct Stopped {
    kind: Kind,
    n: u64,
}

impl Stopped {
    fn first(self) -> Pfn {
        Pfn(self.n * ROOM * 512)
    }

    fn claim<P: PerCpu>(self, g: &Ground<'_, P>, order: u8) -> (Pfn, Order) {
        g.engine.claim_exact(&cx(0), self.first(), Order::of(order), Migratetype::Movable).unwrap();
        (self.first(), Order::of(order))
    }

    /// Takes all of the room, the first pageblock of it in blocks of `order`.
    fn fill<P: PerCpu>(self, g: &Ground<'_, P>, order: u8) -> Blocks {
        let (first, large) = self.claim(g, 10);
        g.engine.split(&cx(0), first, large, Order::of(order)).unwrap();
        (0..1u64 << (10 - order)).map(|i| (Pfn(first.0 + (i << order)), Order::of(order))).collect()
    }

    fn prepare<P: PerCpu>(self, g: &Ground<'_, P>) -> Blocks {
        match self.kind {
            Free(order) => vec![self.claim(g, order)],
            FreePart(order) => self.fill(g, order),
            Split => vec![self.claim(g, 9)],
            Hit => vec![(g.engine.alloc(&cx(0), &movable(0)).unwrap(), Order::ZERO)],
            Bulk => self.fill(g, 0),
            Drain => {
                let frames = [0; 3].map(|_| g.engine.alloc(&cx(0), &movable(0)).unwrap());
                frames.iter().for_each(|pfn| g.engine.free(&cx(0), *pfn, Order::ZERO).unwrap());
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn run<P: PerCpu>(self, g: &Ground<'_, P>, mut blocks: Blocks) -> Blocks {
        // With sequences, a call names the CPU that it runs on.
        run_on(Some(0));
        match self.kind {
            Alloc(order, ty) => {
                let got = g.engine.alloc(&cx(0), &request(order, ty));
                blocks.extend(got.ok().map(|pfn| (pfn, Order::of(order))));
            }
            Free(_) | FreePart(_) => {
                let (pfn, order) = blocks.remove(0);
                g.engine.free(&cx(0), pfn, order).unwrap();
            }
            Hit => {
                let (pfn, order) = blocks[0];
                g.engine.free(&cx(0), pfn, order).unwrap();
                blocks[0].0 = g.engine.alloc(&cx(0), &movable(0)).unwrap();
            }
            Drain => {
                g.engine.drain(CpuSet::One(CpuId(0)));
            }
            Split => {
                let (pfn, order) = blocks[0];
                g.engine.split(&cx(0), pfn, order, Order::of(6)).unwrap();
                blocks = (0..8).map(|n| (Pfn(pfn.0 + 64 * n), Order::of(6))).collect();
            }
            Exact(order) => {
                let claimed =
                    g.engine.claim_exact(&cx(0), self.first(), Order::of(order), Migratetype::Movable);
                blocks.extend(claimed.ok().map(|()| (self.first(), Order::of(order))));
            }
            Isolation => {
                if g.engine.isolate(&cx(0), self.first().pageblock()) {
                    assert!(g.engine.restore(&cx(0), self.first().pageblock()));
                }
            }
            Bulk => {
                let kept = blocks.split_off(40);
                let pfns: Vec<_> = blocks.iter().map(|(pfn, _)| *pfn).collect();
                g.engine.free_bulk(&cx(0), &pfns, Order::ZERO, &mut |pfn, why| panic!("{pfn:?}: {why}"));
                blocks = kept;
            }
            BulkAlloc => {
                let mut pfns = [Pfn(0); 20];
                let got = g.engine.alloc_bulk(&cx(0), &movable(0), &mut pfns);
                blocks.extend(pfns[..got].iter().map(|pfn| (*pfn, Order::ZERO)));
            }
            Offline => {
                let (first, n) = (self.first(), Frames(512));
                if g.engine.offline_range(&cx(0), first, n, &pageyard::reclaim::NoHelp).is_ok() {
                    g.engine.online_range(&cx(0), first, n).unwrap();
                }
            }
        }
        blocks
    }
}

/// Holds all of a machine but the room of the first `calls` calls; returns that, without what others free.
fn hold<P: PerCpu>(engine: &Engine<P>, calls: u64) -> Blocks {
    let claim =
        |b: u64| engine.claim_exact(&cx(0), Pfn(b * 512), Order::of(9), Migratetype::Movable).unwrap();
    (calls * ROOM..PAGEBLOCKS).for_each(claim);
    let kept = (calls * ROOM..PAGEBLOCKS).filter(|b| !FREED.contains(b));
    kept.map(|b| (Pfn(b * 512), Order::of(9))).collect()
}

/// Frees pageblocks completely, every second one in parts, and on two CPUs.
fn free_others<P: PerCpu>(engine: &Engine<P>, freed: &[u64]) {
    for (n, first) in freed.iter().map(|b| Pfn(b * 512)).enumerate() {
        let cpu = 1 + n as u32 % 2;
        run_on(Some(cpu));
        if n % 2 == 0 {
            engine.free(&cx(cpu), first, Order::of(9)).unwrap();
            continue;
        }
        let part = [0, 4][n / 2 % 2];
        engine.split(&cx(cpu), first, Order::of(9), Order::of(part)).unwrap();
        for at in (0..512).step_by(1 << part) {
            engine.free(&cx(cpu), Pfn(first.0 + at), Order::of(part)).unwrap();
        }
    }
    engine.drain(CpuSet::All);
}

/// Takes all that requests of an order get that may not wait, and frees it; returns how many frames those were.
///
/// A stopped call's freed but uncounted frames are served in place of others' freed frames, so only the sum is
/// meaningful.
fn found<P: PerCpu>(engine: &Engine<P>, order: u8) -> u64 {
    run_on(Some(1));
    let request = movable(order).with(RequestFlags::NON_BLOCKING);
    let got: Vec<_> = core::iter::from_fn(|| engine.alloc(&cx(1), &request).ok()).collect();
    let found = got.len() as u64;
    got.into_iter().for_each(|pfn| engine.free(&cx(1), pfn, Order::of(order)).unwrap());
    engine.drain(CpuSet::All);
    found << order
}

/// Stops calls before the given steps while others free pageblocks, which requests that may not wait have to find.
fn stop_and_find<P: PerCpu>(percpu: P, calls: &[(Stopped, u64)]) {
    let engine = machine_of(PAGEBLOCKS, percpu);
    let ground = Ground::bare(&engine);
    let mut held = hold(&engine, calls.len() as u64);
    let names: Vec<_> = calls.iter().map(|(call, at)| format!("{:?} before step {at}", call.kind)).collect();
    let when = names.join(", ");
    let (prepare, run): (Vec<_>, Vec<_>) = calls
        .iter()
        .map(|(call, _)| {
            let call = *call;
            (
                move |g: &Ground<'_, P>| call.prepare(g),
                move |g: &Ground<'_, P>, blocks: Blocks| call.run(g, blocks),
            )
        })
        .unzip();
    let named: Vec<_> = (calls.iter().enumerate())
        .map(|(n, (_, at))| (Call { name: &when, prepare: &prepare[n], run: &run[n] }, *at))
        .collect();
    let (of_calls, faults) = stopped(&ground, &named, true, || {
        free_others(&engine, &FREED);
        let found = ORDERS.map(|(order, all)| (order, all, found(&engine, order)));
        found.into_iter().filter(|(_, all, found)| found < all).collect::<Vec<_>>()
    });
    held.extend(of_calls);
    assert!(
        faults.is_empty(),
        "{when}: others freed, and requests found (order, frames, of these): {faults:?}"
    );
    ground.judge(held, &when);
}

/// Returns how many steps a call has when nothing else runs.
fn steps<P: PerCpu>(percpu: P, kind: Kind) -> u64 {
    let engine = machine_of(PAGEBLOCKS, percpu);
    let (call, mut held) = (Stopped { kind, n: 0 }, hold(&engine, 1));
    held.extend(FREED.map(|b| (Pfn(b * 512), Order::of(9))));
    let (prepare, run) = (|g: &Ground<'_, P>| call.prepare(g), |g: &Ground<'_, P>, b: Blocks| call.run(g, b));
    steps_on(&Ground::bare(&engine), &Call { name: "alone", prepare: &prepare, run: &run }, held)
}

/// Stops a call before each of its steps, or before some of very many.
fn one<P: PerCpu>(percpu: impl Fn() -> P, kind: Kind) {
    let steps = steps(percpu(), kind);
    assert!(steps > 3, "{kind:?}");
    let every = steps.div_ceil(STEPS) as usize;
    (1..=steps).step_by(every).for_each(|at| stop_and_find(percpu(), &[(Stopped { kind, n: 0 }, at)]));
    println!("{kind:?}: one of {every} of {steps} steps");
}

/// Stops two calls, before some pairs of their steps.
fn two<P: PerCpu>(percpu: impl Fn() -> P, kinds: [Kind; 2]) {
    let [a, b] = kinds.map(|kind| steps(percpu(), kind));
    let mut rng = fastrand::Rng::with_seed(a << 32 | b);
    for pair in 0..(a * b).min(PAIRS) {
        let pair = if a * b <= PAIRS { pair } else { rng.u64(..a * b) };
        let at = [pair % a + 1, pair / a + 1];
        let calls: [_; 2] = core::array::from_fn(|n| (Stopped { kind: kinds[n], n: n as u64 }, at[n]));
        stop_and_find(percpu(), &calls);
    }
    println!("{kinds:?}: {} of {} pairs of steps", (a * b).min(PAIRS), a * b);
}

#[test]
fn what_others_free_while_one_call_is_stopped() {
    let _guard = alone();
    KINDS.into_iter().chain([Offline]).for_each(|kind| one(|| TryLock, kind));
}

#[test]
fn what_others_free_while_two_calls_are_stopped() {
    let _guard = alone();
    let pairs = [
        [Free(9), Free(9)],
        [Free(9), Alloc(9, Migratetype::Movable)],
        [Free(10), FreePart(8)],
        [Alloc(0, Migratetype::Movable), Free(9)],
        [Alloc(4, Migratetype::Unmovable), Split],
        [Bulk, Drain],
        [Isolation, Free(9)],
        [Exact(9), Free(10)],
    ];
    pairs.into_iter().for_each(|kinds| two(|| TryLock, kinds));
}

#[test]
fn what_others_free_while_calls_are_stopped_under_bias() {
    let _guard = alone();
    let biased = || Biased;
    let engine = machine_of(PAGEBLOCKS, Biased);
    run_on(Some(0));
    let pfn = engine.alloc(&cx(0), &movable(0)).unwrap();
    assert_eq!(engine.bias_of(pfn), Some(BiasState::Biased(CpuId(0))), "otherwise this tests nothing");
    for kind in [Alloc(0, Migratetype::Movable), Free(9), FreePart(0), FreePart(4), Hit, Split, Bulk] {
        one(biased, kind);
    }
    let miss = Alloc(0, Migratetype::Movable);
    for kinds in
        [[miss, miss], [miss, Hit], [Hit, FreePart(4)], [FreePart(0), Bulk], [miss, Free(9)], [Split, Hit]]
    {
        two(biased, kinds);
    }
}

#[test]
fn a_frame_that_is_freed_into_the_pageblock_where_a_free_is_stopped() {
    let _guard = alone();
    let call = Stopped { kind: FreePart(5), n: 0 };
    let steps = steps(TryLock, call.kind);
    for at in 1..=steps {
        let engine = machine_of(PAGEBLOCKS, TryLock);
        let ground = Ground::bare(&engine);
        let mut held = hold(&engine, 1);
        held.extend(FREED.map(|b| (Pfn(b * 512), Order::of(9))));
        let (prepare, run) = (|g: &Ground<'_>| call.prepare(g), |g: &Ground<'_>, b: Blocks| call.run(g, b));
        let named = Call { name: "a free", prepare: &prepare, run: &run };
        // As many frames as the stopped call frees, so that the pageblock's bin stays what it became by that.
        let other = Pfn(256);
        let (of_call, found) = stopped(&ground, &[(named, at)], true, || {
            engine.free(&Cx::on(CpuId(1)), other, Order::of(5)).unwrap();
            found(&engine, 5)
        });
        held.extend(of_call.into_iter().filter(|(pfn, _)| *pfn != other));
        assert!(found >= 32, "before step {at} of {steps}");
        ground.judge(held, "a free");
    }
}
