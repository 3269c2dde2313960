//! The events that a run provoked: a test of failures that never failed is not a test.

use core::fmt;
use core::ops::AddAssign;
use pageyard::{AllocError, ClaimError, Counter, FreeError, Stats};

macro_rules! tally {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// How often a run did, or was told, each thing.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct Tally { $($(#[$doc])* pub $field: u64,)* }

        impl Tally {
            /// Iterates over the counts by name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }
        }

        impl AddAssign for Tally {
            fn add_assign(&mut self, other: Tally) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

tally! {
    /// Operations.
    ops,
    /// Blocks allocated, those of bulk calls included.
    allocs,
    /// Blocks freed, those of bulk calls included.
    frees,
    /// Blocks allocated in bulk.
    bulk_allocs,
    /// Frames freed in bulk.
    bulk_frees,
    /// Bulk allocations that came back with less than was asked for.
    bulk_partial,
    /// Blocks split.
    splits,
    /// Blocks claimed by number.
    claims,
    /// Drains.
    drains,
    /// Comparisons of the engine's books with the model's.
    checks,
    /// Answers that were right only because other CPUs' lists held frames; the same request after a drain was judged.
    after_drain,
    /// Bad requests refused.
    bad_request,
    /// Refusals because of a watermark.
    below_watermark,
    /// Refusals because of fragmentation.
    fragmented,
    /// Refusals for lack of frames.
    out_of_memory,
    /// Frees of frames outside the arena.
    free_outside,
    /// Frees of frames that were free.
    free_not_allocated,
    /// Frees with another order.
    free_wrong_order,
    /// Frees of frames inside a block.
    free_not_head,
    /// Frees of blocks that cannot be.
    free_misaligned,
    /// Frees by CPUs that are not there.
    free_no_cpu,
    /// Frees of blocks that were being split.
    free_busy,
    /// Claims of frames outside the arena.
    claim_outside,
    /// Claims of frames that were held.
    claim_not_free,
    /// Claims of blocks that cannot be.
    claim_misaligned,
    /// Claims by CPUs that are not there.
    claim_no_cpu,
    /// Blocks that the engine took from a pageblock of another type.
    fallbacks,
    /// Of those, the ones from a pageblock too full to be converted.
    steals,
    /// Pageblocks that the engine converted.
    conversions,
    /// Pageblocks that the engine set aside for high-order requests that cannot wait.
    highatomic,
}

impl Tally {
    /// Counts a refused allocation.
    pub fn refused(&mut self, why: AllocError) {
        match why {
            AllocError::BadRequest(_) => self.bad_request += 1,
            AllocError::BelowWatermark { .. } => self.below_watermark += 1,
            AllocError::Fragmented { .. } => self.fragmented += 1,
            AllocError::OutOfMemory => self.out_of_memory += 1,
        }
    }

    /// Counts a refused free or split.
    pub fn wrong_free(&mut self, why: FreeError) {
        match why {
            FreeError::OutsideArena => self.free_outside += 1,
            FreeError::NotAllocated => self.free_not_allocated += 1,
            FreeError::WrongOrder { .. } => self.free_wrong_order += 1,
            FreeError::NotHead { .. } => self.free_not_head += 1,
            FreeError::Misaligned => self.free_misaligned += 1,
            FreeError::NoSuchCpu => self.free_no_cpu += 1,
            FreeError::Busy => self.free_busy += 1,
        }
    }

    /// Counts a refused claim.
    pub fn wrong_claim(&mut self, why: ClaimError) {
        match why {
            ClaimError::OutsideArena => self.claim_outside += 1,
            ClaimError::NotFree => self.claim_not_free += 1,
            ClaimError::Misaligned => self.claim_misaligned += 1,
            ClaimError::NoSuchCpu => self.claim_no_cpu += 1,
        }
    }

    /// Adds what the engine counted by itself.
    pub fn engine(&mut self, stats: &Stats) {
        self.fallbacks += stats[Counter::Extfrag];
        self.steals += stats[Counter::ExtfragSteal];
        self.conversions += stats[Counter::ExtfragClaim];
        self.highatomic += stats[Counter::HighatomicReserve];
    }

    /// Demands that each of these things happened.
    ///
    /// # Panics
    /// Names those that did not.
    pub fn assert_provoked(&self, names: &[&str]) {
        let missing: Vec<_> =
            names.iter().filter(|n| !self.iter().any(|(name, count)| name == **n && count > 0)).collect();
        assert!(missing.is_empty(), "the run never provoked {missing:?}:\n{self}");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(name, count)| writeln!(f, "{name:>20} {count}"))
    }
}
