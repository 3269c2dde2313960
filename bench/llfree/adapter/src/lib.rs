//! Pageyard behind the trait of LLFree's allocators, for LLFree's own benchmarks: zones alone, and with per-CPU lists.
//!
//! Both manage as many frames as LLFree does in the same memory: their metadata lies elsewhere, but what LLFree keeps
//! in the managed memory is taken off. Nothing is held back from requests ([`Config::pool`]), because the benchmarks
//! take every frame. Calls name the core that LLFree's benchmarks name, which is the one that their threads are pinned
//! to.

use llfree::{
    Alloc, Class, Classing, Error, FrameId, HUGE_ORDER, Init, LLFree, MetaData, MetaSize, Result, Stats,
    TREE_ORDER, TreeStats,
};
use pageyard::compaction::FrameState;
use pageyard::engine::Internals;
use pageyard::{
    Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, Pageyard, Pfn,
    Region, Request, ZoneKind,
};
use pageyard_arena::rseq::Rseq;
use std::fmt;
use std::ops::Range;

/// Zones without per-CPU lists: the counterpart of LLFree, which has none either.
pub type Zones<'a> = Adapter<'a, false>;

/// Zones with per-CPU lists.
pub type Lists<'a> = Adapter<'a, true>;

/// An instance of Pageyard, and the buffers that the trait lends it, which stay unused.
pub struct Adapter<'a, const LISTS: bool> {
    yard: OwnedPageyard<Rseq>,
    frames: usize,
    buffers: MetaData<'a>,
}

/// Returns the context of a request; of the first core where it names none.
fn context(request: &llfree::Request) -> Cx {
    Cx::on(CpuId(request.local.unwrap_or(0) as u32))
}

/// Returns the order of a request.
fn order(request: &llfree::Request) -> Result<Order> {
    u8::try_from(request.order).ok().and_then(Order::new).ok_or(Error::Argument)
}

impl<const LISTS: bool> Adapter<'_, LISTS> {
    /// Counts the frames of a range that its zone has free: those in lists are not.
    fn free_in(&self, frames: Range<usize>) -> usize {
        let is_free = |frame: &usize| {
            matches!(self.yard.frame(Pfn(*frame as u64)), FrameState::Free(_) | FrameState::Inside)
        };
        (frames.start..frames.end.min(self.frames)).filter(is_free).count()
    }
}

impl<'a, const LISTS: bool> Alloc<'a> for Adapter<'a, LISTS> {
    fn name() -> &'static str {
        if LISTS { "pageyard" } else { "pageyard:pcp=false" }
    }

    fn new(frames: usize, init: Init, classing: &Classing, buffers: MetaData<'a>) -> Result<Self> {
        if init != Init::FreeAll {
            return Err(Error::Argument);
        }
        let cores = classing.classes().iter().map(|(_, locals)| *locals).max().unwrap_or(1);
        let regions = [Region::managed(Pfn(0), Frames(frames as u64), NodeId(0), ZoneKind::Normal)];
        let map = MemoryMap::new(&regions).map_err(|_| Error::Argument)?;
        let config = Config { pcp: LISTS, ..Config::pool(cores as u32) };
        let rseq = Rseq::new().expect("the kernel and glibc 2.35 or later have restartable sequences");
        let yard = Pageyard::owned(&map, config, rseq).map_err(|_| Error::Initialization)?;
        Ok(Adapter { yard, frames, buffers })
    }

    fn metadata_size(classing: &Classing, frames: usize) -> MetaSize {
        LLFree::metadata_size(classing, frames)
    }

    unsafe fn metadata(&mut self) -> MetaData<'a> {
        let MetaData { local, trees, lower } = &mut self.buffers;
        MetaData { local: std::mem::take(local), trees: std::mem::take(trees), lower: std::mem::take(lower) }
    }

    #[inline]
    fn get(&self, frame: Option<FrameId>, request: llfree::Request) -> Result<(FrameId, Class)> {
        let (cx, order) = (context(&request), order(&request)?);
        if let Some(frame) = frame {
            let claimed = self.yard.claim_exact(&cx, Pfn(frame.0 as u64), order, Migratetype::Movable);
            return claimed.map(|()| (frame, request.class)).map_err(|_| Error::Memory);
        }
        match self.yard.alloc(&cx, &Request::new(order, Migratetype::Movable)) {
            Ok(block) => Ok((FrameId(block.0 as usize), request.class)),
            Err(_) => Err(Error::Memory),
        }
    }

    #[inline]
    fn put(&self, frame: FrameId, request: llfree::Request) -> Result<()> {
        self.yard.free(&context(&request), Pfn(frame.0 as u64), order(&request)?).map_err(|_| Error::Argument)
    }

    fn frames(&self) -> usize {
        self.frames
    }

    /// Returns the free frames, those in lists among them. There are no trees here.
    fn tree_stats(&self) -> TreeStats {
        let (free, cached) = self.yard.free_and_cached();
        TreeStats { free_frames: (free.0 + cached.0) as usize, ..TreeStats::default() }
    }

    /// Returns the free frames, those in lists among them, and the free pageblocks. There are no trees here.
    fn stats(&self) -> Stats {
        let huge =
            (0..self.frames).step_by(1 << HUGE_ORDER).map(|first| self.stats_at(FrameId(first), HUGE_ORDER));
        let free_huge = huge.map(|block| block.free_huge).sum();
        Stats { free_frames: self.tree_stats().free_frames, free_huge, free_trees: 0 }
    }

    /// Returns the free frames of the aligned block of an order around a frame; those in lists are not free.
    fn stats_at(&self, frame: FrameId, order: usize) -> Stats {
        assert!([0, HUGE_ORDER, TREE_ORDER].contains(&order), "no statistics of order {order}");
        let first = frame.0 >> order << order;
        let free_in = |first: usize, order: usize| self.free_in(first..first + (1 << order));
        let huge = (first..first + (1 << order)).step_by(1 << HUGE_ORDER).filter(|_| order >= HUGE_ORDER);
        let free_huge = huge.filter(|first| free_in(*first, HUGE_ORDER) == 1 << HUGE_ORDER).count();
        Stats { free_frames: free_in(first, order), free_huge, free_trees: 0 }
    }

    fn drain(&self) {
        let _ = self.yard.drain(CpuSet::All);
    }

    fn validate(&self) {
        self.yard.audit().expect("a sound instance");
    }
}

impl<const LISTS: bool> fmt::Debug for Adapter<'_, LISTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, cached) = self.yard.free_and_cached();
        write!(f, "{}: {} frames, {} free, {} in lists", Self::name(), self.frames, free.0, cached.0)
    }
}
