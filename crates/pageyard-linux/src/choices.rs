//! The choices of the reference's knobs. Layer: settings.

use pageyard_core::named;

named! {
    /// Where a page fragment's frame goes when its last reference is given up.
    pub enum FragFree {
        /// To the zone.
        Buddy = "buddy",
        /// To the per-CPU list, where lists take blocks of its order: of single frames (A. Lu's patch of November
        /// 2018), or, with `pcp_high_orders`, of larger blocks too.
        Pcp = "pcp",
    }

    /// How a walk steps from one entry of a zonelist to the next.
    pub enum ZonelistIterator {
        /// By a call.
        Called = "called",
        /// Inline where no mask is in force (M. Gorman's patch of April 2016).
        Inlined = "inlined",
    }

    /// How large the per-CPU lists grow, and how they shrink.
    pub enum PcpPolicy {
        /// `high` is six batches; a full list gives one batch back (4.x).
        Classic = "classic",
        /// `high` comes from the low watermark; the batch given back doubles with each free (6.1).
        FreeFactor = "free_factor",
        /// `high` moves between `high_min` and `high_max` with demand (6.7 and later).
        Auto = "auto",
    }

    /// When a CPU that frees one block of order 1 to 3 after another gives up all that its lists hold, under
    /// [`PcpPolicy::Auto`].
    pub enum FreeHigh {
        /// After a batch of frames without an allocation (6.7 to 6.15).
        Batch = "batch",
        /// After a batch and half of `high_min` (6.16 and later).
        BatchAndHalf = "batch_and_half",
    }

    /// How a CPU's lists give back what they hold too much of, under [`PcpPolicy::Auto`].
    pub enum Portions {
        /// In one go.
        AtOnce = "at_once",
        /// A batch at a time, each beginning at the same list: blocks that are larger than what is left of a batch make
        /// it give more.
        ByBatch = "by_batch",
    }

    /// Who is spared the boost that fragmentation gives to the watermarks, and who wakes the background reclaimer for
    /// it.
    pub enum BoostRule {
        /// `GFP_ATOMIC` is spared; any request wakes (6.1).
        Atomic = "atomic",
        /// Every high-priority request is spared; those wake that may (6.12 and later).
        High = "high",
    }

    /// When a movable request uses areas that their owners lend (`MIGRATE_CMA`).
    pub enum CmaUse {
        /// When it has no free block of its own type left.
        Last = "last",
        /// The same, and first of all while more than half of what is free is there.
        Half = "half",
    }

    /// How a request takes from pageblocks of another type.
    pub enum FallbackPolicy {
        /// Largest block first, whatever the request; a pageblock is converted when half of it is free (4.x).
        HalfFree = "half_free",
        /// Movable requests split the smallest block; alike frames count towards the half (4.12 to 6.9).
        Alike = "alike",
        /// A block is either claimed as a whole or one block is taken from it; free lists never mix types (6.10 and
        /// later).
        ClaimOrSteal = "claim_or_steal",
        /// By LLFree's placement classes: what cannot be moved, what can, free pageblocks. A request of the first takes
        /// over pageblocks of the others whatever they hold; one of the second takes over free ones, and single blocks
        /// from the first. Free lists never mix types.
        Classes = "classes",
    }

    /// How many pageblocks may be set aside for high-order requests that cannot wait.
    pub enum HighatomicLimit {
        /// One percent of the zone and one pageblock more.
        PercentPlusOne = "percent_plus_one",
        /// One percent of the zone rounded up to a pageblock; none where one percent is less than one.
        PercentRounded = "percent_rounded",
    }

    /// Which atomic requests for several frames let their reserve grow.
    pub enum HighatomicGrowth {
        /// All that are served on the slow path.
        Served = "served",
        /// Those of them that the zone serves, past the per-CPU lists, which take nothing from it on their behalf.
        Unlisted = "unlisted",
        /// Those of these that ask for more than order 3 (JP Kobryn, May 2026).
        Costly = "costly",
    }

    /// Where the compaction stands that costly requests, and those for what cannot be moved, begin with.
    pub enum FirstCompaction {
        /// Before the loop of reclaim and compaction.
        Apart = "apart",
        /// It is that loop's first round, which reclaims nothing.
        FirstRound = "first_round",
    }

    /// How often a request that waits for reclaim and compaction tries again.
    pub enum Retries {
        /// While reclaim makes progress, up to order 3; once above (4.6).
        Progress = "progress",
        /// While the frames that could be reclaimed would be enough, and compaction 16 times, 4 above order 3 (4.7 and
        /// later).
        Bounded = "bounded",
    }

    /// The unit that reclaim and the background reclaimer work on.
    pub enum Reclaimer {
        /// A zone: each has its own lists of pages by age (until 4.7).
        ByZone = "by_zone",
        /// A node, up to the highest zone that a request may use (4.8 and later).
        ByNode = "by_node",
    }

    /// How it is known that reclaim is in vain.
    pub enum Unreclaimable {
        /// All that is reclaimable was looked at six times since a frame came back: only the softest look is still
        /// made (until 4.11).
        Scanned = "scanned",
        /// The background reclaimer has freed nothing in 16 runs: it is not woken until a request frees something
        /// (4.12 and later). With [`Reclaimer::ByZone`] nothing counts as unreclaimable.
        Failures = "failures",
    }

    /// When the background reclaimer of a node may sleep, with [`Reclaimer::ByNode`].
    pub enum Rest {
        /// Every zone that it reclaims from is above its high watermark (4.8 to 4.11).
        AllBalanced = "all_balanced",
        /// One of them is (4.12 and later).
        OneBalanced = "one_balanced",
    }

    /// Who wakes the background compactor.
    pub enum CompactorWake {
        /// The background reclaimer, when it goes to sleep.
        AfterReclaim = "after_reclaim",
        /// Also a request that cannot wait, where it finds enough free memory, or a node from which nothing can be
        /// reclaimed (4.17 and later).
        Instead = "instead",
    }
}
