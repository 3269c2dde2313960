//! A node: what its background reclaimer and compactor were asked for, and what came of it. Layer: the allocator. It
//! knows zones by place and kind, and decides nothing.

use crate::compaction::AheadTurns;
use crate::config::Reclaimer;
use crate::gauge::Flag;
use crate::scans::Scans;
use pageyard_core::memmap::NR_ZONE_KINDS;
use pageyard_core::{NodeId, Order, ZoneId, ZoneKind, ZoneSpan};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

// ORDER: Relaxed throughout this file: orders, kinds and counts steer policy and order nothing. As in Linux, of two
// requests at the same moment one may be forgotten; it asks again.

/// Rounds of reclaim without progress after which a node is left to the requests. `MAX_RECLAIM_RETRIES`.
const HOPELESS: u32 = 16;

/// No kind of zone.
const NONE: u8 = u8::MAX;

/// An order, and the highest kind of zone, that something was asked for.
#[derive(Debug)]
struct Asked {
    order: AtomicU8,
    highest: AtomicU8,
}

impl Asked {
    const fn nothing() -> Asked {
        Asked { order: AtomicU8::new(0), highest: AtomicU8::new(NONE) }
    }

    fn order(&self) -> Order {
        Order::new(self.order.load(Relaxed)).unwrap_or(Order::ZERO)
    }

    fn highest(&self) -> Option<ZoneKind> {
        ZoneKind::ALL.get(usize::from(self.highest.load(Relaxed))).copied()
    }

    fn set(&self, order: Order, highest: Option<ZoneKind>) {
        self.order.store(order.get(), Relaxed);
        self.highest.store(highest.map_or(NONE, |kind| kind as u8), Relaxed);
    }
}

/// One node.
///
/// # Linux
/// `pg_data_t`, its part that `kswapd` and `kcompactd` use.
pub struct Node {
    pub id: NodeId,
    /// Its zones that have memory, the lowest kind first: each one's kind, and its place in the allocator.
    zones: Vec<(ZoneKind, usize)>,
    /// Whether the background reclaimer is awake.
    pub awake: Flag,
    /// Its next run. `kswapd_order`, `kswapd_highest_zoneidx`.
    next: Asked,
    /// Its current run, or its last one.
    run: Asked,
    /// How often it has freed nothing since something was freed. `kswapd_failures`.
    failures: AtomicU32,
    /// Reclaim's scan counts, if they are kept by node.
    pub scans: Scans,
    /// The compactor's next run. `kcompactd_max_order`, `kcompactd_highest_zoneidx`.
    compact: Asked,
    /// Whether it was woken for that.
    compact_woken: Flag,
    /// When it compacts ahead of need.
    pub ahead: AheadTurns,
}

impl Node {
    /// Makes the nodes of a machine, none of which was asked for anything.
    pub fn all(spans: &[(ZoneId, ZoneSpan)]) -> Vec<Node> {
        let mut ids: Vec<NodeId> = spans.iter().map(|(_, s)| s.node).collect();
        ids.sort_unstable();
        ids.dedup();
        let of = |id| {
            let has_memory = |s: &ZoneSpan| s.node == id && s.managed.0 > 0 && s.kind != ZoneKind::Device;
            let mut zones: Vec<_> =
                spans.iter().filter(|(_, s)| has_memory(s)).map(|(z, s)| (s.kind, z.index())).collect();
            zones.sort_unstable();
            Node {
                id,
                zones,
                awake: Flag::default(),
                next: Asked::nothing(),
                run: Asked::nothing(),
                failures: AtomicU32::new(0),
                scans: Scans::default(),
                compact: Asked::nothing(),
                compact_woken: Flag::default(),
                ahead: AheadTurns::new(),
            }
        };
        ids.into_iter().map(of).collect()
    }

    /// Returns the places of its zones up to a kind, the lowest first.
    pub fn zones_up_to(&self, highest: ZoneKind) -> impl DoubleEndedIterator<Item = usize> + Clone + '_ {
        self.zones.iter().filter(move |(kind, _)| *kind <= highest).map(|(_, place)| *place)
    }

    /// Returns the places of all its zones, the lowest first.
    pub fn zones(&self) -> impl DoubleEndedIterator<Item = usize> + Clone + '_ {
        self.zones_up_to(ZoneKind::Device)
    }

    /// Returns the highest kind of its zones.
    pub fn top(&self) -> ZoneKind {
        self.zones.last().map_or(ZoneKind::Normal, |(kind, _)| *kind)
    }

    /// Notes what the background reclaimer is to do next, whether it is awake or not.
    ///
    /// # Linux
    /// The beginning of `wakeup_kswapd`: the largest order, and since 4.8 the highest kind of zone. Until 4.7
    /// (`classzone_idx`) it is the lowest kind that a larger order came with.
    pub fn ask(&self, order: Order, highest: ZoneKind, by: Reclaimer) {
        let (known, kind) = (self.next.order(), self.next.highest());
        let kind = match by {
            Reclaimer::ByZone if order <= known => kind,
            Reclaimer::ByZone => Some(kind.map_or(highest, |kind| kind.min(highest))),
            Reclaimer::ByNode => Some(kind.map_or(highest, |kind| kind.max(highest))),
        };
        self.next.set(known.max(order), kind);
    }

    /// Returns what it is to do next: the order, and the highest kind of zone, if anything was asked for.
    pub fn next(&self) -> (Order, Option<ZoneKind>) {
        (self.next.order(), self.next.highest())
    }

    /// Begins what it is to do next; returns the highest kind of zone that is concerned. Where none was asked for, it
    /// goes on with that of its last run, and at first with all.
    pub fn begin(&self, by: Reclaimer) -> ZoneKind {
        let (order, highest) = self.next();
        let last = match by {
            Reclaimer::ByZone => None,
            Reclaimer::ByNode => self.run.highest(),
        };
        let highest = highest.or(last).unwrap_or(self.top());
        self.next.set(Order::ZERO, None);
        self.run.set(order, Some(highest));
        self.awake.set(true);
        highest
    }

    /// Returns the order of the present run, and the highest kind of zone.
    pub fn run(&self) -> (Order, ZoneKind) {
        (self.run.order(), self.run.highest().unwrap_or(self.top()))
    }

    /// Forgets all that was asked for; the reclaimer is awake or not.
    pub fn reset(&self, awake: bool) {
        self.next.set(Order::ZERO, None);
        self.run.set(Order::ZERO, None);
        self.compact.set(Order::ZERO, None);
        self.compact_woken.set(false);
        self.awake.set(awake);
        self.freed();
    }

    /// Counts a run of the background reclaimer that freed nothing.
    pub fn failed(&self) {
        self.failures.fetch_add(1, Relaxed);
    }

    /// Notes that something was freed here, for any request.
    pub fn freed(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
    }

    /// Returns whether the background reclaimer has failed too often to be woken.
    pub fn is_hopeless(&self) -> bool {
        self.failures.load(Relaxed) >= HOPELESS
    }

    /// Notes an order for the compactor. The lowest kind of zone counts: a block in a higher one would not help.
    ///
    /// # Linux
    /// The beginning of `wakeup_kcompactd`.
    pub fn ask_compactor(&self, order: Order, highest: ZoneKind) {
        let (known, kind) = self.compactor_asked();
        self.compact.set(known.max(order), Some(kind.min(highest)));
    }

    /// Returns what the compactor is to do: the order, zero for nothing, and the highest kind of zone.
    pub fn compactor_asked(&self) -> (Order, ZoneKind) {
        let (order, top) = (self.compact.order(), self.top());
        (order, self.compact.highest().map_or(top, |kind| kind.min(top)))
    }

    /// Wakes the compactor for what was noted.
    pub fn wake_compactor(&self) {
        self.compact_woken.set(true);
    }

    /// Begins what the compactor was woken for, or, with `by_itself`, what was noted without waking it; `None` where
    /// there is nothing to do.
    ///
    /// # Linux
    /// `kcompactd_work_requested`. Its wait ends by itself twice a second where proactive compaction is on (5.9 and
    /// later).
    pub fn compactor_begins(&self, by_itself: bool) -> Option<(Order, ZoneKind)> {
        let woken = self.compact_woken.take();
        let asked = self.compactor_asked();
        (asked.0 > Order::ZERO && (woken || by_itself)).then_some(asked)
    }

    /// Forgets what the compactor has done, unless it was asked for more meanwhile.
    ///
    /// # Linux
    /// The end of `kcompactd_do_work`.
    pub fn compactor_ends(&self, order: Order, highest: ZoneKind) {
        let (asked, kind) = self.compactor_asked();
        let order = if asked <= order { Order::ZERO } else { asked };
        self.compact.set(order, (kind < highest).then_some(kind));
    }

    /// Tells `each` what was asked of both, as the judge in a kernel does: the reclaimer's order and highest kind of
    /// zone, and the compactor's. Where there is no kind, it is the number of kinds.
    pub fn counts(&self, mut each: impl FnMut(u64)) {
        let (order, highest) = self.next();
        let (compact, kind) = self.compactor_asked();
        each(u64::from(order.get()));
        each(highest.map_or(NR_ZONE_KINDS, ZoneKind::index) as u64);
        each(u64::from(compact.get()));
        each(kind.index() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_core::{Frames, Pfn};

    fn node() -> Node {
        let zone = |n: u16, kind| {
            let frames = Frames(1024);
            let start = Pfn(u64::from(n) * 1024);
            let span =
                ZoneSpan { node: NodeId(0), kind, start, spanned: frames, present: frames, managed: frames };
            (ZoneId(n), span)
        };
        Node::all(&[zone(0, ZoneKind::Dma), zone(1, ZoneKind::Dma32), zone(2, ZoneKind::Normal)]).remove(0)
    }

    const O3: Order = Order::of(3);
    const O4: Order = Order::of(4);

    #[test]
    fn of_several_wakes_the_largest_order_and_the_highest_zone_count() {
        let n = node();
        n.ask(O3, ZoneKind::Dma32, Reclaimer::ByNode);
        n.ask(O4, ZoneKind::Dma, Reclaimer::ByNode);
        assert_eq!(n.next(), (O4, Some(ZoneKind::Dma32)));
        assert_eq!(n.begin(Reclaimer::ByNode), ZoneKind::Dma32);
        assert_eq!((n.run(), n.next()), ((O4, ZoneKind::Dma32), (Order::ZERO, None)));
        // Nothing new: it goes on with the zones of its last run, and with single frames.
        assert_eq!(n.begin(Reclaimer::ByNode), ZoneKind::Dma32);
        assert_eq!(n.run(), (Order::ZERO, ZoneKind::Dma32));
    }

    #[test]
    fn until_4_7_only_a_larger_order_narrows_the_zones() {
        let n = node();
        n.ask(Order::ZERO, ZoneKind::Dma, Reclaimer::ByZone);
        assert_eq!(n.begin(Reclaimer::ByZone), ZoneKind::Normal);
        n.ask(O3, ZoneKind::Dma32, Reclaimer::ByZone);
        n.ask(O3, ZoneKind::Dma, Reclaimer::ByZone);
        assert_eq!(n.next(), (O3, Some(ZoneKind::Dma32)));
        n.ask(O4, ZoneKind::Normal, Reclaimer::ByZone);
        assert_eq!(n.begin(Reclaimer::ByZone), ZoneKind::Dma32);
    }

    #[test]
    fn the_compactor_remembers_the_largest_order_and_the_tightest_zones_until_they_are_done() {
        let n = node();
        n.ask_compactor(O3, ZoneKind::Dma32);
        assert_eq!(n.compactor_begins(false), None, "it was not woken");
        assert_eq!(n.compactor_begins(true), Some((O3, ZoneKind::Dma32)));
        n.wake_compactor();
        assert_eq!(n.compactor_begins(false), Some((O3, ZoneKind::Dma32)));
        n.ask_compactor(O4, ZoneKind::Normal);
        n.compactor_ends(O3, ZoneKind::Dma32);
        assert_eq!(n.compactor_asked(), (O4, ZoneKind::Normal), "the order was asked for meanwhile");
        n.compactor_ends(O4, ZoneKind::Normal);
        assert_eq!(n.compactor_asked(), (Order::ZERO, ZoneKind::Normal));
    }

    #[test]
    fn sixteen_failures_make_a_node_hopeless_and_one_freed_frame_ends_that() {
        let n = node();
        (0..15).for_each(|_| n.failed());
        assert!(!n.is_hopeless());
        n.failed();
        assert!(n.is_hopeless());
        n.freed();
        assert!(!n.is_hopeless());
    }
}
