//! One pass over free memory.

use crate::arena::Arena;
use crate::backing::{BackingError, PageSize};
use pageyard::engine::Visit;
use pageyard::{BlockId, Frames, Observer, Order, PAGEBLOCK_ORDER, PerCpu, Pfn};

/// Which free memory a purge gives back, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeLimits {
    /// The smallest free blocks that go back: by default pageblocks, of 2 MiB. Giving back less breaks up a transparent
    /// huge page, and takes a system call for each block.
    pub least: Order,
    /// How much free memory stays in memory, rounded up to whole blocks, so that what is allocated next is there.
    pub reserve: Frames,
    /// How much goes back, rounded up to whole blocks.
    pub most: Frames,
}

impl Default for PurgeLimits {
    fn default() -> PurgeLimits {
        PurgeLimits { least: PAGEBLOCK_ORDER, reserve: Frames::ZERO, most: Frames(u64::MAX) }
    }
}

impl<P: PerCpu, O: Observer> Arena<P, O> {
    /// Gives free memory back to the host, in pageblocks of 2 MiB: up to `most` frames. Returns how many that were.
    /// They are still the arena's, and zeros; the next write to each waits for the kernel.
    ///
    /// Only pageblocks with frames in memory count: one that was never written to, or was given back before, is left
    /// alone. Memory of the caller is never given back. Reserved huge pages
    /// ([`Backing::HugeTlb`](crate::backing::Backing::HugeTlb)) that are given back may be taken by another process: a
    /// write that then finds none ends this one (SIGBUS).
    ///
    /// # Errors
    /// [`BackingError`] where the host does not take them; what was given back before that stays given back.
    ///
    /// # Concurrency
    /// It may run at any time, on any thread. One block is out of allocation at a time. Per-CPU lists are drained
    /// first.
    pub fn purge(&self, most: Frames) -> Result<Frames, BackingError> {
        self.purge_as(&PurgeLimits { most, ..PurgeLimits::default() })
    }

    /// The same within limits: free blocks smaller than a pageblock too, or with some memory kept.
    ///
    /// ```
    /// # use {pageyard::{Frames, Order}, pageyard_arena::{Arena, purge::PurgeLimits}};
    /// # let arena = Arena::builder().size(4 << 20).build_locked()?;
    /// // Each free frame, also between frames in use: what a balloon wants.
    /// let given = arena.purge_as(&PurgeLimits { least: Order::ZERO, ..PurgeLimits::default() })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Arena::purge`].
    pub fn purge_as(&self, limits: &PurgeLimits) -> Result<Frames, BackingError> {
        let mut given = Frames::ZERO;
        self.purge_while(limits, &mut given, &|| true).map(|()| given)
    }

    /// Purges, and adds to `given`, as long as `go_on` says so before each pageblock.
    pub(super) fn purge_while(
        &self,
        limits: &PurgeLimits,
        given: &mut Frames,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), BackingError> {
        let Some(backing) = self.mapping().backing().filter(|_| !self.is_inert()) else { return Ok(()) };
        // A reserved huge page goes back as a whole.
        let least = limits.least.max(backing.reserved().map_or(Order::ZERO, PageSize::order));
        let (yard, mapping, cx) = (self.yard(), self.mapping(), self.cx());
        yard.drain_reached(self.cx().cpu);
        let (mut from, mut left, mut refused) = (Some(Pfn(0)), limits.reserve, None);
        while let Some(at) = from
            && *given < limits.most
            && refused.is_none()
            && go_on()
        {
            let visit = |block: BlockId| {
                let size = block.order.frames();
                let resident = mapping.resident(block.pfn, size);
                if *given >= limits.most || refused.is_some() || resident == Frames::ZERO {
                    return Visit::Return;
                }
                if left > Frames::ZERO {
                    left = Frames(left.0.saturating_sub(resident.0));
                    return Visit::Return;
                }
                // First: where the host refuses, it may have taken a part.
                self.forget(block.pfn, size);
                // SAFETY: it is free, and cannot be allocated while this runs. Zeros are what it may be known to hold.
                match unsafe { mapping.purge(block.pfn, size) } {
                    Ok(frames) => {
                        *given += frames;
                        return if frames == size { Visit::Zeroed } else { Visit::Return };
                    }
                    Err(why) => refused = Some(why),
                }
                Visit::Return
            };
            // The blocks of one pageblock, or one block of more.
            let Ok(did) = yard.visit_free_blocks(&cx, least, at, Frames(1), visit) else { break };
            from = did.next.filter(|_| !did.below_low);
        }
        refused.map_or(Ok(()), Err)
    }
}
