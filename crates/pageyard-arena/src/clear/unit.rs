//! How much is cleared with one call of a primitive, and what may happen in between.

use super::primitive::Primitive;
use pageyard::{Frames, PAGE_SIZE};

/// The unit in which a large extent is cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A frame at a time, as kernels did before batches.
    Page,
    /// So many frames at a time.
    Batch(Frames),
    /// All of it with one call.
    Whole,
}

/// A kernel's model of preemption: who may take the CPU from code that runs in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preemption {
    /// No one: long work asks now and then whether it should stop.
    None,
    /// The same, and asks in more places.
    Voluntary,
    /// Anyone at any time.
    Full,
    /// Anyone, but later.
    Lazy,
}

/// The most to clear between two checks whether to stop, if clearing cannot be preempted: 32 MiB.
///
/// # Linux
/// `PROCESS_PAGES_NON_PREEMPT_BATCH`: large enough that the processor can make something of the extent, small enough
/// that at 10 GB/s it takes 3 ms.
pub const NON_PREEMPT_BATCH: Frames = Frames((32 << 20) / PAGE_SIZE);

impl Preemption {
    /// Every model, in the order of the kernel's configuration.
    pub const ALL: [Preemption; 4] =
        [Preemption::None, Preemption::Voluntary, Preemption::Full, Preemption::Lazy];

    /// Returns its name, as the kernel's command line has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Preemption::None => "none",
            Preemption::Voluntary => "voluntary",
            Preemption::Full => "full",
            Preemption::Lazy => "lazy",
        }
    }
}

impl Unit {
    /// Returns the unit that Linux clears contiguous huge pages in.
    ///
    /// # Linux
    /// `clear_contig_highpages`: the whole extent where it can be preempted; otherwise [`NON_PREEMPT_BATCH`], or one
    /// page where the architecture has no `clear_pages`.
    #[must_use]
    pub const fn of_linux(primitive: Primitive, preemption: Preemption) -> Unit {
        match preemption {
            Preemption::Full | Preemption::Lazy => Unit::Whole,
            _ if primitive.takes_extents() => Unit::Batch(NON_PREEMPT_BATCH),
            _ => Unit::Page,
        }
    }

    /// Returns how many frames are cleared with one call; at least one.
    #[must_use]
    pub const fn frames(self) -> Frames {
        match self {
            Unit::Page => Frames(1),
            Unit::Batch(frames) if frames.0 == 0 => Frames(1),
            Unit::Batch(frames) => frames,
            Unit::Whole => Frames(u64::MAX),
        }
    }
}
