//! One sample of `bench mixed`: a pass of a thread's calls, on blocks that are held from sample to sample.

use super::sequence::{Kind, MixedPattern, Sequence, Step};
use crate::harness::allocator::Allocator;
use crate::harness::clock::now_ns;
use crate::harness::handover::{GROUP, Queue};
use crate::harness::load::Busy;
use crate::harness::loops::MISSING;
use crate::harness::memory::Memory;
use pageyard::{Order, Pfn};
use std::sync::{Arc, Mutex, PoisonError};

/// The settings of a mixed load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Setting {
    pub threads: usize,
    pub pattern: MixedPattern,
    /// Whether a word of each frame is written when its block is taken.
    pub touched: bool,
    /// Blocks that a pass takes at least, each thread.
    pub blocks: usize,
}

/// A part of the work on a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Takes the blocks that are held at first.
    Open,
    /// Makes all calls once.
    Pass,
}

/// A load on one allocator: its calls, and what is held.
pub(crate) struct MixedLoad {
    pub setting: Setting,
    sequences: Arc<[Sequence]>,
    memory: Arc<Memory>,
    sides: Vec<Mutex<Side>>,
    /// To the thread of this number, from the one before it; the first comes after the last.
    queues: Box<[Queue]>,
}

impl MixedLoad {
    /// Makes the calls of a setting.
    pub fn sequences(setting: &Setting) -> Arc<[Sequence]> {
        let Setting { threads, pattern, blocks, .. } = *setting;
        (0..threads).map(|thread| Sequence::new(thread, threads, pattern, blocks)).collect()
    }

    /// Makes a load of which nothing is held yet.
    pub fn new(setting: Setting, sequences: Arc<[Sequence]>, memory: Arc<Memory>) -> MixedLoad {
        let sides = sequences.iter().map(|sequence| Mutex::new(Side::new(sequence.most_held()))).collect();
        let queues = sequences.iter().map(|_| Queue::new()).collect();
        MixedLoad { setting, sequences, memory, sides, queues }
    }

    /// Returns the blocks that a pass takes on each thread.
    pub fn blocks(&self) -> impl Iterator<Item = usize> {
        self.sequences.iter().map(|sequence| sequence.blocks)
    }
}

/// A thread's work order.
#[derive(Clone)]
pub(crate) struct Work {
    pub load: Arc<MixedLoad>,
    pub phase: Phase,
}

/// A block that is held, or that was refused, and its order in the lowest four bits.
#[derive(Clone, Copy)]
struct PackedBlock(u64);

impl PackedBlock {
    const NONE: PackedBlock = PackedBlock(MISSING.0);

    #[inline(always)]
    fn new(block: Pfn, order: Order) -> PackedBlock {
        PackedBlock(block.0 << 4 | u64::from(order.get()))
    }

    #[inline(always)]
    fn block(self) -> Option<(Pfn, Order)> {
        let block = Pfn(self.0 >> 4);
        let order = Order::new((self.0 & 15) as u8).unwrap_or(Order::ZERO);
        (block.0 != MISSING.0 >> 4).then_some((block, order))
    }
}

/// The blocks a thread holds, and its ends of the queues.
struct Side {
    held: Box<[PackedBlock]>,
    len: usize,
    out: Group,
    inbox: Group,
}

/// Blocks on their way to the next thread, or from the one before.
struct Group {
    blocks: [Pfn; GROUP],
    /// Blocks handed over so far, this way.
    count: usize,
}

impl Side {
    fn new(most: usize) -> Side {
        let group = || Group { blocks: [MISSING; GROUP], count: 0 };
        Side { held: vec![PackedBlock::NONE; most].into(), len: 0, out: group(), inbox: group() }
    }

    #[inline(always)]
    fn push(&mut self, held: PackedBlock) {
        self.held[self.len] = held;
        self.len += 1;
    }

    /// Takes out the block that a step chooses; the last one gets its place.
    #[inline(always)]
    fn choose(&mut self, step: Step) -> PackedBlock {
        let choice = step.choice(self.len);
        self.len -= 1;
        let last = self.held[self.len];
        std::mem::replace(&mut self.held[choice], last)
    }

    #[inline(always)]
    fn hand(&mut self, queue: &Queue, held: PackedBlock) {
        let Group { blocks, count } = &mut self.out;
        blocks[*count % GROUP] = Pfn(held.0);
        *count += 1;
        if count.is_multiple_of(GROUP) {
            queue.send(*count / GROUP - 1, blocks);
        }
    }

    #[inline(always)]
    fn receive(&mut self, queue: &Queue) -> PackedBlock {
        let Group { blocks, count } = &mut self.inbox;
        if count.is_multiple_of(GROUP) {
            queue.receive(*count / GROUP, blocks);
        }
        *count += 1;
        PackedBlock(blocks[(*count - 1) % GROUP].0)
    }
}

/// Does the work of one thread; `missing` counts requests that failed.
pub(crate) fn run<A: Allocator>(a: &A, thread: usize, work: &Work) -> Busy {
    let load = &*work.load;
    let sequence = &load.sequences[thread];
    let [mine, other] = [&load.queues[thread], &load.queues[(thread + 1) % load.queues.len()]];
    let _guards = [mine.guard(), other.guard()];
    let mut side = load.sides[thread].lock().unwrap_or_else(PoisonError::into_inner);
    let start = now_ns();
    let missing = match (work.phase, load.setting.touched) {
        (Phase::Open, _) => open(a, thread, &sequence.opening, &mut side),
        (Phase::Pass, false) => pass::<A, false>(a, thread, load, &mut side, [mine, other]),
        (Phase::Pass, true) => pass::<A, true>(a, thread, load, &mut side, [mine, other]),
    };
    let end = now_ns();
    Busy { ns: end - start, start, end, missing }
}

fn open<A: Allocator>(a: &A, cpu: usize, opening: &[Order], side: &mut Side) -> u64 {
    let mut missing = 0;
    for order in opening {
        let block = a.take_of(cpu, *order);
        missing += u64::from(block.is_none());
        side.push(PackedBlock::new(block.unwrap_or(MISSING), *order));
    }
    missing
}

/// Makes the calls of a pass; returns how many requests failed. What was refused keeps its place among what is held, so
/// that every allocator gives back the same ones.
#[inline(never)]
fn pass<A: Allocator, const TOUCH: bool>(
    a: &A,
    cpu: usize,
    load: &MixedLoad,
    side: &mut Side,
    [mine, other]: [&Queue; 2],
) -> u64 {
    let give = |held: PackedBlock| {
        if let Some((block, order)) = held.block() {
            a.give_of(cpu, block, order);
        }
    };
    let mut missing = 0;
    for step in &load.sequences[cpu].steps {
        match step.kind() {
            Kind::Take(order) => match a.take_of(cpu, order) {
                Some(block) => {
                    if TOUCH {
                        a.touch(&load.memory, block, order);
                    }
                    side.push(PackedBlock::new(block, order));
                }
                None => {
                    missing += 1;
                    side.push(PackedBlock::new(MISSING, order));
                }
            },
            Kind::Give => give(side.choose(*step)),
            Kind::Hand => {
                let held = side.choose(*step);
                side.hand(other, held);
            }
            Kind::GiveHanded => give(side.receive(mine)),
        }
    }
    missing
}

/// An allocator that does nothing, and always has the same block for a thread: what the loop costs by itself.
pub(crate) struct Nothing;

impl Allocator for Nothing {
    fn take(&self, cpu: usize) -> Option<Pfn> {
        self.take_of(cpu, Order::ZERO)
    }

    fn give(&self, cpu: usize, block: Pfn) {
        self.give_of(cpu, block, Order::ZERO);
    }

    #[inline(always)]
    fn take_of(&self, cpu: usize, _: Order) -> Option<Pfn> {
        // Far enough apart that no two threads write to the same line.
        Some(std::hint::black_box(Pfn((cpu as u64) << Order::MAX.get())))
    }

    #[inline(always)]
    fn give_of(&self, _: usize, block: Pfn, _: Order) {
        std::hint::black_box(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::mixed::sequence::ZONE;
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

    /// Hands out numbers, refuses one order, and checks that what comes back has the order that it left with.
    #[derive(Default)]
    struct Checked {
        next: AtomicU64,
        out: AtomicI64,
        frames_out: AtomicI64,
        touched: AtomicU64,
    }

    impl Allocator for Checked {
        fn take(&self, _: usize) -> Option<Pfn> {
            unreachable!("a mixed load names the order")
        }

        fn give(&self, _: usize, _: Pfn) {
            unreachable!("a mixed load names the order")
        }

        fn take_of(&self, _: usize, order: Order) -> Option<Pfn> {
            if order == Order::of(9) {
                return None;
            }
            self.out.fetch_add(1, Relaxed);
            self.frames_out.fetch_add(order.frames().0 as i64, Relaxed);
            Some(Pfn(self.next.fetch_add(1, Relaxed) << 4 | u64::from(order.get())))
        }

        fn give_of(&self, _: usize, block: Pfn, order: Order) {
            assert_eq!(block.0 & 15, u64::from(order.get()));
            self.out.fetch_sub(1, Relaxed);
            self.frames_out.fetch_sub(order.frames().0 as i64, Relaxed);
        }

        fn touch(&self, _: &Memory, _: Pfn, _: Order) {
            self.touched.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_pass_takes_as_much_as_it_gives_and_counts_what_was_refused() {
        let setting = Setting { threads: 1, pattern: MixedPattern::Local, touched: true, blocks: 1 << 16 };
        let sequences = MixedLoad::sequences(&setting);
        let orders =
            |orders: &mut dyn Iterator<Item = Order>| orders.filter(|o| *o == Order::of(9)).count() as u64;
        let opened = orders(&mut sequences[0].opening.iter().copied());
        let taken = |step: &Step| match step.kind() {
            Kind::Take(order) => Some(order),
            _ => None,
        };
        let passed = orders(&mut sequences[0].steps.iter().filter_map(taken));
        assert!(opened > 0 && passed > 0);
        let load = Arc::new(MixedLoad::new(setting, sequences, Arc::new(Memory::none())));
        let a = Checked::default();
        let work = |phase| run(&a, 0, &Work { load: load.clone(), phase }).missing;
        assert_eq!(work(Phase::Open), opened);
        let opened = a.frames_out.load(Relaxed);
        for _ in 0..3 {
            assert_eq!(work(Phase::Pass), passed);
            let now = a.frames_out.load(Relaxed);
            assert!((now - opened).abs() < ZONE as i64 / 20, "{opened} {now}");
        }
        let blocks = load.blocks().sum::<usize>() as u64;
        assert_eq!(a.touched.load(Relaxed), 3 * (blocks - passed));
    }

    #[test]
    fn what_is_handed_over_is_given_back_by_the_next_thread() {
        for threads in [2, 5] {
            let setting =
                Setting { threads, pattern: MixedPattern::HandedOver, touched: false, blocks: 1 << 12 };
            let load =
                Arc::new(MixedLoad::new(setting, MixedLoad::sequences(&setting), Arc::new(Memory::none())));
            let a = Checked::default();
            for phase in [Phase::Open, Phase::Pass, Phase::Pass] {
                std::thread::scope(|scope| {
                    let running: Vec<_> = (0..threads)
                        .map(|i| {
                            let (work, a) = (Work { load: load.clone(), phase }, &a);
                            scope.spawn(move || run(a, i, &work))
                        })
                        .collect();
                    for thread in running {
                        assert!(thread.join().is_ok());
                    }
                });
            }
            let held = load.sides.iter().flat_map(|side| {
                let side = side.lock().unwrap();
                side.held[..side.len].iter().filter_map(|held| held.block()).collect::<Vec<_>>()
            });
            assert_eq!(
                a.out.load(Relaxed),
                held.count() as i64,
                "what is out is held, and nothing is on its way"
            );
            let handed = load.sides.iter().map(|side| side.lock().unwrap().out.count);
            assert_eq!(handed.collect::<Vec<_>>(), vec![2 << 10; threads]);
        }
    }
}
