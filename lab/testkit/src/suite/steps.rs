//! The building blocks of cases: requests, and calls whose answers must be right.

use crate::engine::Verdict;
use crate::session::Session;
use pageyard::{AllocError, BlockId, CpuId, Migratetype, Order, PageAllocator, Pfn, Request, RequestFlags};

/// The first CPU.
pub const CPU0: CpuId = CpuId(0);

/// Makes a movable request that may use the last frame.
#[must_use]
pub const fn any(order: Order) -> Request {
    of_type(order, Migratetype::Movable)
}

/// Makes a request that may use the last frame.
#[must_use]
pub const fn of_type(order: Order, migratetype: Migratetype) -> Request {
    Request::new(order, migratetype).with(RequestFlags::MEMALLOC)
}

/// Unwraps a verdict.
///
/// # Panics
/// When the verdict is a fault.
#[track_caller]
pub fn sound<T>(verdict: Verdict<T>) -> T {
    verdict.unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Allocates a block that must be available.
///
/// # Panics
/// When it is not available, or the answer is wrong.
#[track_caller]
pub fn must_alloc<E: PageAllocator>(session: &mut Session<E>, cpu: CpuId, request: &Request) -> Pfn {
    sound(session.alloc(cpu, request)).unwrap_or_else(|e| panic!("{request:?} must be granted: {e}"))
}

/// Allocates until a request is refused, on each CPU in turn; returns how many were granted, and the refusal.
///
/// # Panics
/// When an answer is wrong. A refusal is final only if it stands after a drain.
#[track_caller]
pub fn fill<E: PageAllocator>(session: &mut Session<E>, request: &Request) -> (u64, AllocError) {
    let mut granted = 0;
    loop {
        let cpu = CpuId(granted as u32 % session.model.cpus);
        match sound(session.alloc(cpu, request)) {
            Ok(_) => granted += 1,
            Err(why) => return (granted, why),
        }
    }
}

/// Frees the held blocks that `which` picks.
///
/// # Panics
/// When an answer is wrong.
#[track_caller]
pub fn free_where<E: PageAllocator>(session: &mut Session<E>, mut which: impl FnMut(&BlockId) -> bool) {
    for at in (0..session.held.len()).rev() {
        if which(&session.held[at]) {
            sound(session.free_held(CPU0, at)).expect("a held block is free to go");
        }
    }
}
