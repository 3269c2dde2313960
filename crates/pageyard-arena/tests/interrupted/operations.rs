//! The interrupted operations: each operation of the engine's variant, on lists whose every item is known.

use crate::places::{Place, places};
use crate::trap::{self, Action};
use pageyard::engine::{ListIdx, LooseLists, Pushed, RawLists, Winning};
use pageyard::{CpuId, PerCpu};
use pageyard_arena::rseq::{CpuStacks, Rseq};
use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Items that a list holds.
const HIGH: u32 = 24;
/// Places that its items may lie in.
const PLACES: u32 = 2 * HIGH + 64;
/// Items that move at a time: four at once, and two one by one.
const MANY: u32 = 6;
/// The list that is used.
const LIST: ListIdx = ListIdx::new(0).expect("it is one");
/// Kinds of operations.
pub const KINDS: usize = 12;
/// The frame that is freed, and the tag of a block of order 0 that is allocated.
const FRAME: u32 = 7;
/// Frames that are freed at once, of which it is one.
const EIGHT: u32 = 8;
const ALLOCATED: u8 = 0x80;
const FREE: u8 = 0;
/// Where the count of pops begins in a list's word, and its highest value.
const POPS: u32 = 2 * RawLists::FIELD + RawLists::END;
const MOST_POPS: u64 = u64::MAX >> POPS;

/// An operation on a list, and the state that it finds it in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// Takes the newest of a few.
    Pop,
    /// Adds one to a few.
    Push,
    /// Takes several.
    PopMany,
    /// Adds several that callers freed.
    PushMany,
    /// Adds several that came from the zone, to a list that is empty.
    Refill,
    /// Takes the oldest.
    Spill,
    /// Takes the oldest where the newest lies in the last place, so that all move back.
    SpillAtTheEnd,
    /// Takes the newest where one more pop is more than the word can count.
    PopAndCarry,
    /// Takes several there.
    PopManyAndCarry,
    /// Frees a block whose pageblock is biased to the first CPU.
    FreeBiased,
    /// Frees one whose pageblock is shared.
    FreeShared,
    /// Takes one from the floor's stack.
    StackPop,
    /// Adds one to it.
    StackPush,
    /// Adds to a word of the CPU.
    Count,
    /// Frees eight blocks at once, whose pageblock is biased to the first CPU.
    FreeEightBiased,
    /// Frees eight whose pageblock is shared.
    FreeEightShared,
}

impl Operation {
    pub const ALL: &'static [Operation] = &[
        Operation::Pop,
        Operation::Push,
        Operation::PopMany,
        Operation::PushMany,
        Operation::Refill,
        Operation::Spill,
        Operation::SpillAtTheEnd,
        Operation::PopAndCarry,
        Operation::PopManyAndCarry,
        Operation::FreeBiased,
        Operation::FreeShared,
        Operation::StackPop,
        Operation::StackPush,
        Operation::Count,
        Operation::FreeEightBiased,
        Operation::FreeEightShared,
    ];

    /// Returns which of its kind of sequences it is the first to run.
    pub fn kind(self) -> u8 {
        match self {
            Operation::Pop => 0,
            Operation::Push => 1,
            Operation::PopMany => 2,
            Operation::PushMany | Operation::Refill => 3,
            Operation::Spill | Operation::SpillAtTheEnd => 4,
            // It takes the count out of the word, and pops.
            Operation::PopAndCarry | Operation::PopManyAndCarry => 5,
            Operation::StackPop | Operation::StackPush => 6,
            Operation::FreeBiased => 7,
            Operation::FreeShared => 8,
            Operation::Count => 9,
            Operation::FreeEightBiased => 10,
            Operation::FreeEightShared => 11,
        }
    }

    /// Returns whether it wins a tag.
    pub fn frees(self) -> bool {
        use Operation::*;
        matches!(self, FreeBiased | FreeShared | FreeEightBiased | FreeEightShared)
    }

    /// Returns whether it wins eight, which go into no list.
    pub fn frees_eight(self) -> bool {
        matches!(self, Operation::FreeEightBiased | Operation::FreeEightShared)
    }

    /// Returns the frames that it frees.
    fn freed(self) -> std::ops::Range<u32> {
        match self {
            _ if self.frees_eight() => 0..EIGHT,
            _ if self.frees() => FRAME..FRAME + 1,
            _ => 0..0,
        }
    }

    fn takes(self) -> bool {
        use Operation::*;
        matches!(self, Pop | PopMany | Spill | SpillAtTheEnd | PopAndCarry | PopManyAndCarry)
    }

    /// Returns whether it moves the count of pops.
    fn carries(self) -> bool {
        matches!(self, Operation::PopAndCarry | Operation::PopManyAndCarry)
    }

    /// Returns whether it is the floor's.
    pub fn of_stack(self) -> bool {
        matches!(self, Operation::StackPop | Operation::StackPush)
    }
}

/// Returns how many CPUs this process may use.
pub fn cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
}

/// Keeps the calling thread to a CPU.
pub fn pin(cpu: usize) {
    // SAFETY: it fills in a set of CPUs that is a local variable, and hands it over.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// Lists of two CPUs with known items, and a stack each.
pub struct Machine {
    pub rseq: Rseq,
    stacks: CpuStacks,
    lists: &'static LooseLists<'static>,
    memory: *mut [u8],
    /// Each CPU's list at the start.
    before: [Vec<u32>; 2],
    given: Vec<u32>,
    taken: Vec<u32>,
    /// Won, but in no list: what the engine would give to the zone.
    left_over: Vec<u32>,
    /// How many frees say that they won the tag.
    wins: usize,
    /// The operation's result: a number of items.
    answer: Option<usize>,
    /// Each CPU's list afterwards.
    after: [Vec<u32>; 2],
    pops_before: [u64; 2],
    pops_after: [u64; 2],
    stack_after: [usize; 2],
}

/// The machine that the handler uses.
static CURRENT: AtomicPtr<Machine> = AtomicPtr::new(null_mut());
/// The items that the handler took and gave.
static HANDLER_TOOK: [AtomicU32; 64] = [const { AtomicU32::new(u32::MAX) }; 64];
static HANDLER_GAVE: [AtomicU32; 64] = [const { AtomicU32::new(u32::MAX) }; 64];

/// How often it added to a word of its CPU.
static HANDLER_ADDED: AtomicU64 = AtomicU64::new(0);
/// The amounts that the operation and the handler add.
const ADDED: [u64; 2] = [3, 100];

/// How often it took one.
static HANDLER_POPS: AtomicU32 = AtomicU32::new(0);

/// Whether it freed the same block.
static TWIN_WON: AtomicU32 = AtomicU32::new(0);

fn note(log: &[AtomicU32], item: u32) {
    if let Some(free) = log.iter().find(|s| s.load(SeqCst) == u32::MAX) {
        free.store(item, SeqCst);
    }
}

fn noted(log: &[AtomicU32]) -> impl Iterator<Item = u32> {
    log.iter().map(|s| s.load(SeqCst)).filter(|i| *i != u32::MAX)
}

/// Runs the handler's action on the list of its current CPU.
pub fn in_handler(action: Action) {
    // SAFETY: the machine lives until the operation has ended, and only this thread uses it.
    let m = unsafe { &*CURRENT.load(SeqCst) };
    if action != Action::Migrate && action != Action::Nothing {
        m.count(ADDED[1]);
        HANDLER_ADDED.fetch_add(1, SeqCst);
    }
    match action {
        Action::PopAndPush => {
            if let Some(item) = m.pop_in_handler()
                && !m.push(item)
            {
                note(&HANDLER_TOOK, item);
            }
            if let Some(word) = m.stack_pop() {
                m.stack_push(word);
            }
        }
        Action::PopAndKeep => {
            if let Some(item) = m.pop_in_handler() {
                note(&HANDLER_TOOK, item);
            }
        }
        Action::PushAnother => {
            let given = if m.push(7000) { 7000 } else { u32::MAX };
            note(&HANDLER_GAVE, given);
        }
        Action::Fill => {
            for item in 7000..7000 + 2 * HIGH {
                if m.push(item) {
                    note(&HANDLER_GAVE, item);
                }
            }
        }
        Action::Drain => {
            m.rseq.drain(m.lists.all(), CpuId(0), |_, items| {
                items.iter().for_each(|i| note(&HANDLER_TOOK, *i))
            });
        }
        Action::FreeTwin if m.lists.place(FRAME).read() != FREE => {
            let (won, kept) = m.free(FRAME);
            TWIN_WON.store(u32::from(won), SeqCst);
            if won && !kept {
                note(&HANDLER_TOOK, FRAME);
            }
        }
        Action::Migrate => pin(1),
        _ => {}
    }
}

/// Returns where the sequence that begins at an address aborts to.
pub fn aborts_to(start: usize) -> usize {
    static ABORTS: OnceLock<BTreeMap<usize, usize>> = OnceLock::new();
    let all = ABORTS.get_or_init(|| places().iter().map(|p| (p.sequence, p.abort)).collect());
    all.get(&start).copied().unwrap_or(usize::MAX)
}

impl Machine {
    pub fn new() -> Machine {
        aborts_to(0);
        let memory = Box::into_raw(vec![0; 1 << 16].into_boxed_slice());
        // SAFETY: 1. The memory is dropped after the lists. 2. Operations name lists that there are, by one `Rseq`.
        let lists = unsafe { LooseLists::new(&mut *memory, 2, HIGH) };
        let lists = Box::leak(Box::new(lists.expect("it is enough")));
        HANDLER_POPS.store(0, SeqCst);
        TWIN_WON.store(0, SeqCst);
        HANDLER_ADDED.store(0, SeqCst);
        HANDLER_TOOK.iter().chain(&HANDLER_GAVE).for_each(|s| s.store(u32::MAX, SeqCst));
        Machine {
            rseq: Rseq::new().expect("this host has restartable sequences"),
            stacks: CpuStacks::new(2, 10).expect("this host has restartable sequences"),
            lists,
            memory,
            before: [Vec::new(), Vec::new()],
            given: Vec::new(),
            taken: Vec::new(),
            left_over: Vec::new(),
            wins: 0,
            answer: None,
            after: [Vec::new(), Vec::new()],
            pops_before: [0, 0],
            pops_after: [0, 0],
            stack_after: [0, 0],
        }
    }

    /// Fills the lists: a few items in each, with their newest at the end of the room if the operation is to slide
    /// them.
    fn prepare(&mut self, op: Operation) {
        for cpu in 0..2 {
            let list = self.lists.all().get(CpuId(cpu), LIST).expect("there are two");
            let own = |i| 1000 * (cpu + 1) + i;
            let mut sink = [0];
            let mut next = 0;
            let items: Vec<u32> = (0..if op == Operation::Refill { 0 } else { 10 }).map(own).collect();
            if op == Operation::SpillAtTheEnd {
                // Raise the oldest until the newest is in the last place.
                while list.push(own(next), || true) == Pushed::Kept {
                    next += 1;
                }
                for _ in 0..PLACES - HIGH {
                    assert_eq!(list.pop_oldest(&mut sink), 1);
                    assert_eq!(list.push(own(next), || true), Pushed::Kept);
                    next += 1;
                }
                // It looks as if it were not full, and has no room.
                assert_eq!(next, PLACES);
            } else {
                assert_eq!(list.extend(&items), items.len());
            }
            let items = self.contents(cpu);
            let pops = if op.carries() { MOST_POPS } else { 0 };
            self.set_pops(cpu, pops);
            self.pops_before[cpu as usize] = pops;
            self.before[cpu as usize] = items;
        }
    }

    /// Runs an operation on a thread of its own, on CPU 0.
    pub fn run(&mut self, op: Operation) {
        self.prepare(op);
        self.given = match op {
            Operation::Push => vec![5000],
            _ if op.frees() => op.freed().collect(),
            Operation::PushMany | Operation::Refill => (5000..5000 + MANY).collect(),
            _ => Vec::new(),
        };
        for frame in 0..EIGHT {
            self.lists.set_tag(frame, if op.freed().contains(&frame) { ALLOCATED } else { FREE });
        }
        let biased = matches!(op, Operation::FreeBiased | Operation::FreeEightBiased);
        self.lists.set_bias(biased.then_some(CpuId(0)));
        CURRENT.store(&raw mut *self, SeqCst);
        OPERATION.store(op as usize, SeqCst);
        // SAFETY: 1. The thread uses the machine, which outlives it: it is joined. 2. It may end itself by a system
        //         call, which a thread that Rust started may not.
        unsafe {
            let mut thread = std::mem::zeroed();
            assert_eq!(libc::pthread_create(&raw mut thread, std::ptr::null(), body, null_mut()), 0);
            assert_eq!(libc::pthread_join(thread, null_mut()), 0);
        }
    }

    /// Takes one in the handler.
    fn pop_in_handler(&self) -> Option<u32> {
        let item = self.pop()?;
        HANDLER_POPS.fetch_add(1, SeqCst);
        Some(item)
    }

    // One copy of each sequence, for the operations and for the handler.
    #[inline(never)]
    fn pop(&self) -> Option<u32> {
        self.rseq.pop(self.lists.all(), CpuId(0), LIST)
    }

    #[inline(never)]
    fn push(&self, item: u32) -> bool {
        self.rseq.push(self.lists.all(), CpuId(0), LIST, item, self.lists.watch(), || true) == Pushed::Kept
    }

    #[inline(never)]
    fn count(&self, n: u64) {
        let _ = self.rseq.add(self.lists.counts(), CpuId(0), n);
    }

    #[inline(never)]
    fn win_biased(&self, frame: u32) -> Winning {
        self.rseq.win_biased(self.lists.place(frame), ALLOCATED, FREE)
    }

    #[inline(never)]
    fn win_shared(&self, frame: u32) -> Winning {
        self.rseq.win_shared(self.lists.place(frame), ALLOCATED, FREE)
    }

    #[inline(never)]
    fn win_eight_biased(&self) -> Winning {
        self.rseq.win_eight_biased(self.lists.place(0), ALLOCATED, FREE)
    }

    #[inline(never)]
    fn win_eight_shared(&self) -> Winning {
        self.rseq.win_eight_shared(self.lists.place(0), ALLOCATED, FREE)
    }

    /// Wins eight tags as the engine does: at once, or each for itself. Returns how many.
    fn win_eight(&self, op: Operation) -> Vec<u32> {
        let shared = self.lists.place(0).is_shared();
        if (if shared { self.win_eight_shared() } else { self.win_eight_biased() }) == Winning::Won {
            return op.freed().collect();
        }
        op.freed().filter(|frame| self.win(*frame)).collect()
    }

    /// Wins a tag as the engine does: eight times by sequences, and then without. Returns whether it did.
    fn win(&self, frame: u32) -> bool {
        for _ in 0..8 {
            let shared = self.lists.place(frame).is_shared();
            match if shared { self.win_shared(frame) } else { self.win_biased(frame) } {
                Winning::Won => return true,
                Winning::Lost => return false,
                Winning::Interrupted => {}
                // No other thread runs: a barrier would do nothing.
                Winning::Elsewhere => self.lists.set_bias(None),
            }
        }
        self.lists.set_bias(None);
        self.lists.win(frame, ALLOCATED, FREE)
    }

    /// Frees a block. Returns whether it won, and whether it is in a list.
    fn free(&self, frame: u32) -> (bool, bool) {
        let won = self.win(frame);
        (won, won && self.push(frame))
    }

    #[inline(never)]
    fn stack_pop(&self) -> Option<u64> {
        self.stacks.pop()
    }

    #[inline(never)]
    fn stack_push(&self, word: u64) -> bool {
        self.stacks.push(word)
    }

    fn operate(&mut self, op: Operation) {
        let (rseq, lists) = (&self.rseq, self.lists.all());
        let mut out = [0; MANY as usize];
        let cpu = CpuId(0);
        let given = self.given.clone();
        let n = match op {
            Operation::Pop | Operation::PopAndCarry => self.pop().map_or(0, |item| {
                out[0] = item;
                1
            }),
            Operation::Push => usize::from(self.push(given[0])),
            Operation::PopMany | Operation::PopManyAndCarry => rseq.pop_many(lists, cpu, LIST, &mut out),
            Operation::PushMany => rseq.push_many(lists, cpu, LIST, &given, self.lists.unchanged()),
            Operation::Refill => rseq.refill(lists, cpu, LIST, &given, self.lists.unchanged()),
            Operation::Spill | Operation::SpillAtTheEnd => rseq.spill(lists, cpu, LIST, &mut out),
            Operation::FreeBiased | Operation::FreeShared => {
                let (won, kept) = self.free(FRAME);
                self.wins += usize::from(won);
                if won && !kept {
                    self.left_over.push(FRAME);
                }
                usize::from(kept)
            }
            Operation::FreeEightBiased | Operation::FreeEightShared => {
                let won = self.win_eight(op);
                self.wins += won.len();
                // What the engine would push at once goes to its zone here.
                self.left_over.extend(&won);
                0
            }
            Operation::StackPop => usize::from(self.stack_pop().is_some()),
            Operation::StackPush => usize::from(self.stack_push(99)),
            Operation::Count => {
                self.count(ADDED[0]);
                0
            }
        };
        if op.takes() {
            self.taken = out[..n].to_vec();
        }
        self.answer = Some(n);
    }
}

static OPERATION: AtomicUsize = AtomicUsize::new(0);

extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
    pin(0);
    // SAFETY: the machine waits for this thread, and only the handler on this thread uses it meanwhile, shared.
    let machine = unsafe { &mut *CURRENT.load(SeqCst) };
    let op = Operation::ALL[OPERATION.load(SeqCst)];
    machine.operate(op);
    if trap::is_child() {
        // A failed check aborts the child, because nothing may unwind out of here.
        machine.look();
        machine.balance(op, true);
        // SAFETY: it ends the child at once.
        unsafe { libc::_exit(0) };
    }
    null_mut()
}

impl Machine {
    /// Returns the header of a CPU's list.
    fn head(&self, cpu: u32) -> *mut u8 {
        // SAFETY: the CPU has a slot, which points to its lists while no drain runs.
        let first = unsafe { self.lists.all().raw().slots.add(cpu as usize).read_volatile() };
        first.wrapping_add(LIST.get() * RawLists::HEAD).cast_mut()
    }

    /// Returns a word of a header. The list must not be in use.
    fn word(&self, cpu: u32, offset: usize) -> &AtomicU64 {
        // SAFETY: the header has such a word, and lives as long as the machine.
        unsafe { AtomicU64::from_ptr(self.head(cpu).wrapping_add(offset).cast()) }
    }

    /// Returns the items of a CPU's list, oldest first. The list must not be in use.
    fn contents(&self, cpu: u32) -> Vec<u32> {
        let word = self.word(cpu, RawLists::WORD).load(SeqCst);
        let count = (word >> RawLists::FIELD & ((1 << RawLists::FIELD) - 1)) as usize;
        let end = (word >> (2 * RawLists::FIELD) & ((1 << RawLists::END) - 1)) as usize;
        let header = self.head(cpu).cast::<u32>().cast_const();
        // SAFETY: that many end there.
        (end - count..end).map(|i| unsafe { header.wrapping_add(i).read_volatile() }).collect()
    }

    fn set_pops(&self, cpu: u32, pops: u64) {
        let word = self.word(cpu, RawLists::WORD);
        word.store(word.load(SeqCst) & !(MOST_POPS << POPS) | pops << POPS, SeqCst);
    }

    fn pops(&self, cpu: u32) -> u64 {
        (self.word(cpu, RawLists::WORD).load(SeqCst) >> POPS) + self.word(cpu, RawLists::POPPED).load(SeqCst)
    }

    /// Looks at what is there.
    fn look(&mut self) {
        self.pops_after = [0, 1].map(|cpu| self.pops(cpu));
        self.after = [0, 1].map(|cpu| self.contents(cpu));
        for cpu in 0..cpus().min(2) {
            pin(cpu);
            self.stack_after[cpu] = std::iter::from_fn(|| self.stack_pop()).count();
        }
        pin(0);
    }

    /// Returns how often the block was freed, and checks that no two frees say that they did it.
    fn freed(&self, op: Operation) -> usize {
        let freed = op.freed().filter(|frame| self.lists.place(*frame).read() == FREE).count();
        let won = self.wins + TWIN_WON.load(SeqCst) as usize;
        // A thread that ended after it won did not say so.
        assert!(won == freed || (self.answer.is_none() && won == 0), "{won} frees of one block won");
        freed
    }

    /// Checks that what went in is what came out, with what is still there.
    fn balance(&self, op: Operation, done: bool) {
        let accepted = match op {
            _ if !done && !op.frees() => 0,
            _ if op.takes() => 0,
            _ if op.of_stack() || op == Operation::Count => 0,
            _ if op.frees() => self.freed(op),
            _ => self.answer.expect("it came to its end"),
        };
        let sum = |items: Vec<u32>| {
            let mut items = items;
            items.sort_unstable();
            items
        };
        let went_in = self.before.iter().flatten().copied().chain(noted(&HANDLER_GAVE));
        let went_in = went_in.chain(self.given[..accepted].iter().copied());
        let came_out = self.after.iter().flatten().copied().chain(noted(&HANDLER_TOOK));
        let came_out = came_out.chain(self.taken.iter().chain(&self.left_over).copied());
        assert_eq!(sum(went_in.collect()), sum(came_out.collect()), "{op:?}, answer {:?}", self.answer);
        if op.carries() && self.pops_after[0] + 1 < self.pops_before[0] {
            // A thread that ended with the count in its hand took that along.
            assert_eq!((self.answer, self.pops_after[0]), (Some(0), 0));
            return;
        }
        let popped: u64 = self.pops_after.iter().sum::<u64>() - self.pops_before.iter().sum::<u64>();
        let own = if op.takes() && !matches!(op, Operation::Spill | Operation::SpillAtTheEnd) {
            self.taken.len()
        } else {
            0
        };
        assert_eq!(popped, own as u64 + u64::from(HANDLER_POPS.load(SeqCst)), "{op:?}: pops counted");
        let change = match (op, done) {
            (Operation::StackPop, true) => -1,
            (Operation::StackPush, true) => 1,
            _ => 0,
        };
        let counted: u64 = self.lists.counted().sum();
        let own = if op == Operation::Count && done { ADDED[0] } else { 0 };
        assert_eq!(counted, own + ADDED[1] * HANDLER_ADDED.load(SeqCst), "{op:?}: what was counted");
        let stacks: usize = self.stack_after.iter().take(cpus().min(2)).sum();
        assert_eq!(stacks as i64, 10 * cpus().min(2) as i64 + change, "{op:?}");
    }

    /// Checks that nothing was lost and nothing is there twice, whatever happened.
    pub fn conserves_items(&mut self, place: &Place, op: Operation, action: Action) {
        self.look();
        if action != Action::Exit {
            return self.balance(op, true);
        }
        assert_eq!(self.answer, None, "{place}: the thread went on");
        if op.frees() {
            // Won and in no list yet: what a thread in the middle of a call takes along.
            let lost = |frame: &u32| {
                self.lists.place(*frame).read() == FREE
                    && !self.after.iter().flatten().any(|item| item == frame)
            };
            self.left_over.extend(op.freed().filter(lost).collect::<Vec<_>>());
        }
        if place.after && !op.frees() {
            // It happened, and its result went with the thread.
            (self.taken, self.answer) = self.expected(op);
        }
        self.balance(op, place.after);
    }

    /// Returns what an operation takes, and its answer, without an interruption.
    fn expected(&self, op: Operation) -> (Vec<u32>, Option<usize>) {
        let own = &self.before[0];
        match op {
            // A thread that ended after the count's move did not reach the pop.
            _ if op.carries() && self.after[0].len() == own.len() => (Vec::new(), Some(0)),
            Operation::Pop | Operation::PopAndCarry => (own[own.len() - 1..].to_vec(), Some(1)),
            Operation::PopMany | Operation::PopManyAndCarry => {
                (own[own.len() - MANY as usize..].to_vec(), Some(MANY as usize))
            }
            Operation::Spill | Operation::SpillAtTheEnd => {
                (own[..MANY as usize].to_vec(), Some(MANY as usize))
            }
            _ => (Vec::new(), Some(self.given.len().max(1))),
        }
    }

    /// Checks that the operation completed, and that its answer matches what it returned.
    pub fn happened_once(&self, place: &Place, op: Operation) {
        let answer = self.answer.unwrap_or_else(|| panic!("{place}: {op:?} did not end"));
        if op.takes() {
            assert_eq!(self.taken.len(), answer);
        }
    }

    /// Checks that only one CPU's list was used.
    pub fn used_only(&self, cpu: usize, place: &Place, op: Operation) {
        if (op.carries() || op.frees()) && place.after {
            // Behind the move of the count the pop is still to come, and behind the win the push.
            return;
        }
        assert_eq!(self.after[1 - cpu], self.before[1 - cpu], "{place}: {op:?}");
        if op == Operation::Count {
            let counted: Vec<u64> = self.lists.counted().collect();
            assert_eq!(counted[cpu], ADDED[0], "{place}: {counted:?}");
        } else if op.frees_eight() {
            assert_eq!(self.left_over.len(), EIGHT as usize, "{place}");
        } else if op.of_stack() {
            assert_eq!(self.stack_after[1 - cpu], 10, "{place}: {op:?}");
        } else {
            assert_ne!(self.after[cpu], self.before[cpu], "{place}: {op:?}");
        }
    }

    /// Checks that nothing changed.
    pub fn did_nothing(&self, place: &Place, op: Operation) {
        assert_eq!(self.after, self.before, "{place}: {op:?}");
        assert!(matches!(self.answer, None | Some(0)), "{place}: {op:?} says {:?}", self.answer);
        assert_eq!(self.stack_after[0], 10, "{place}: {op:?}");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: the lists are no longer in use, and `new` made both.
        unsafe {
            drop(Box::from_raw(std::ptr::from_ref(self.lists).cast_mut()));
            drop(Box::from_raw(self.memory));
        }
    }
}
