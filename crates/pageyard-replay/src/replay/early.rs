//! Frees that come early: what the host's reclaim frees a moment later, given up where a request would be refused.
//!
//! A recording has what reclaim freed at the time at which the host needed it. An engine that needs it sooner would
//! refuse requests that no host with it would. So before a request is refused, blocks that the replay holds and that
//! reclaim frees within [`Ahead::ns`] are freed, in the host's order, until the request is served or [`Ahead::frames`]
//! are free ahead of their time. Their rows then do nothing. Whether the host served the request is not looked at.

use crate::bitmap::FrameSet;
use crate::machine::{Machine, Reclaimed};
use crate::text::count;
use pageyard::{Frames, Nanos, Order, Pfn};
use serde::Serialize;
use std::fmt;

/// Frames freed at first; twice as many each time that the request is still refused. # Linux: `SWAP_CLUSTER_MAX`.
pub(super) const CLUSTER: u64 = 32;

/// How far ahead of the host's reclaim a replay may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    /// Frames that are free ahead of their time, at most, but for one block that alone has more.
    pub frames: u64,
    /// Nanoseconds by which they are.
    pub ns: u64,
}

/// Blocks that are looked at for one request: a recording may claim any watermarks.
const MOST_LOOKED_AT: usize = 1 << 16;

/// Where a recording does not have the zones' watermarks.
const FRAMES: u64 = 1024;

/// The background reclaimer takes less than that to wake and to free.
const NS: u64 = 100_000_000;

impl Ahead {
    /// Returns how far ahead a replay of a machine may be: by a tenth of a second, and by as much as the background
    /// reclaimer frees in one go, from the zones' low to their high watermarks.
    pub(super) fn of(machine: &Machine) -> Ahead {
        let frames = machine.frames_from_low_to_high();
        Ahead { frames: if frames == 0 { FRAMES } else { frames }, ns: NS }
    }
}

/// The frees that came early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EarlyFrees {
    /// The most frames that may be free ahead of their time, but for one block that alone has more.
    pub most_frames: u64,
    /// The most milliseconds by which they may be.
    pub most_ms: u64,
    /// Frames that were freed early.
    pub frames: u64,
    /// Requests before whose refusal some were.
    pub requests: u64,
    /// Of those, the ones that were served then.
    pub served: u64,
}

impl EarlyFrees {
    /// Says what was freed early.
    pub(super) fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  freed early   {} frames, before {} requests were to be refused, {} of which were served then; at most {} frames or one larger block, and {} ms, ahead of the host's reclaim",
            count(self.frames),
            count(self.requests),
            count(self.served),
            count(self.most_frames),
            count(self.most_ms)
        )
    }
}

/// The blocks that reclaim frees, in step with the rows.
pub(super) struct Early<'a> {
    ahead: Ahead,
    reclaimed: &'a [Reclaimed],
    /// The first of them that is still to come.
    next: usize,
    /// Frames that are free ahead of their time, and how many.
    freed: FrameSet,
    outstanding: u64,
    pub counts: EarlyFrees,
}

impl<'a> Early<'a> {
    /// Begins before the first row of a machine whose frames end at `end`.
    pub fn new(ahead: Ahead, reclaimed: &'a [Reclaimed], end: Pfn) -> Early<'a> {
        let counts =
            EarlyFrees { most_frames: ahead.frames, most_ms: ahead.ns / 1_000_000, ..EarlyFrees::default() };
        Early { ahead, reclaimed, next: 0, freed: FrameSet::new(end), outstanding: 0, counts }
    }

    /// Returns the blocks to be freed next, about `frames` of them, and counts them as free. `event` is the number of
    /// the event at hand.
    pub fn pick(&mut self, now: Nanos, event: u64, frames: u64) -> Vec<(Pfn, Order)> {
        while self.reclaimed.get(self.next).is_some_and(|r| r.time_ns <= now.0) {
            self.next += 1;
        }
        let most = self.ahead.frames.saturating_sub(self.outstanding);
        let wanted = frames;
        let until = now.0.saturating_add(self.ahead.ns);
        let mut picked = Vec::new();
        let mut sum = 0;
        // Blocks that are passed over are looked at again the next time.
        let looked_at = (2 * self.ahead.frames as usize).min(MOST_LOOKED_AT);
        for r in self.reclaimed[self.next..].iter().take(looked_at) {
            let frames = r.order.frames().0;
            // A folio that is larger than the bound goes alone: reclaim cannot free a part of it.
            let too_many = sum + frames > most && self.outstanding + sum > 0;
            if r.time_ns > until || sum >= wanted || too_many {
                break;
            }
            let pfn = Pfn(u64::from(r.pfn));
            if u64::from(r.since) < event && self.freed.count(pfn, Frames(frames)) == 0 {
                _ = self.freed.insert(pfn, Frames(frames));
                sum += frames;
                picked.push((pfn, r.order));
            }
        }
        self.outstanding += sum;
        self.counts.frames += sum;
        picked
    }

    /// Notes that the host frees a block, or uses its frames for something else; says whether it was freed early.
    #[inline]
    pub fn settle(&mut self, pfn: Pfn, order: Order) -> bool {
        if self.outstanding == 0 {
            return false;
        }
        let frames = self.freed.count(pfn, order.frames());
        self.freed.remove(pfn, order.frames());
        self.outstanding -= frames;
        frames > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folio_above_the_bound_comes_alone() {
        let folio = |time_ns, pfn| Reclaimed { time_ns, pfn, since: 0, order: Order::of(9) };
        let reclaimed = [folio(10, 512), folio(20, 1024)];
        let mut early = Early::new(Ahead { frames: 164, ns: 100 }, &reclaimed, Pfn(2048));
        assert_eq!(early.pick(Nanos(0), 1, CLUSTER), [(Pfn(512), Order::of(9))]);
        assert_eq!(early.pick(Nanos(0), 1, CLUSTER), []);
        assert!(early.settle(Pfn(512), Order::of(9)));
        assert_eq!(early.pick(Nanos(10), 1, CLUSTER), [(Pfn(1024), Order::of(9))]);
    }
}
