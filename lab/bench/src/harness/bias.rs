//! How many frees are checked without a locked instruction: counted in a pass of its own, so that counting costs no row
//! anything.

use super::allocator::Allocator;
use pageyard::{Context, Order, Pfn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An allocator whose frees are counted.
pub(crate) struct Counted {
    allocator: Arc<dyn Allocator + Send + Sync>,
    frees: AtomicU64,
    biased: AtomicU64,
}

impl Counted {
    /// Wraps an allocator, if it biases anything to CPUs.
    pub fn new(allocator: Arc<dyn Allocator + Send + Sync>) -> Option<Arc<Counted>> {
        allocator.revocations()?;
        Some(Arc::new(Counted { allocator, frees: AtomicU64::new(0), biased: AtomicU64::new(0) }))
    }

    /// Returns the share of the frees so far that went without a locked instruction.
    pub fn share(&self) -> f64 {
        // ORDER: Relaxed, here and below: it is read when all threads have ended.
        self.biased.load(Relaxed) as f64 / self.frees.load(Relaxed).max(1) as f64
    }

    fn count(&self, block: Pfn) {
        self.frees.fetch_add(1, Relaxed);
        self.biased.fetch_add(self.allocator.is_biased_here(block).unwrap_or(false).into(), Relaxed);
    }
}

impl Allocator for Counted {
    fn take(&self, cpu: usize) -> Option<Pfn> {
        self.allocator.take(cpu)
    }

    fn give(&self, cpu: usize, block: Pfn) {
        self.count(block);
        self.allocator.give(cpu, block);
    }

    fn take_many(&self, cpu: usize, out: &mut [Pfn]) -> usize {
        self.allocator.take_many(cpu, out)
    }

    fn give_many(&self, cpu: usize, blocks: &[Pfn]) {
        blocks.iter().for_each(|block| self.count(*block));
        self.allocator.give_many(cpu, blocks);
    }

    fn take_in(&self, cpu: usize, context: Context) -> Option<Pfn> {
        self.allocator.take_in(cpu, context)
    }

    fn give_in(&self, cpu: usize, context: Context, block: Pfn) {
        self.count(block);
        self.allocator.give_in(cpu, context, block);
    }

    fn take_of(&self, cpu: usize, order: Order) -> Option<Pfn> {
        self.allocator.take_of(cpu, order)
    }

    fn give_of(&self, cpu: usize, block: Pfn, order: Order) {
        self.count(block);
        self.allocator.give_of(cpu, block, order);
    }
}
