//! How one CPU's lists are kept from being used twice at once.

use super::lists::List;

/// Keeps a list to one user at a time, without ever waiting.
///
/// Each operation either has the list to itself from its first load to its last store, or says that it did nothing:
/// an empty pop, a push of nothing. Callers then go to the zone.
///
/// # Safety
/// No two operations on one list may overlap: an item that two pops return is a frame that two callers own.
pub unsafe trait PerCpu: Sync {
    /// The name of an engine that uses it.
    const NAME: &'static str;

    /// Takes the newest item.
    fn pop(&self, list: List<'_>) -> Option<u32>;

    /// Adds an item that a caller freed; `false` where the list is full or in use.
    fn push(&self, list: List<'_>, item: u32) -> bool;

    /// Takes the newest items; returns how many.
    fn pop_many(&self, list: List<'_>, out: &mut [u32]) -> usize;

    /// Adds items that callers freed; returns how many, from the front.
    fn push_many(&self, list: List<'_>, items: &[u32]) -> usize;

    /// Adds items that came from the zone; returns how many, from the front.
    fn refill(&self, list: List<'_>, items: &[u32]) -> usize;

    /// Takes the oldest items, for the zone; returns how many.
    fn spill(&self, list: List<'_>, out: &mut [u32]) -> usize;

    /// Says whether an allocation may drain the lists of CPUs other than its own.
    fn reaches_others(&self) -> bool;
}

/// Lists that their CPU uses alone: nothing keeps others away, because no others come.
#[derive(Debug)]
pub struct Exclusive {
    alone: bool,
}

impl Exclusive {
    /// Makes it for callers that are never interrupted by another call on the same CPU.
    ///
    /// # Safety
    /// Calls that name the same CPU never overlap (preemption is off, and interrupt handlers do not allocate), and
    /// `drain` is called for one's own CPU only, or while no other call runs.
    #[must_use]
    pub const unsafe fn by_cpu() -> Exclusive {
        Exclusive { alone: false }
    }

    /// Makes it for callers that never overlap at all, such as a simulator's one thread. An allocation that would fail
    /// then drains the lists of all CPUs.
    ///
    /// # Safety
    /// No two calls overlap.
    #[must_use]
    pub const unsafe fn by_instance() -> Exclusive {
        Exclusive { alone: true }
    }
}

// SAFETY: whoever made it promised that no two calls overlap that use one list.
unsafe impl PerCpu for Exclusive {
    const NAME: &'static str = "pageyard-exclusive";

    #[inline(always)]
    fn pop(&self, list: List<'_>) -> Option<u32> {
        list.pop()
    }

    #[inline(always)]
    fn push(&self, list: List<'_>, item: u32) -> bool {
        list.push(item)
    }

    fn pop_many(&self, list: List<'_>, out: &mut [u32]) -> usize {
        list.pop_many(out)
    }

    fn push_many(&self, list: List<'_>, items: &[u32]) -> usize {
        list.extend(items)
    }

    fn refill(&self, list: List<'_>, items: &[u32]) -> usize {
        list.refill(items)
    }

    fn spill(&self, list: List<'_>, out: &mut [u32]) -> usize {
        list.pop_oldest(out)
    }

    fn reaches_others(&self) -> bool {
        self.alone
    }
}

/// Lists with a lock that is tried once: whoever finds it taken goes to the zone.
///
/// Any number of threads, interrupt handlers and signal handlers may call with the same CPU's number.
#[derive(Clone, Copy, Debug, Default)]
pub struct TryLock;

impl TryLock {
    #[inline(always)]
    fn with<T>(list: List<'_>, none: T, run: impl FnOnce(List<'_>) -> T) -> T {
        if !list.try_lock() {
            return none;
        }
        let result = run(list);
        list.unlock();
        result
    }
}

// SAFETY: every operation runs between a successful `try_lock` and its `unlock`.
unsafe impl PerCpu for TryLock {
    const NAME: &'static str = "pageyard-trylock";

    #[inline(always)]
    fn pop(&self, list: List<'_>) -> Option<u32> {
        TryLock::with(list, None, |l| l.pop())
    }

    #[inline(always)]
    fn push(&self, list: List<'_>, item: u32) -> bool {
        TryLock::with(list, false, |l| l.push(item))
    }

    fn pop_many(&self, list: List<'_>, out: &mut [u32]) -> usize {
        TryLock::with(list, 0, |l| l.pop_many(out))
    }

    fn push_many(&self, list: List<'_>, items: &[u32]) -> usize {
        TryLock::with(list, 0, |l| l.extend(items))
    }

    fn refill(&self, list: List<'_>, items: &[u32]) -> usize {
        TryLock::with(list, 0, |l| l.refill(items))
    }

    fn spill(&self, list: List<'_>, out: &mut [u32]) -> usize {
        TryLock::with(list, 0, |l| l.pop_oldest(out))
    }

    fn reaches_others(&self) -> bool {
        true
    }
}
