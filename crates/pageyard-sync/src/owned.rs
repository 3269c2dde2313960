//! Memory of one's own, from the global allocator.

use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;

/// Zeroed memory, which a system with virtual memory sets aside only as it is touched.
pub struct OwnedMemory(*mut u8, Layout);

// SAFETY: it is owned memory, and nothing reaches it but its owner, which is `Sync` itself.
unsafe impl Send for OwnedMemory {}
// SAFETY: as above.
unsafe impl Sync for OwnedMemory {}

impl OwnedMemory {
    /// Takes memory from the global allocator; `None` where it has too little.
    #[must_use]
    pub fn zeroed(bytes: usize) -> Option<OwnedMemory> {
        // A large alignment would have some allocators clear the memory themselves, and so touch all of it.
        let layout = Layout::from_size_align(bytes.max(1), 16).ok()?;
        // SAFETY: the layout is not empty.
        let at = unsafe { alloc_zeroed(layout) };
        // Not `then_some`: a null pointer must not be dropped.
        (!at.is_null()).then(|| OwnedMemory(at, layout))
    }

    /// Lends the memory to whatever owns it.
    ///
    /// # Safety
    /// It is lent once, and what is made of it is dropped before the memory and lent out for no longer than a borrow of
    /// their owner.
    pub unsafe fn for_its_owner(&mut self) -> &'static mut [u8] {
        // SAFETY: 1. It is that large and initialised. 2. Nothing else has it, and it lives long enough, as the caller
        // promised.
        unsafe { core::slice::from_raw_parts_mut(self.0, self.1.size()) }
    }
}

impl Drop for OwnedMemory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and what was made of it was dropped before, as the caller of
        // `for_its_owner` promised.
        unsafe { dealloc(self.0, self.1) };
    }
}
