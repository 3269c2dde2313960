//! Pools of buffers: pages of an arena that are used again and again without the allocator.
//!
//! A thread that receives takes buffers from a pool's [`Consumer`]; they may be dropped on any other, and come back
//! through the pool's ring. It is [`PagePool`] with bytes behind its pages.
//!
//! ```
//! use pageyard_arena::{Arena, pool::PoolConfig};
//!
//! let arena = Arena::builder().size(16 << 20).build_locked()?;
//! let pool = arena.pool(PoolConfig::new())?;
//! let mut receiver = pool.consumer().unwrap();
//! std::thread::scope(|s| {
//!     let mut burst = receiver.get_bulk(64).unwrap();
//!     burst.iter_mut().for_each(|buffer| buffer[..5].copy_from_slice(b"hello"));
//!     s.spawn(move || drop(burst)); // all 64 go back, with two locked instructions
//! });
//! let buffer = receiver.get().unwrap();
//! assert_eq!((buffer.len(), &buffer[..5]), (4096, &b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::arena::{Arena, ArenaRef};
use pageyard::{Observer, PAGE_SIZE, PerCpu, Pfn, forward_page_allocator};
use pageyard_packets::{PagePool, PoolBatch, PoolConsumer, PoolPage, UseTable, Values};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

pub use pageyard_packets::{GetError, PacketsError, PoolConfig, PoolStats, PutError};

/// The arena's engine, visible to its pools only: anyone who can call it can free any block.
struct Engine<A>(A);

forward_page_allocator! { unsafe [A: ArenaRef + Sync] Engine<A>, this => this.0.arena().yard() }

type Pages<A> = PagePool<'static, Engine<A>>;

/// A pool of buffers of one size over an arena. `A` is [how it holds its arena](ArenaRef).
///
/// One [`Consumer`] at a time takes buffers; they are given back from any thread. Dropped, the pool gives its pages
/// back to the arena; those whose buffers were forgotten, or are out as [addresses](Buffer::into_raw), stay allocated.
pub struct Pool<A: ArenaRef + Sync> {
    // Declared first, so dropped first: it uses the table.
    pages: ManuallyDrop<Pages<A>>,
    /// It stays where it is while the pool is moved.
    _table: Arc<UseTable<'static>>,
}

impl<P: PerCpu, O: Observer> Arena<P, O> {
    /// Makes a pool of buffers.
    ///
    /// # Errors
    /// As [`PagePool::owned`].
    pub fn pool(&self, config: PoolConfig) -> Result<Pool<&Self>, PacketsError> {
        Pool::new_in(self, config)
    }
}

impl<A: ArenaRef + Sync> Pool<A> {
    /// Makes a pool as [`Arena::pool`] does, which holds its arena as given.
    ///
    /// # Errors
    /// As there.
    pub fn new_in(arena: A, config: PoolConfig) -> Result<Pool<A>, PacketsError> {
        let frames = arena.arena().mapping().frames();
        let table = Arc::new(UseTable::owned(Pfn(0)..Pfn(frames.0), Values::None)?);
        // SAFETY: the table stays at its address until the last count goes, which is the pool's; that is dropped after
        // all that refers to the table, none of which outlives a borrow of the pool.
        let lent: &'static UseTable<'static> = unsafe { &*Arc::as_ptr(&table) };
        let pages = PagePool::owned(Engine(arena), lent, config, ())?;
        Ok(Pool { pages: ManuallyDrop::new(pages), _table: table })
    }

    fn arena(&self) -> &Arena<A::PerCpu, A::Observer> {
        arena(&self.pages)
    }

    /// Returns the pool's consumer; none while there is one.
    #[must_use]
    pub fn consumer(&self) -> Option<Consumer<'_, A>> {
        self.pages.consumer().map(Consumer)
    }

    /// Takes a buffer back that is out as an address: for descriptors that hold only numbers. It
    /// succeeds once for each [`Buffer::into_raw`].
    ///
    /// # Errors
    /// [`PutError`] where no buffer of this pool is out under the address; nothing changed.
    pub fn take_raw(&self, at: NonNull<u8>) -> Result<Buffer<'_, A>, PutError> {
        if self.arena().is_inert() {
            return Err(PutError::NotInUse);
        }
        let pfn = self.arena().frame_at(at).ok_or(PutError::OutsideTable)?;
        Ok(Buffer(ManuallyDrop::new(self.pages.take_raw(pfn.address())?)))
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.pages.stats()
    }
}

impl<A: ArenaRef + Sync> Drop for Pool<A> {
    fn drop(&mut self) {
        if !self.arena().is_inert() {
            // SAFETY: once, and it is not used any more.
            unsafe { ManuallyDrop::drop(&mut self.pages) };
        }
    }
}

fn arena<A: ArenaRef + Sync>(pages: &Pages<A>) -> &Arena<A::PerCpu, A::Observer> {
    pages.allocator().0.arena()
}

/// The one consumer of a pool. Dropped, it leaves its cache to the next one.
pub struct Consumer<'p, A: ArenaRef + Sync>(PoolConsumer<'p, 'static, Engine<A>>);

impl<'p, A: ArenaRef + Sync> Consumer<'p, A> {
    /// Takes a buffer. It holds zeros, or what its last owner wrote.
    ///
    /// # Errors
    /// As [`PoolConsumer::get`].
    #[inline]
    pub fn get(&mut self) -> Result<Buffer<'p, A>, GetError> {
        let arena = arena(self.0.pool());
        arena.check_alive().map_err(GetError::Alloc)?;
        Ok(Buffer(ManuallyDrop::new(self.0.get(&arena.cx())?)))
    }

    /// Takes up to `count` buffers, and up to 64; fewer where memory is short.
    ///
    /// # Errors
    /// As [`PoolConsumer::get_bulk`].
    pub fn get_bulk(&mut self, count: usize) -> Result<Buffers<'p, A>, GetError> {
        let arena = arena(self.0.pool());
        arena.check_alive().map_err(GetError::Alloc)?;
        Ok(Buffers(ManuallyDrop::new(self.0.get_bulk(&arena.cx(), count)?)))
    }

    /// Gives a buffer back to the cache, without a locked instruction. A buffer of another pool goes back to that pool.
    #[inline]
    pub fn put(&mut self, buffer: Buffer<'p, A>) {
        let arena = arena(self.0.pool());
        if !arena.is_inert() {
            // A refused buffer is dropped, so it goes back to its own pool.
            let _ = self.0.put(&arena.cx(), buffer.into_page());
        }
    }

    /// Gives buffers back to the cache.
    pub fn put_bulk(&mut self, buffers: Buffers<'p, A>) {
        let arena = arena(self.0.pool());
        if !arena.is_inert() {
            let _ = self.0.put_bulk(&arena.cx(), buffers.into_batch());
        }
    }
}

/// A buffer of a pool: bytes, which go back to the pool when this is dropped, on whatever thread.
///
/// It does not outlive its pool:
///
/// ```compile_fail,E0505
/// # use pageyard_arena::{Arena, pool::PoolConfig};
/// # let arena = Arena::builder().size(4 << 20).build_locked().unwrap();
/// let pool = arena.pool(PoolConfig::new()).unwrap();
/// let buffer = pool.consumer().unwrap().get().unwrap();
/// drop(pool);
/// assert_eq!(buffer.len(), 4096);
/// ```
pub struct Buffer<'p, A: ArenaRef + Sync>(ManuallyDrop<PoolPage<'p, 'static, Engine<A>>>);

impl<'p, A: ArenaRef + Sync> Buffer<'p, A> {
    fn into_page(self) -> PoolPage<'p, 'static, Engine<A>> {
        let mut buffer = ManuallyDrop::new(self);
        // SAFETY: it is taken once, and the buffer is not dropped.
        unsafe { ManuallyDrop::take(&mut buffer.0) }
    }

    /// Turns it into its address: for the descriptors of a queue, or a device. The pool notes that it is out;
    /// [`Pool::take_raw`] turns the address back into a buffer. Use the pointer only until somebody may have done that.
    #[must_use = "the buffer is out until it is taken back"]
    pub fn into_raw(self) -> NonNull<u8> {
        let at = self.as_ptr();
        let _ = self.into_page().into_raw();
        at
    }

    /// Returns where it lies.
    #[must_use]
    #[inline]
    pub fn as_ptr(&self) -> NonNull<u8> {
        // SAFETY: the page is the arena's.
        unsafe { arena(self.0.pool()).address(self.0.pfn()) }
    }

    fn bytes(&self) -> usize {
        (self.0.order().frames().0 * PAGE_SIZE) as usize
    }
}

impl<A: ArenaRef + Sync> Deref for Buffer<'_, A> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: 1. The page is allocated, and this is its holder. 2. The kernel's memory is initialised, and owners
        //         write initialised bytes.
        unsafe { std::slice::from_raw_parts(self.as_ptr().as_ptr(), self.bytes()) }
    }
}

impl<A: ArenaRef + Sync> DerefMut for Buffer<'_, A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().as_ptr(), self.bytes()) }
    }
}

impl<A: ArenaRef + Sync> Drop for Buffer<'_, A> {
    #[inline]
    fn drop(&mut self) {
        if !arena(self.0.pool()).is_inert() {
            // SAFETY: once, and it is not used any more.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

impl<A: ArenaRef + Sync> fmt::Debug for Buffer<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffer").field(&self.0.pfn()).finish()
    }
}

/// Up to 64 buffers of a pool, which go back together when this is dropped, on whatever thread.
pub struct Buffers<'p, A: ArenaRef + Sync>(ManuallyDrop<PoolBatch<'p, 'static, Engine<A>>>);

impl<'p, A: ArenaRef + Sync> Buffers<'p, A> {
    fn into_batch(self) -> PoolBatch<'p, 'static, Engine<A>> {
        let mut buffers = ManuallyDrop::new(self);
        // SAFETY: it is taken once, and the buffers are not dropped.
        unsafe { ManuallyDrop::take(&mut buffers.0) }
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Borrows the bytes of each.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let arena = arena(self.0.pool());
        let bytes = (self.0.pool().order().frames().0 * PAGE_SIZE) as usize;
        self.0.pfns().map(move |pfn| {
            // SAFETY: 1. The page is allocated, and this is its holder, borrowed exclusively. 2. No two pages share a
            //         byte, and each is lent once. 3. The kernel's memory is initialised, and owners write initialised
            //         bytes.
            unsafe { std::slice::from_raw_parts_mut(arena.address(pfn).as_ptr(), bytes) }
        })
    }

    /// Takes one out.
    pub fn pop(&mut self) -> Option<Buffer<'p, A>> {
        self.0.pop().map(|page| Buffer(ManuallyDrop::new(page)))
    }

    /// Adds one.
    ///
    /// # Errors
    /// The buffer, where there are 64, or it is of another pool.
    pub fn push(&mut self, buffer: Buffer<'p, A>) -> Result<(), Buffer<'p, A>> {
        self.0.push(buffer.into_page()).map_err(|page| Buffer(ManuallyDrop::new(page)))
    }
}

impl<A: ArenaRef + Sync> Drop for Buffers<'_, A> {
    fn drop(&mut self) {
        if !arena(self.0.pool()).is_inert() {
            // SAFETY: once, and they are not used any more.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

impl<A: ArenaRef + Sync> fmt::Debug for Buffers<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.pfns()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::{Frames, TryLock};
    use std::collections::HashSet;

    fn arena(bytes: usize) -> Arc<Arena<TryLock>> {
        Arc::new(Arena::builder().size(bytes).build_locked().unwrap())
    }

    /// Checks that all frames of an arena are free.
    fn all_free(arena: &Arena<TryLock>) {
        let census = arena.audit().unwrap();
        assert!(census.is_conserved() && census.allocated == Frames::ZERO, "{census:?}");
    }

    #[test]
    fn buffers_are_bytes_of_their_own_until_they_are_dropped() {
        let arena = arena(4 << 20);
        let pool = Pool::new_in(arena.clone(), PoolConfig::new()).unwrap();
        let mut consumer = pool.consumer().unwrap();
        let mut held: Vec<_> = (0..100).map(|_| consumer.get().unwrap()).collect();
        let mut burst = consumer.get_bulk(100).unwrap();
        assert_eq!(burst.len(), PoolConfig::BATCH);
        burst.iter_mut().for_each(|bytes| bytes.fill(7));
        held.iter_mut().for_each(|buffer| buffer.fill(9));
        assert!(burst.iter_mut().all(|bytes| bytes.iter().all(|byte| *byte == 7)));
        let all = held.iter().map(|b| b.as_ptr()).chain(burst.iter_mut().map(|b| NonNull::from(b).cast()));
        assert_eq!(all.collect::<HashSet<_>>().len(), 164);
        std::thread::scope(|s| {
            let half = held.split_off(50);
            s.spawn(move || drop(half));
            s.spawn(move || drop(burst));
        });
        held.into_iter().for_each(|buffer| consumer.put(buffer));
        assert_eq!(pool.stats().recycle_ring, 50 + 64);
        drop(consumer);
        drop(pool);
        all_free(&arena);
    }

    #[test]
    fn a_buffer_that_is_out_as_an_address_comes_back_once() {
        let arena = arena(4 << 20);
        let (pool, other) = (arena.pool(PoolConfig::new()).unwrap(), arena.pool(PoolConfig::new()).unwrap());
        let mut buffer = pool.consumer().unwrap().get().unwrap();
        buffer[0] = 42;
        let at = buffer.into_raw();
        assert_eq!(other.take_raw(at).unwrap_err(), PutError::NotInUse);
        // SAFETY: within the mapping.
        let inside = unsafe { at.add(8) };
        assert_eq!(pool.take_raw(inside).unwrap_err(), PutError::OutsideTable);
        let buffer = pool.take_raw(at).unwrap();
        assert_eq!((buffer[0], pool.take_raw(at).unwrap_err()), (42, PutError::NotInUse));
        let foreign = Box::new([0_u8; 4096]);
        assert_eq!(pool.take_raw(NonNull::from(&*foreign).cast()).unwrap_err(), PutError::OutsideTable);
    }

    #[test]
    fn a_buffer_of_another_pool_goes_back_to_that() {
        let arena = arena(4 << 20);
        let (pool, other) = (arena.pool(PoolConfig::new()).unwrap(), arena.pool(PoolConfig::new()).unwrap());
        let (mut consumer, mut others) = (pool.consumer().unwrap(), other.consumer().unwrap());
        consumer.put(others.get().unwrap());
        consumer.put_bulk(others.get_bulk(10).unwrap());
        let mut mixed = consumer.get_bulk(1).unwrap();
        let refused = mixed.push(others.get().unwrap()).unwrap_err();
        drop((refused, mixed, consumer, others));
        assert_eq!((pool.stats().recycle_ring, other.stats().recycle_ring), (1, 12));
        drop((pool, other));
        all_free(&arena);
    }

    #[test]
    fn a_pool_without_room_in_its_ring_gives_pages_to_the_arena() {
        let arena = arena(4 << 20);
        let pool = arena.pool(PoolConfig { ring: 1, ..PoolConfig::new() }).unwrap();
        let held: Vec<_> = (0..200).map(|_| pool.consumer().unwrap().get().unwrap()).collect();
        std::thread::scope(|s| s.spawn(move || drop(held)).join()).unwrap();
        assert!(pool.stats().recycle_ring_full >= 190, "{:?}", pool.stats());
        let mut most = Vec::new();
        let mut consumer = pool.consumer().unwrap();
        while let Ok(buffers) = consumer.get_bulk(64) {
            most.push(buffers);
        }
        assert!(consumer.get().is_err());
        let out: usize = most.iter().map(Buffers::len).sum();
        assert_eq!(
            Frames(out as u64),
            arena.mapping().frames(),
            "no reserve is kept back, and no page was lost"
        );
        drop((most, consumer));
        drop(pool);
        all_free(&arena);
    }
}
