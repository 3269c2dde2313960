//! How one CPU's lists are kept to one user at a time.

use super::list::{List, Pushed};
use super::lists::CpuLists;
use crate::engine::geometry::BATCH;
use crate::engine::map::bias::TagPlace;
use crate::engine::map::cpu_words::CpuWords;
use crate::engine::map::watch::{DescriptorWatch, Unchanged};
use crate::engine::pcp::tuning::ListIdx;
use pageyard_core::units::CpuId;

/// Keeps a list to one user at a time, without ever waiting.
///
/// Each operation either has the list to itself from its first load to its last store, or reports that it did nothing:
/// an empty pop, a push of nothing. Callers then go to the zone.
///
/// # Safety
/// 1. No two operations on one list may overlap: an item that two pops return is a frame that two callers own.
/// 2. With [`BIASES`](PerCpu::BIASES): [`win_biased`](PerCpu::win_biased) and [`win_shared`](PerCpu::win_shared)
///    replace a tag in one step, and only if since they began no other thread ran on their CPU and no
///    [`barrier`](PerCpu::barrier) or [`barrier_on`](PerCpu::barrier_on) that returned `true` reached it; and only if
///    what they read of the bias in between allows it.
/// 3. It uses lists, words and places only during the method call that received them, and under the numbers it
///    received. (They come only from an engine, or from `LooseLists`, which is `unsafe` to make. So the methods are
///    safe to call, and check no number twice.)
///
/// An implementation outside this crate names those types, and needs the feature `percpu-impl`.
pub unsafe trait PerCpu: Sync {
    /// The name of an engine that uses it.
    const NAME: &'static str;

    /// Whether calls never overlap at all, so that a check needs no locked instruction.
    const ALONE: bool = false;

    /// Whether any thread may name any CPU, at any time: then a value that is dropped can free its frames.
    const ANYWHERE: bool = false;

    /// Whether frees need no locked instruction in a pageblock biased to their CPU. Then every tag won by a thread with
    /// sequences is won by [`win_biased`](PerCpu::win_biased) or [`win_shared`](PerCpu::win_shared).
    const BIASES: bool = false;

    /// Takes the newest item of a CPU's list; `None` if the CPU does not exist. Here and below, a variant that finds
    /// out its CPU at run time takes the list of *that* CPU, if it has lists, and `cpu` only has to exist.
    fn pop(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx) -> Option<u32>;

    /// Adds an item that a caller frees if `win` confirms that it is the caller's, and only while `watch` still stands
    /// (`DescriptorWatch::stands`).
    ///
    /// Here and in the two below, what is watched is read while the list is the caller's alone, so that a change made
    /// before [`barrier`](PerCpu::barrier) or a drain is seen by every push that ends after it.
    fn push(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        item: u32,
        watch: DescriptorWatch<'_>,
        win: impl FnOnce() -> bool,
    ) -> Pushed;

    /// Takes the newest items, in no order; returns how many.
    fn pop_many(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize;

    /// Adds items that callers freed, while `watch` stands (`Unchanged::stands`); returns how many, from the front.
    fn push_many(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize;

    /// Adds items that came from the zone, while `watch` stands (`Unchanged::stands`); returns how many, from the
    /// front.
    fn refill(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize;

    /// Takes the oldest items, for the zone; returns how many.
    fn spill(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize;

    /// Takes everything from the lists of a CPU, oldest first and a batch at a time, and hands it to `give` with the
    /// list's number. Returns how many lists were in use the whole time.
    fn drain(&self, lists: CpuLists<'_>, cpu: CpuId, mut give: impl FnMut(ListIdx, &mut [u32])) -> u32 {
        for list in ListIdx::all() {
            let Some(len) = lists.get(cpu, list).map(|l| l.len()) else { return 0 };
            // What others add meanwhile is theirs to drain.
            let mut items = [0; BATCH];
            let items = &mut items[..CpuLists::drained_at_once(list)];
            for _ in 0..=len / items.len() {
                let n = self.spill(lists, cpu, list, items);
                if n == 0 {
                    break;
                }
                give(list, &mut items[..n]);
            }
        }
        0
    }

    /// Ensures that every push under way, on any CPU, has ended or will reread its watch. Returns whether it could.
    ///
    /// Where a drain has the same effect, there is nothing to do.
    fn barrier(&self) -> bool {
        true
    }

    /// Returns whether an allocation may drain the lists of CPUs other than its own.
    fn reaches_others(&self) -> bool;

    /// Adds to the word of CPU `cpu`, or of the CPU it finds itself on, so that nothing is lost; returns the new value.
    /// If it cannot, adds to the shared word and returns `None`.
    fn add(&self, words: CpuWords<'_>, cpu: CpuId, n: u64) -> Option<u64> {
        words.add_locked(cpu, n)
    }

    /// Replaces a tag by plain accesses, in a sequence that found the pageblock biased to its own CPU.
    fn win_biased(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        let _ = (place, from, to);
        Winning::Elsewhere
    }

    /// Replaces a tag by a compare-and-swap, the last instruction of a sequence that found the pageblock shared.
    fn win_shared(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        let _ = (place, from, to);
        Winning::Elsewhere
    }

    /// Replaces eight aligned tags as [`win_biased`](PerCpu::win_biased) does one: all or none. Returns `Elsewhere` if
    /// the place is not aligned.
    fn win_eight_biased(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        let _ = (place, from, to);
        Winning::Elsewhere
    }

    /// Replaces eight aligned tags as [`win_shared`](PerCpu::win_shared) does one: all or none.
    fn win_eight_shared(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        let _ = (place, from, to);
        Winning::Elsewhere
    }

    /// Returns the CPU that the calling thread runs on, if pageblocks can be biased to it.
    fn own_cpu(&self) -> Option<CpuId> {
        None
    }

    /// Ensures that every sequence under way on `cpu` has ended or begins anew, as [`barrier`](PerCpu::barrier) does on
    /// every CPU. Returns whether it could.
    fn barrier_on(&self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }
}

/// The result of an attempt to win a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Winning {
    /// It was what it had to be, and is replaced.
    Won,
    /// It was something else.
    Lost,
    /// The pageblock's bias does not allow it in this way, or the thread has no sequences.
    Elsewhere,
    /// It was interrupted, and did nothing.
    Interrupted,
}

/// Lists that only their CPU uses: nothing keeps other CPUs out, because none comes.
#[derive(Debug)]
pub struct Exclusive {
    reaches_others: bool,
}

impl Exclusive {
    /// Makes it for callers that are never interrupted by another call on the same CPU.
    ///
    /// # Safety
    /// Calls that name the same CPU never overlap (preemption is off, and interrupt handlers do not allocate), and
    /// `drain` is called only for the calling CPU, or while no other call runs.
    ///
    /// A pageblock that is isolated stays out of allocation once each CPU has drained its own lists after that.
    ///
    /// With debug assertions, calls that break the first promise panic where they add to a counter of one CPU at the
    /// same moment.
    #[must_use]
    pub const unsafe fn by_cpu() -> Exclusive {
        Exclusive { reaches_others: false }
    }

    /// Makes it for callers that never overlap at all, but checks frees as if they did. An allocation about to fail
    /// drains the lists of all CPUs.
    ///
    /// # Safety
    /// No two calls overlap.
    #[must_use]
    pub const unsafe fn by_instance() -> Exclusive {
        Exclusive { reaches_others: true }
    }
}

/// An instance that one caller uses at a time: a simulator's one thread, or a kernel before it starts its other CPUs.
///
/// Like [`Exclusive`], and frees are checked without a locked instruction.
#[derive(Debug)]
pub struct Alone(());

impl Alone {
    /// Makes it for callers that never overlap at all.
    ///
    /// # Safety
    /// No two calls overlap.
    #[must_use]
    pub const unsafe fn by_instance() -> Alone {
        Alone(())
    }
}

macro_rules! unguarded {
    () => {
        #[inline(always)]
        fn pop(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx) -> Option<u32> {
            lists.get(cpu, list)?.pop()
        }

        #[inline(always)]
        fn push(
            &self,
            lists: CpuLists<'_>,
            cpu: CpuId,
            list: ListIdx,
            item: u32,
            // A drain runs on the list's own CPU, or while nothing else runs: not in the middle of this.
            _: DescriptorWatch<'_>,
            win: impl FnOnce() -> bool,
        ) -> Pushed {
            lists.get(cpu, list).map_or(Pushed::NoRoom, |l| l.push(item, win))
        }

        #[inline(always)]
        fn pop_many(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
            lists.get(cpu, list).map_or(0, |l| l.pop_many(out))
        }

        #[inline(always)]
        fn push_many(
            &self,
            lists: CpuLists<'_>,
            cpu: CpuId,
            list: ListIdx,
            items: &[u32],
            _: Unchanged<'_>,
        ) -> usize {
            lists.get(cpu, list).map_or(0, |l| l.extend(items))
        }

        fn refill(
            &self,
            lists: CpuLists<'_>,
            cpu: CpuId,
            list: ListIdx,
            items: &[u32],
            _: Unchanged<'_>,
        ) -> usize {
            lists.get(cpu, list).map_or(0, |l| l.refill(items))
        }

        fn spill(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
            lists.get(cpu, list).map_or(0, |l| l.pop_oldest(out))
        }

        #[inline(always)]
        fn add(&self, words: CpuWords<'_>, cpu: CpuId, n: u64) -> Option<u64> {
            words.add_alone(cpu, n)
        }
    };
}

// SAFETY: its maker promised that no two calls overlap that use one list.
unsafe impl PerCpu for Exclusive {
    const NAME: &'static str = "pageyard-exclusive";

    unguarded!();

    fn reaches_others(&self) -> bool {
        self.reaches_others
    }
}

// SAFETY: its maker promised that no two calls overlap.
unsafe impl PerCpu for Alone {
    const NAME: &'static str = "pageyard-alone";
    const ALONE: bool = true;

    unguarded!();

    fn reaches_others(&self) -> bool {
        true
    }
}

/// Times that a drain tries a list's lock. Its holder needs a few instructions, unless it was stopped.
const DRAIN_TRIES: usize = if cfg!(any(pageyard_loom, pageyard_shuttle)) { 1 } else { 1 << 12 };

/// Lists with a lock that is tried once: a call that finds it taken goes to the zone instead.
///
/// Any number of threads, interrupt handlers and signal handlers may call with the same CPU's number.
#[derive(Clone, Copy, Debug, Default)]
pub struct TryLock;

impl TryLock {
    #[inline(always)]
    fn with<T>(list: Option<List<'_>>, none: T, run: impl FnOnce(List<'_>) -> T) -> T {
        let Some(list) = list.filter(List::try_lock) else { return none };
        let result = run(list);
        list.unlock();
        result
    }
}

// SAFETY: every operation runs between a successful `try_lock` and its `unlock`.
unsafe impl PerCpu for TryLock {
    const NAME: &'static str = "pageyard-trylock";
    const ANYWHERE: bool = true;

    #[inline(always)]
    fn pop(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx) -> Option<u32> {
        TryLock::with(lists.get(cpu, list), None, |l| l.pop())
    }

    #[inline(always)]
    fn push(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        item: u32,
        watch: DescriptorWatch<'_>,
        win: impl FnOnce() -> bool,
    ) -> Pushed {
        let push = |l: List<'_>| if watch.stands() { l.push(item, win) } else { Pushed::NoRoom };
        TryLock::with(lists.get(cpu, list), Pushed::NoRoom, push)
    }

    fn pop_many(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        TryLock::with(lists.get(cpu, list), 0, |l| l.pop_many(out))
    }

    fn push_many(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        let push = |l: List<'_>| if watch.stands() { l.extend(items) } else { 0 };
        TryLock::with(lists.get(cpu, list), 0, push)
    }

    fn refill(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        let refill = |l: List<'_>| if watch.stands() { l.refill(items) } else { 0 };
        TryLock::with(lists.get(cpu, list), 0, refill)
    }

    fn spill(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        TryLock::with(lists.get(cpu, list), 0, |l| l.pop_oldest(out))
    }

    /// Retries a list in use for a while, then leaves it: its user may have been stopped.
    fn drain(&self, lists: CpuLists<'_>, cpu: CpuId, mut give: impl FnMut(ListIdx, &mut [u32])) -> u32 {
        let mut busy = 0;
        for list in ListIdx::all() {
            let Some(own) = lists.get(cpu, list) else { return busy };
            let mut items = [0; BATCH];
            let items = &mut items[..CpuLists::drained_at_once(list)];
            // What others add meanwhile is theirs to drain.
            for _ in 0..=own.len() / items.len() {
                let lock = |tries| {
                    (0..tries).any(|_| {
                        own.try_lock() || {
                            core::hint::spin_loop();
                            false
                        }
                    })
                };
                if !lock(DRAIN_TRIES) {
                    busy += 1;
                    break;
                }
                let n = own.pop_oldest(items);
                own.unlock();
                if n == 0 {
                    break;
                }
                give(list, &mut items[..n]);
            }
        }
        busy
    }

    fn reaches_others(&self) -> bool {
        true
    }
}
