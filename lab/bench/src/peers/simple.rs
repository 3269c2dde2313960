//! What a program would use that has no page allocator: a queue, a list behind a lock, a bitmap behind a lock.

use crate::harness::allocator::Allocator;
use bitmap_allocator::{BitAlloc, BitAlloc1M};
use crossbeam_queue::ArrayQueue;
use pageyard::{Order, Pfn};
use std::sync::{Mutex, MutexGuard};

/// Takes a lock that no panic can have poisoned: what is locked does not panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics under it")
}

/// crossbeam's bounded queue of frames, lock-free, first in first out: no checks, one order.
pub(crate) struct Queue(ArrayQueue<u32>);

impl Queue {
    /// Makes a queue of `n` blocks.
    pub fn new(n: u32) -> Queue {
        let queue = ArrayQueue::new(n as usize);
        (0..n).for_each(|block| queue.push(block).expect("it has room for all"));
        Queue(queue)
    }
}

impl Allocator for Queue {
    #[inline(always)]
    fn take(&self, _: usize) -> Option<Pfn> {
        self.0.pop().map(|block| Pfn(block.into()))
    }

    #[inline(always)]
    fn give(&self, _: usize, block: Pfn) {
        let _ = self.0.push(block.0 as u32);
    }
}

/// A list of free blocks, linked through a word of each, behind one lock: no checks, one order.
pub(crate) struct LockedList(Mutex<List>);

struct List {
    /// The newest block, and behind each block the next one; `u32::MAX` ends the list.
    first: u32,
    next: Box<[u32]>,
}

impl LockedList {
    /// Makes a list of `n` blocks.
    pub fn new(n: u32) -> LockedList {
        let next = (1..n).chain([u32::MAX]).collect();
        LockedList(Mutex::new(List { first: 0, next }))
    }
}

impl Allocator for LockedList {
    #[inline(always)]
    fn take(&self, _: usize) -> Option<Pfn> {
        let mut list = lock(&self.0);
        let first = list.first;
        list.first = *list.next.get(first as usize)?;
        Some(Pfn(first.into()))
    }

    #[inline(always)]
    fn give(&self, _: usize, block: Pfn) {
        let mut list = lock(&self.0);
        list.next[block.0 as usize] = list.first;
        list.first = block.0 as u32;
    }
}

/// `bitmap-allocator`, a tree of bitmaps, behind one lock.
pub(crate) struct LockedBitmap {
    bits: Mutex<Box<BitAlloc1M>>,
    order: Order,
}

impl LockedBitmap {
    /// Makes one over frames `0..n`, at most 4 GiB of them, for blocks of `order`. A larger one would not fit on a
    /// thread's stack, where it is made.
    pub fn new(n: u64, order: Order) -> LockedBitmap {
        let mut bits: Box<BitAlloc1M> = Box::default();
        bits.insert(0..(n as usize).min(BitAlloc1M::CAP));
        LockedBitmap { bits: Mutex::new(bits), order }
    }
}

impl Allocator for LockedBitmap {
    #[inline(always)]
    fn take(&self, cpu: usize) -> Option<Pfn> {
        self.take_of(cpu, self.order)
    }

    #[inline(always)]
    fn give(&self, cpu: usize, block: Pfn) {
        self.give_of(cpu, block, self.order);
    }

    #[inline(always)]
    fn take_of(&self, _: usize, order: Order) -> Option<Pfn> {
        let mut bits = lock(&self.bits);
        let first = match order.get() {
            0 => bits.alloc(),
            order => bits.alloc_contiguous(None, 1 << order, order.into()),
        };
        first.map(|first| Pfn(first as u64))
    }

    #[inline(always)]
    fn give_of(&self, _: usize, block: Pfn, order: Order) {
        let mut bits = lock(&self.bits);
        match order.get() {
            0 => bits.dealloc(block.0 as usize),
            order => bits.dealloc_contiguous(block.0 as usize, 1 << order),
        };
    }
}
