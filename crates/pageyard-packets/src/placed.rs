//! Where tables and rings lie: in the caller's memory, or in their own (feature `alloc`).

use crate::error::PacketsError;
#[cfg(feature = "alloc")]
use pageyard_sync::OwnedMemory;
use pageyard_sync::{Carver, LINE, Metadata};

/// Slices of zeros, and the memory that they lie in, if that is their own.
pub(crate) struct Placed<T> {
    pub slices: T,
    /// Dropped with the slices, which never leave their owner for longer than a borrow of it.
    #[cfg(feature = "alloc")]
    _memory: Option<OwnedMemory>,
}

/// Returns the bytes that `carve` takes.
pub(crate) fn bytes<'m, T>(carve: impl FnOnce(&mut Carver<'m>) -> T) -> usize {
    let mut counting = Carver::counting();
    carve(&mut counting);
    counting.used() + LINE
}

impl<T> Placed<T> {
    /// Carves slices from the caller's memory.
    pub fn new<'m>(
        metadata: Metadata<'m>,
        carve: impl Fn(&mut Carver<'m>) -> T,
    ) -> Result<Placed<T>, PacketsError> {
        let needed = bytes(&carve);
        let mut carver = Carver::of(metadata.into_memory());
        if !carver.has(needed - LINE) {
            return Err(PacketsError::MemoryTooSmall { needed });
        }
        Ok(Placed {
            slices: carve(&mut carver),
            #[cfg(feature = "alloc")]
            _memory: None,
        })
    }

    /// Carves slices from memory of their own.
    #[cfg(feature = "alloc")]
    pub fn owned(carve: impl Fn(&mut Carver<'static>) -> T) -> Result<Placed<T>, PacketsError> {
        let needed = bytes(&carve);
        let mut memory = OwnedMemory::zeroed(needed).ok_or(PacketsError::NoMemory { needed })?;
        // SAFETY: the slices are dropped with the memory, and are lent for no longer than a borrow of their owner.
        let bytes = unsafe { memory.for_its_owner() };
        Ok(Placed { slices: carve(&mut Carver::of(bytes)), _memory: Some(memory) })
    }
}
