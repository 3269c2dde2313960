//! Biased pageblocks without a kernel's help: each sequence is one step, which no thread stops inside of, so a barrier
//! has nothing to wait for. Lists are kept by a try-lock.

use pageyard::engine::{CpuLists, DescriptorWatch, ListIdx, Pushed, RawPlace, TagPlace, Unchanged, Winning};
use pageyard::{CpuId, PerCpu, TryLock};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};

thread_local! {
    /// The CPU that a thread runs on; none where it has no sequences.
    static CPU: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Puts the calling thread on a CPU.
pub fn run_on(cpu: Option<u32>) {
    CPU.set(cpu);
}

/// Such pageblocks.
pub struct Biased;

/// Sequences run one at a time.
static SEQUENCE: Mutex<()> = Mutex::new(());

/// Replaces a tag in one step if the state of its pageblock's bias, as the raw word has it, is `state`.
fn win(place: TagPlace<'_>, from: u8, to: u8, state: impl Fn(u32) -> bool) -> Winning {
    let raw = place.raw();
    let _sequence = SEQUENCE.lock().unwrap();
    // Not through the engine's atomics: those are steps that a thread may stop before.
    // SAFETY: behind the word at `at` lies the bias, whose metadata outlives the call; so does the tag.
    let (bias, tag) = unsafe {
        (
            AtomicU64::from_ptr(raw.words.cast_mut().add(raw.at + 1)),
            AtomicU8::from_ptr(raw.tags.cast_mut().add(raw.frame)),
        )
    };
    if !state(bias.load(SeqCst) as u32) {
        return Winning::Elsewhere;
    }
    match tag.compare_exchange(from, to, SeqCst, SeqCst) {
        Ok(_) => Winning::Won,
        Err(_) => Winning::Lost,
    }
}

// SAFETY: 1. Lists are kept as `TryLock` keeps them. 2. A sequence is one step under a lock, so a barrier finds none
// under way.
unsafe impl PerCpu for Biased {
    const NAME: &'static str = "biased, each sequence a step";
    const BIASES: bool = true;

    fn pop(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx) -> Option<u32> {
        TryLock.pop(lists, cpu, list)
    }

    fn push(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        item: u32,
        watch: DescriptorWatch<'_>,
        win: impl FnOnce() -> bool,
    ) -> Pushed {
        // As sequences do: first the win, then the push.
        if !win() {
            return Pushed::Lost;
        }
        match TryLock.push(lists, cpu, list, item, watch, || true) {
            Pushed::NoRoom => Pushed::Won,
            other => other,
        }
    }

    fn pop_many(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        TryLock.pop_many(lists, cpu, list, out)
    }

    fn push_many(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        TryLock.push_many(lists, cpu, list, items, watch)
    }

    fn refill(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        TryLock.refill(lists, cpu, list, items, watch)
    }

    fn spill(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        TryLock.spill(lists, cpu, list, out)
    }

    fn drain(&self, lists: CpuLists<'_>, cpu: CpuId, give: impl FnMut(ListIdx, &mut [u32])) -> u32 {
        TryLock.drain(lists, cpu, give)
    }

    fn reaches_others(&self) -> bool {
        true
    }

    fn win_biased(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        let Some(cpu) = CPU.get() else { return Winning::Elsewhere };
        win(place, from, to, |bias| bias == cpu | RawPlace::BIASED)
    }

    fn win_shared(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        if CPU.get().is_none() {
            return Winning::Elsewhere;
        }
        win(place, from, to, |bias| bias == 0)
    }

    fn own_cpu(&self) -> Option<CpuId> {
        CPU.get().map(CpuId)
    }

    fn barrier_on(&self, _: CpuId) -> bool {
        true
    }
}
