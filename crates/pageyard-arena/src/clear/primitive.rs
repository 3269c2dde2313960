//! The instructions that a processor can clear memory with, each on its own.

use super::extent::Extent;
use super::fill;

/// A way to write zeros.
///
/// Two kinds: those that store through the caches, after which the frame is hot, and those that bypass them, which do
/// not read what they overwrite and evict nothing, but leave the frame in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Primitive {
    /// The C library's `memset`.
    Memset,
    /// `rep stosb`: the processor's own loop, which may skip reading lines of extents that it finds large enough.
    ///
    /// # Linux
    /// `clear_page_erms`; `clear_pages` over an extent.
    RepStosb,
    /// `rep stosq`.
    ///
    /// # Linux
    /// `clear_page_rep`.
    RepStosq,
    /// Non-temporal stores of 32 bytes.
    Avx2,
    /// Non-temporal stores of 64 bytes, a cache line each.
    Avx512,
    /// `clzero`: a cache line by its address, on AMD processors.
    Clzero,
    /// `dc zva`: a block of 64 bytes or more by its address, on aarch64.
    DcZva,
}

impl Primitive {
    /// Every one, whether or not this processor has it.
    pub const ALL: [Primitive; 7] = [
        Primitive::Memset,
        Primitive::RepStosb,
        Primitive::RepStosq,
        Primitive::Avx2,
        Primitive::Avx512,
        Primitive::Clzero,
        Primitive::DcZva,
    ];

    /// Returns its name, as reports have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Primitive::Memset => "memset",
            Primitive::RepStosb => "rep-stosb",
            Primitive::RepStosq => "rep-stosq",
            Primitive::Avx2 => "avx2-nt",
            Primitive::Avx512 => "avx512-nt",
            Primitive::Clzero => "clzero",
            Primitive::DcZva => "dc-zva",
        }
    }

    /// Finds one by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Primitive> {
        Primitive::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Returns whether this processor has it.
    #[must_use]
    pub fn is_available(self) -> bool {
        fill::has(self)
    }

    /// Iterates over those that this processor has.
    pub fn available() -> impl Iterator<Item = Primitive> {
        Primitive::ALL.into_iter().filter(|p| p.is_available())
    }

    /// Returns whether its stores bypass the caches. They are then ordered by [`Primitive::fence`] only.
    #[must_use]
    pub const fn bypasses_caches(self) -> bool {
        matches!(self, Primitive::Avx2 | Primitive::Avx512 | Primitive::Clzero)
    }

    /// Returns whether one call over a large extent can do better than many over its frames.
    ///
    /// # Linux
    /// Whether the architecture defines `clear_pages`.
    #[must_use]
    pub const fn takes_extents(self) -> bool {
        matches!(self, Primitive::RepStosb | Primitive::RepStosq)
    }

    /// Writes zeros with one call, and does not order the stores: see [`Primitive::fence`].
    ///
    /// A primitive that this processor lacks is replaced by `memset`.
    ///
    /// ```compile_fail,E0133
    /// # use pageyard_arena::clear::{Extent, Primitive};
    /// # use pageyard_arena::backing::{Backing, Mapping};
    /// # let mut mapping = Mapping::new(4096, Backing::AnonymousBase).unwrap();
    /// // Another thread could read what was there before, even after a lock.
    /// Primitive::Avx2.write(&mut mapping.extent());
    /// ```
    ///
    /// # Safety
    /// [`Primitive::fence`] is called on this thread before another one reads these bytes, or learns of them: stores
    /// that bypass the caches are ordered by nothing else.
    pub unsafe fn write(self, extent: &mut Extent<'_>) {
        if extent.bytes() == 0 {
            return;
        }
        let chosen = if self.is_available() { self } else { Primitive::Memset };
        // SAFETY: 1. The extent is whole frames that nothing else uses. 2. The processor has the instructions.
        unsafe { fill::fill(chosen, extent.start(), extent.bytes()) }
    }

    /// Orders the stores of this primitive before whatever follows, as releasing the frames to another CPU.
    pub fn fence(self) {
        if self.bypasses_caches() {
            fill::fence();
        }
    }
}
