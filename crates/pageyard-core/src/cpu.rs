//! A CPU's handle on an allocator: its calls, without naming the CPU each time.

use crate::allocator::{Cx, PageAllocator};
use crate::error::{AllocError, FreeError};
use crate::request::Request;
use crate::units::{CpuId, Order, Pfn};

/// The calls of an allocator that run on one CPU.
///
/// It can be copied, and gives no exclusive use of the CPU: which calls may overlap depends on the allocator, as where
/// each call names the CPU.
#[derive(Debug)]
pub struct Cpu<'a, A: ?Sized> {
    allocator: &'a A,
    cpu: CpuId,
}

impl<A: ?Sized> Clone for Cpu<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: ?Sized> Copy for Cpu<'_, A> {}

impl<'a, A: PageAllocator + ?Sized> Cpu<'a, A> {
    /// Makes the handle of a CPU. Calls are refused where the allocator has no such CPU.
    #[must_use]
    #[inline]
    pub const fn new(allocator: &'a A, cpu: CpuId) -> Cpu<'a, A> {
        Cpu { allocator, cpu }
    }

    /// Returns the allocator.
    #[must_use]
    #[inline]
    pub const fn allocator(&self) -> &'a A {
        self.allocator
    }

    /// Returns where its calls run, for calls that it does not have.
    #[must_use]
    #[inline]
    pub const fn cx(&self) -> Cx {
        Cx::on(self.cpu)
    }

    /// Allocates one block: of an order, for contents that do not move, at once or not at all; or as a [`Request`]
    /// says.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`].
    #[inline(always)]
    pub fn alloc(&self, request: impl Into<Request>) -> Result<Pfn, AllocError> {
        self.allocator.alloc(&self.cx(), &request.into())
    }

    /// Frees a block.
    ///
    /// # Errors
    /// As [`PageAllocator::free`].
    #[inline(always)]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.allocator.free(&self.cx(), pfn, order)
    }

    /// Allocates blocks until `out` is full or an allocation fails; returns how many it wrote, from the front.
    #[inline]
    pub fn alloc_bulk(&self, request: impl Into<Request>, out: &mut [Pfn]) -> usize {
        self.allocator.alloc_bulk(&self.cx(), &request.into(), out)
    }

    /// Frees blocks of one order; `wrong` is called for each one that is refused, and the others are freed nonetheless.
    #[inline]
    pub fn free_bulk(&self, pfns: &[Pfn], order: Order, wrong: &mut dyn FnMut(Pfn, FreeError)) {
        self.allocator.free_bulk(&self.cx(), pfns, order, wrong);
    }
}
