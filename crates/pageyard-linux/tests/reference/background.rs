//! The background reclaimer and compactor of a node: when they are woken, what they ask for, and when they rest.

use crate::common::{CX, bare, normal};
use pageyard_core::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard_core::reclaim::{PressureAllocator, Reclaim, Reclaimed, Shortage, ZoneMask};
use pageyard_core::{
    Counter, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PAGEBLOCK_ORDER,
    PageAllocator, PageblockId, Pfn, Region, Request, RequestFlags, ZoneId, ZoneKind,
};
use pageyard_linux::{Config, LinuxAllocator};
use pageyard_testkit::owner::{Fault, Owner, Use};
use std::cell::{Cell, RefCell};

const HUGE: Order = PAGEBLOCK_ORDER;
const O4: Order = Order::of(4);
/// Where the second of two zones begins.
const BORDER: u64 = 16 * 512;
const END: u64 = 48 * 512;
const LOWER: ZoneMask = ZoneMask::only(ZoneId(0));
const BOTH: ZoneMask = ZoneMask(0b11);

/// An owner whose every reclaim is written down.
struct Watched<'e> {
    engine: &'e LinuxAllocator,
    owner: Owner<'e, LinuxAllocator>,
    asks: RefCell<Vec<Shortage>>,
    /// The fixed report of reclaim, which then does nothing. If `None`, the owner reclaims.
    says: Cell<Option<Reclaimed>>,
    /// By zone.
    reclaimable: [u64; 2],
}

impl<'e> Watched<'e> {
    fn new(engine: &'e LinuxAllocator) -> Watched<'e> {
        let owner = Owner::new(engine, Fault::None);
        Watched { engine, owner, asks: RefCell::default(), says: Cell::new(None), reclaimable: [0; 2] }
    }

    fn saying(engine: &'e LinuxAllocator, scanned: u64, freed: u64) -> Watched<'e> {
        let watched = Watched::new(engine);
        watched.says.set(Some(Reclaimed { scanned: Frames(scanned), freed: Frames(freed) }));
        watched
    }

    /// Returns what was asked for since the last time.
    fn asks(&self) -> Vec<Shortage> {
        self.asks.take()
    }

    fn priorities(&self) -> Vec<u8> {
        self.asks().iter().map(|ask| ask.priority.0).collect()
    }
}

impl Reclaim for Watched<'_> {
    fn reclaim(&self, cx: &Cx, shortage: &Shortage) -> Reclaimed {
        self.asks.borrow_mut().push(*shortage);
        self.says.get().unwrap_or_else(|| {
            let did = self.owner.reclaim(cx, shortage);
            self.engine.drain(CpuSet::All);
            did
        })
    }

    fn reclaimable(&self, zone: ZoneId) -> Frames {
        Frames(self.reclaimable[zone.index()])
    }
}

// SAFETY: it hands every call to an owner that keeps the promise.
unsafe impl Migrate for Watched<'_> {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<Pfn, Busy> {
        self.owner.isolate(pfn, mode)
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, mode: Mode) -> Result<(), MigrateError> {
        self.owner.migrate(from, to, mode)
    }

    fn putback(&self, from: Pfn) {
        self.owner.putback(from);
    }
}

/// A preset with one CPU, and no compaction but what is asked for.
fn plain(mut config: Config) -> Config {
    config.cpus = 1;
    config.compaction.proactiveness = 0;
    config
}

/// Makes a node of two zones.
fn two_zones(config: &Config) -> LinuxAllocator {
    let regions = [
        Region::managed(Pfn(0), Frames(BORDER), NodeId(0), ZoneKind::Dma32),
        Region::managed(Pfn(BORDER), Frames(END - BORDER), NodeId(0), ZoneKind::Normal),
    ];
    LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), config).unwrap()
}

/// Returns what a node's background was asked for: the reclaimer's next order and highest zone, and the compactor's.
fn asked(engine: &LinuxAllocator) -> [u64; 4] {
    let mut all = Vec::new();
    engine.counts(|n| all.push(n));
    all[all.len() - 4..].try_into().unwrap()
}

fn compactor_order(engine: &LinuxAllocator) -> u64 {
    asked(engine)[2]
}

/// Asks for a block that is not there, without waiting.
fn want(engine: &LinuxAllocator, order: Order, highest: ZoneKind) {
    let request = Request { highest_zone: highest, ..Request::new(order, Migratetype::Movable) };
    assert!(engine.alloc(&CX, &request.with(RequestFlags::NON_BLOCKING)).is_err());
}

fn kswapd(engine: &LinuxAllocator, help: &Watched<'_>) -> Reclaimed {
    engine.kswapd_with(&CX, help).unwrap()
}

/// Lets the reclaimer sleep, with nothing that it was asked for.
fn settle(engine: &LinuxAllocator) {
    engine.kswapd_tick();
    engine.wake_kswapd(ZoneId(0));
    engine.kswapd_tick();
}

/// Fills memory with movable frames, and frees every other one of those that `which` picks.
fn in_pieces(engine: &LinuxAllocator, help: &Watched<'_>, which: impl Fn(u64) -> bool) {
    help.owner.fill(&CX, |_| Use::Movable);
    help.owner.free_if(&CX, |pfn| which(pfn.0) && pfn.0 % 2 == 1);
    engine.drain(CpuSet::All);
    settle(engine);
}

/// Makes a node hopeless: half of it is free in single frames, and nothing can be reclaimed for a pageblock.
fn make_hopeless(engine: &LinuxAllocator, help: &Watched<'_>) {
    in_pieces(engine, help, |_| true);
    for run in 0..16 {
        assert_eq!(compactor_order(engine), 0, "run {run}: nothing was freed that it could use");
        want(engine, HUGE, ZoneKind::Normal);
        assert_eq!(kswapd(engine, help), Reclaimed::default());
        assert_eq!(help.priorities(), (1..=12).rev().collect::<Vec<_>>(), "run {run} looks everywhere");
    }
    // It goes to sleep, whatever it was asked for, and leaves that to the compactor.
    assert_eq!(compactor_order(engine), u64::from(HUGE.get()));
    compact_and_take(engine, help);
}

/// Lets the compactor make pageblocks, and takes them.
fn compact_and_take(engine: &LinuxAllocator, help: &Watched<'_>) {
    assert!(engine.kcompactd_with(&CX, help).unwrap().moved > 0);
    assert_eq!(compactor_order(engine), 0, "it is done");
    let huge = Request::new(HUGE, Migratetype::Movable).with(RequestFlags::MEMALLOC);
    while let Ok(pfn) = engine.alloc(&CX, &huge) {
        help.owner.keep(pfn, HUGE, Use::Pinned);
    }
}

#[test]
fn a_hopeless_node_wakes_the_compactor_and_not_the_reclaimer() {
    let engine = normal(END, &plain(Config::linux_6_12()));
    let help = Watched::new(&engine);
    make_hopeless(&engine, &help);
    want(&engine, HUGE, ZoneKind::Normal);
    kswapd(&engine, &help);
    assert_eq!(help.asks(), [], "it has failed 16 times");
    assert_eq!(compactor_order(&engine), u64::from(HUGE.get()));
    compact_and_take(&engine, &help);
    // A request whose reclaim frees a frame revives it.
    help.owner.fill(&CX, |_| Use::Cache);
    let mut waits = Request::new(Order::ZERO, Migratetype::Unmovable).with(RequestFlags::NORETRY);
    waits.flags.remove(RequestFlags::WAKE_RECLAIM);
    let failure = engine.alloc_with(&CX, &waits, &help).unwrap_err();
    assert!(failure.tried.reclaimed.freed > Frames::ZERO, "{failure}: too little for the watermark");
    help.asks();
    want(&engine, HUGE, ZoneKind::Normal);
    kswapd(&engine, &help);
    assert!(!help.asks().is_empty());
    help.owner.check(&[]);
}

#[test]
fn a_request_that_may_wait_does_not_wake_the_compactor_of_a_hopeless_node() {
    let engine = normal(END, &plain(Config::linux_6_12()));
    let help = Watched::new(&engine);
    make_hopeless(&engine, &help);
    // It compacts for itself; without help it is refused.
    assert!(engine.alloc(&CX, &Request::new(HUGE, Migratetype::Movable)).is_err());
    assert_eq!(compactor_order(&engine), 0);
}

#[test]
fn until_4_16_no_request_wakes_the_compactor() {
    let mut config = plain(Config::linux_6_12());
    config.set("compactor_wake", "after_reclaim").unwrap();
    let engine = normal(END, &config);
    let help = Watched::new(&engine);
    make_hopeless(&engine, &help);
    want(&engine, HUGE, ZoneKind::Normal);
    kswapd(&engine, &help);
    assert_eq!((help.asks(), compactor_order(&engine)), (vec![], 0));
}

#[test]
fn only_zones_that_the_request_may_use_are_balanced() {
    let engine = two_zones(&plain(Config::linux_6_12()));
    let help = Watched::new(&engine);
    help.owner.fill(&CX, |pfn| if pfn.0 % 2 == 0 { Use::Cache } else { Use::Movable });
    settle(&engine);
    want(&engine, Order::ZERO, ZoneKind::Dma32);
    kswapd(&engine, &help);
    let asks = help.asks();
    assert!(!asks.is_empty() && asks.iter().all(|ask| ask.zones == LOWER && ask.background), "{asks:?}");
    engine.drain(CpuSet::All);
    let free = |zone| engine.zone_stats(ZoneId(zone)).unwrap();
    assert!(free(0).free > free(0).watermarks.high && free(1).free < free(1).watermarks.low);
    // The lower zone is balanced, so a request that may use both need not wake it.
    want(&engine, HUGE, ZoneKind::Normal);
    kswapd(&engine, &help);
    let asks = help.asks();
    assert!(!asks.is_empty() && asks.iter().all(|ask| ask.zones == BOTH), "{asks:?}");
}

#[test]
fn a_zone_is_reclaimed_alone_until_4_7_and_only_those_that_are_short() {
    let engine = two_zones(&plain(Config::linux_4_6()));
    let help = Watched { reclaimable: [END; 2], ..Watched::new(&engine) };
    help.owner.fill(&CX, |_| Use::Cache);
    settle(&engine);
    want(&engine, Order::ZERO, ZoneKind::Normal);
    kswapd(&engine, &help);
    let asks = help.asks();
    assert!(asks.iter().all(|ask| ask.zones != BOTH), "{asks:?}");
    for zone in [0, 1].map(ZoneId) {
        assert!(asks.iter().any(|ask| ask.zones == ZoneMask::only(zone)), "{zone:?}: {asks:?}");
        engine.drain(CpuSet::All);
        let stats = engine.zone_stats(zone).unwrap();
        assert!(stats.free > stats.watermarks.high, "each zone is balanced, not only one");
    }
}

#[test]
fn the_order_falls_to_zero_once_twice_the_block_was_reclaimed() {
    let engine = normal(END, &plain(Config::linux_6_12()));
    let help = Watched::saying(&engine, 20, 20);
    help.owner.fill(&CX, |_| Use::Movable);
    settle(&engine);
    want(&engine, O4, ZoneKind::Normal);
    kswapd(&engine, &help);
    let orders: Vec<u8> = help.asks().iter().map(|ask| ask.order.get()).collect();
    assert_eq!(orders[..4], [4, 4, 0, 0], "32 frames are twice the block");
    assert!(orders[4..].iter().all(|order| *order == 0));
}

#[test]
fn after_that_it_rests_by_single_frames_and_the_compactor_makes_the_block() {
    let engine = normal(END, &plain(Config::linux_6_12()));
    let help = Watched::saying(&engine, 2048, 2048);
    in_pieces(&engine, &help, |_| true);
    want(&engine, HUGE, ZoneKind::Normal);
    kswapd(&engine, &help);
    assert_eq!(help.asks().len(), 1, "there is room enough for single frames");
    assert_eq!(compactor_order(&engine), u64::from(HUGE.get()));
    kswapd(&engine, &help);
    assert_eq!(help.asks(), [], "it sleeps");
    assert!(engine.kcompactd_with(&CX, &help).unwrap().moved > 0);
    help.owner.check(&[]);
}

/// Asks for a block of 16 frames while so many single frames are free above the high watermark. Returns how often the
/// reclaimer looks for something to free, and the order that is left to the compactor.
fn wanted_above_high(config: &Config, more: u64) -> (usize, u64) {
    let engine = normal(END, config);
    let help = Watched::saying(&engine, 0, 0);
    let free = engine.zone_stats(ZoneId(0)).unwrap().watermarks.high.0 + more;
    in_pieces(&engine, &help, |pfn| pfn < 2 * free);
    assert_eq!(engine.zone_stats(ZoneId(0)).unwrap().free.0, free);
    want(&engine, O4, ZoneKind::Normal);
    kswapd(&engine, &help);
    (help.asks().len(), compactor_order(&engine))
}

#[test]
fn with_plenty_free_a_block_that_is_not_there_is_left_to_the_compactor_where_that_is_the_rule() {
    // Reclaim for 16 frames gives the order up after 32.
    let mut config = plain(Config::linux_6_12());
    assert_ne!(wanted_above_high(&config, 33).0, 0, "no block is free");
    config.set("balanced_without_block", "true").unwrap();
    assert_eq!(wanted_above_high(&config, 33), (0, 4));
    assert_ne!(wanted_above_high(&config, 32).0, 0, "that is not plenty");
    let but = |knob, value| {
        let mut config = config.clone();
        config.set(knob, value).unwrap();
        // Plenty for a pageblock, too, for which defrag_mode wakes the reclaimer.
        wanted_above_high(&config, 2 * 512 + 1).0
    };
    assert_eq!(but("compactor_wake", "after_reclaim"), 0);
    assert_ne!(but("compaction.enabled", "false"), 0, "there is no compactor");
    assert_ne!(but("defrag_mode", "1"), 0, "no pageblock is free");
}

#[test]
fn a_reclaimer_that_is_awake_rests_once_plenty_is_free_and_leaves_the_block_to_the_compactor() {
    let mut config = plain(Config::linux_6_12());
    config.set("balanced_without_block", "true").unwrap();
    let engine = normal(END, &config);
    let help = Watched::saying(&engine, 0, 0);
    help.owner.fill(&CX, |_| Use::Movable);
    settle(&engine);
    want(&engine, O4, ZoneKind::Normal);
    help.owner.free_if(&CX, |pfn| pfn.0 % 2 == 1);
    engine.drain(CpuSet::All);
    kswapd(&engine, &help);
    assert_eq!((help.asks().len(), compactor_order(&engine)), (0, 4));
    kswapd(&engine, &help);
    assert_eq!(help.asks(), [], "it sleeps");
}

/// A node with more free than the high watermark and a boost, whose reclaimer was woken for the boost.
fn boosted(config: &Config) -> LinuxAllocator {
    let engine = normal(END, config);
    let help = Watched::new(&engine);
    in_pieces(&engine, &help, |_| true);
    engine.alloc(&CX, &Request::new(Order::ZERO, Migratetype::Unmovable)).unwrap();
    let zone = engine.zone_stats(ZoneId(0)).unwrap();
    assert!(zone.boost > Frames::ZERO && zone.free > zone.watermarks.high + zone.boost, "{zone:?}");
    engine
}

#[test]
fn reclaim_for_a_boost_ends_where_nothing_is_freed() {
    let engine = boosted(&plain(Config::linux_6_12()));
    let help = Watched::saying(&engine, 0, 0);
    kswapd(&engine, &help);
    assert_eq!(help.priorities(), [12], "one look is enough: it does not try harder");
    assert_eq!(engine.zone_stats(ZoneId(0)).unwrap().boost, Frames::ZERO);
    assert_eq!(compactor_order(&engine), u64::from(HUGE.get()), "the compactor tidies up");
    kswapd(&engine, &help);
    assert_eq!(help.priorities(), [0u8; 0], "it sleeps");
}

#[test]
fn reclaim_for_a_boost_frees_as_much_as_that_and_tries_no_harder_than_priority_10() {
    let engine = boosted(&plain(Config::linux_6_12()));
    let boost = engine.zone_stats(ZoneId(0)).unwrap().boost.0;
    let help = Watched::saying(&engine, 8, 8);
    let did = kswapd(&engine, &help);
    assert_eq!(did.freed.0, boost.next_multiple_of(8));
    let priorities = help.priorities();
    assert_eq!(priorities[..3], [12, 11, 10]);
    assert!(priorities[3..].iter().all(|priority| *priority == 10), "{priorities:?}");
}

#[test]
fn where_too_little_is_free_without_the_boost_that_comes_first() {
    let engine = boosted(&plain(Config::linux_6_12()));
    let help = Watched::saying(&engine, 8, 8);
    // The zone falls below its high watermark while the reclaimer is awake.
    let all = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::MEMALLOC);
    while engine.alloc(&CX, &all).is_ok() {}
    kswapd(&engine, &help);
    assert_eq!(help.priorities(), (1..=12).rev().collect::<Vec<_>>());
}

/// Asks for more than there is, with help; returns how hard it looked in each zone.
fn looks(engine: &LinuxAllocator, help: &Watched<'_>) -> Vec<(ZoneMask, u8)> {
    let request = Request::new(Order::ZERO, Migratetype::Unmovable).with(RequestFlags::NORETRY);
    assert!(engine.alloc_with(&CX, &request, help).is_err());
    help.asks().iter().map(|ask| (ask.zones, ask.priority.0)).collect()
}

fn full(config: Config) -> (LinuxAllocator, Vec<Pfn>) {
    let engine = two_zones(&bare(plain(config)));
    let all = Request::new(O4, Migratetype::Movable).with(RequestFlags::MEMALLOC);
    let mut held = Vec::new();
    while let Ok(pfn) = engine.alloc(&CX, &all) {
        held.push(pfn);
    }
    settle(&engine);
    (engine, held)
}

#[test]
fn a_zone_that_was_looked_at_six_times_in_vain_is_passed_over() {
    let (engine, held) = full(Config::linux_4_6());
    let upper = ZoneMask::only(ZoneId(1));
    let help = Watched { reclaimable: [10; 2], ..Watched::saying(&engine, 30, 0) };
    // Each look is half of what it takes.
    assert_eq!(looks(&engine, &help), [(upper, 12), (LOWER, 12), (upper, 11), (LOWER, 11)]);
    assert_eq!(looks(&engine, &help), [(upper, 12), (LOWER, 12)], "only the softest look is worth it");
    // A block that comes back makes its zone worth looking at.
    let back = held.iter().find(|pfn| pfn.0 < BORDER).unwrap();
    engine.free(&CX, *back, O4).unwrap();
    let all = Request::new(O4, Migratetype::Movable).with(RequestFlags::MEMALLOC);
    engine.alloc(&CX, &all).unwrap();
    let again = looks(&engine, &help);
    assert_eq!(again[..3], [(upper, 12), (LOWER, 12), (LOWER, 11)], "{again:?}");
}

#[test]
fn the_background_passes_over_a_zone_that_was_looked_at_in_vain() {
    let (engine, _) = full(Config::linux_4_6());
    let upper = ZoneMask::only(ZoneId(1));
    let help = Watched { reclaimable: [END, 5], ..Watched::saying(&engine, 30, 0) };
    want(&engine, Order::ZERO, ZoneKind::Normal);
    kswapd(&engine, &help);
    let asks = help.asks();
    let of =
        |zones| asks.iter().filter(|ask| ask.zones == zones).map(|ask| ask.priority.0).collect::<Vec<_>>();
    assert_eq!((of(LOWER), of(upper)), ((1..=12).rev().collect(), vec![12]));
}

#[test]
fn from_4_8_to_4_11_the_node_is_passed_over_and_later_nothing_is() {
    let (engine, _) = full(Config::linux_4_10());
    let help = Watched { reclaimable: [5; 2], ..Watched::saying(&engine, 30, 0) };
    assert_eq!(looks(&engine, &help), [(BOTH, 12), (BOTH, 11)], "six times the frames of both zones");
    assert_eq!(looks(&engine, &help), [(BOTH, 12)]);
    let (engine, _) = full(Config::linux_6_1());
    let help = Watched { reclaimable: [5; 2], ..Watched::saying(&engine, 30, 0) };
    for _ in 0..2 {
        assert_eq!(looks(&engine, &help), (0..=12).rev().map(|p| (BOTH, p)).collect::<Vec<_>>());
    }
}

#[test]
fn it_rests_when_one_zone_is_balanced_and_until_4_11_when_all_are() {
    for (config, rests) in [(Config::linux_4_10(), false), (Config::linux_6_1(), true)] {
        let engine = two_zones(&plain(config));
        let help = Watched::saying(&engine, 2048, 2048);
        in_pieces(&engine, &help, |pfn| pfn >= BORDER);
        let free = |zone| engine.zone_stats(ZoneId(zone)).unwrap();
        assert!(free(0).free < free(0).watermarks.high && free(1).free > free(1).watermarks.high);
        want(&engine, HUGE, ZoneKind::Normal);
        kswapd(&engine, &help);
        assert_eq!(help.asks().len(), 1, "one zone has enough single frames");
        assert_eq!(compactor_order(&engine) > 0, rests);
    }
}

/// Returns how many frames are free in whole pageblocks.
fn whole(engine: &LinuxAllocator) -> u64 {
    let blocks = engine.zone_stats(ZoneId(0)).unwrap().blocks_by_order();
    (9..blocks.len()).map(|order| blocks[order] << order).sum()
}

#[test]
fn with_defrag_mode_the_high_watermark_is_met_in_whole_pageblocks() {
    let made = |mode: &str| {
        let mut config = plain(Config::linux_6_18());
        config.set("defrag_mode", mode).unwrap();
        let engine = normal(END, &config);
        let help = Watched::saying(&engine, 2048, 2048);
        in_pieces(&engine, &help, |_| true);
        let high = engine.zone_stats(ZoneId(0)).unwrap().watermarks.high.0;
        assert!(high > 1024, "it takes several pageblocks: {high}");
        // A small block, which is not there either, wakes the background.
        want(&engine, O4, ZoneKind::Normal);
        kswapd(&engine, &help);
        let order = help.asks()[0].order;
        let compacts = compactor_order(&engine);
        engine.kcompactd_with(&CX, &help).unwrap();
        engine.drain(CpuSet::All);
        help.owner.check(&[]);
        (order, compacts, whole(&engine) > high, engine.stats()[Counter::PgmigrateSuccess])
    };
    let (order, compacts, met, moved) = made("0");
    assert_eq!((order, compacts, met), (O4, 4, false), "a block of the order is enough");
    assert!(moved > 0);
    assert_eq!(made("1").0, HUGE, "it reclaims for whole pageblocks");
    assert_eq!((made("1").1, made("1").2), (9, true), "and compacts until the watermark is met in them");
}

#[test]
fn with_defrag_mode_one_free_pageblock_does_not_balance_a_node() {
    for (mode, looks) in [("0", vec![12]), ("1", (1..=12).rev().collect::<Vec<u8>>())] {
        let mut config = plain(Config::linux_6_18());
        config.set("defrag_mode", mode).unwrap();
        let engine = normal(END, &config);
        let help = Watched::new(&engine);
        help.owner.fill(&CX, |pfn| if pfn.0 / 512 == 7 { Use::Cache } else { Use::Movable });
        help.owner.free_if(&CX, |pfn| pfn.0 / 512 != 7 && pfn.0 % 2 == 1);
        engine.drain(CpuSet::All);
        settle(&engine);
        // The first look frees the pageblock, and there is nothing else to free.
        want(&engine, HUGE, ZoneKind::Normal);
        kswapd(&engine, &help);
        assert_eq!((help.priorities(), whole(&engine)), (looks, 512), "mode {mode}");
    }
}

/// A node of 64 MiB, with one CPU.
fn small() -> LinuxAllocator {
    let regions = [Region::managed(Pfn(0), Frames(1 << 14), NodeId(0), ZoneKind::Normal)];
    let config = Config { cpus: 1, ..Config::preset("linux-6.18").unwrap() };
    LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), &config).unwrap()
}

#[test]
fn a_replays_reclaimer_is_awake_until_enough_is_free_and_its_recorded_one_is_done() {
    let engine = small();
    let single = Request::new(Order::ZERO, Migratetype::Movable);
    let held: Vec<Pfn> =
        std::iter::from_fn(|| engine.alloc(&CX, &single.with(RequestFlags::NON_BLOCKING)).ok()).collect();
    let high = engine.zone_stats(ZoneId(0)).unwrap().watermarks.high.0 as usize;
    let cached = || engine.pcp_stats(ZoneId(0), CpuId(0)).unwrap();
    let least = 4 * cached().batch;
    // Woken: what is freed goes to the zone, before and after the next look, since too little is free.
    for freed in held[..high / 2].chunks(high / 4) {
        freed.iter().for_each(|pfn| engine.free(&CX, *pfn, Order::ZERO).unwrap());
        assert!(cached().count <= least, "{:?}", cached());
        engine.kswapd_follows(|_| false);
    }
    // Enough is free, and the recorded one goes on for a while.
    held[high / 2..2 * high].iter().for_each(|pfn| engine.free(&CX, *pfn, Order::ZERO).unwrap());
    engine.kswapd_follows(|_| true);
    held[2 * high..3 * high].iter().for_each(|pfn| engine.free(&CX, *pfn, Order::ZERO).unwrap());
    assert!(cached().count <= least, "{:?}", cached());
    engine.kswapd_follows(|_| false);
    // Far more is free than any reclaimer would be at work for.
    engine.kswapd_follows(|_| true);
    held[3 * high..4 * high].iter().for_each(|pfn| engine.free(&CX, *pfn, Order::ZERO).unwrap());
    assert!(cached().count > least, "{:?}", cached());
}

#[test]
fn a_replays_reclaimer_ends_a_boost_with_each_look_and_sleeps_once_enough_is_free_without_it() {
    // In high watermarks, how much is free; whether the reclaimer then sleeps.
    for (free, sleeps) in [(0.8, false), (2.0, true)] {
        let engine = small();
        let single = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::NON_BLOCKING);
        let quiet = single.without(RequestFlags::WAKE_RECLAIM);
        let held: Vec<Pfn> = std::iter::from_fn(|| engine.alloc(&CX, &quiet).ok()).collect();
        let zone = || engine.zone_stats(ZoneId(0)).unwrap();
        let high = zone().watermarks.high.0;
        let mut left = held.into_iter();
        let mut free_until = |frames: f64| {
            while (zone().free.0 as f64) < frames {
                engine.free(&CX, left.next().unwrap(), Order::ZERO).unwrap();
                engine.drain(CpuSet::All);
            }
        };
        free_until(free * high as f64);
        let mut opening = engine.opening();
        opening.zones[0].boost = Frames(4 * high);
        engine.open(&opening).unwrap();
        engine.kswapd_follows(|_| false);
        assert_eq!(zone().boost, Frames(4 * high), "the reclaimer sleeps");
        // Too little is free with the boost, so the request fails, and wakes it.
        engine.alloc(&CX, &single).unwrap_err();
        engine.kswapd_follows(|_| false);
        assert_eq!(zone().boost, Frames::ZERO, "{free}");
        // Asleep, it lets lists grow.
        free_until(free * high as f64);
        let cached = || engine.pcp_stats(ZoneId(0), CpuId(0)).unwrap();
        (0..4 * cached().batch + 1)
            .for_each(|_| engine.free(&CX, left.next().unwrap(), Order::ZERO).unwrap());
        assert_eq!(cached().count > 4 * cached().batch, sleeps, "{free}: {:?}", cached());
    }
}

#[test]
fn two_pageblocks_that_are_one_free_block_stay_one_when_both_are_converted() {
    let engine = small();
    let largest = || engine.zone_stats(ZoneId(0)).unwrap().blocks_by_order()[10];
    assert_eq!(largest(), 16);
    engine.set_pageblock_migratetype(PageblockId(4), Migratetype::Unmovable);
    assert_eq!(largest(), 15);
    engine.set_pageblock_migratetype(PageblockId(5), Migratetype::Unmovable);
    assert_eq!(largest(), 16);
    engine.audit().unwrap();
}
