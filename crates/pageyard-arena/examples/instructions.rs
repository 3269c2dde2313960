//! Paths whose instructions `bench/instructions/run` counts, engine by engine. Each call of [`counted`] is one case:
//! only it is counted, and a line on standard output gives its name and number of operations; with `--locked` also how
//! many of its instructions were locked, of the lock-free engine's own. Everything is deterministic: one thread, no
//! clock, no random numbers.
//!
//! Restartable sequences run on an area that is not registered with the kernel, with a fixed CPU number: the tool that
//! counts knows nothing of registered ones.

use pageyard::{
    Alone, Caches, Clear, Config, Counter, CpuId, CpuSet, Cx, Exclusive, Frames, MemoryMap, Metadata,
    Migratetype, NodeId, NodeMask, Order, PageAllocator, Pageyard, PerCpu, Pfn, PhysAddr, Region, Request,
    RequestFlags, TryLock, ZoneKind,
};
#[cfg(target_arch = "x86_64")]
use pageyard_arena::rseq::{Rseq, locked_instructions};
use pageyard_arena::{Arena, Block};
use pageyard_linux::LinuxAllocator;
use pageyard_packets::{FragConfig, FragPages, PagePool, PoolConfig, PoolPage, UseTable};
use std::alloc::Layout;
use std::hint::black_box;
use std::sync::Arc;

/// Frames of the machine with one zone: 1 GiB.
const FRAMES: u64 = 1 << 18;
/// Frames of each of eight nodes: 16 MiB.
const NODE_FRAMES: u64 = 1 << 12;
const NODES: u16 = 8;
/// Frames at a time where lists serve everything.
const BATCH: usize = 64;
/// Frames at a time where lists are refilled and spilled.
const MANY: usize = 4096;

const CX: Cx = Cx::on(CpuId(0));

fn request() -> Request {
    Request::new(Order::ZERO, Migratetype::Movable)
}

/// Runs one case; only what happens in here is counted.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn counted_case(case: &mut Case<'_>) {
    (case.0)();
}

struct Case<'a>(&'a mut dyn FnMut());

/// Counts a case and prints its line.
fn counted(engine: &str, what: &str, operations: usize, mut run: impl FnMut()) {
    #[cfg(target_arch = "x86_64")]
    if std::env::args().nth(1).as_deref() == Some("--locked") {
        if engine == "pageyard" || engine == "pageyard-biased" {
            let locked = locked_instructions(&mut run).expect("there is a handler");
            println!("{engine} {what} {operations} {locked}");
        } else {
            run();
        }
        return;
    }
    counted_case(black_box(&mut Case(&mut run)));
    println!("{engine} {what} {operations}");
}

#[inline(always)]
fn take(a: &impl PageAllocator, held: &mut [Pfn]) {
    for slot in held {
        *slot = a.alloc(&CX, &request()).unwrap_or(Pfn(0));
    }
}

#[inline(always)]
fn give(a: &impl PageAllocator, held: &[Pfn]) {
    for pfn in held {
        let _ = a.free(&CX, *pfn, Order::ZERO);
    }
}

/// The cases on a machine of one zone.
fn lists(engine: &str, a: &impl PageAllocator) {
    let mut held = vec![Pfn(0); BATCH];
    // Lists are warm, and hold more than is asked for.
    let mut warm = vec![Pfn(0); 4 * BATCH];
    take(a, &mut warm);
    give(a, &warm);
    counted(engine, "alloc-hit", BATCH, || take(a, &mut held));
    counted(engine, "free-hit", BATCH, || give(a, &held));
    counted(engine, "alloc-bulk-64", BATCH, || {
        black_box(a.alloc_bulk(&CX, &request(), &mut held));
    });
    counted(engine, "free-bulk-64", BATCH, || {
        a.free_bulk(&CX, &held, Order::ZERO, &mut |pfn, why| panic!("{pfn}: {why}"))
    });
    // From empty lists, so that every batch comes from the zone.
    a.drain(CpuSet::All);
    let mut many = vec![Pfn(0); MANY];
    let before = a.stats()[Counter::PcpRefill];
    counted(engine, "refill", MANY, || take(a, &mut many));
    assert!(a.stats()[Counter::PcpRefill] > before + 1, "{engine}: lists were not refilled");
    // Into full lists, so that every batch goes back to it.
    let mut more = vec![Pfn(0); 48 * MANY];
    take(a, &mut more);
    let (first, rest) = more.split_at(more.len() - MANY);
    give(a, first);
    let before = a.stats()[Counter::PcpDrain];
    counted(engine, "spill", MANY, || give(a, rest));
    assert!(a.stats()[Counter::PcpDrain] > before, "{engine}: lists were not spilled");
    give(a, &many);
    a.audit().expect("nothing is lost");
}

/// A clearer that must not be asked: what it would clear is known to be zeros.
struct Never;

impl Clear for Never {
    fn clear(&self, pfn: Pfn, order: Order, _: Caches) {
        panic!("a block of order {order} at frame {pfn} is zeros already")
    }
}

/// Hits for zeros that are known to be zeros, beside hits for anything, where an engine has a clearer.
fn zeros<P: PerCpu>(engine: &str, a: &Pageyard<'_, P, (), Never>) {
    let take = |held: &mut [Pfn]| {
        for slot in held {
            *slot = a.alloc(&CX, &request().with(RequestFlags::ZERO)).unwrap_or(Pfn(0));
        }
    };
    let give = |held: &[Pfn]| {
        held.iter().for_each(|pfn| a.free_zeroed(&CX, *pfn, Order::ZERO).expect("it was allocated"));
    };
    let (mut warm, mut held) = (vec![Pfn(0); 4 * BATCH], vec![Pfn(0); BATCH]);
    take(&mut warm);
    give(&warm);
    counted(engine, "alloc-hit-beside-zeros", BATCH, || self::take(a, &mut held));
    give(&held);
    counted(engine, "alloc-hit-known-zero", BATCH, || take(&mut held));
    give(&held);
    a.audit().expect("nothing is lost");
}

/// The walk: of eight nodes only the last has memory left.
fn walk(engine: &str, a: &impl PageAllocator) {
    let all = request().with(RequestFlags::MEMALLOC);
    let mut used = Vec::new();
    while used.len() < (NODE_FRAMES * u64::from(NODES - 1)) as usize {
        match a.alloc(&CX, &all) {
            Ok(pfn) => used.push(pfn),
            Err(why) => panic!("{engine}: {why}"),
        }
    }
    let mut held = vec![Pfn(0); BATCH];
    counted(engine, "zonelist-walk", BATCH, || {
        for slot in &mut held {
            *slot = a.alloc(&CX, &all).unwrap_or(Pfn(0));
        }
    });
    assert!(held.iter().all(|pfn| pfn.0 >= NODE_FRAMES * u64::from(NODES - 1)), "{engine}: {held:?}");
}

/// Frees into another zone than the largest, of another node than the CPU's.
fn other_zone(engine: &str, a: &impl PageAllocator) {
    let there = Request { nodes: NodeMask::only(NodeId(1)), ..request() };
    let take = |held: &mut [Pfn]| {
        held.fill_with(|| a.alloc(&CX, &there).unwrap_or(Pfn(0)));
        assert!(held.iter().all(|pfn| pfn.0 >= FRAMES), "{engine}: {held:?}");
    };
    let (mut warm, mut held) = (vec![Pfn(0); 4 * BATCH], vec![Pfn(0); BATCH]);
    take(&mut warm);
    give(a, &warm);
    take(&mut held);
    counted(engine, "free-other-zone", BATCH, || give(a, &held));
    a.audit().expect("nothing is lost");
}

/// Without lists: blocks of an order one by one in an empty zone, then, in a zone whose pageblocks are half used, one
/// by one, and many at a time.
fn zone_path(engine: &str, a: &impl PageAllocator, order: Order) {
    let request = Request::new(order, Migratetype::Movable);
    let pairs = || {
        for _ in 0..BATCH {
            if let Ok(pfn) = a.alloc(&CX, &request) {
                let _ = black_box(a.free(&CX, pfn, order));
            }
        }
    };
    // Each empties the pageblock that it takes of.
    pairs();
    counted(engine, &format!("unlisted-empty-{order}"), BATCH, pairs);
    let fill = || std::iter::from_fn(|| a.alloc(&CX, &request).ok());
    let mut used: Vec<Pfn> = fill().take(((FRAMES >> order.get()) / 4 * 3) as usize).collect();
    let mut at = 0;
    used.retain(|pfn| {
        at += 1;
        at % 2 == 0 || a.free(&CX, *pfn, order).is_err()
    });
    pairs();
    counted(engine, &format!("unlisted-pair-{order}"), BATCH, pairs);
    let mut held = vec![Pfn(0); BATCH];
    let mut take = || held.fill_with(|| a.alloc(&CX, &request).unwrap_or(Pfn(0)));
    take();
    counted(engine, &format!("unlisted-alloc-{order}"), BATCH, take);
    let give = || held.iter().for_each(|pfn| assert!(a.free(&CX, *pfn, order).is_ok()));
    counted(engine, &format!("unlisted-free-{order}"), BATCH, give);
    a.audit().expect("nothing is lost");
}

/// Frames of an arena as values: blocks that borrow it, and blocks that count in an `Arc`.
fn owned<P: PerCpu>(engine: &str, arena: Arena<P>) {
    let arena = Arc::new(arena);
    let mut borrowed: Vec<Block<&Arena<P>>> = Vec::with_capacity(BATCH);
    let mut counting: Vec<Block<Arc<Arena<P>>>> = Vec::with_capacity(BATCH);
    for counts in [false, true] {
        let case = |what: &str, run: &mut dyn FnMut()| {
            if counts { counted(engine, what, BATCH, run) } else { run() }
        };
        case("block-alloc", &mut || {
            borrowed.extend((0..BATCH).map(|_| arena.alloc(Order::ZERO).expect("there is memory")))
        });
        case("block-drop", &mut || borrowed.clear());
        case("block-alloc-arc", &mut || {
            let take = |_| Block::alloc_in(arena.clone(), Order::ZERO).expect("there is memory");
            counting.extend((0..BATCH).map(take))
        });
        case("block-drop-arc", &mut || counting.clear());
    }
}

/// Buffers for packets: pages of a pool that stay in its consumer's cache, or come back through its ring; by their
/// addresses; fragments.
fn packets(engine: &str, a: &impl PageAllocator) {
    let table = UseTable::of(a).expect("there is memory");
    let pool = PagePool::owned(a, &table, PoolConfig::new(), ()).expect("there is a number");
    let mut consumer = pool.consumer().expect("there is none yet");
    let mut held = Vec::with_capacity(BATCH);
    for counts in [false, true] {
        let case = |what: &str, run: &mut dyn FnMut()| {
            if counts { counted(engine, what, BATCH, run) } else { run() }
        };
        case("pool-get", &mut || {
            held.extend((0..BATCH).map(|_| consumer.get(&CX).expect("there are pages")))
        });
        case("pool-put", &mut || {
            held.drain(..).for_each(|page| consumer.put(&CX, page).expect("it is the pool's"))
        });
        held.extend((0..BATCH).map(|_| consumer.get(&CX).expect("there are pages")));
        case("pool-put-ring", &mut || held.drain(..).for_each(|page| page.put(&CX).expect("there is room")));
        case("pool-get-ring", &mut || {
            held.extend((0..BATCH).map(|_| consumer.get(&CX).expect("there are pages")))
        });
        let raw: Vec<_> = held.drain(..).map(PoolPage::into_raw).collect();
        case("pool-put-raw", &mut || {
            raw.iter().for_each(|at| consumer.put_raw(&CX, *at).expect("it is in use"))
        });
    }
    assert_eq!(consumer.close(&CX), 0);
    let pool = PagePool::owned(a, &table, PoolConfig::new(), ()).expect("there is a number");
    let mut consumer = pool.consumer().expect("there is none yet");
    for counts in [false, true] {
        let case = |what: &str, run: &mut dyn FnMut()| {
            if counts { counted(engine, what, BATCH, run) } else { run() }
        };
        let mut burst = pool.batch();
        case("pool-get-bulk", &mut || burst = consumer.get_bulk(&CX, BATCH).expect("there are pages"));
        assert!(burst.is_full());
        let mut burst = Some(burst);
        case("pool-put-bulk", &mut || {
            let _ = burst.take().map(|pages| pages.put(&CX).expect("there is room"));
        });
        let mut raw = [PhysAddr(0); BATCH];
        case("pool-get-raw-bulk", &mut || {
            assert_eq!(consumer.get_raw_bulk(&CX, &mut raw), Ok(BATCH));
        });
        case("pool-put-raw-bulk", &mut || {
            consumer.put_raw_bulk(&CX, &raw, &mut |at, why| panic!("{at:?}: {why}"));
        });
        // The pool keeps their order, so this comes last.
        if counts {
            let mut in_order = raw;
            assert_eq!(consumer.get_raw_bulk(&CX, &mut in_order), Ok(BATCH));
            // No page is followed by its neighbour.
            in_order.iter().zip(0..).for_each(|(at, nth)| raw[nth * 37 % BATCH] = *at);
            case("pool-put-raw-scattered", &mut || {
                consumer.put_raw_bulk(&CX, &raw, &mut |at, why| panic!("{at:?}: {why}"));
            });
        }
    }
    assert_eq!(consumer.close(&CX), 0);
    let pages = FragPages::new(a, &table, FragConfig::new()).expect("there is a number");
    let (mut cache, layout) = (pages.cache(), Layout::new::<[u8; 2048]>());
    let mut held = Vec::with_capacity(BATCH);
    for counts in [false, true] {
        let case = |what: &str, run: &mut dyn FnMut()| {
            if counts { counted(engine, what, BATCH, run) } else { run() }
        };
        case("frag-alloc", &mut || {
            held.extend((0..BATCH).map(|_| cache.alloc(&CX, layout).expect("there is memory")))
        });
        case("frag-put", &mut || held.drain(..).for_each(|buffer| buffer.put(&CX).expect("it is in use")));
    }
    cache.drain(&CX);
}

fn two_nodes() -> [Region; 2] {
    [(0, FRAMES, 0), (FRAMES, FRAMES / 4, 1)].map(|(start, frames, node)| {
        Region::managed(Pfn(start), Frames(frames), NodeId(node), ZoneKind::Normal)
    })
}

fn one_zone() -> [Region; 1] {
    [Region::managed(Pfn(0), Frames(FRAMES), NodeId(0), ZoneKind::Normal)]
}

fn eight_nodes() -> [Region; NODES as usize] {
    std::array::from_fn(|node| {
        let start = Pfn(node as u64 * NODE_FRAMES);
        Region::managed(start, Frames(NODE_FRAMES), NodeId(node as _), ZoneKind::Normal)
    })
}

/// Counts an engine with one kind of lists; `make` says how they are protected.
fn engine<P: PerCpu>(make: impl Fn() -> P) {
    fn on<P: PerCpu, C: Clear>(
        regions: &[Region],
        percpu: P,
        clearer: C,
        pcp: bool,
        run: impl FnOnce(&Pageyard<'_, P, (), C>),
    ) {
        let map = MemoryMap::new(regions).expect("the regions are a map");
        let mut config = Config { pcp, ..Config::new(1) };
        config.watermark.min_free_kbytes = Some(1024);
        let layout = Pageyard::<P>::layout(&map, &config).expect("the map is small enough").layout;
        let mut memory = vec![0; layout.size() + layout.align()];
        // The same lines at each run, wherever the vector lies.
        let start = memory.as_ptr().align_offset(4096.min(layout.align().max(64)));
        let metadata = Metadata::zeroed(&mut memory[start..]);
        let yard = Pageyard::with_clearer(&map, config, percpu, (), clearer, metadata);
        run(&yard.expect("there is memory enough"));
    }
    on(&one_zone(), make(), (), true, |a| lists(P::NAME, a));
    on(&one_zone(), make(), (), true, |a| packets(P::NAME, a));
    on(&two_nodes(), make(), (), true, |a| other_zone(P::NAME, a));
    on(&eight_nodes(), make(), (), true, |a| walk(P::NAME, a));
    on(&one_zone().map(Region::zeroed), make(), Never, true, |a| zeros(P::NAME, a));
    for order in [0, 4, 6, 8, 9].map(Order::of) {
        on(&one_zone(), make(), (), false, |a| zone_path(P::NAME, a, order));
    }
}

fn reference(preset: &str) {
    let mut config = pageyard_linux::Config::preset(preset).expect("it is one of the presets");
    config.cpus = 1;
    // Without a bound the lists of 6.7 and later grow until nothing is spilled.
    config.percpu_pagelist_high_fraction = 8;
    config.watermark.min_free_kbytes = Some(1024);
    let on = |regions: &[Region]| {
        let map = MemoryMap::new(regions).expect("the regions are a map");
        LinuxAllocator::new(&map, &config).expect("the map is small enough")
    };
    lists(preset, &on(&one_zone()));
    walk(preset, &on(&eight_nodes()));
}

fn main() {
    // SAFETY: this program has one thread.
    engine(|| unsafe { Exclusive::by_instance() });
    // SAFETY: as above.
    engine(|| unsafe { Alone::by_instance() });
    engine(|| TryLock);
    owned(TryLock::NAME, Arena::builder().size(64 << 20).build_locked().expect("there is memory"));
    #[cfg(target_arch = "x86_64")]
    // SAFETY: 1. this program has one thread and no signal handler. 2. It makes no `Rseq` by `new`.
    engine(|| unsafe { Rseq::pretending(CpuId(0)) });
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    engine(|| unsafe { Rseq::pretending(CpuId(0)) }.biased());
    reference("linux-6.18");
    reference("linux-6.1");
    reference("linux-4.10");
}
