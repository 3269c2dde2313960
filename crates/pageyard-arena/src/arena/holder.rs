//! How a value holds the arena that its bytes are of.

use super::memory::Arena;
use pageyard::{Observer, PerCpu};
use std::rc::Rc;
use std::sync::Arc;

/// How a [`Block`](super::Block), [`Pages`](super::Pages), [`Blocks`](super::Blocks) or
/// [`Handle`](crate::handle::Handle) holds its arena: by reference, which costs nothing, or by a count, so that the
/// arena lives as long as they do and can be kept beside them.
///
/// ```
/// use pageyard::{Order, TryLock};
/// use pageyard_arena::{Arena, Block};
/// use std::sync::Arc;
///
/// struct Cache {
///     arena: Arc<Arena<TryLock>>,
///     blocks: Vec<Block<Arc<Arena<TryLock>>>>,
/// }
///
/// let arena = Arc::new(Arena::builder().size(4 << 20).build_locked()?);
/// let mut cache = Cache { arena: arena.clone(), blocks: Vec::new() };
/// cache.blocks.push(Block::alloc_in(cache.arena.clone(), Order::HUGE)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Safety
/// Each call returns the same arena, also where this value was moved meanwhile, and so does each call on a clone. The
/// arena lives as long as this value and its clones.
pub unsafe trait ArenaRef {
    /// How the arena's per-CPU lists are protected.
    type PerCpu: PerCpu;
    /// The observer of its blocks; `()` unless set.
    type Observer: Observer;

    /// Returns the arena.
    fn arena(&self) -> &Arena<Self::PerCpu, Self::Observer>;
}

// SAFETY: a reference is to one arena, as long as it can be used.
unsafe impl<P: PerCpu, O: Observer> ArenaRef for &Arena<P, O> {
    type PerCpu = P;
    type Observer = O;

    #[inline(always)]
    fn arena(&self) -> &Arena<P, O> {
        self
    }
}

// SAFETY: the count keeps the arena, at one address.
unsafe impl<P: PerCpu, O: Observer> ArenaRef for Arc<Arena<P, O>> {
    type PerCpu = P;
    type Observer = O;

    #[inline(always)]
    fn arena(&self) -> &Arena<P, O> {
        self
    }
}

// SAFETY: as above.
unsafe impl<P: PerCpu, O: Observer> ArenaRef for Rc<Arena<P, O>> {
    type PerCpu = P;
    type Observer = O;

    #[inline(always)]
    fn arena(&self) -> &Arena<P, O> {
        self
    }
}
