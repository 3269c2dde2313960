//! One pass over memory with one way of clearing.

use crate::harness::clock::now_ns;
use crate::harness::team::cpus;
use pageyard::{Caches, Frames, PAGE_SIZE};
use pageyard_arena::backing::{Backing, BackingError, Mapping, Prefault};
use pageyard_arena::clear::{Clearer, Extent, NON_PREEMPT_BATCH, Preemption, Primitive, Unit, clear_in};
use serde::Serialize;
use std::mem::MaybeUninit;

/// How much is cleared with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Mode {
    /// A frame of 4 KiB, whose stores are ordered before the next is begun.
    Page,
    /// The kernel's batch of 32 MiB; of scattered frames, 64 of them with one fence.
    Batch,
    /// All of the extent.
    Extent,
}

impl Mode {
    /// Returns its name, as documents have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Page => "page",
            Mode::Batch => "batch",
            Mode::Extent => "extent",
        }
    }

    /// Returns the unit of contiguous memory.
    pub(crate) const fn unit(self) -> Unit {
        match self {
            Mode::Page => Unit::Page,
            Mode::Batch => Unit::Batch(NON_PREEMPT_BATCH),
            Mode::Extent => Unit::Whole,
        }
    }
}

/// Scattered frames that are cleared with one fence.
const SCATTERED: usize = 64;

/// The name of the arena's own choice.
pub const CHOICE: &str = "pageyard";

/// A way of clearing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// A primitive; none for what the arena chooses.
    pub primitive: Option<Primitive>,
    /// How much with one call.
    pub mode: Mode,
}

impl Way {
    /// Every way that this processor has.
    pub fn available() -> impl Iterator<Item = Way> {
        let by = |primitive| [Mode::Page, Mode::Batch, Mode::Extent].map(|mode| Way { primitive, mode });
        Primitive::available().map(Some).chain([None]).flat_map(by)
    }

    /// Returns the primitive's name, or [`CHOICE`].
    #[must_use]
    pub fn name(self) -> &'static str {
        self.primitive.map_or(CHOICE, Primitive::name)
    }

    /// Returns whether an extent of this size is cleared otherwise than by another way: a frame has no pages, and what
    /// is no larger than a batch is one.
    #[must_use]
    pub fn differs_at(self, extent: usize) -> bool {
        match self.mode {
            Mode::Page => true,
            Mode::Batch => extent == PAGE || extent > batch_bytes(extent),
            Mode::Extent => extent > PAGE,
        }
    }

    /// Returns whether a kernel with this model of preemption clears an extent of this size so.
    #[must_use]
    pub fn is_of(self, preemption: Preemption, extent: usize, cold: bool) -> bool {
        let unit = Unit::of_linux(self.primitive_for(extent, cold), preemption);
        let whole = unit.frames().0 >= extent as u64 / PAGE_SIZE;
        self.mode.unit()
            == if whole && extent > PAGE {
                Unit::Whole
            } else if whole {
                Unit::Page
            } else {
                unit
            }
    }

    /// Returns the primitive for an extent.
    #[must_use]
    pub fn primitive_for(self, extent: usize, cold: bool) -> Primitive {
        // A list hands out frames that are hot, and a zone cold ones; of more than that the engine knows nothing.
        let caches = match (extent, cold) {
            (PAGE, true) => Caches::Cold,
            (PAGE, false) => Caches::Hot,
            _ => Caches::Unknown,
        };
        let frames = Frames(extent as u64 / PAGE_SIZE);
        self.primitive.unwrap_or_else(|| Clearer::of_this_machine().choice(frames, caches))
    }

    /// Returns how many bytes are cleared between two fences.
    #[must_use]
    pub fn between_fences(self, extent: usize) -> usize {
        match self.mode {
            Mode::Page => PAGE,
            Mode::Batch => batch_bytes(extent),
            Mode::Extent => extent,
        }
    }
}

/// A frame, in bytes.
pub(crate) const PAGE: usize = PAGE_SIZE as usize;

/// Returns the bytes of a batch: the kernel's batch, or 64 frames that lie apart.
fn batch_bytes(extent: usize) -> usize {
    if extent == PAGE { SCATTERED * PAGE } else { NON_PREEMPT_BATCH.0 as usize * PAGE }
}

/// Memory of the host, in transparent huge pages where it grants them, faulted in.
pub(crate) struct Region(Mapping);

impl Region {
    pub fn new(bytes: usize) -> Result<Region, BackingError> {
        let mut mapping = Mapping::new(bytes, Backing::Anonymous)?;
        mapping.prefault(&Prefault { threads: cpus().len(), progress: &|_, _| () })?;
        Ok(Region(mapping))
    }

    pub fn bytes(&mut self) -> &mut [MaybeUninit<u8>] {
        self.0.as_bytes_mut()
    }
}

/// Extents of memory, cleared one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    /// The size of each.
    extent: usize,
    /// Which of them, in order: cold extents lie where no cache can hold all, in no order that a prefetcher follows.
    which: Vec<u32>,
}

/// Bytes of a pass at least, whatever the size of its extents: the clock then costs nothing, and no cache holds them.
const COLD: usize = 128 << 20;
const HOT: usize = 32 << 20;

impl Pass {
    /// Plans a pass over memory of this many bytes, of which a hot pass uses the first extent only.
    pub fn new(memory: usize, extent: usize, cold: bool) -> Pass {
        let fit = (memory / extent).max(1) as u32;
        let least = if cold { COLD.min(memory) } else { HOT };
        let times = (least / extent).max(1);
        let mut which: Vec<u32> = match cold {
            true => (0..fit).collect(),
            false => vec![0],
        };
        if extent < 1 << 21 {
            fastrand::Rng::with_seed(u64::from(fit)).shuffle(&mut which);
        }
        Pass { extent, which: which.into_iter().cycle().take(times).collect() }
    }

    /// Clears; returns gigabytes a second.
    pub fn run(&self, way: Way, cold: bool, memory: &mut [MaybeUninit<u8>]) -> f64 {
        let start = now_ns();
        self.clear(way, cold, memory);
        (self.which.len() * self.extent) as f64 / (now_ns() - start) as f64
    }

    #[allow(unsafe_code, reason = "a batch has one fence for all of its frames")]
    fn clear(&self, way: Way, cold: bool, memory: &mut [MaybeUninit<u8>]) {
        let primitive = way.primitive_for(self.extent, cold);
        let unit = way.mode.unit();
        if self.extent == PAGE && way.mode == Mode::Batch {
            for batch in self.which.chunks(SCATTERED) {
                // SAFETY: the fence follows.
                batch.iter().for_each(|nth| unsafe { primitive.write(&mut self.nth(*nth, memory)) });
                primitive.fence();
            }
        } else {
            self.which.iter().for_each(|nth| clear_in(primitive, self.nth(*nth, memory), unit, &mut || ()));
        }
    }

    fn nth<'m>(&self, nth: u32, memory: &'m mut [MaybeUninit<u8>]) -> Extent<'m> {
        let at = nth as usize * self.extent;
        Extent::new(&mut memory[at..at + self.extent]).expect("frames of a mapping")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "every byte was written before it is read")]
    fn every_way_clears_what_its_pass_names_and_nothing_else() {
        let (extent, mut region) = (4 * PAGE, Region::new(16 * PAGE).unwrap());
        for way in Way::available() {
            for (extent, pass) in [(PAGE, [3, 1]), (extent, [2, 0])] {
                let bytes = region.bytes();
                bytes.iter_mut().for_each(|b| *b = MaybeUninit::new(1));
                assert!(Pass { extent, which: pass.to_vec() }.run(way, true, bytes) > 0.0);
                for (nth, part) in bytes.chunks(extent).enumerate() {
                    let expected = u8::from(!pass.contains(&(nth as u32)));
                    // SAFETY: written above.
                    assert!(part.iter().all(|b| unsafe { b.assume_init() } == expected), "{way:?}, {nth}");
                }
            }
        }
    }

    #[test]
    fn a_pass_over_cold_memory_reuses_nothing_and_a_hot_one_a_single_extent() {
        let cold = Pass::new(64 << 20, PAGE, true);
        let mut seen = cold.which.clone();
        seen.sort_unstable();
        assert_eq!(seen, (0..(64 << 20) / PAGE as u32).collect::<Vec<_>>());
        let hot = Pass::new(64 << 20, PAGE, false);
        assert_eq!((hot.which.len(), hot.which.iter().max()), (HOT / PAGE, Some(&0)));
        let whole = Pass::new(64 << 20, 64 << 20, true);
        assert_eq!(whole.which, [0]);
    }

    #[test]
    fn a_model_of_preemption_has_one_way_for_each_primitive_and_size() {
        let of = |primitive, preemption, extent| {
            let ways = Way::available().filter(|w| w.primitive == Some(primitive) && w.differs_at(extent));
            ways.filter(|w| w.is_of(preemption, extent, true)).map(|w| w.mode.name()).collect::<Vec<_>>()
        };
        use Preemption::{Full, Lazy, None, Voluntary};
        for preemption in [None, Voluntary] {
            assert_eq!(of(Primitive::RepStosb, preemption, 1 << 30), ["batch"]);
            assert_eq!(of(Primitive::RepStosb, preemption, 2 << 20), ["extent"]);
            assert_eq!(of(Primitive::Memset, preemption, 2 << 20), ["page"]);
        }
        for preemption in [Full, Lazy] {
            assert_eq!(of(Primitive::RepStosb, preemption, 1 << 30), ["extent"]);
        }
        assert_eq!(of(Primitive::Memset, Full, PAGE), ["page"]);
    }

    #[test]
    fn ways_that_are_the_same_at_a_size_are_measured_once() {
        let at = |extent| {
            let ways = Way::available().filter(|w| w.name() == "memset" && w.differs_at(extent));
            ways.map(|w| w.mode.name()).collect::<Vec<_>>()
        };
        assert_eq!(at(PAGE), ["page", "batch"]);
        assert_eq!(at(2 << 20), ["page", "extent"]);
        assert_eq!(at(64 << 20), ["page", "batch", "extent"]);
    }
}
