//! [`Rseq`], the engine's third variant, and what interrupted it.

use super::answers::{Counts, Unavailable};
use super::area::{Area, Registered, find, register_thread};
use super::emit::{ABORTED, CARRY, LOST, NOTHING};
use super::{barrier, sequences};
use pageyard::engine::{
    CpuLists, CpuWords, DescriptorWatch, ListIdx, Pushed, RawLists, TagPlace, Unchanged, Winning,
};
use pageyard::{CpuId, PerCpu};
use std::cell::RefCell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// How often a sequence begins before the call goes to the zone instead.
///
/// A debugger that steps through one interrupts it each time; a storm of signals does so now and then.
const BEGINNINGS: u32 = 8;
/// Items that a drain hands over at a time.
const BATCH: usize = 64;
/// Counters: threads pick one by their CPU, so that they seldom meet.
const SHARDS: usize = 16;

/// Per-CPU lists used by restartable sequences: without lock, mask or atomic instruction, by threads and their signal
/// handlers.
///
/// Each operation takes the list of the CPU that the thread really runs on; the CPU that a call names matters only in
/// the slow path. An instance should have lists for as many CPUs as [`possible_cpus`](super::possible_cpus) says; a
/// thread on another CPU, and one that is not registered, is served by the zones.
#[derive(Debug)]
pub struct Rseq<const BIASED: bool = false> {
    area: Area,
    counts: Box<[Shard; SHARDS]>,
    /// Whether the only user is one thread that the kernel knows nothing of.
    pretends: bool,
}

/// [`Rseq`] whose pageblocks are biased to the CPU that takes blocks from them: frees there are checked without a
/// locked instruction, at the price of 18 other instructions. [`bias_pays`](super::bias_pays) says whether it is likely
/// to be worth that.
pub type BiasedRseq = Rseq<true>;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    aborts: AtomicU64,
    fallbacks: AtomicU64,
    strangers: AtomicU64,
    drains: AtomicU64,
}

thread_local! {
    /// Keeps a thread registered that made an instance.
    static MAKER: RefCell<Option<Registered>> = const { RefCell::new(None) };
}

impl Rseq {
    /// Finds out whether this process can use restartable sequences, and registers the calling thread for as long as it
    /// lives. See [`register_thread`] for the others.
    ///
    /// # Errors
    /// [`Unavailable`]: [`pageyard::TryLock`] then does the same work.
    pub fn new() -> Result<Rseq, Unavailable> {
        let registered = register_thread()?;
        let area = find();
        if area.cpu() > i32::MAX as u32 {
            // What is not written by the kernel now never will be.
            return Err(Unavailable::Taken);
        }
        barrier::register()?;
        // A thread that is ending has nothing left to keep it in.
        MAKER.try_with(|maker| drop(maker.replace(Some(registered)))).map_err(|_| Unavailable::Taken)?;
        Ok(Rseq { area, counts: Box::default(), pretends: false })
    }

    /// Makes one that runs the same instructions without the kernel's knowledge, as if the thread were always on `cpu`:
    /// for counting instructions under a simulator.
    ///
    /// # Safety
    /// Only the calling thread uses the instance that it is given to, none of its signal handlers does, and no thread
    /// of this process is registered in an area of this crate.
    #[must_use]
    pub unsafe fn pretending(cpu: CpuId) -> Rseq {
        Rseq { area: Area::pretending(cpu), counts: Box::default(), pretends: true }
    }

    /// Makes it one that biases pageblocks to CPUs.
    #[must_use]
    pub fn biased(self) -> BiasedRseq {
        Rseq { area: self.area, counts: self.counts, pretends: self.pretends }
    }
}

impl<const BIASED: bool> Rseq<BIASED> {
    /// Returns what interrupted it so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        // ORDER: Relaxed, here and below: a counter orders nothing.
        let sum = |field: fn(&Shard) -> &AtomicU64| self.counts.iter().map(|s| field(s).load(Relaxed)).sum();
        let (aborts, fallbacks): (u64, u64) = (sum(|s| &s.aborts), sum(|s| &s.fallbacks));
        let (strangers, drains) = (sum(|s| &s.strangers), sum(|s| &s.drains));
        Counts { aborts, restarts: aborts.saturating_sub(fallbacks), fallbacks, strangers, drains }
    }

    fn count(&self, field: fn(&Shard) -> &AtomicU64) {
        field(&self.counts[self.area.cpu() as usize % SHARDS]).fetch_add(1, Relaxed);
    }

    /// Runs a sequence until it completes or was interrupted too often; none where it had nothing to do.
    #[inline]
    fn run(&self, lists: RawLists, list: ListIdx, mut sequence: impl FnMut() -> i64) -> Option<i64> {
        let answer = sequence();
        if answer >= 0 { Some(answer) } else { self.again(lists, list, answer, &mut sequence) }
    }

    #[cold]
    #[inline(never)]
    fn again(
        &self,
        lists: RawLists,
        list: ListIdx,
        mut answer: i64,
        sequence: &mut dyn FnMut() -> i64,
    ) -> Option<i64> {
        for _ in 1..BEGINNINGS {
            match answer {
                ABORTED => self.count(|s| &s.aborts),
                CARRY => self.carry(lists, list),
                _ => break,
            }
            answer = sequence();
            if answer >= 0 {
                return Some(answer);
            }
        }
        if answer == ABORTED {
            self.count(|s| &s.aborts);
            self.count(|s| &s.fallbacks);
        } else {
            self.note_stranger(lists.cpus);
        }
        None
    }

    /// Counts a call that found nothing to do because its CPU has no lists.
    #[inline(always)]
    fn note_stranger(&self, cpus: u32) {
        if self.area.cpu() >= cpus {
            self.count(|s| &s.strangers);
        }
    }

    // The two below take what they need one by one: a structure would be built in memory before the sequence, hit or
    // not.

    #[cold]
    #[inline(never)]
    fn pop_again(&self, slots: *const *const u8, cpus: u32, list: ListIdx, answer: i64) -> Option<u32> {
        if answer == NOTHING {
            self.note_stranger(cpus);
            return None;
        }
        let lists = RawLists { slots, cpus };
        // SAFETY: as in `pop` below.
        let mut pop = || unsafe { sequences::pop(self.area, lists, list) };
        self.again(lists, list, answer, &mut pop).map(|item| item as u32)
    }

    #[cold]
    #[inline(never)]
    fn push_again(
        &self,
        slots: *const *const u8,
        cpus: u32,
        list: ListIdx,
        item: u32,
        watch: DescriptorWatch<'_>,
        answer: i64,
    ) -> bool {
        if answer == NOTHING {
            self.note_stranger(cpus);
            return false;
        }
        let lists = RawLists { slots, cpus };
        // SAFETY: as in `pop` below.
        let mut push = || unsafe { sequences::push(self.area, lists, list, item, watch) };
        self.again(lists, list, answer, &mut push).is_some()
    }

    /// Moves the count of pops from a list's word to where there is more room for it.
    fn carry(&self, lists: RawLists, list: ListIdx) {
        // SAFETY: as in `pop` below. Where it is interrupted, its caller asks again.
        let (n, head) = unsafe { sequences::take_pops(self.area, lists, list) };
        if n >= 0 {
            // SAFETY: it is of a sequence that ended.
            unsafe { add(head, RawLists::POPPED, n as u64) };
        }
    }

    #[cold]
    #[inline(never)]
    fn unwon(&self, answer: i64) -> Winning {
        match answer {
            ABORTED => {
                self.count(|s| &s.aborts);
                Winning::Interrupted
            }
            LOST => Winning::Lost,
            _ => Winning::Elsewhere,
        }
    }

    #[cold]
    #[inline(never)]
    fn add_again(&self, words: CpuWords<'_>, n: u64, mut answer: i64) -> Option<u64> {
        for _ in 1..BEGINNINGS {
            if answer != ABORTED {
                break;
            }
            self.count(|s| &s.aborts);
            let (again, now) = self.add_once(words, n);
            if again >= 0 {
                return Some(now);
            }
            answer = again;
        }
        if answer == ABORTED {
            self.count(|s| &s.aborts);
            self.count(|s| &s.fallbacks);
        }
        words.add_shared(n);
        None
    }

    // Never inlined: a loop over it would be unrolled into seven sequences.
    #[inline(never)]
    fn add_once(&self, words: CpuWords<'_>, n: u64) -> (i64, u64) {
        // SAFETY: as in `add` below.
        unsafe { sequences::add(self.area, words.raw(), n) }
    }

    /// Adds items; returns how many, and to which list.
    fn extend(
        &self,
        lists: RawLists,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> (usize, *const u8) {
        let mut at = std::ptr::null();
        let n = self.run(lists, list, || {
            // SAFETY: 1. As in `pop` below. 2. The pointer and the length are a slice's.
            let (n, head) =
                unsafe { sequences::push_many(self.area, lists, list, items.as_ptr(), items.len(), watch) };
            at = head;
            n
        });
        (n.unwrap_or(0) as usize, at)
    }
}

/// Adds to a counter of a list, even while the list is in use.
///
/// # Safety
/// `head` came from a sequence that completed, and its lists are alive.
unsafe fn add(head: *const u8, counter: usize, n: u64) {
    // SAFETY: 1. Headers are aligned, and at this offset have a word that others only add to, atomically.
    //         2. It is within memory that allows changes through shared references.
    unsafe { AtomicU64::from_ptr(head.wrapping_add(counter).cast_mut().cast()) }.fetch_add(n, Relaxed);
}

// SAFETY: 1. A sequence runs on the list of one CPU, and commits with its last instruction. The kernel restarts it if
//            another thread, or a signal handler, ran on that CPU since its first: so none overlaps another.
//         2. A drain uses lists only after their slot was pointed elsewhere and every sequence that read it before
//            ended or restarted; it points the slot back when it is done.
unsafe impl<const BIASED: bool> PerCpu for Rseq<BIASED> {
    const NAME: &'static str = if BIASED { "pageyard-biased" } else { "pageyard" };
    const ANYWHERE: bool = true;
    const BIASES: bool = BIASED;

    #[inline(always)]
    fn pop(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx) -> Option<u32> {
        let lists = lists.raw();
        if cpu.0 >= lists.cpus {
            return None;
        }
        // SAFETY: the lists are borrowed for as long as this runs, and `PerCpu` above says why nothing overlaps.
        let answer = unsafe { sequences::pop(self.area, lists, list) };
        if answer >= 0 {
            return Some(answer as u32);
        }
        self.pop_again(lists.slots, lists.cpus, list, answer)
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
        let lists = lists.raw();
        if cpu.0 >= lists.cpus {
            return Pushed::NoRoom;
        }
        if !win() {
            return Pushed::Lost;
        }
        // SAFETY: as in `pop`.
        let answer = unsafe { sequences::push(self.area, lists, list, item, watch) };
        if answer >= 0 || self.push_again(lists.slots, lists.cpus, list, item, watch, answer) {
            Pushed::Kept
        } else {
            Pushed::Won
        }
    }

    fn pop_many(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        let lists = lists.raw();
        if cpu.0 >= lists.cpus || out.is_empty() {
            return 0;
        }
        let n = self.run(lists, list, || {
            // SAFETY: 1. As in `pop`. 2. The pointer and the length are a slice's.
            unsafe { sequences::pop_many(self.area, lists, list, out.as_mut_ptr(), out.len()) }
        });
        n.unwrap_or(0) as usize
    }

    fn push_many(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        let lists = lists.raw();
        if cpu.0 >= lists.cpus || items.is_empty() { 0 } else { self.extend(lists, list, items, watch).0 }
    }

    fn refill(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        let lists = lists.raw();
        if cpu.0 >= lists.cpus || items.is_empty() {
            return 0;
        }
        let (n, head) = self.extend(lists, list, items, watch);
        if n > 0 {
            // SAFETY: it is of a sequence that ended.
            unsafe { add(head, RawLists::REFILLED, n as u64) };
        }
        n
    }

    fn spill(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        let lists = lists.raw();
        if cpu.0 >= lists.cpus || out.is_empty() {
            return 0;
        }
        let mut at = std::ptr::null();
        let n = self.run(lists, list, || {
            // SAFETY: 1. As in `pop`. 2. The pointer and the length are a slice's.
            let (n, head) = unsafe { sequences::spill(self.area, lists, list, out.as_mut_ptr(), out.len()) };
            at = head;
            n
        });
        let n = n.unwrap_or(0);
        if n > 0 {
            // SAFETY: it is of a sequence that ended.
            unsafe { add(at, RawLists::SPILLED, n as u64) };
        }
        n as usize
    }

    /// Takes the lists of a CPU away from its sequences, empties them, and gives them back. Calls that allocate or free
    /// there meanwhile go to the zone; another drain of the same lists meanwhile finds them in use.
    fn drain(&self, lists: CpuLists<'_>, cpu: CpuId, mut give: impl FnMut(ListIdx, &mut [u32])) -> u32 {
        let holds = |list: &ListIdx| lists.get(cpu, *list).is_some_and(|l| !l.is_empty());
        let held = ListIdx::all().filter(holds).count() as u32;
        if held == 0 {
            return 0;
        }
        if !lists.detach(cpu, std::process::id().into()) {
            return held;
        }
        let _attached_at_last = Detached(lists, cpu);
        if !barrier::restart(cpu) {
            return held;
        }
        self.count(|s| &s.drains);
        for list in ListIdx::all() {
            let Some(own) = lists.get(cpu, list) else { return 0 };
            let mut items = [0; BATCH];
            let items = &mut items[..CpuLists::drained_at_once(list)];
            loop {
                // It has no other user: its slot leads elsewhere, and the sequences that read the slot before are done.
                let n = own.pop_oldest(items);
                if n == 0 {
                    break;
                }
                give(list, &mut items[..n]);
            }
        }
        0
    }

    /// A push that is under way on any CPU restarts, and rereads what it watches.
    fn barrier(&self) -> bool {
        self.pretends || barrier::restart_all()
    }

    fn reaches_others(&self) -> bool {
        true
    }

    #[inline(always)]
    fn add(&self, words: CpuWords<'_>, _: CpuId, n: u64) -> Option<u64> {
        // SAFETY: the words are borrowed for as long as this runs, and nothing else writes those of CPUs.
        let (answer, now) = unsafe { sequences::add(self.area, words.raw(), n) };
        if answer >= 0 { Some(now) } else { self.add_again(words, n, answer) }
    }

    #[inline(always)]
    fn win_biased(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        // SAFETY: the place is borrowed for as long as this runs, and the engine wins tags in no other way.
        let answer = unsafe { sequences::win_biased(self.area, place.raw(), from, to) };
        if answer >= 0 { Winning::Won } else { self.unwon(answer) }
    }

    #[inline(always)]
    fn win_shared(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        // SAFETY: as in `win_biased`.
        let (answer, was) = unsafe { sequences::win_shared(self.area, place.raw(), from, to) };
        if answer < 0 {
            self.unwon(answer)
        } else if was == from {
            Winning::Won
        } else {
            Winning::Lost
        }
    }

    #[inline(always)]
    fn win_eight_biased(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        if !place.raw().frame.is_multiple_of(8) {
            return Winning::Elsewhere;
        }
        // SAFETY: as in `win_biased`; the frame is the first of a word, and there are whole words of tags.
        let answer = unsafe { sequences::win_eight_biased(self.area, place.raw(), from, to) };
        if answer >= 0 { Winning::Won } else { self.unwon(answer) }
    }

    #[inline(always)]
    fn win_eight_shared(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        if !place.raw().frame.is_multiple_of(8) {
            return Winning::Elsewhere;
        }
        // SAFETY: as in `win_eight_biased`.
        match unsafe { sequences::win_eight_shared(self.area, place.raw(), from, to) } {
            (answer, _) if answer < 0 => self.unwon(answer),
            (_, true) => Winning::Won,
            (_, false) => Winning::Lost,
        }
    }

    fn own_cpu(&self) -> Option<CpuId> {
        Some(self.area.cpu()).filter(|cpu| *cpu <= i32::MAX as u32).map(CpuId)
    }

    fn barrier_on(&self, cpu: CpuId) -> bool {
        self.pretends || barrier::restart(cpu)
    }
}

/// Lists that were taken away, until it is dropped.
struct Detached<'a>(CpuLists<'a>, CpuId);

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        self.0.attach(self.1);
    }
}
