//! Operations on ranges of frames: of any length, at a given place, of a contiguous area, of pageblocks that go
//! offline; and frees of parts of blocks.

use super::fault::Rule;
use super::helper::Helper;
use super::journal::End;
use super::kinds::Kind;
use super::shared::add;
use super::worker::Worker;
use pageyard::{
    BlockId, Cx, FrameRange, Frames, FreeError, Order, PAGEBLOCK_ORDER, PerCpu, Pfn, RangeFault, Request,
    ZoneSpan, block,
};

/// Most frames of a range: more than two pageblocks, so that some reach into three.
const MOST: u64 = 1200;
/// Operations for which pageblocks stay offline.
const KEPT: u64 = 150;
/// Frees that are tried again because the block was being split.
const PATIENCE: u32 = 1 << 20;

/// Pageblocks that a thread has taken offline, and until when.
pub(super) struct Offline {
    range: FrameRange,
    until: u64,
}

/// Returns the blocks that a range is handed out as: the fewest.
fn blocks(range: FrameRange) -> impl Iterator<Item = BlockId> {
    block::blocks(range.first, range.frames, Order::MAX)
}

impl<'m, P: PerCpu> Worker<'_, 'm, P> {
    fn any_zone(&mut self) -> ZoneSpan {
        let zones = &self.shared.machine.zones;
        zones[self.rng.usize(..zones.len())].1
    }

    /// Returns a range of a zone; half of them are whole pageblocks.
    fn any_range(&mut self) -> FrameRange {
        let zone = self.any_zone();
        let frames = self.rng.u64(1..=MOST).min(zone.spanned.0);
        let first = zone.start.0 + self.rng.u64(..=zone.spanned.0 - frames);
        let range = FrameRange::new(Pfn(first), Frames(frames));
        if self.rng.bool() { range } else { whole_pageblocks(range) }
    }

    /// Books the blocks of a range that it was given.
    fn keep_range(&mut self, request: Option<&Request>, range: FrameRange, began: u64) {
        for block in blocks(range) {
            self.keep(request, block, began);
        }
    }

    /// Calls with a helper, and books the range that came of it.
    fn ask_for_range(
        &mut self,
        kind: Kind,
        pfn: Pfn,
        call: impl FnOnce(&Cx, &Helper<'_, 'm, P>) -> Option<FrameRange>,
    ) {
        let cx = self.cx();
        let began = self.shared.ranges.now();
        let got = self.noted(kind, Some(pfn), Order::ZERO, |w| {
            let got = w.helped(cx, false, |helper| call(&cx, helper)).flatten();
            (got, got.map(|range| range.first), got.is_some())
        });
        match got {
            Some(range) => {
                add(&self.shared.tally.done[kind as usize], 1);
                self.keep_range(None, range, began);
            }
            None => add(&self.shared.tally.refused, 1),
        }
    }

    /// Allocates a number of frames that is no power of two.
    pub(super) fn exact(&mut self) {
        let (frames, align) = (Frames(self.rng.u64(1..=MOST / 2)), Order::of(self.rng.u8(..7)));
        let (request, cx) = (self.request(Order::ZERO), self.cx());
        let began = self.shared.ranges.now();
        let got = self.noted(Kind::Exact, None, Order::ZERO, |w| {
            let got = w.shared.subject.alloc_exact(&cx, frames, align, &request);
            (got, got, got.is_some())
        });
        match got {
            Some(first) => {
                add(&self.shared.tally.done[Kind::Exact as usize], 1);
                self.keep_range(Some(&request), FrameRange::new(first, frames), began);
            }
            None => add(&self.shared.tally.refused, 1),
        }
    }

    /// Allocates a range that it names, of which the frames in use are moved away.
    pub(super) fn contig(&mut self) {
        let (range, ty) = (self.any_range(), self.any_type());
        self.ask_for_range(Kind::Contig, range.first, |cx, helper| {
            helper.shared.subject.alloc_contig(cx, range, ty, helper).then_some(range)
        });
    }

    /// Allocates from the round's contiguous area.
    pub(super) fn cma(&mut self) {
        let Some(area) = self.shared.area else { return };
        let frames = Frames(self.rng.u64(1..=area.range().frames.0.min(MOST)));
        let align = Order::of(self.rng.u8(..6));
        self.ask_for_range(Kind::Cma, area.range().first, |cx, helper| {
            let first = helper.shared.subject.alloc_cma(cx, area, frames, align, helper)?;
            Some(FrameRange::new(first, frames))
        });
    }

    /// Takes pageblocks offline for a while.
    pub(super) fn offline(&mut self) {
        if !self.shared.shrinks || !self.offline.is_empty() {
            return;
        }
        let shared = self.shared;
        let range = whole_pageblocks(self.any_range());
        let cx = self.cx();
        let gone = self.noted(Kind::Offline, Some(range.first), Order::ZERO, |w| {
            let gone = w.helped(cx, false, |helper| shared.subject.offline(&cx, range, helper)) == Some(true);
            (gone, None, gone)
        });
        if !gone {
            return add(&shared.tally.refused, 1);
        }
        add(&shared.tally.done[Kind::Offline as usize], 1);
        for block in blocks(range) {
            if let Err((frame, found)) = shared.oracle.change(block, 0, self.owner()) {
                return shared.faults.raise(Rule::Owners, self.me, frame, 0, found.into());
            }
        }
        self.offline.push(Offline { range, until: self.time + KEPT });
    }

    /// Brings its pageblocks online whose time is over, or all.
    pub(super) fn tend_offline(&mut self, all: bool) {
        let shared = self.shared;
        let Some(Offline { range, .. }) = self.offline.pop_if(|offline| all || offline.until <= self.time)
        else {
            return;
        };
        if !blocks(range).all(|block| shared.disown(self.owner(), self.me, block)) {
            return;
        }
        let cx = self.cx();
        let online = self.noted(Kind::Offline, Some(range.first), Order::ZERO, |w| {
            let online = w.shared.subject.online(&cx, range);
            (online, None, online)
        });
        if !online {
            shared.faults.say(Rule::Isolation, Some(self.me), Some(range.first.0), || {
                format!("{range}, which thread {} took offline, does not come online", self.me)
            });
        }
    }

    /// Frees one of its blocks in two parts.
    pub(super) fn free_parts(&mut self) {
        let shared = self.shared;
        if !shared.subject.is_pageyard() {
            return self.free();
        }
        let Some(block) = self.let_go() else { return };
        if !shared.disown(self.owner(), self.me, block) {
            return;
        }
        shared.oracle.fill(block, true);
        let size = block.order.frames().0;
        let cut = self.rng.u64(..size);
        let parts = [(block.pfn.0 + cut, size - cut), (block.pfn.0, cut)];
        for (first, frames) in parts.into_iter().filter(|(_, frames)| *frames > 0) {
            let cx = self.cx();
            shared.journals[self.me as usize].note(Kind::FreeParts, Pfn(first), Order::ZERO, End::Open);
            if let Err(why) = free_range(|range| shared.subject.free_range(&cx, range), first, frames) {
                let why = format!("{why:?} to a free of {frames} frames from {first:#x} on");
                shared.not_freed(self.owner(), self.me, block, &why);
                return;
            }
        }
        add(&shared.tally.done[Kind::FreeParts as usize], 1);
    }
}

/// Frees a range, what is left of it again where a block was being split.
fn free_range(
    mut free: impl FnMut(FrameRange) -> Result<(), (Frames, RangeFault)>,
    first: u64,
    frames: u64,
) -> Result<(), RangeFault> {
    let mut freed = 0;
    for attempt in 0.. {
        match free(FrameRange::new(Pfn(first + freed), Frames(frames - freed))) {
            Ok(()) => break,
            Err((more, RangeFault::Free(FreeError::Busy))) if attempt < PATIENCE => {
                freed += more.0;
                std::thread::yield_now();
            }
            Err((_, why)) => return Err(why),
        }
    }
    Ok(())
}

/// Returns the pageblocks that a range touches.
fn whole_pageblocks(range: FrameRange) -> FrameRange {
    let first = range.first.align_down(PAGEBLOCK_ORDER);
    let end = Pfn(range.first.0 + range.frames.0).align_up(PAGEBLOCK_ORDER);
    FrameRange::new(first, end - first)
}
