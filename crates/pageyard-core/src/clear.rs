//! Clearing frames, for an engine that knows them by number only.

use crate::units::{Order, Pfn};

/// How likely a frame's cache lines are cached before it is cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caches {
    /// The caches probably hold them: the frame was freed a moment ago.
    Hot,
    /// They hold none of it: the frame was used long ago, or never.
    Cold,
    /// Unknown; the size decides.
    Unknown,
}

/// Clears frames for an engine.
///
/// `()` clears nothing, and an engine with it refuses [`ZERO`](crate::RequestFlags::ZERO). A clearer is a type
/// parameter of its engine, not a `dyn` value, so that it costs nothing where there is none.
///
/// # Panics
/// It may panic; the panic goes to the caller of the engine, and the engine stays consistent. A block that was being
/// allocated stays allocated and has no owner: it is leaked, as are the blocks that the same bulk call got before. A
/// block that was being freed is live, as it was.
///
/// # Reentrancy
/// It must not call the engine that calls it, as an [`Observer`](crate::Observer) must not.
///
/// # Linux
/// `clear_highpage`, `kernel_init_pages`.
pub trait Clear: Sync {
    /// Whether it clears anything. An engine can take shorter paths where it does not.
    const ACTIVE: bool = true;

    /// Writes zeros to every byte of a block that no one else uses. The stores need not be ordered before those of the
    /// engine: see [`Clear::fence`].
    fn clear(&self, pfn: Pfn, order: Order, caches: Caches);

    /// Orders the stores of every `clear` before whatever follows. An engine calls it once, before it hands out or
    /// frees what was cleared.
    fn fence(&self) {}
}

impl Clear for () {
    const ACTIVE: bool = false;

    #[inline(always)]
    fn clear(&self, _: Pfn, _: Order, _: Caches) {}
}

impl<C: Clear> Clear for &C {
    const ACTIVE: bool = C::ACTIVE;

    #[inline(always)]
    fn clear(&self, pfn: Pfn, order: Order, caches: Caches) {
        (**self).clear(pfn, order, caches);
    }

    #[inline(always)]
    fn fence(&self) {
        (**self).fence();
    }
}
