//! Handles: numbers that can be checked, so that a call on something that was deleted is refused.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// Values by their handles: `N` at a time, at most 65,536.
pub(crate) struct Table<T: 'static, const N: usize> {
    slots: [Slot<T>; N],
    /// How many handles were made: none is made twice.
    made: AtomicU64,
}

struct Slot<T> {
    /// The handle of the value here; 0 where there is none.
    handle: AtomicU64,
    value: AtomicPtr<T>,
}

impl<T: Sync + 'static, const N: usize> Table<T, N> {
    pub(crate) const fn new() -> Table<T, N> {
        let slots = [const { Slot { handle: AtomicU64::new(0), value: AtomicPtr::new(null_mut()) } }; N];
        Table { slots, made: AtomicU64::new(0) }
    }

    /// Keeps a value; returns its handle, or `None` where there is no room.
    pub(crate) fn insert(&self, value: T) -> Option<u64> {
        let value = Box::into_raw(Box::new(value));
        // ORDER: Relaxed: the handle below publishes the value.
        let take = |slot: &Slot<T>| slot.value.compare_exchange(null_mut(), value, Relaxed, Relaxed).is_ok();
        let Some(nth) = self.slots.iter().position(take) else {
            // SAFETY: it was boxed above, and no slot has it.
            drop(unsafe { Box::from_raw(value) });
            return None;
        };
        let handle = (self.made.fetch_add(1, Relaxed) + 1) << 16 | nth as u64;
        // ORDER: Release pairs with the Acquire in `get`.
        self.slots[nth].handle.store(handle, Release);
        Some(handle)
    }

    /// Returns the value of a handle.
    ///
    /// # Safety
    /// The value is not removed while it is used.
    #[inline]
    pub(crate) unsafe fn get(&self, handle: u64) -> Option<&T> {
        let slot = self.slots.get((handle & 0xffff) as usize)?;
        // ORDER: Acquire pairs with the Release in `insert`.
        if handle == 0 || slot.handle.load(Acquire) != handle {
            return None;
        }
        // SAFETY: the handle says that the value is there, and the caller that it stays.
        Some(unsafe { &*slot.value.load(Relaxed) })
    }

    /// Removes the value of a handle. Of several calls for one handle, exactly one gets it.
    pub(crate) fn remove(&self, handle: u64) -> Option<Box<T>> {
        let slot = self.slots.get((handle & 0xffff) as usize).filter(|_| handle != 0)?;
        // ORDER: Acquire pairs with the Release in `insert`.
        slot.handle.compare_exchange(handle, 0, Acquire, Relaxed).ok()?;
        // ORDER: Relaxed: the slot is this call's until it is null.
        let value = slot.value.swap(null_mut(), Relaxed);
        // SAFETY: it was boxed by `insert`, and only the call that took the handle away gets here.
        Some(unsafe { Box::from_raw(value) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_good_until_its_value_is_removed() {
        let table = Table::<String, 2>::new();
        let (a, b) = (table.insert("a".into()).unwrap(), table.insert("b".into()).unwrap());
        assert_eq!(table.insert("c".into()), None);
        // SAFETY: nothing else removes anything.
        unsafe {
            assert_eq!((table.get(a).unwrap().as_str(), table.get(b).unwrap().as_str()), ("a", "b"));
            assert_eq!((table.remove(a).as_deref().map(String::as_str), table.remove(a)), (Some("a"), None));
            let c = table.insert("c".into()).unwrap();
            assert!(c != a && table.get(a).is_none() && table.get(c).unwrap() == "c");
            for wrong in [0, 1, 2, u64::MAX, c + 1, c ^ 1 << 40] {
                assert!(table.get(wrong).is_none() && table.remove(wrong).is_none(), "{wrong:#x}");
            }
        }
        assert!(table.remove(b).is_some());
    }
}
