//! The choice among primitives: by what is known of the caches, or by the size of the extent.

use super::extent::Extent;
use super::measure;
use super::primitive::Primitive;
use super::unit::{Preemption, Unit};
use pageyard::{Caches, Frames, PAGE_SIZE};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Clears frames with the primitive that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clearer {
    cached: Primitive,
    streaming: Primitive,
    threshold: Frames,
    preemption: Preemption,
}

/// Frames that a streaming primitive clears at least, where the state of the caches is unknown, and no measurement was
/// made: the last-level cache of a small machine.
const THRESHOLD: Frames = Frames((8 << 20) / PAGE_SIZE);

impl Clearer {
    /// Makes one that uses `cached` for frames that are hot and for extents smaller than `threshold`, `streaming` for
    /// others.
    ///
    /// # Errors
    /// The primitive that this processor lacks.
    pub fn new(cached: Primitive, streaming: Primitive, threshold: Frames) -> Result<Clearer, Primitive> {
        match [cached, streaming].into_iter().find(|p| !p.is_available()) {
            Some(lacking) => Err(lacking),
            None => Ok(Clearer::chosen(cached, streaming, threshold)),
        }
    }

    /// Makes one that uses a single primitive for everything.
    ///
    /// # Errors
    /// The primitive, if this processor lacks it.
    pub fn only(primitive: Primitive) -> Result<Clearer, Primitive> {
        Clearer::new(primitive, primitive, THRESHOLD)
    }

    /// Returns what was measured on this machine, the first time that it is asked for, which takes a moment.
    pub fn of_this_machine() -> &'static Clearer {
        static MEASURED: OnceLock<Clearer> = OnceLock::new();
        MEASURED.get_or_init(Clearer::measured)
    }

    /// Measures what is fastest here: one frame that is hot, an extent that no cache can hold, and the size from which
    /// the second way wins even over memory that the caches may hold. Takes a moment and 64 MiB.
    #[must_use]
    pub fn measured() -> Clearer {
        measure::choose().unwrap_or(Clearer::chosen(Primitive::Memset, Primitive::Memset, THRESHOLD))
    }

    pub(super) const fn chosen(cached: Primitive, streaming: Primitive, threshold: Frames) -> Clearer {
        Clearer { cached, streaming, threshold, preemption: Preemption::Full }
    }

    /// Makes an arena clear as a kernel with this model of preemption does: under [`Preemption::None`] and
    /// [`Preemption::Voluntary`] large extents in units ([`Unit::of_linux`]), and between two the thread yields its
    /// CPU. Without it extents are cleared whole.
    #[must_use]
    pub fn under(self, preemption: Preemption) -> Clearer {
        Clearer { preemption, ..self }
    }

    /// Returns the model of preemption that extents are cleared under.
    #[must_use]
    pub fn preemption(&self) -> Preemption {
        self.preemption
    }

    /// Returns the primitive for frames that are hot.
    #[must_use]
    pub fn cached(&self) -> Primitive {
        self.cached
    }

    /// Returns the primitive for frames that are cold.
    #[must_use]
    pub fn streaming(&self) -> Primitive {
        self.streaming
    }

    /// Returns the size from which an extent is cleared as if it were cold.
    #[must_use]
    pub fn threshold(&self) -> Frames {
        self.threshold
    }

    /// Returns the primitive for an extent.
    #[must_use]
    #[inline]
    pub fn choice(&self, frames: Frames, caches: Caches) -> Primitive {
        match caches {
            Caches::Hot => self.cached,
            Caches::Cold => self.streaming,
            Caches::Unknown if frames.0 < self.threshold.0 => self.cached,
            Caches::Unknown => self.streaming,
        }
    }

    /// Clears an extent; its zeros are visible to whatever the caller hands it to afterwards.
    pub fn clear(&self, mut extent: Extent<'_>, caches: Caches) {
        let primitive = self.choice(extent.frames(), caches);
        // SAFETY: the fence follows.
        unsafe { primitive.write(&mut extent) };
        primitive.fence();
    }

    /// Clears several extents, with one fence for all of them.
    pub fn clear_batch<'m>(&self, extents: impl IntoIterator<Item = Extent<'m>>, caches: Caches) {
        let mut fence = false;
        for mut extent in extents {
            let primitive = self.choice(extent.frames(), caches);
            fence |= primitive.bypasses_caches();
            // SAFETY: the fence follows, after the last.
            unsafe { primitive.write(&mut extent) };
        }
        if fence {
            self.fence();
        }
    }

    /// Orders all that it cleared before whatever follows.
    #[inline]
    pub fn fence(&self) {
        // Whichever of the two bypasses the caches, the fence is the same.
        let bypasses = self.streaming.bypasses_caches();
        if bypasses { self.streaming.fence() } else { self.cached.fence() }
    }

    /// Clears an extent in units, and calls `pause` between two of them. The primitive is the one for the whole extent.
    pub fn clear_in(&self, extent: Extent<'_>, unit: Unit, caches: Caches, pause: &mut dyn FnMut()) {
        let primitive = self.choice(extent.frames(), caches);
        clear_in(primitive, extent, unit, pause);
    }

    /// Clears an extent on so many threads at once, the caller among them, in units, and returns when all of it is
    /// clear.
    ///
    /// Each takes parts of 2 MiB or more until none is left; where a thread cannot be started, the others do its share.
    pub fn clear_parallel(&self, extent: Extent<'_>, unit: Unit, caches: Caches, threads: usize) {
        let primitive = self.choice(extent.frames(), caches);
        let huge = pageyard::PAGEBLOCK_ORDER.frames().0;
        let part = extent.frames().0.div_ceil(threads.max(1) as u64).next_multiple_of(huge);
        let rest = Mutex::new(extent);
        let next = || rest.lock().unwrap_or_else(PoisonError::into_inner).take_front(Frames(part));
        let work = || std::iter::from_fn(next).for_each(|part| clear_in(primitive, part, unit, &mut || ()));
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // The caller does all of it if it has to.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
    }
}

/// Clears an extent with one primitive in units, a fence after each, since whatever runs in `pause` may look.
pub fn clear_in(primitive: Primitive, mut extent: Extent<'_>, unit: Unit, pause: &mut dyn FnMut()) {
    while let Some(mut part) = extent.take_front(unit.frames()) {
        // SAFETY: the fence follows.
        unsafe { primitive.write(&mut part) };
        primitive.fence();
        if extent.frames().0 > 0 {
            pause();
        }
    }
}
