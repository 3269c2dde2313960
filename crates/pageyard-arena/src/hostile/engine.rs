//! An engine's calls, and those of the traits that it implements.

use super::draw::Draw;
use pageyard::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard::engine::{Internals, MetadataPart, Visit};
use pageyard::reclaim::{NoHelp, Reclaimed, Shortage};
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    CompactorId, Config, CpuSet, Cx, FrameRange, Frames, MemoryMap, Migratetype, NodeId, Order,
    OwnedPageyard, PageAllocator, Pageyard, Pfn, PressureAllocator, Reclaim, Region, Request, TryLock,
    ZoneId, ZoneKind,
};

/// Frames of the engine, where its second zone begins, and a hole.
const END: u64 = 8 * 512;
const BORDER: u64 = 3 * 512 + 200;
const HOLE: (u64, u64) = (1000, 1010);

type Yard = Pageyard<'static, TryLock>;

/// Blocks that were handed out, and may have been freed by a wild call since.
type Held = Vec<(Pfn, Order)>;

/// An owner that lets everything be isolated, and moves nothing.
struct Stubborn(MigrateError);

// SAFETY: it never moves anything.
unsafe impl Migrate for Stubborn {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, _: Mode) -> Result<Pfn, Busy> {
        if pfn.0.is_multiple_of(7) { Err(Busy::Pinned) } else { Ok(pfn) }
    }

    fn migrate(&self, _: &mut Pfn, _: Pfn, _: Mode) -> Result<(), MigrateError> {
        Err(self.0)
    }

    fn putback(&self, _: Pfn) {}
}

impl Reclaim for Stubborn {
    fn reclaim(&self, _: &Cx, _: &Shortage) -> Reclaimed {
        Reclaimed { scanned: Frames(u64::MAX), freed: Frames(1) }
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        Frames(u64::MAX)
    }
}

pub(super) fn made(pcp: bool) -> OwnedPageyard<TryLock> {
    let normal =
        |from: u64, to: u64| Region::managed(Pfn(from), Frames(to - from), NodeId(0), ZoneKind::Normal);
    let low = Region { zone: ZoneKind::Dma32, ..normal(0, BORDER) };
    let regions = [
        Region { frames: Frames(HOLE.0), ..low },
        Region { start: Pfn(HOLE.1), frames: Frames(BORDER - HOLE.1), ..low },
        normal(BORDER, END),
    ];
    let watermark =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
    let map = MemoryMap::new(&regions).expect("a map");
    Pageyard::owned(&map, Config { watermark, pcp, ..Config::new(2) }, TryLock).expect("an engine")
}

/// Makes an engine's calls.
///
/// # Panics
/// Where a call does, or a frame is lost.
pub fn engine(bytes: &[u8]) {
    let mut draw = Draw::new(bytes, END);
    let yard = made(draw.flag());
    let mut held = Held::new();
    while !draw.is_empty() {
        match draw.byte() % 3 {
            0 => blocks(&yard, &mut draw, &mut held),
            1 => ranges(&yard, &mut draw, &mut held),
            _ => pressure(&yard, &mut draw, &mut held, conserved),
        }
    }
    conserved(&yard);
}

/// Makes an engine's calls, and flips bits of its metadata in between: frames may be lost or have two owners then, but
/// each call ends, and returns a value. Returns how many words it damaged.
///
/// # Panics
/// Where a call does.
pub fn damaged(bytes: &[u8]) -> u64 {
    let mut draw = Draw::new(bytes, END);
    let yard = made(draw.flag());
    let (mut held, mut words) = (Held::new(), 0);
    while !draw.is_empty() {
        match draw.byte() % 4 {
            0 => blocks(&yard, &mut draw, &mut held),
            1 => ranges(&yard, &mut draw, &mut held),
            2 => pressure(&yard, &mut draw, &mut held, |yard| _ = yard.audit()),
            _ => {
                let part = MetadataPart::ALL[usize::from(draw.byte()) % MetadataPart::ALL.len()];
                let (zone, nth) = (ZoneId(u16::from(draw.byte() % 2)), draw.number(1 << 20) as usize);
                // One bit most often, a word of them seldom.
                let flip = if draw.flag() { 1 << (draw.byte() % 64) } else { draw.number(u64::MAX) };
                draw.call(("damage", zone, part, nth, flip));
                yard.damage(zone, part, nth, flip);
                words += 1;
            }
        }
        // Blocks that are not one are handed out without end.
        held.truncate(4_000);
    }
    yard.drain(CpuSet::All);
    let _ = yard.audit();
    words
}

/// Checks that no frame is lost.
pub(super) fn conserved(yard: &Yard) {
    yard.drain(CpuSet::All);
    let census = yard.audit().unwrap_or_else(|why| panic!("{why}"));
    assert!(census.is_conserved(), "{census:?}");
}

/// Draws a block: one that was handed out, or any.
fn block(draw: &mut Draw<'_>, held: &mut Held) -> (Pfn, Order) {
    match held.len() {
        n if n > 0 && draw.byte() < 180 => held.swap_remove(usize::from(draw.byte()) % n),
        _ => (draw.pfn(), draw.order()),
    }
}

fn blocks(yard: &Yard, draw: &mut Draw<'_>, held: &mut Held) {
    let cx = draw.cx();
    match draw.byte() % 12 {
        0..=2 => {
            let request = draw.request();
            draw.call(("alloc", cx, request));
            held.extend(yard.alloc(&cx, &request).map(|pfn| (pfn, request.order)));
        }
        3 | 4 => {
            let (pfn, order) = block(draw, held);
            draw.call(("free", cx, pfn, order));
            let _ = yard.free(&cx, pfn, order);
        }
        5 => {
            let (pfn, order) = block(draw, held);
            draw.call(("free_zeroed, free_frag", cx, pfn, order));
            let _ = yard.free_zeroed(&cx, pfn, order);
            let _ = PageAllocator::free_frag(yard, &cx, pfn, order);
        }
        6 => {
            let ((pfn, from), to) = (block(draw, held), draw.order());
            draw.call(("split", cx, pfn, from, to));
            match yard.split(&cx, pfn, from, to) {
                Ok(()) => held.push((pfn, to)),
                Err(_) => held.push((pfn, from)),
            }
        }
        7 => {
            let (pfn, order, m) = (draw.pfn(), draw.order(), draw.migratetype());
            draw.call(("claim_exact", cx, pfn, order, m));
            held.extend(yard.claim_exact(&cx, pfn, order, m).map(|()| (pfn, order)));
        }
        8 => {
            let (request, count) = (draw.request(), usize::from(draw.byte()));
            let mut out = vec![Pfn(0); count];
            draw.call(("alloc_bulk", cx, request, count));
            let got = yard.alloc_bulk(&cx, &request, &mut out);
            held.extend(out[..got].iter().map(|pfn| (*pfn, request.order)));
        }
        9 => {
            let order = draw.order();
            let pfns: Vec<_> = (0..draw.byte() % 40).map(|_| block(draw, held).0).collect();
            draw.call(("free_bulk", cx, order, &pfns));
            yard.free_bulk(&cx, &pfns, order, &mut |_, _| ());
        }
        10 => {
            let (cpus, pageblock) = (draw.cpus(), draw.pageblock());
            draw.call(("drain, isolate, restore, lease", cx, cpus, pageblock));
            yard.drain(cpus);
            match draw.byte() % 4 {
                0 => drop(yard.isolate(&cx, pageblock)),
                1 => drop(yard.restore(&cx, pageblock)),
                2 => drop(yard.lease_pageblock(pageblock, CompactorId(draw.number(255) as u16))),
                _ => drop(yard.unlease_pageblock(pageblock)),
            }
        }
        _ => {
            let (pfn, zone, cpu, pageblock) = (draw.pfn(), draw.zone(), draw.cpu(), draw.pageblock());
            draw.call(("reports", pfn, zone, cpu, pageblock));
            let _ = (yard.order_of(pfn), yard.was_zeroed(pfn), yard.bias_of(pfn), yard.is_biased_here(pfn));
            let _ = (yard.zone_stats(zone), yard.pcp_stats(zone, cpu), yard.take_search_steps(cpu));
            let _ = (yard.pageblock_migratetype(pageblock), yard.stats(), yard.free_and_cached());
            yard.reclaimed(zone);
        }
    }
}

fn ranges(yard: &Yard, draw: &mut Draw<'_>, held: &mut Held) {
    let (cx, first, frames) = (draw.cx(), draw.pfn(), draw.frames());
    let stubborn = Stubborn(if draw.flag() { MigrateError::Again } else { MigrateError::Refused });
    let singles = |held: &mut Held, first: Pfn, frames: Frames| {
        held.extend((first.0..first.0 + frames.0).map(|pfn| (Pfn(pfn), Order::ZERO)));
    };
    match draw.byte() % 9 {
        0 => {
            draw.call(("free_range", cx, first, frames));
            let _ = yard.free_range(&cx, first, frames);
        }
        1 => {
            let (align, request) = (draw.order(), draw.request());
            draw.call(("alloc_exact", cx, frames, align, request));
            if let Ok(first) = yard.alloc_exact(&cx, frames, align, &request) {
                singles(held, first, frames);
            }
        }
        2 => {
            let (least, request) = (draw.order(), draw.request());
            let mut out = vec![FrameRange::default(); usize::from(draw.byte() % 8)];
            draw.call(("alloc_frames", cx, frames, least, request, out.len()));
            if let Ok(got) = yard.alloc_frames(&cx, frames, least, &request, &mut out) {
                out[..got].iter().for_each(|range| singles(held, range.first, range.frames));
            }
        }
        3 => {
            let (least, mut left) = (draw.order(), draw.byte() % 20);
            draw.call(("visit_free_blocks", cx, least, first, frames, left));
            let _ = yard.visit_free_blocks(&cx, least, first, frames, |block| {
                left = left.saturating_sub(1);
                if left.is_multiple_of(3) {
                    return if left.is_multiple_of(2) { Visit::Zeroed } else { Visit::Return };
                }
                held.push((block.pfn, block.order));
                Visit::Keep
            });
        }
        4 => {
            let m = draw.migratetype();
            draw.call(("alloc_contig_range", cx, first, frames, m));
            if yard.alloc_contig_range(&cx, first, frames, m, &stubborn).is_ok() {
                singles(held, first, frames);
            }
        }
        5 => {
            draw.call(("offline_range", cx, first, frames));
            let _ = yard.offline_range(&cx, first, frames, &stubborn);
        }
        6 => {
            draw.call(("online_range", cx, first, frames));
            let _ = yard.online_range(&cx, first, frames);
        }
        7 => {
            let (n, align) = (draw.frames(), draw.order());
            draw.call(("declare_cma, alloc_cma", cx, first, frames, n, align));
            if let Ok(area) = yard.declare_cma(&cx, first, frames)
                && let Ok(at) = yard.alloc_cma(&cx, area, n, align, &stubborn)
            {
                singles(held, at, n);
            }
        }
        _ => {
            draw.call(("an area of another engine's", cx, frames));
            if let Ok(area) = made(false).declare_cma(&Cx::on(pageyard::CpuId(0)), Pfn(0), Frames(512))
                && let Ok(at) = yard.alloc_cma(&cx, area, frames, Order::ZERO, &NoHelp)
            {
                singles(held, at, frames);
            }
        }
    }
}

fn pressure(yard: &Yard, draw: &mut Draw<'_>, held: &mut Held, judge: fn(&Yard)) {
    let (cx, zone, mut request) = (draw.cx(), draw.zone(), draw.request());
    // One that must not fail tries for ever where nothing can be given up.
    request.flags.remove(pageyard::RequestFlags::NOFAIL);
    let stubborn = Stubborn(if draw.flag() { MigrateError::Again } else { MigrateError::Refused });
    let order = request.order;
    match draw.byte() % 4 {
        0 | 1 => {
            draw.call(("alloc_with", cx, request));
            held.extend(yard.alloc_with(&cx, &request, &stubborn).map(|pfn| (pfn, order)));
        }
        2 => {
            draw.call(("kswapd_with, kcompactd_with, compact_zone_with", cx, zone));
            let _ = yard.kswapd_with(&cx, &stubborn);
            let _ = yard.kcompactd_with(&cx, &stubborn);
            let _ = yard.compact_zone_with(&cx, zone, &stubborn);
        }
        _ => {
            let pfn = draw.pfn();
            draw.call(("frame, audit", pfn));
            let _ = yard.frame(pfn);
            judge(yard);
        }
    }
}

/// A request for a single movable frame, which any engine here serves while it has one.
pub(super) fn single() -> Request {
    Request::new(Order::ZERO, Migratetype::Movable)
}
