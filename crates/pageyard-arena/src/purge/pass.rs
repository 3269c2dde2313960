//! One pass over free memory.

use crate::arena::Arena;
use crate::backing::BackingError;
use pageyard::engine::Visit;
use pageyard::{CpuSet, Frames, PAGEBLOCK_ORDER, PerCpu, Pfn};

impl<P: PerCpu> Arena<P> {
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
    /// It may run at any time, on any thread. One pageblock is out of allocation at a time. Per-CPU lists are drained
    /// first.
    pub fn purge(&self, most: Frames) -> Result<Frames, BackingError> {
        self.purge_above(Frames::ZERO, most)
    }

    /// Gives free memory back to the host, as [`purge`](Arena::purge) does, but leaves `reserve` frames of it in
    /// memory, in whole pageblocks: what is allocated next is then there.
    ///
    /// # Errors
    /// As [`Arena::purge`].
    pub fn purge_above(&self, reserve: Frames, most: Frames) -> Result<Frames, BackingError> {
        let mut given = Frames::ZERO;
        self.purge_while(reserve, most, &mut given, &|| true).map(|()| given)
    }

    /// Purges, and adds to `given`, as long as `go_on` says so before each pageblock.
    pub(super) fn purge_while(
        &self,
        reserve: Frames,
        most: Frames,
        given: &mut Frames,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), BackingError> {
        let Some(backing) = self.mapping().backing().filter(|_| !self.is_inert() && most > Frames::ZERO)
        else {
            return Ok(());
        };
        // A reserved huge page goes back as a whole.
        let order = PAGEBLOCK_ORDER.max(backing.page_size().order());
        let (yard, mapping, cx) = (self.yard(), self.mapping(), self.cx());
        // Where blocks are cleared as they are handed out or freed, that would fault memory in again. A block that was
        // lent goes back without either, as it was before; what it loses is that it is known to be zeros.
        let clears = self.clears_all();
        yard.drain(CpuSet::All);
        let (mut from, mut left, mut refused) = (Some(Pfn(0)), reserve, None);
        while let Some(at) = from
            && *given < most
            && refused.is_none()
            && go_on()
        {
            let mut zeros = None;
            let visit = |block: pageyard::BlockId| {
                if mapping.resident(block.pfn, order.frames()) == Frames::ZERO {
                    return Visit::Return;
                }
                if left > Frames::ZERO {
                    left = Frames(left.0.saturating_sub(order.frames().0));
                    return Visit::Return;
                }
                // SAFETY: it is free, and cannot be allocated while this runs. Zeros are what it may be known to hold.
                match unsafe { mapping.purge(block.pfn, order.frames()) } {
                    Ok(frames) => {
                        *given += frames;
                        if frames == order.frames() && !clears {
                            zeros = Some(block.pfn);
                            return Visit::Keep;
                        }
                    }
                    Err(why) => refused = Some(why),
                }
                Visit::Return
            };
            // One pageblock, or one block of `order`.
            let Ok(did) = yard.visit_free_blocks(&cx, order, at, Frames(1), visit) else { break };
            if let Some(pfn) = zeros {
                let freed = yard.free_zeroed(&cx, pfn, order);
                debug_assert_eq!(freed, Ok(()), "the visit kept it");
            }
            from = did.next.filter(|_| !did.below_low);
        }
        refused.map_or(Ok(()), Err)
    }
}
