//! The observer.

use super::page_owner;
use super::report::{FrameHistory, FreedBlock, Holder, LiveBlock, Moment, Report};
use super::stacks::{self, DEEPEST, StackId, Stacks};
use super::table::{Live, Table};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::units::{BlockId, CpuId, Frames, Order, Pfn};
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

thread_local! {
    static TAG: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Runs `work`, and has every [`Owner`] note `tag` beside what this thread allocates and frees meanwhile. The innermost
/// tag counts.
pub fn tagged<T>(tag: &'static str, work: impl FnOnce() -> T) -> T {
    struct Before(Option<&'static str>);
    impl Drop for Before {
        fn drop(&mut self) {
            TAG.set(self.0);
        }
    }
    let _before = Before(TAG.replace(Some(tag)));
    work()
}

/// What an [`Owner`] notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerKnobs {
    /// Frames of a stack that are captured at most, up to 64, those of the allocator included. At 0 none are: tags
    /// alone say who it was, at a tenth of the price.
    pub depth: usize,
}

impl Default for OwnerKnobs {
    fn default() -> OwnerKnobs {
        OwnerKnobs { depth: 32 }
    }
}

/// Notes who has each block, and who freed each frame last: the stack, the caller's [tag](tagged), the CPU, the time.
///
/// # Concurrency
/// A lock around one table: it is for finding mistakes, not for what is measured.
///
/// # Linux
/// `page_owner`. Difference: it keeps the freed side for ranges of frames, so that a frame out of the middle of a block
/// knows who freed it.
pub struct Owner {
    began: Instant,
    knobs: OwnerKnobs,
    known: Mutex<Known>,
}

struct Known {
    table: Table<Event>,
    stacks: Stacks,
}

/// Something that happened to a block.
#[derive(Clone, Copy, Debug)]
struct Event {
    stack: StackId,
    tag: Option<&'static str>,
    cpu: Option<CpuId>,
    at: Duration,
}

impl Default for Owner {
    fn default() -> Owner {
        Owner::new(OwnerKnobs::default())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("knobs", &self.knobs).finish_non_exhaustive()
    }
}

impl Owner {
    /// Makes one that has seen nothing. Times count from now.
    #[must_use]
    pub fn new(knobs: OwnerKnobs) -> Owner {
        let known = Known { table: Table::new(), stacks: Stacks::default() };
        Owner { began: Instant::now(), knobs, known: Mutex::new(known) }
    }

    /// Returns what is known of a frame: who has it, or who had it last.
    #[must_use]
    pub fn frame(&self, pfn: Pfn) -> FrameHistory {
        let known = self.known();
        let live = known.table.live_at(pfn).map(|(first, live)| known.block(first, &live));
        let freed = known.table.freed_at(pfn).map(|freed| FreedBlock {
            block: freed.block.map(|live| known.block(freed.first, &live)),
            freed: known.moment(&freed.freed),
        });
        FrameHistory { pfn, live, freed }
    }

    /// Returns who has what, those with the most frames first.
    #[must_use]
    pub fn report(&self) -> Report {
        let known = self.known();
        let mut holders: HashMap<(StackId, Option<&'static str>), Holder> = HashMap::new();
        let mut report =
            Report { holders: Vec::new(), blocks: 0, frames: Frames::ZERO, at: self.began.elapsed() };
        for (pfn, live) in known.table.live() {
            let Event { stack, tag, at, .. } = live.allocated;
            let holder = holders.entry((stack, tag)).or_insert_with(|| Holder {
                tag,
                stack: stacks::names(known.stacks.get(stack)),
                blocks: 0,
                frames: Frames::ZERO,
                oldest: at,
                first: pfn,
            });
            holder.blocks += 1;
            holder.frames += live.order.frames();
            holder.oldest = holder.oldest.min(at);
            report.blocks += 1;
            report.frames += live.order.frames();
        }
        report.holders = holders.into_values().collect();
        report.holders.sort_by_key(|holder| (std::cmp::Reverse(holder.frames), holder.first));
        report
    }

    /// Returns who has what, where anything is held: for the end of a program or a test, when nothing should be.
    #[must_use]
    pub fn leaks(&self) -> Option<Report> {
        Some(self.report()).filter(|report| report.blocks > 0)
    }

    /// Writes the live blocks as Linux writes `/sys/kernel/debug/page_owner`, for tools that read that, such as
    /// `pageyard summary --stacks`. A block has a process's number where Linux has a thread's, and no gfp flags.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_page_owner(&self, out: &mut impl Write) -> io::Result<()> {
        let known = self.known();
        let mut names: HashMap<StackId, Vec<String>> = HashMap::new();
        for (pfn, live) in known.table.live() {
            let stack = live.allocated.stack;
            let names = names.entry(stack).or_insert_with(|| stacks::names(known.stacks.get(stack)));
            page_owner::write(
                out,
                BlockId { pfn, order: live.order },
                live.migratetype,
                live.allocated.at,
                names,
            )?;
        }
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // The table is changed by single calls, none of which panics halfway.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an event, with the caller's stack.
    fn note(&self, note: impl FnOnce(&mut Table<Event>, Event)) {
        let mut addresses = [0; DEEPEST];
        let stack = stacks::capture(self.knobs.depth, &mut addresses);
        let (tag, cpu, at) = (TAG.get(), this_cpu(), self.began.elapsed());
        let known = &mut *self.known();
        let stack = known.stacks.id(stack);
        note(&mut known.table, Event { stack, tag, cpu, at });
    }
}

impl Known {
    fn moment(&self, event: &Event) -> Moment {
        let Event { stack, tag, cpu, at } = *event;
        Moment { stack: stacks::names(self.stacks.get(stack)), tag, cpu, at }
    }

    fn block(&self, first: Pfn, live: &Live<Event>) -> LiveBlock {
        LiveBlock {
            first,
            order: live.order,
            migratetype: live.migratetype,
            allocated: self.moment(&live.allocated),
        }
    }
}

/// Returns the CPU that the thread is on, where that is known.
fn this_cpu() -> Option<CpuId> {
    #[cfg(target_os = "linux")]
    return u32::try_from(rustix::thread::sched_getcpu()).ok().map(CpuId);
    #[cfg(not(target_os = "linux"))]
    None
}

impl Observer for Owner {
    fn allocated(&self, pfn: Pfn, order: Order, migratetype: Migratetype) {
        self.note(|table, allocated| table.allocated(pfn, Live { order, migratetype, allocated }));
    }

    fn freed(&self, pfn: Pfn, order: Order) {
        self.note(|table, freed| table.freed(pfn, order, freed));
    }

    fn split(&self, pfn: Pfn, from: Order, to: Order) {
        self.known().table.split(pfn, from, to);
    }

    fn migrated(&self, from: BlockId, to: Pfn) {
        self.note(|table, moved| table.migrated(from, to, moved));
    }
}
