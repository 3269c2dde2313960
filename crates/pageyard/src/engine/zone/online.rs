//! How much of a zone is online, and the watermarks that follow from it.

use pageyard_core::units::Frames;
use pageyard_core::watermark::Watermarks;
// Not `pageyard-sync`'s atomics: nothing here is part of a protocol, and a model checker need not try its orders.
#[cfg(not(pageyard_loom))]
use core::sync::atomic::Ordering::AcqRel;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The state of a zone that changes when pageblocks go offline or come online.
// ORDER: Relaxed, where nothing else is said: watermarks are policy, and order nothing.
pub(crate) struct Online {
    /// Frames that are managed: at the start, what the memory map says.
    managed: AtomicU64,
    min: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
    promo: AtomicU64,
    /// Changes of any zone, where it is the largest.
    #[cfg_attr(pageyard_loom, allow(dead_code, reason = "pageblocks that go offline are not modelled"))]
    changes: AtomicU64,
}

impl Online {
    /// Makes it for a zone as the memory map has it.
    pub(crate) fn new(managed: Frames, marks: Watermarks) -> Online {
        let word = |frames: Frames| AtomicU64::new(frames.0);
        Online {
            managed: word(managed),
            min: word(marks.min),
            low: word(marks.low),
            high: word(marks.high),
            promo: word(marks.promo),
            changes: AtomicU64::new(0),
        }
    }

    /// Returns the managed frames.
    pub(crate) fn managed(&self) -> Frames {
        Frames(self.managed.load(Relaxed))
    }

    /// Adds frames that came online, or takes away those that went offline.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn change(&self, frames: Frames, online: bool) {
        self.managed.fetch_add(if online { frames.0 } else { frames.0.wrapping_neg() }, Relaxed);
    }

    /// Sets them while nothing else runs.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn set_managed(&self, frames: Frames) {
        self.managed.store(frames.0, Relaxed);
    }

    /// Returns the minimum.
    #[inline]
    pub(crate) fn min(&self) -> Frames {
        Frames(self.min.load(Relaxed))
    }

    /// Returns the low watermark.
    #[inline]
    pub(crate) fn low(&self) -> Frames {
        Frames(self.low.load(Relaxed))
    }

    /// Returns the high watermark.
    #[inline]
    pub(crate) fn high(&self) -> Frames {
        Frames(self.high.load(Relaxed))
    }

    /// Returns all of them: where they change meanwhile, some old and some new.
    pub(crate) fn marks(&self) -> Watermarks {
        let promo = Frames(self.promo.load(Relaxed));
        Watermarks { min: self.min(), low: self.low(), high: self.high(), promo }
    }

    /// Counts a change; returns how many there are.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn count_change(&self) -> u64 {
        // ORDER: AcqRel pairs with itself, here and in `changes`: what one call changed and stored before it is seen
        // by, and comes before what is stored by, each call that comes after it.
        self.changes.fetch_add(1, AcqRel) + 1
    }

    /// Returns how many there are.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn changes(&self) -> u64 {
        // ORDER: AcqRel, as above: an addition of nothing, because a load would not come before anything.
        self.changes.fetch_add(0, AcqRel)
    }

    /// Changes the watermarks.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn set_marks(&self, marks: Watermarks) {
        let all = [(&self.min, marks.min), (&self.low, marks.low), (&self.high, marks.high)];
        all.iter().for_each(|(word, frames)| word.store(frames.0, Relaxed));
        self.promo.store(marks.promo.0, Relaxed);
    }
}
