//! Restartable sequences, modelled: what one does is undone, and has not happened, where another thread ran on its CPU,
//! a barrier reached it, or its thread moved before its last step.
//!
//! Each step is one of the scheduler's. The last one, and the question whether it may still happen, are one step, as
//! they are where the kernel asks. Lists are kept by a try-lock here: the sequences that use lists are tested
//! instruction by instruction in `pageyard-arena`; what is modelled is how tags are won.

use pageyard::engine::{
    BiasState, CpuLists, CpuWords, DescriptorWatch, ListIdx, Pushed, TagPlace, Unchanged, Winning,
};
use pageyard::{CpuId, PerCpu, TryLock};
use shuttle::rand::Rng;
use shuttle::thread::ThreadId;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

shuttle::thread_local! {
    /// The CPU that a thread runs on; none where it is not registered.
    static CPU: Cell<Option<u32>> = Cell::new(None);
}

/// Puts the calling thread on a CPU.
pub fn run_on(cpu: Option<u32>) {
    CPU.with(|own| own.set(cpu));
}

/// A CPU: how often its sequences were interrupted, and which thread ran there last.
#[derive(Clone, Default)]
struct Cpu {
    interrupted: u64,
    last: Option<ThreadId>,
}

/// Sequences of some CPUs.
pub struct Sequences {
    // Not the scheduler's: a question to it is part of the step around it.
    cpus: Mutex<Vec<Cpu>>,
    /// Whether threads move to other CPUs.
    moves: bool,
    /// Whether the host refuses barriers.
    refused: AtomicBool,
}

/// A sequence under way.
struct Sequence<'a> {
    of: &'a Sequences,
    cpu: u32,
    began: u64,
}

impl Sequences {
    pub fn new(cpus: u32, moves: bool) -> Sequences {
        Sequences {
            cpus: Mutex::new(vec![Cpu::default(); cpus as usize]),
            moves,
            refused: AtomicBool::new(false),
        }
    }

    /// Lets the host refuse barriers from now on, or no longer.
    pub fn refuse_barriers(&self, refused: bool) {
        self.refused.store(refused, Relaxed);
    }

    fn cpus(&self) -> u32 {
        self.cpus.lock().unwrap().len() as u32
    }

    /// Begins a sequence on the CPU that the thread runs on: what ran there before is interrupted.
    fn begin(&self) -> Option<Sequence<'_>> {
        if self.moves && shuttle::rand::thread_rng().gen_ratio(1, 16) {
            let to = shuttle::rand::thread_rng().gen_range(0..self.cpus());
            CPU.with(|own| own.set(own.get().map(|_| to)));
        }
        let cpu = CPU.with(Cell::get)?;
        let (me, mut cpus) = (shuttle::thread::current().id(), self.cpus.lock().unwrap());
        let own = &mut cpus[cpu as usize];
        if own.last != Some(me) {
            (own.interrupted, own.last) = (own.interrupted + 1, Some(me));
        }
        Some(Sequence { of: self, cpu, began: own.interrupted })
    }

    fn interrupt(&self, which: impl Fn(u32) -> bool) -> bool {
        shuttle::thread::yield_now();
        if self.refused.load(Relaxed) {
            return false;
        }
        let mut cpus = self.cpus.lock().unwrap();
        (0..).zip(cpus.iter_mut()).filter(|(n, _)| which(*n)).for_each(|(_, cpu)| cpu.interrupted += 1);
        true
    }

    fn here(&self, cpu: CpuId) -> CpuId {
        self.begin().map_or(cpu, |s| CpuId(s.cpu))
    }
}

impl Sequence<'_> {
    fn goes_on(&self) -> bool {
        self.of.cpus.lock().unwrap()[self.cpu as usize].interrupted == self.began
    }
}

// SAFETY: lists are kept as `TryLock` keeps them.
unsafe impl PerCpu for Sequences {
    const NAME: &'static str = "modelled sequences";
    const BIASES: bool = true;

    fn pop(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx) -> Option<u32> {
        TryLock.pop(lists, self.here(cpu), list)
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
        match TryLock.push(lists, self.here(cpu), list, item, watch, || true) {
            Pushed::NoRoom => Pushed::Won,
            other => other,
        }
    }

    fn pop_many(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        TryLock.pop_many(lists, self.here(cpu), list, out)
    }

    fn push_many(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        TryLock.push_many(lists, self.here(cpu), list, items, watch)
    }

    fn refill(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        TryLock.refill(lists, self.here(cpu), list, items, watch)
    }

    fn spill(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        TryLock.spill(lists, self.here(cpu), list, out)
    }

    fn drain(&self, lists: CpuLists<'_>, cpu: CpuId, give: impl FnMut(ListIdx, &mut [u32])) -> u32 {
        TryLock.drain(lists, cpu, give)
    }

    fn barrier(&self) -> bool {
        self.interrupt(|_| true)
    }

    fn reaches_others(&self) -> bool {
        true
    }

    fn add(&self, words: CpuWords<'_>, _: CpuId, n: u64) -> Option<u64> {
        for _ in 0..8 {
            let Some(sequence) = self.begin() else { break };
            let now = words.add_if(CpuId(sequence.cpu), n, || sequence.goes_on());
            if now.is_some() {
                return now;
            }
        }
        words.add_shared(n);
        None
    }

    fn win_biased(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        let Some(sequence) = self.begin() else { return Winning::Elsewhere };
        let bias = place.bias();
        if !sequence.goes_on() {
            return Winning::Interrupted;
        }
        if bias != BiasState::Biased(CpuId(sequence.cpu)) {
            return Winning::Elsewhere;
        }
        let tag = place.read();
        if !sequence.goes_on() {
            return Winning::Interrupted;
        }
        if tag != from {
            return Winning::Lost;
        }
        if place.write_if(to, || sequence.goes_on()) { Winning::Won } else { Winning::Interrupted }
    }

    fn win_shared(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        let Some(sequence) = self.begin() else { return Winning::Elsewhere };
        let bias = place.bias();
        if !sequence.goes_on() {
            return Winning::Interrupted;
        }
        if bias != BiasState::Shared {
            return Winning::Elsewhere;
        }
        match place.swap_if(from, to, || sequence.goes_on()) {
            Some(was) if was == from => Winning::Won,
            Some(_) => Winning::Lost,
            None => Winning::Interrupted,
        }
    }

    fn win_eight_biased(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        let Some(sequence) = self.begin() else { return Winning::Elsewhere };
        let bias = place.bias();
        if !sequence.goes_on() {
            return Winning::Interrupted;
        }
        if bias != BiasState::Biased(CpuId(sequence.cpu)) {
            return Winning::Elsewhere;
        }
        let are = place.are_eight(from);
        if !sequence.goes_on() {
            return Winning::Interrupted;
        }
        if !are {
            return Winning::Lost;
        }
        if place.write_eight_if(to, || sequence.goes_on()) { Winning::Won } else { Winning::Interrupted }
    }

    fn win_eight_shared(&self, place: TagPlace<'_>, from: u8, to: u8) -> Winning {
        let Some(sequence) = self.begin() else { return Winning::Elsewhere };
        let bias = place.bias();
        if !sequence.goes_on() {
            return Winning::Interrupted;
        }
        if bias != BiasState::Shared {
            return Winning::Elsewhere;
        }
        match place.swap_eight_if(from, to, || sequence.goes_on()) {
            Some(true) => Winning::Won,
            Some(false) => Winning::Lost,
            None => Winning::Interrupted,
        }
    }

    fn own_cpu(&self) -> Option<CpuId> {
        CPU.with(Cell::get).map(CpuId)
    }

    fn barrier_on(&self, cpu: CpuId) -> bool {
        self.interrupt(|n| n == cpu.0)
    }
}
