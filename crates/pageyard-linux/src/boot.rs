//! A zone at the start: sized, with every managed frame free. Layer: on the zone, above `buddy`.

use crate::compaction::ZoneState;
use crate::config::Config;
use crate::cpu_pages::CpuPages;
use crate::events::ZoneCounts;
use crate::freelist::FreeLists;
use crate::gauge::{Apart, Flag, Gauge};
use crate::late::Late;
use crate::lock::MeasuredLock;
use crate::marks::{Marks, Protection};
use crate::owners::Owners;
use crate::pageblock::Pageblocks;
use crate::pcp::Pcp;
use crate::pcp_limits::Limits;
use crate::scans::Scans;
use crate::slot;
use crate::tag::{MAX_PAGE_ORDER, Tag, Tags};
use crate::zone::{Zone, ZoneInner};
use pageyard_core::memmap::NR_ZONE_KINDS;
use pageyard_core::watermark::{WatermarkKnobs, Watermarks, default_min_free_kbytes, protection, watermarks};
use pageyard_core::{Frames, MemoryMap, NodeId, PAGEBLOCK_ORDER, Pfn, ZoneId, ZoneKind, ZoneSpan, block};
use std::sync::atomic::AtomicU64;

/// The managed frames of each kind of zone, of one node and of the whole machine.
pub struct Managed {
    pub of_node: [Frames; NR_ZONE_KINDS],
    pub lowmem: Frames,
    pub min_free_kbytes: u64,
}

impl Managed {
    /// Adds up the zones of a machine, for a zone of this node.
    pub fn new(spans: &[ZoneSpan], node: NodeId, knobs: &WatermarkKnobs) -> Managed {
        let mut of_node = [Frames::ZERO; NR_ZONE_KINDS];
        for s in spans.iter().filter(|s| s.node == node) {
            of_node[s.kind.index()] += s.managed;
        }
        let computed = || default_min_free_kbytes(spans.iter().copied(), knobs.transparent_hugepage);
        Managed {
            of_node,
            lowmem: spans.iter().filter(|s| s.kind <= ZoneKind::Normal).map(|s| s.managed).sum(),
            min_free_kbytes: knobs.min_free_kbytes.unwrap_or_else(computed),
        }
    }
}

/// Returns whether a zone has a lower one of its node to turn to before types are mixed.
///
/// # Linux
/// `alloc_flags_nofragment`: `ZONE_NORMAL`, and on a machine of several nodes only where the node has a `ZONE_DMA32`.
fn splits_late(map: &MemoryMap<'_>, span: &ZoneSpan) -> bool {
    let lower = |z: &ZoneSpan| z.node == span.node && z.kind == ZoneKind::Dma32;
    span.kind == ZoneKind::Normal && (map.nodes().len() == 1 || map.zones().any(|(_, z)| lower(&z)))
}

impl Zone {
    /// Makes a zone with all its managed frames free.
    pub fn new(
        id: ZoneId,
        span: ZoneSpan,
        map: &MemoryMap<'_>,
        managed: &Managed,
        sharers: u64,
        config: &Config,
    ) -> Zone {
        let frames = span.spanned.0 as usize;
        let knobs = &config.watermark;
        let given = config.zone_marks.iter().find(|z| (z.node, z.kind) == (span.node, span.kind));
        let computed = || {
            let scale = knobs.watermark_scale_factor;
            watermarks(&span, managed.lowmem, managed.min_free_kbytes, scale)
        };
        let marks = given.map_or_else(computed, |z| z.marks);
        let mut zone = Zone {
            id,
            span,
            tags: Tags::new(frames),
            pageblocks: Pageblocks::new(&span),
            owners: if config.pcp_owners { Owners::new(&span) } else { Owners::none() },
            late: Late::new(span.spanned.0 + PAGEBLOCK_ORDER.frames().0),
            pure: config.keeps_lists_pure(),
            splits_late: config.defrag_mode || (config.nofragment && splits_late(map, &span)),
            superpageblock: config.superpageblock,
            merges_reserved: config.merges_reserved,
            free: Apart::default(),
            blocks: Default::default(),
            free_highatomic: Gauge::default(),
            free_lent: Gauge::default(),
            reserved_highatomic: Gauge::default(),
            boost: Gauge::default(),
            boost_factor: Gauge::default(),
            marks: Marks::default(),
            protection: Protection::default(),
            below_high: Flag::default(),
            boosted: Flag::default(),
            boosted_for_atomic: Flag::default(),
            reclaiming: Flag::default(),
            under_reclaim: Flag::default(),
            scans: Scans::default(),
            compaction: ZoneState::new(),
            lock: MeasuredLock::new(ZoneInner {
                lists: FreeLists::new(frames),
                counts: ZoneCounts::default(),
            }),
            pcps: Vec::new(),
            sharers,
            interrupts: config.interrupts,
            foreign: AtomicU64::new(0),
            interleaved: AtomicU64::new(0),
        };
        zone.set_marks(marks, managed, knobs);
        let limits = zone.limits(config);
        let pages = |cpu| CpuPages::new(cpu, Pcp::new(config, limits), config.pcp_lists());
        zone.pcps = (0..config.cpus as usize).map(|cpu| slot::locked(pages(cpu))).collect();
        let regions = || map.regions().filter(|r| (r.node, r.zone) == (span.node, span.kind));
        for region in regions() {
            zone.pageblocks.populate(region.start..=Pfn(region.end().0 - 1), region.managed);
        }
        let mut locked = zone.lock();
        for region in regions().filter(|r| r.managed) {
            for frame in region.start.0..region.end().0 {
                zone.set_tag(Pfn(frame), Tag::Inside);
            }
            for b in block::blocks(region.start, region.frames, MAX_PAGE_ORDER) {
                locked.free_to_tail(b.pfn, b.order, true);
            }
        }
        drop(locked);
        zone
    }

    /// Sets its watermarks, how far they may be boosted, and what is kept from requests that could use a higher zone.
    pub fn set_marks(&self, marks: Watermarks, managed: &Managed, knobs: &WatermarkKnobs) {
        self.marks.set(marks);
        self.boost_factor.set(knobs.watermark_boost_factor);
        self.protection.set(protection(self.span.kind, &managed.of_node, &knobs.lowmem_reserve_ratio));
    }

    /// Computes the limits of its per-CPU lists.
    pub fn limits(&self, config: &Config) -> Limits {
        Limits::new(config, self.span.managed, self.marks.get().low, self.sharers)
    }
}
