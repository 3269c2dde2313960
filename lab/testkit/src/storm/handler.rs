//! Signal handlers that allocate and free.

use super::fault::Rule;
use super::journal::End;
use super::kinds::Kind;
use super::oracle;
use super::plan::Naming;
use super::shared::{Shared, add};
use pageyard::{BlockId, Context, CpuId, Cx, Migratetype, Order, PerCpu, Pfn, Request, RequestFlags};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Blocks that a handler keeps until the next time.
const KEPT: usize = 16;
/// Orders that handlers ask for: some that lists hold, and some that go straight to their pageblock.
const ORDERS: [u8; 8] = [0, 0, 1, 3, 4, 4, 5, 9];

/// Calls a handler's work, whatever engine it is for.
struct Hook {
    state: *const (),
    run: unsafe fn(*const (), Context),
    enter: fn(Context) -> bool,
}

thread_local! {
    /// The work of this thread's handlers, while there is some.
    static HOOK: AtomicPtr<Hook> = const { AtomicPtr::new(std::ptr::null_mut()) };
}

/// Does a signal handler's work in a storm; nothing in a thread that is not the storm's.
///
/// It may be called in a handler: it takes no lock and no memory but the engine's. Handlers that had to wait are run by
/// it too.
pub fn interrupt(context: Context) {
    run_if(context, |_| true);
}

/// Does a handler's work now or lets it wait, as the storm's [`Signals`](super::Signals) say.
pub(super) fn signalled(context: Context) {
    run_if(context, |hook| (hook.enter)(context));
}

fn run_if(context: Context, may: impl FnOnce(&Hook) -> bool) {
    let hook = HOOK.with(|hook| hook.load(SeqCst));
    // SAFETY: `Listening` stored it, and removes it before the hook and its state end; both are this thread's.
    unsafe {
        if let Some(hook) = hook.as_ref().filter(|hook| may(hook)) {
            (hook.run)(hook.state, context);
        }
    }
}

/// The state that one thread's handlers keep from one signal to the next. A handler may interrupt another one.
pub(super) struct Handler<'a, 'm, P> {
    shared: &'a Shared<'m, P>,
    me: u32,
    state: AtomicU64,
    /// Blocks as [`word`]s.
    kept: [AtomicU64; KEPT],
}

/// Returns a block as a word; zero is none.
fn word(block: BlockId) -> u64 {
    (block.pfn.0 << 8) | (u64::from(block.order.get()) + 1)
}

/// Puts a block, or none, in a slot; returns what was there.
fn replace(slot: &AtomicU64, block: Option<BlockId>) -> Option<BlockId> {
    let old = slot.swap(block.map_or(0, word), SeqCst);
    (old != 0).then(|| BlockId { pfn: Pfn(old >> 8), order: Order::of(old as u8 - 1) })
}

impl<'a, 'm, P: PerCpu> Handler<'a, 'm, P> {
    pub(super) fn new(shared: &'a Shared<'m, P>, me: u32, seed: u64) -> Self {
        Handler { shared, me, state: AtomicU64::new(seed | 1), kept: [const { AtomicU64::new(0) }; KEPT] }
    }

    /// Returns what the handlers have kept, after the last one.
    pub(super) fn kept(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.kept.iter().filter_map(|slot| replace(slot, None))
    }

    fn below(&self, n: u64) -> u64 {
        // ORDER: Relaxed: a handler that comes in between may draw the same number.
        let mut x = self.state.load(Relaxed);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.state.store(x, Relaxed);
        (x >> 16) % n
    }

    fn work(&self, context: Context) {
        let shared = self.shared;
        shared.handling.fetch_add(1, SeqCst);
        if !shared.quiet.load(SeqCst) && !shared.faults.any() {
            self.swap_blocks(context);
        }
        shared.handling.fetch_sub(1, SeqCst);
    }

    /// Frees what was kept, and keeps new blocks.
    fn swap_blocks(&self, context: Context) {
        let shared = self.shared;
        add(&shared.tally.handlers[usize::from(context == Context::Softirq)], 1);
        let cpu = match shared.naming {
            Naming::Own => self.me,
            Naming::Any => self.below(u64::from(shared.cpus)) as u32,
        };
        let cx = Cx { context, ..Cx::on(CpuId(cpu)) };
        for slot in &self.kept {
            if shared.faults.any() {
                return;
            }
            if let Some(block) = replace(slot, None) {
                self.free(&cx, block);
            } else if shared.may_take.load(SeqCst)
                && let Some(block) = self.take(&cx)
                // A handler that came in between may have filled the slot.
                && let Some(other) = replace(slot, Some(block))
            {
                self.free(&cx, other);
            }
        }
    }

    fn free(&self, cx: &Cx, block: BlockId) {
        let journal = &self.shared.journals[self.me as usize];
        let at = journal.begin(Kind::Free, Some(block.pfn), block.order, true);
        if self.shared.give(oracle::handler(self.me), self.me, cx, block) {
            journal.end(at, None, End::Done);
        }
    }

    fn take(&self, cx: &Cx) -> Option<BlockId> {
        let (shared, journal) = (self.shared, &self.shared.journals[self.me as usize]);
        let order = Order::of(ORDERS[self.below(8) as usize]);
        let request = Request::new(order, Migratetype::REQUESTED[self.below(3) as usize])
            .with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
        let at = journal.begin(Kind::Alloc, None, order, true);
        let began = shared.ranges.now();
        let pfn = shared.subject.alloc(cx, &request).ok();
        journal.end(at, pfn, if pfn.is_some() { End::Done } else { End::Refused });
        let block = BlockId { pfn: pfn?, order };
        add(&shared.tally.by_handlers, 1);
        self.receive(&request, block, began).then_some(block)
    }

    /// As [`Shared::receive`], without words: a handler has no memory to put them in.
    fn receive(&self, request: &Request, block: BlockId, began: u64) -> bool {
        let shared = self.shared;
        let raise = |rule, pfn: Pfn, found: u32| shared.faults.raise(rule, self.me, pfn.0, 0, found.into());
        if let Err((frame, found)) = shared.oracle.change(block, 0, oracle::handler(self.me)) {
            raise(Rule::Owners, Pfn(frame), found);
            return false;
        }
        if shared.machine.forbids(block, Some(request)).is_some() {
            raise(Rule::Zone, block.pfn, 0);
            return false;
        }
        let zone = shared.machine.zone(block.pfn);
        let closed = shared.ranges.broken_by(block, began, |b| shared.machine.zone_of_block(b) == zone);
        if let Some(closed) = closed {
            raise(Rule::Isolation, Pfn(block.pfn.0.max(closed.start().0)), 0);
            return false;
        }
        let dirty = shared.uncleared(Some(request), block);
        if let Some(dirty) = dirty {
            raise(Rule::Zeros, Pfn(dirty), 0);
        }
        dirty.is_none()
    }
}

/// Lets the handlers of the calling thread work, until it is dropped.
pub(super) struct Listening<'a> {
    hook: Box<Hook>,
    handler: PhantomData<&'a ()>,
}

impl<'a> Listening<'a> {
    pub(super) fn new<P: PerCpu>(
        handler: &'a Handler<'_, '_, P>,
        enter: fn(Context) -> bool,
    ) -> Listening<'a> {
        unsafe fn run<P: PerCpu>(state: *const (), context: Context) {
            // SAFETY: it is the handler that `new` was given, which outlives the `Listening`.
            unsafe { &*state.cast::<Handler<'_, '_, P>>() }.work(context);
        }
        let hook = Box::new(Hook { state: std::ptr::from_ref(handler).cast(), run: run::<P>, enter });
        HOOK.with(|h| h.store(std::ptr::from_ref(&*hook).cast_mut(), SeqCst));
        Listening { hook, handler: PhantomData }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        HOOK.with(|h| h.store(std::ptr::null_mut(), SeqCst));
        // The hook itself goes after this, when no handler finds it any more.
        let _ = &self.hook;
    }
}
