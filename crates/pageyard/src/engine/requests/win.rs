//! Concurrent frees: the caller that changes the tag frees the block. In a pageblock biased to a CPU, that CPU's frees
//! win without a locked instruction.

use crate::engine::geometry::{BlockIdx, FrameIdx};
use crate::engine::map::bias::{Bias, BiasState, BiasWord};
use crate::engine::map::frame_map::FrameMap;
use crate::engine::map::tag::Tag;
use crate::engine::map::watch::DescriptorWatch;
use crate::engine::pcp::bias_asks::BiasStats;
use crate::engine::pcp::percpu::{PerCpu, Winning};
use crate::engine::yard::Pageyard;
use crate::engine::zone::pageblocks::Pageblocks;
use pageyard_core::clear::Clear;
use pageyard_core::observer::Observer;
use pageyard_core::units::{CpuId, Order, Pfn};

/// Interrupted attempts before a free does without sequences.
const ATTEMPTS: u32 = 8;

/// The reason a tag was not won.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unwon {
    /// It is this one.
    Is(Tag),
    /// The pageblock is biased to a CPU, and the barrier that would end that failed; or 255 threads without sequences
    /// are already admitted.
    Busy,
}

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Replaces a tag that is probably `from`. Returns whether it was.
    ///
    /// # Safety
    /// It is a frame of the zone: [`FrameMap::state_of`] returned the watch for it.
    #[inline(always)]
    pub(crate) unsafe fn wins<'a>(
        &self,
        frames: &FrameMap<'a>,
        (frame, watch): (FrameIdx, DescriptorWatch<'a>),
        from: Tag,
        to: Tag,
    ) -> bool {
        if !P::BIASES {
            // SAFETY: the caller's promise.
            return unsafe { frames.win(P::ALONE, frame, from, to) };
        }
        // SAFETY: the caller's promise.
        let place = unsafe { frames.place(frame, watch) };
        let attempt = if place.is_shared() {
            self.percpu.win_shared(place, from.byte(), to.byte())
        } else {
            self.percpu.win_biased(place, from.byte(), to.byte())
        };
        attempt == Winning::Won || self.win_cold(frames, frame, from.byte(), to.byte())
    }

    /// Swaps eight aligned tags, all or none. On `false`, retry each alone.
    ///
    /// # Safety
    /// As [`Pageyard::wins`].
    #[inline(always)]
    pub(crate) unsafe fn wins_eight<'a>(
        &self,
        frames: &FrameMap<'a>,
        (first, watch): (FrameIdx, DescriptorWatch<'a>),
        from: Tag,
        to: Tag,
    ) -> bool {
        if !P::BIASES {
            // SAFETY: the caller's promise.
            return unsafe { frames.win_eight(P::ALONE, first, from, to) };
        }
        // SAFETY: the caller's promise.
        let place = unsafe { frames.place(first, watch) };
        let attempt = if place.is_shared() {
            self.percpu.win_eight_shared(place, from.byte(), to.byte())
        } else {
            self.percpu.win_eight_biased(place, from.byte(), to.byte())
        };
        attempt == Winning::Won
    }

    #[cold]
    #[inline(never)]
    fn win_cold(&self, frames: &FrameMap<'_>, frame: FrameIdx, from: u8, to: u8) -> bool {
        self.win(frames, frame, Tag::from_byte(from), Tag::from_byte(to)).is_ok()
    }

    /// Replaces a tag. Of several concurrent attempts, one succeeds.
    #[inline(never)]
    pub(crate) fn win(
        &self,
        frames: &FrameMap<'_>,
        frame: FrameIdx,
        from: Tag,
        to: Tag,
    ) -> Result<(), Unwon> {
        if !P::BIASES {
            return frames.retag(frame, from, to).map_err(Unwon::Is);
        }
        let Some((_, watch)) = frames.state_of(frame.get() as u64) else { return Err(Unwon::Is(Tag::Hole)) };
        // SAFETY: it has a state, and this is its watch.
        let place = unsafe { frames.place(frame, watch) };
        let bias = frames.bias(frame.block());
        let mut interrupted = 0;
        loop {
            let now = bias.load();
            let attempt = match now.state() {
                _ if interrupted == ATTEMPTS => Winning::Elsewhere,
                BiasState::Shared => self.percpu.win_shared(place, from.byte(), to.byte()),
                BiasState::Biased(_) => self.percpu.win_biased(place, from.byte(), to.byte()),
                _ => Winning::Elsewhere,
            };
            match attempt {
                Winning::Won => return Ok(()),
                Winning::Lost => match frames.tag(frame) {
                    // Another free won, and the block was allocated again since.
                    tag if tag == from => {}
                    tag => return Err(Unwon::Is(tag)),
                },
                Winning::Interrupted => interrupted += 1,
                Winning::Elsewhere => match now.state() {
                    BiasState::Shared if now.admit().is_none() => return Err(Unwon::Busy),
                    // Without a sequence: no bias begins before it has ended.
                    BiasState::Shared if bias.change(now, now.admit()) => {
                        let won = frames.retag(frame, from, to).map_err(Unwon::Is);
                        bias.dismiss();
                        return won;
                    }
                    BiasState::Shared => {}
                    BiasState::Arming(_) => {
                        bias.change(now, now.cancel());
                    }
                    BiasState::Biased(_) => {
                        bias.change(now, now.revoke());
                    }
                    BiasState::Revoking(cpu) => {
                        if !self.finish_revoking(bias, now, cpu) {
                            return Err(Unwon::Busy);
                        }
                    }
                },
            }
        }
    }

    /// Ends the bias of a pageblock that is being revoked, unless another thread has. Returns whether the barrier
    /// succeeded.
    fn finish_revoking(&self, bias: BiasWord<'_>, now: Bias, cpu: CpuId) -> bool {
        let barrier = self.percpu.barrier_on(cpu);
        if barrier && bias.change(now, now.share()) {
            self.bias_asks.revoked(cpu);
        }
        barrier
    }

    /// Biases a pageblock to the calling CPU, unless that is likely to be revoked soon. No CPU was working on the
    /// pageblock, and this one has just taken frames from it.
    #[cold]
    #[inline(never)]
    pub(crate) fn ask_for_bias(&self, pageblocks: &Pageblocks<'_>, block: BlockIdx) {
        let Some(cpu) = self.percpu.own_cpu().filter(|cpu| self.has_cpu(*cpu)) else { return };
        let bias = pageblocks.frames.bias(block);
        let mut now = bias.load();
        if now.state() == BiasState::Biased(cpu) || self.bias_asks.pauses(cpu) {
            return;
        }
        if let BiasState::Biased(_) = now.state()
            && let Some(revoking) = now.revoke()
            && bias.change(now, Some(revoking))
            && let BiasState::Revoking(other) = revoking.state()
        {
            if !self.finish_revoking(bias, revoking, other) {
                return;
            }
            now = bias.load();
        }
        let Some(arming) = now.arm(cpu) else { return };
        if !bias.change(now, Some(arming)) {
            return;
        }
        if !self.percpu.barrier() {
            bias.change(arming, arming.cancel());
        } else if bias.change(arming, arming.settle()) {
            self.bias_asks.armed(cpu);
        }
    }

    /// [`Internals::bias_stats`](super::super::internals::Internals::bias_stats).
    pub(crate) fn bias_stats(&self) -> BiasStats {
        self.bias_asks.stats()
    }

    /// [`Internals::bias_of`](super::super::internals::Internals::bias_of).
    pub(crate) fn bias_of(&self, pfn: Pfn) -> Option<BiasState> {
        self.zone_of(pfn).map(|(zone, frame)| zone.pageblocks.frames.bias(frame.block()).load().state())
    }

    /// [`Internals::is_biased_here`](super::super::internals::Internals::is_biased_here).
    pub(crate) fn is_biased_here(&self, pfn: Pfn) -> bool {
        let own = self.percpu.own_cpu().map(BiasState::Biased);
        own.is_some() && self.bias_of(pfn) == own
    }

    /// Takes a live block of exactly this order from its owner, whether or not it is known to hold zeros.
    pub(crate) fn win_block(
        &self,
        pageblocks: &Pageblocks<'_>,
        frame: FrameIdx,
        order: Order,
        to: Tag,
    ) -> Result<(), Unwon> {
        if !pageblocks.has_room(frame, order) {
            return Err(Unwon::Is(pageblocks.frames.tag(frame)));
        }
        match self.win(&pageblocks.frames, frame, Tag::Allocated(order), to) {
            Err(Unwon::Is(Tag::AllocatedZero(o))) if o == order => {
                self.win(&pageblocks.frames, frame, Tag::AllocatedZero(order), to)
            }
            other => other,
        }
    }
}
