//! Memory for metadata, lent by a caller.

/// Memory for an instance's metadata, all zero.
#[derive(Debug)]
pub struct Metadata<'m>(&'m mut [u8]);

impl<'m> Metadata<'m> {
    /// Fills memory with zeros and takes it.
    #[must_use]
    pub fn zeroed(memory: &'m mut [u8]) -> Metadata<'m> {
        memory.fill(0);
        Metadata(memory)
    }

    /// Takes memory that is all zero already, such as a fresh anonymous mapping, without touching it.
    ///
    /// # Safety
    /// Every byte is zero. Otherwise frames may be handed out twice.
    #[must_use]
    pub unsafe fn assume_zeroed(memory: &'m mut [u8]) -> Metadata<'m> {
        Metadata(memory)
    }

    /// Returns the memory.
    #[must_use]
    pub fn into_memory(self) -> &'m mut [u8] {
        self.0
    }
}
