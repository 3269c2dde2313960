//! One ring between this program and the kernel: two indices and a power of two of entries, in memory that both map.
//!
//! A ring's state is in that shared memory alone; no process keeps indices of its own. So the process that takes over
//! from one that was killed finds the ring exactly as it stood. Indices count from 0 and wrap at 2^32; they are never
//! masked but to find an entry.

use rustix::net::xdp::XdpRingOffset;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

/// A ring of entries `T`: addresses in the fill and completion rings, descriptors in the RX and TX rings.
///
/// # Concurrency
/// One process at a time uses this side of a ring; the kernel has the other. Reading indices is anybody's.
pub struct Ring<T> {
    producer: &'static AtomicU32,
    consumer: &'static AtomicU32,
    entries: *mut T,
    size: u32,
    _entry: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Describes the ring that was mapped at `at`.
    ///
    /// # Safety
    /// The mapping is a ring of AF_XDP with `size` entries of type `T` and these offsets, and is never unmapped.
    pub unsafe fn new(at: *mut u8, offsets: &XdpRingOffset, size: u32) -> Ring<T> {
        // SAFETY: 1. The kernel's offsets lie in the mapping, aligned. 2. The kernel changes them as atomics. 3. They
        // live on.
        let index = |offset: u64| unsafe { &*at.add(offset as usize).cast::<AtomicU32>() };
        Ring {
            producer: index(offsets.producer),
            consumer: index(offsets.consumer),
            // SAFETY: within the mapping, as above.
            entries: unsafe { at.add(offsets.desc as usize).cast() },
            size,
            _entry: PhantomData,
        }
    }

    /// Returns how many entries were ever published.
    pub fn produced(&self) -> u32 {
        // ORDER: Acquire pairs with the producer's release in `publish`, here or in the kernel: entries below it are
        // written.
        self.producer.load(Acquire)
    }

    /// Returns how many entries were ever given back.
    pub fn consumed(&self) -> u32 {
        // ORDER: Acquire pairs with the consumer's release in `release`, here or in the kernel: entries below it were
        // read.
        self.consumer.load(Acquire)
    }

    /// Returns how many entries were published and not given back.
    pub fn len(&self) -> u32 {
        // The consumer's index first: it is never past a producer's that is read later.
        let consumed = self.consumed();
        self.produced().wrapping_sub(consumed)
    }

    /// Returns how many entries can be published now.
    pub fn room(&self) -> u32 {
        self.size - self.len().min(self.size)
    }

    fn entry(&self, index: u32) -> *mut T {
        // SAFETY: the mask keeps it within the ring.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }

    /// Reads entry `index`, which was published; what has been given back may be anything.
    pub fn read(&self, index: u32) -> T {
        // SAFETY: within the ring; entries are plain numbers, and volatile because the kernel may reuse what was given
        // back.
        unsafe { self.entry(index).read_volatile() }
    }

    /// Writes entry `index`, for which there is [room](Ring::room).
    pub fn write(&self, index: u32, value: T) {
        // SAFETY: within the ring, and no one reads it before it is published.
        unsafe { self.entry(index).write_volatile(value) }
    }

    /// Publishes every entry below `to`: one store, which happens or does not.
    pub fn publish(&self, to: u32) {
        // ORDER: Release pairs with the acquire of the side that consumes: the entries are written before they are
        // seen.
        self.producer.store(to, Release);
    }

    /// Gives back every entry below `to`: one store, which happens or does not.
    pub fn release(&self, to: u32) {
        // ORDER: Release pairs with the acquire of the side that produces: the entries are read before they are
        // overwritten.
        self.consumer.store(to, Release);
    }

    /// Returns the entries that were published and not given back, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = T> + '_ {
        let from = self.consumed();
        (0..self.produced().wrapping_sub(from).min(self.size)).map(move |n| self.read(from.wrapping_add(n)))
    }
}

// SAFETY: it is addresses of memory that stays mapped; the type's rule says who uses which side.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}
