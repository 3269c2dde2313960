//! Executions of the engine, checked step by step against the rules.
//!
//! Three threads run on an engine of two pageblocks, one at a time. Before each atomic step a hook compares the map's
//! words with those before the last step, finds out which step of the [`Machine`] that was, and lets the machine judge
//! it; then it may hand over to another thread. What lists take and give says the protection that they are under.

use super::choices::{Choices, Input};
use super::rules::{Fault, Machine, PAGEBLOCKS, Step, THREADS, Tag};
use pageyard::engine::{
    CpuLists, DescriptorWatch, Internals, ListIdx, MetadataPart, Pushed, Unchanged, hook,
};
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator,
    PageblockId, Pageyard, PerCpu, Pfn, Region, Request, RequestFlags, TryLock, ZoneId, ZoneKind,
};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

const PAGEBLOCK: usize = 512;
const FRAMES: usize = PAGEBLOCKS * PAGEBLOCK;
const WORD: usize = 64;
/// Steps that a report shows.
const SHOWN: usize = 20;
/// Of as many pushes one rests, for so many steps.
const RESTS: usize = 4;
const REST: u64 = 1500;
/// Calls of a thread.
const CALLS: usize = 60;

type Engine<P> = OwnedPageyard<P>;
type Read = Box<dyn Fn(MetadataPart, usize) -> u64 + Send>;

thread_local! {
    /// The number of this thread, if it is one of those that take turns.
    static ME: Cell<Option<usize>> = const { Cell::new(None) };
    /// Whether the hook runs already: it reads the map, in atomic steps.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

/// One execution.
struct Run {
    read: Read,
    machine: Machine<FRAMES>,
    bits: [u64; FRAMES / WORD],
    tags: [u8; FRAMES],
    descriptors: [u64; PAGEBLOCKS],
    choices: Choices,
    /// A thread makes this many steps in a row, on average: few, so that calls meet in small windows, or so many that
    /// one call stands in such a window through several of another's.
    stretch: usize,
    /// The step at which this thread's row ends.
    row_ends: u64,
    turn: usize,
    is_over: [bool; THREADS],
    /// The step at which a thread that was made to rest goes on.
    rests_until: [u64; THREADS],
    /// The step at which `isolate` returned, by pageblock; the largest number where it is not isolated.
    isolated_at: [u64; PAGEBLOCKS],
    steps: u64,
    handed_over: u64,
    seen: BTreeMap<&'static str, u64>,
    last: VecDeque<String>,
    failed: Option<String>,
}

static RUN: Mutex<Option<Run>> = Mutex::new(None);
static TURN: [Condvar; THREADS] = [const { Condvar::new() }; THREADS];
/// There is one hook for the whole program.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn run() -> MutexGuard<'static, Option<Run>> {
    RUN.lock().unwrap_or_else(|e| e.into_inner())
}

/// The steps of some executions.
#[derive(Default)]
pub struct Recorded {
    pub steps: u64,
    /// Times that one thread went on in the middle of another's call.
    pub handed_over: u64,
    /// How often each step of the machine was seen.
    pub seen: BTreeMap<&'static str, u64>,
    /// The first step that is none of the rules', and how it came about.
    pub failed: Option<String>,
}

/// The protection of lists that tells of what they take and give: a try-lock. With `ASKS` it asks what a push has to.
pub struct Telling<const ASKS: bool>;

/// Before each atomic step: judges the last one, and lets another thread go on.
fn step() {
    let Some(me) = ME.get() else { return };
    if LOOKS.replace(true) {
        return;
    }
    let mut state = run();
    if let Some(run) = state.as_mut().filter(|run| run.failed.is_none()) {
        run.look(me);
        let next = run.next(me);
        if next != me {
            run.turn = next;
            run.handed_over += 1;
            TURN[next].notify_one();
            drop(wait(state, me));
        }
    }
    LOOKS.set(false);
}

/// Waits until it is this thread's turn, or something failed and nobody takes turns any more.
fn wait(state: MutexGuard<'static, Option<Run>>, me: usize) -> MutexGuard<'static, Option<Run>> {
    let waits =
        |run: &mut Option<Run>| run.as_ref().is_some_and(|run| run.turn != me && run.failed.is_none());
    TURN[me].wait_while(state, waits).unwrap_or_else(|e| e.into_inner())
}

/// Calls with the execution, after the last step was judged; no other thread goes on in between.
fn tell(told: impl FnOnce(&mut Run, usize)) {
    let Some(me) = ME.get() else { return };
    LOOKS.set(true);
    if let Some(run) = run().as_mut().filter(|run| run.failed.is_none()) {
        run.look(me);
        told(run, me);
    }
    LOOKS.set(false);
}

impl Run {
    fn new(read: Read, input: &Input) -> Run {
        let mut choices = input.stream(0);
        let mut run = Run {
            machine: Machine::new(0),
            bits: [0; FRAMES / WORD],
            tags: [0; FRAMES],
            descriptors: [0; PAGEBLOCKS],
            stretch: [2, 20, 200][choices.below(3)],
            choices,
            row_ends: 0,
            read,
            turn: 0,
            is_over: [false; THREADS],
            rests_until: [0; THREADS],
            isolated_at: [u64::MAX; PAGEBLOCKS],
            steps: 0,
            handed_over: 0,
            seen: BTreeMap::new(),
            last: VecDeque::new(),
            failed: None,
        };
        run.machine = Machine::new(Descriptor::of((run.read)(MetadataPart::Descriptors, 0)).ty);
        run.reread();
        run
    }

    /// Reads all words; returns the steps that lie between them and those read before.
    fn reread(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for pageblock in 0..PAGEBLOCKS {
            let new = (self.read)(MetadataPart::Descriptors, pageblock);
            let old = std::mem::replace(&mut self.descriptors[pageblock], new);
            if old != new {
                steps.extend(Descriptor::of(old).to(Descriptor::of(new), pageblock));
            }
        }
        for word in 0..self.bits.len() {
            let new = (self.read)(MetadataPart::Bits, word);
            let old = std::mem::replace(&mut self.bits[word], new);
            for frame in (0..WORD).filter(|at| (old ^ new) >> at & 1 != 0).map(|at| word * WORD + at) {
                let is_huge = self.machine.pageblocks[frame / PAGEBLOCK].is_huge;
                steps.push(match new >> (frame % WORD) & 1 {
                    0 => Step::Give { frame },
                    _ if is_huge => Step::Mark { frame },
                    _ => Step::Take { frame },
                });
            }
        }
        for frame in 0..FRAMES {
            let new = (self.read)(MetadataPart::Tags, frame) as u8;
            let old = std::mem::replace(&mut self.tags[frame], new);
            match (tag(old), tag(new)) {
                (old, new) if old == new => {}
                (_, Tag::Allocated(order)) => steps.push(Step::HandOut { frame, order }),
                (Tag::Allocated(_), Tag::Free) => steps.push(Step::Win { frame }),
                (Tag::Allocated(_), Tag::Splitting) => steps.push(Step::BeginSplit { frame }),
                (old, new) => self.fail(format!("frame {frame}: its tag goes from {old:?} to {new:?}")),
            }
        }
        steps
    }

    /// Judges what this thread did since the words were read last.
    fn look(&mut self, me: usize) {
        self.steps += 1;
        let steps = self.reread();
        steps.iter().for_each(|step| self.judge(me, *step));
        let (Some(step), Err(what)) = (steps.last(), self.machine.check()) else { return };
        self.fail(format!("{}\n{}", Fault::Broken(what), self.machine.describe(frame_of(step))));
    }

    fn judge(&mut self, me: usize, step: Step) {
        if let Step::Restore { pageblock } = step {
            self.isolated_at[pageblock] = u64::MAX;
        }
        *self.seen.entry(name(&step)).or_default() += 1;
        self.last.push_back(format!("step {}, thread {me}: {step:?}", self.steps));
        if self.last.len() > SHOWN {
            self.last.pop_front();
        }
        if let Err(fault) = self.machine.apply(me, step) {
            self.fail(format!("{fault}\n{}", self.machine.describe(frame_of(&step))));
        }
    }

    fn fail(&mut self, why: String) {
        let last = self.last.iter().cloned().collect::<Vec<_>>().join("\n");
        self.failed.get_or_insert(format!("{why}\nthe last steps:\n{last}"));
        TURN.iter().for_each(Condvar::notify_one);
    }

    /// Returns who goes on.
    fn next(&mut self, me: usize) -> usize {
        let can = |run: &Run, t: usize| !run.is_over[t] && run.rests_until[t] <= run.steps;
        if can(self, me) && self.steps < self.row_ends {
            return me;
        }
        self.row_ends = self.steps + 1 + (self.choices.below(256) * 2 * self.stretch / 256) as u64;
        let ready = (0..THREADS).filter(|t| can(self, *t)).collect::<Vec<_>>();
        let left = (0..THREADS).filter(|t| !self.is_over[*t]).collect::<Vec<_>>();
        let from = if ready.is_empty() { left } else { ready };
        from.get(self.choices.below(from.len().max(1))).copied().unwrap_or(me)
    }
}

/// The parts of a descriptor that the machine knows, by the table at `BlockState`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Descriptor {
    ty: u8,
    is_isolated: bool,
    free: i16,
    is_huge: bool,
}

impl Descriptor {
    fn of(word: u64) -> Descriptor {
        Descriptor {
            ty: (word & 7) as u8,
            is_isolated: word >> 3 & 1 != 0,
            free: PAGEBLOCK as i16 - (word >> 4 & 0x3ff) as i16,
            is_huge: word >> 14 & 1 != 0,
        }
    }

    /// Returns the step that leads to another one: one transition changes one thing, and a steal its type besides.
    fn to(self, new: Descriptor, pageblock: usize) -> Option<Step> {
        let n = self.free - new.free;
        Some(match (self.is_huge, new.is_huge) {
            (false, true) => Step::ClaimWhole { pageblock },
            (true, false) if new.free > 0 => Step::ReleaseWhole { pageblock },
            (true, false) => Step::Shatter { pageblock },
            _ if new.is_isolated && !self.is_isolated => Step::Isolate { pageblock },
            _ if self.is_isolated && !new.is_isolated => Step::Restore { pageblock },
            _ if n < 0 => Step::Count { pageblock, n: -n },
            _ if n > 0 => Step::Reserve { pageblock, n, ty: new.ty },
            _ if new.ty != self.ty => Step::Convert { pageblock, ty: new.ty },
            _ => return None,
        })
    }
}

/// Reads a tag, by its bits; what it says of zeros is left out.
fn tag(byte: u8) -> Tag {
    match byte & !0x40 {
        0 => Tag::Free,
        0x20 => Tag::Splitting,
        allocated => Tag::Allocated(allocated & 0x1f),
    }
}

fn name(step: &Step) -> &'static str {
    match step {
        Step::Reserve { .. } => "reserve",
        Step::Convert { .. } => "convert",
        Step::Count { .. } => "count",
        Step::Take { .. } => "take",
        Step::Give { .. } => "give",
        Step::ClaimWhole { .. } => "claim whole",
        Step::ReleaseWhole { .. } => "release whole",
        Step::HandOut { .. } => "hand out",
        Step::Win { .. } => "win",
        Step::BeginSplit { .. } => "begin split",
        Step::Mark { .. } => "mark",
        Step::Shatter { .. } => "shatter",
        Step::Push { .. } => "push",
        Step::Pop { .. } => "pop",
        Step::Isolate { .. } => "isolate",
        Step::Restore { .. } => "restore",
    }
}

/// How many kinds of steps there are.
pub const STEPS: usize = 16;

fn frame_of(step: &Step) -> usize {
    match *step {
        Step::Take { frame }
        | Step::Give { frame }
        | Step::HandOut { frame, .. }
        | Step::Win { frame }
        | Step::BeginSplit { frame }
        | Step::Mark { frame }
        | Step::Push { frame, .. }
        | Step::Pop { frame, .. } => frame,
        Step::Reserve { pageblock, .. }
        | Step::Convert { pageblock, .. }
        | Step::Count { pageblock, .. }
        | Step::ClaimWhole { pageblock }
        | Step::ReleaseWhole { pageblock }
        | Step::Shatter { pageblock }
        | Step::Isolate { pageblock }
        | Step::Restore { pageblock } => pageblock * PAGEBLOCK,
    }
}

// What lists take and give.

/// Returns the number of a CPU's list.
fn number(cpu: CpuId, list: ListIdx) -> u8 {
    cpu.0 as u8 * 16 + list.get() as u8
}

/// Tells of blocks that left a list.
fn popped(cpu: CpuId, list: ListIdx, items: &[u32]) {
    tell(|run, me| {
        for item in items {
            let (frame, order) = (*item as usize, list.order().get());
            run.judge(me, Step::Pop { frame, order, list: number(cpu, list) });
        }
    });
}

/// Tells of blocks that a list took in an operation that began at a step.
fn pushed(cpu: CpuId, list: ListIdx, items: &[u32], began: u64) {
    tell(|run, me| {
        for item in items {
            let (frame, order) = (*item as usize, list.order().get());
            let pageblock = frame / PAGEBLOCK;
            if run.isolated_at[pageblock] < began {
                run.fail(format!(
                    "frame {frame} was pushed although its pageblock was isolated all the time"
                ));
            }
            run.judge(me, Step::Push { frame, order, list: number(cpu, list) });
        }
    });
}

/// Tells of a push of several blocks; returns how many the list took, from the front.
fn pushing(cpu: CpuId, list: ListIdx, items: &[u32], push: impl FnOnce() -> usize) -> usize {
    let began = begins();
    let n = push();
    pushed(cpu, list, &items[..n], began);
    n
}

/// Notes that a push begins; returns at which step. Some threads rest there, as long as others take for a call or two:
/// what a push read before may be wrong by then.
fn begins() -> u64 {
    let mut now = 0;
    tell(|run, me| {
        now = run.steps;
        if run.choices.below(RESTS) == 0 {
            run.rests_until[me] = now + REST;
        }
    });
    now
}

// SAFETY: every operation is one of `TryLock`, or runs between a successful `try_lock` and its `unlock`.
unsafe impl<const ASKS: bool> PerCpu for Telling<ASKS> {
    const NAME: &'static str = "pageyard-telling";
    const ANYWHERE: bool = true;

    fn pop(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx) -> Option<u32> {
        let item = TryLock.pop(lists, cpu, list);
        popped(cpu, list, item.as_slice());
        item
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
        let began = begins();
        let result = if ASKS {
            TryLock.push(lists, cpu, list, item, watch, win)
        } else {
            let Some(own) = lists.get(cpu, list).filter(|own| own.try_lock()) else { return Pushed::NoRoom };
            let result = own.push(item, win);
            own.unlock();
            result
        };
        if result == Pushed::Kept {
            pushed(cpu, list, &[item], began);
        }
        result
    }

    fn pop_many(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        let n = TryLock.pop_many(lists, cpu, list, out);
        popped(cpu, list, &out[..n]);
        n
    }

    fn push_many(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        pushing(cpu, list, items, || TryLock.push_many(lists, cpu, list, items, watch))
    }

    fn refill(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        pushing(cpu, list, items, || TryLock.refill(lists, cpu, list, items, watch))
    }

    fn spill(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        let n = TryLock.spill(lists, cpu, list, out);
        popped(cpu, list, &out[..n]);
        n
    }

    fn drain(&self, lists: CpuLists<'_>, cpu: CpuId, mut give: impl FnMut(ListIdx, &mut [u32])) -> u32 {
        TryLock.drain(lists, cpu, |list, items| {
            popped(cpu, list, items);
            give(list, items);
        })
    }

    fn reaches_others(&self) -> bool {
        true
    }
}

// The calls.

/// Blocks that somebody has, and blocks that somebody had.
#[derive(Default)]
struct Blocks {
    held: Vec<(Pfn, Order)>,
    freed: Vec<(Pfn, Order)>,
}

#[derive(Clone, Copy)]
enum Call {
    Alloc,
    Free,
    AllocBulk,
    FreeBulk,
    Split,
    /// Frees what was freed before.
    FreeAgain,
    Drain,
    /// Isolates a pageblock and drains all lists, or restores it if that was done before.
    Isolate,
}

/// Makes calls of all kinds.
fn calls<P: PerCpu>(engine: &Engine<P>, me: usize, input: &Input, blocks: &Mutex<Blocks>) {
    let mut choices = input.stream(me + 1);
    let cx = Cx::on(CpuId(me as u32));
    let blocks = || blocks.lock().unwrap_or_else(|e| e.into_inner());
    let taken = |choices: &mut Choices| {
        let mut blocks = blocks();
        let n = blocks.held.len();
        (n > 0).then(|| blocks.held.swap_remove(choices.below(n.min(256))))
    };
    // Where small blocks are many, no pageblock is whole, and where calls are of every kind, few meet an isolation.
    let mut isolated = None;
    use Call::{Alloc, AllocBulk, Drain, Free, FreeAgain, FreeBulk, Isolate, Split};
    let (orders, kinds): (&[u8], &[Call]) = match input.seed % 3 {
        0 => (
            &[0, 0, 0, 1, 2, 3, 5, 6, 7, 8, 9],
            &[Alloc, Alloc, Free, Free, AllocBulk, FreeBulk, Split, FreeAgain, Drain, Isolate],
        ),
        1 => (&[0, 8, 9, 9, 9, 10], &[Alloc, Alloc, Free, Free, Split, FreeAgain, Drain]),
        _ => (&[0, 1, 9], &[Alloc, Alloc, Free, Free, Isolate]),
    };
    for _ in 0..CALLS {
        let ty = [Migratetype::Movable, Migratetype::Unmovable][choices.below(2)];
        match kinds[choices.below(kinds.len())] {
            Alloc => {
                let order = Order::of(orders[choices.below(orders.len())]);
                let request = Request::new(order, ty).with(RequestFlags::MEMALLOC);
                if let Ok(pfn) = engine.alloc(&cx, &request) {
                    blocks().held.push((pfn, order));
                }
            }
            Free => {
                let Some((pfn, order)) = taken(&mut choices) else { continue };
                // Refused where somebody else freed it wrongly.
                let _ = engine.free(&cx, pfn, order);
                blocks().freed.push((pfn, order));
            }
            AllocBulk => {
                let request = Request::new(Order::ZERO, ty).with(RequestFlags::MEMALLOC);
                let mut got = [Pfn(0); 12];
                let n = engine.alloc_bulk(&cx, &request, &mut got);
                blocks().held.extend(got[..n].iter().map(|pfn| (*pfn, Order::ZERO)));
            }
            FreeBulk => {
                let mut blocks = blocks();
                let (single, rest) = blocks.held.drain(..).partition(|(_, order)| *order == Order::ZERO);
                blocks.held = rest;
                drop(blocks);
                let single: Vec<Pfn> = Vec::into_iter(single).map(|(pfn, _): (Pfn, Order)| pfn).collect();
                engine.free_bulk(&cx, &single, Order::ZERO, &mut |_, _| {});
            }
            Split => {
                let Some((pfn, from)) = taken(&mut choices) else { continue };
                let to = Order::of(from.get().saturating_sub(1 + choices.below(2) as u8));
                let done = engine.split(&cx, pfn, from, to);
                let order = if done.is_ok() { to } else { from };
                let parts = (0..1u64 << (from.get() - order.get())).map(|i| Pfn(pfn.0 + (i << order.get())));
                blocks().held.extend(parts.map(|pfn| (pfn, order)));
            }
            FreeAgain => {
                // A block that was freed before: refused, or a wrong free of what somebody has by now. Its owner's free
                // is refused then, so each block that is live has an entry among those that are held.
                let again = {
                    let mut blocks = blocks();
                    let n = blocks.freed.len();
                    (n > 0).then(|| blocks.freed.swap_remove(choices.below(n.min(256))))
                };
                let Some((pfn, order)) = again else { continue };
                let _ = engine.free(&cx, pfn, order);
            }
            Drain => {
                engine.drain(CpuSet::All);
            }
            Isolate => match isolated.take() {
                Some(block) => assert!(engine.restore(&cx, block), "nobody else restores {block:?}"),
                None => {
                    let block = PageblockId(choices.below(PAGEBLOCKS) as u64);
                    if engine.isolate(&cx, block) {
                        tell(|run, _| run.isolated_at[block.0 as usize] = run.steps);
                        if engine.drain(CpuSet::All).is_complete() {
                            tell(|run, _| run.machine.sweep(block.0 as usize, u64::MAX));
                        }
                        isolated = Some(block);
                    }
                }
            },
        }
    }
    if let Some(block) = isolated {
        engine.restore(&cx, block);
    }
}

/// Records executions, one for each input, until one fails.
pub fn record<const ASKS: bool>(inputs: impl IntoIterator<Item = Input>) -> Recorded {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let mut recorded = Recorded::default();
    for input in inputs {
        let engine = Arc::new(machine::<ASKS>());
        let map = Arc::clone(&engine);
        let read = Box::new(move |part, nth| map.word(ZoneId(0), part, nth));
        *run() = Some(Run::new(read, &input));
        hook::set(Some(step));
        let blocks = Mutex::new(Blocks::default());
        std::thread::scope(|scope| {
            for me in 0..THREADS {
                let (engine, input, blocks) = (&engine, &input, &blocks);
                scope.spawn(move || {
                    ME.set(Some(me));
                    let _turn = Turn(me);
                    drop(wait(run(), me));
                    calls(engine, me, input, blocks);
                });
            }
        });
        hook::set(None);
        let ended = run().take().expect("it was put there");
        recorded.steps += ended.steps;
        recorded.handed_over += ended.handed_over;
        for (name, n) in ended.seen {
            *recorded.seen.entry(name).or_default() += n;
        }
        if let Some(why) = ended.failed {
            recorded.failed = Some(format!("seed {} and {} bytes: {why}", input.seed, input.bytes.len()));
            break;
        }
        finish(&engine, blocks.into_inner().unwrap_or_else(|e| e.into_inner()));
    }
    recorded
}

/// A thread's turns, which end with it.
struct Turn(usize);

impl Drop for Turn {
    fn drop(&mut self) {
        let me = self.0;
        LOOKS.set(true);
        if let Some(run) = run().as_mut() {
            if std::thread::panicking() {
                run.fail("a call panicked".to_owned());
            } else if run.failed.is_none() {
                run.look(me);
            }
            run.is_over[me] = true;
            run.turn = run.next(me);
            TURN[run.turn].notify_one();
        }
        ME.set(None);
    }
}

/// Makes an engine of two pageblocks and three CPUs with large lists.
fn machine<const ASKS: bool>() -> Engine<Telling<ASKS>> {
    let regions = [Region::managed(Pfn(0), Frames(FRAMES as u64), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).unwrap();
    let watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..WatermarkKnobs::default() };
    let config = Config { watermark, percpu_pagelist_high_fraction: 1, ..Config::new(THREADS as u32) };
    Pageyard::owned(&map, config, Telling::<ASKS>).unwrap()
}

/// Checks that nothing was lost.
fn finish<P: PerCpu>(engine: &Engine<P>, blocks: Blocks) {
    for (pfn, order) in blocks.held {
        let _ = engine.free(&Cx::on(CpuId(0)), pfn, order);
    }
    engine.drain(CpuSet::All);
    let census = engine.audit().expect("the map agrees with itself");
    assert!(census.is_conserved(), "{census:?}");
    assert_eq!(engine.free_and_cached().0, Frames(FRAMES as u64));
}
