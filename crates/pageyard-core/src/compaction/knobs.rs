//! The knobs of compaction. Each works alone.

use crate::units::{Order, PAGEBLOCK_ORDER};

/// In which compactions a technique is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// In none.
    Off,
    /// In direct asynchronous ones: what document 002 proposes.
    DirectAsync,
    /// In all direct ones.
    Direct,
    /// In the background as well.
    All,
}

/// How the memory of failures is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Deferral {
    /// Not at all: every request compacts.
    Off,
    /// One for all modes: a synchronous failure holds asynchronous compaction back as well.
    Shared,
    /// One for each mode, and asynchronous failures count too.
    ByMode,
    /// One for all modes, and an order counts as failed until it succeeds for the first time: so a failure holds back
    /// smaller orders, too, of which nothing is known.
    UntilSuccess,
}

/// What makes a scanner pass a pageblock over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Skip {
    /// A hint that an earlier scan left.
    Hints,
    /// Nothing.
    Nothing,
    /// Chance: this many of a thousand pageblocks, different ones in each compaction.
    Random(u16),
}

/// Which watermarks decide whether a compaction begins, ends, and may take a free block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Marks {
    /// The low one for everything, and it must be met for a compaction to have succeeded.
    Low,
    /// The min one, except that orders above 3 need room above the low one to begin. A free block that suits the request
    /// is a success whatever the watermark.
    Min,
}

/// When the scanners leave skip hints, where the next scan begins, and how hints are forgotten.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Hints {
    /// A pageblock in which a scan found nothing gets a hint. All hints are forgotten at once.
    NothingFound,
    /// A free scanner leaves one wherever it came to the end of a pageblock; a migrate scanner also where it isolated
    /// the pageblock's first frame. Hints are forgotten where a sample of the pageblock shows something to do.
    FirstFrame,
    /// As before, but a migrate scanner leaves one as soon as it has isolated any frame.
    AnyFrame,
}

/// Whether free lists are searched for a pageblock that is cheap to empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FastSource {
    /// They are not.
    Off,
    /// They are, and the pageblock found gets a skip hint before it is scanned: so it is passed over.
    Hinted,
    /// They are, and the pageblock found is emptied.
    Found,
}

/// Whether a pageblock that was begun is finished.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Finish {
    /// No: a compaction ends as soon as its goal is reached.
    Off,
    /// Yes: it ends only between pageblocks, and a second visit to a pageblock does not stop until its end.
    Begun,
    /// The same, and a failed migration makes it finish the pageblock instead of passing over the rest of a block.
    Failed,
}

/// How the frames of a cluster are moved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Moves {
    /// One by one, the lowest first. Free frames are looked for as many as are left to move.
    Upwards,
    /// One by one, the highest first. Free frames are looked for as many as the cluster had.
    Downwards,
    /// The highest first, and each gets its target before the first one is moved.
    Batch,
}

/// How many frames may be isolated, where the owner says how many there are ([`Migrate::listed`](super::Migrate::listed)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IsolatedLimit {
    /// Any number.
    Off,
    /// Half as many as are on lists for reclaim.
    Half,
    /// A sixteenth of them.
    Sixteenth,
}

/// Where an asynchronous compaction gives way when its CPU is wanted ([`Migrate::must_yield`](super::Migrate::must_yield)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Yields {
    /// Wherever it is: it ends as contended.
    Anywhere,
    /// Behind a zone: a request goes on to no other.
    BetweenZones,
}

/// From where both scanners set out. It takes effect with hints of `nothing_found`, where the migrate scanner stops at the free
/// scanner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pivot {
    /// From the zone's ends, towards its middle.
    Start,
    /// From where they met last, once a compaction has started over after the longest deferral. As posted in January 2015.
    Restarting,
    /// From where they met last, whenever hints have been forgotten, so also when the background reclaimer has gone to sleep.
    Forgetting,
}

/// In which order free frames in stock are used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TargetOrder {
    /// The highest frame of the block that was found last.
    LastFirst,
    /// The lowest frame of the smallest block.
    SmallestFirst,
}

/// The knobs, as `compaction.NAME`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Knobs {
    /// Whether requests and the background compact at all.
    pub enabled: bool,
    /// Whether the CPU's lists are emptied only after the block of the lowest frame *really isolated* was left, rather
    /// than of the first one scanned. Document 002, patch 2.
    pub last_migrated_drain: bool,
    /// Where the rest of a block of the wanted order is passed over once a frame of it cannot be isolated.
    /// Document 002, patch 3.
    pub skip_on_failure: Scope,
    /// The largest block that the background passes over that way.
    pub skip_on_failure_order: Order,
    /// Where free frames come straight from the zone's lists. Document 002, patch 4.
    pub direct_free: Scope,
    /// Whether free frames that are left after a failed migration are given back at once. A reviewer's question about patch 4.
    pub release_leftovers: bool,
    /// Whether the migrate scanner goes on past the free scanner where free frames come directly. What the author of
    /// patch 4 meant.
    pub migrate_ignores_free_scanner: bool,
    /// How failures are remembered.
    pub deferral: Deferral,
    /// What makes a scanner pass a pageblock over.
    pub skip: Skip,
    /// Whether a synchronous compaction looks at everything: every pageblock of every type, from the zone's ends.
    pub thorough: bool,
    /// Whether asynchronous compaction empties pageblocks of the movable type only.
    pub async_movable_only: bool,
    /// Whether two compactors keep out of each other's pageblocks. Conflicts are counted either way.
    pub leases: bool,
    /// Whether a request takes the block that was made for it before others can.
    pub capture: bool,
    /// Whether the free scanner stops when the zone is at its floor, instead of scanning on (4.8 and later).
    pub stop_at_floor: bool,
    /// Frames that an asynchronous compaction may examine before it counts as contended; 0 for no limit.
    pub async_budget: u64,
    /// `vm.extfrag_threshold`: at or below this index, in thousandths, memory is short rather than fragmented.
    pub extfrag_threshold: u16,
    /// `vm.compaction_proactiveness`: 0 never compacts ahead of need, 100 does most.
    pub proactiveness: u8,
    /// Which watermarks count.
    pub marks: Marks,
    /// When skip hints are left and forgotten.
    pub hints: Hints,
    /// Whether the background compactor for a request's order obeys skip hints, and empties all CPUs' lists when it
    /// fails.
    pub background_hints: bool,
    /// Whether a direct asynchronous compaction empties pageblocks of the request's own type only.
    pub async_same_type: bool,
    /// Whether pageblocks that begin with a free block of the wanted order are spared by the free scanner; otherwise
    /// only those that are free as a whole.
    pub spare_wanted: bool,
    /// Whether the free scanner takes free blocks whole and keeps what is not needed yet.
    pub whole_blocks: bool,
    /// In which order free frames in stock are used.
    pub target_order: TargetOrder,
    /// Whether the free scanner strides through pageblocks while it finds nothing, asynchronously from the start.
    pub stride: bool,
    /// Whether the free lists are searched for targets before the free scanner moves.
    pub fast_free: bool,
    /// Whether the free lists are searched for a pageblock to empty.
    pub fast_source: FastSource,
    /// Whether a pageblock that was begun is finished.
    pub finish: Finish,
    /// How the frames of a cluster are moved.
    pub moves: Moves,
    /// Whether free frames that were not needed go to the CPU's lists.
    pub leftovers_listed: bool,
    /// Whether the free scanner leaves alone the pageblock in which the migrate scanner goes on, even if it has not begun it.
    pub spare_next: bool,
    /// Whether a request tries once more where every zone was left out because it failed lately.
    pub attempt_deferred: bool,
    /// Whether movable blocks of several frames move as a whole, those below the wanted order and a pageblock's. It takes
    /// effect with `whole_blocks` and `TargetOrder::SmallestFirst`, where free frames do not come directly.
    pub large_folios: bool,
    /// How many frames may be isolated before a compaction that does not wait ends, and one that does waits.
    pub isolated_limit: IsolatedLimit,
    /// Where asynchronous compaction gives way.
    pub yields: Yields,
    /// From where both scanners set out.
    pub pivot: Pivot,
    /// Whether scanners that met in an asynchronous compaction set out anew; otherwise only after one that waits.
    pub async_resets: bool,
    /// Whether a request for a whole pageblock empties movable ones while it does not wait, whatever its own type: what it gets is
    /// converted as a whole (a series of June 2026).
    pub whole_empties_movable: bool,
}

impl Knobs {
    /// Linux 4.6 as document 002's patch 2 found it.
    #[must_use]
    pub const fn linux_4_6() -> Knobs {
        Knobs {
            enabled: true,
            last_migrated_drain: false,
            skip_on_failure: Scope::Off,
            skip_on_failure_order: PAGEBLOCK_ORDER,
            direct_free: Scope::Off,
            release_leftovers: false,
            migrate_ignores_free_scanner: false,
            deferral: Deferral::UntilSuccess,
            skip: Skip::Hints,
            thorough: false,
            async_movable_only: true,
            leases: false,
            capture: false,
            stop_at_floor: false,
            async_budget: 0,
            extfrag_threshold: 500,
            proactiveness: 0,
            marks: Marks::Low,
            hints: Hints::NothingFound,
            background_hints: false,
            async_same_type: false,
            spare_wanted: false,
            whole_blocks: true,
            target_order: TargetOrder::LastFirst,
            stride: false,
            fast_free: false,
            fast_source: FastSource::Off,
            finish: Finish::Off,
            moves: Moves::Downwards,
            leftovers_listed: true,
            spare_next: true,
            attempt_deferred: false,
            large_folios: false,
            isolated_limit: IsolatedLimit::Half,
            yields: Yields::Anywhere,
            pivot: Pivot::Start,
            async_resets: true,
            whole_empties_movable: false,
        }
    }

    /// Linux 4.10: document 002's patches 2 and 3 are in.
    #[must_use]
    pub const fn linux_4_10() -> Knobs {
        Knobs {
            last_migrated_drain: true,
            skip_on_failure: Scope::DirectAsync,
            stop_at_floor: true,
            marks: Marks::Min,
            ..Knobs::linux_4_6()
        }
    }

    /// Linux 6.1: free lists are searched for targets and sources, a pageblock that was begun is finished, blocks are
    /// captured, and compaction runs ahead of need.
    #[must_use]
    pub const fn linux_6_1() -> Knobs {
        Knobs {
            capture: true,
            attempt_deferred: true,
            proactiveness: 20,
            hints: Hints::FirstFrame,
            background_hints: true,
            async_same_type: true,
            stride: true,
            fast_free: true,
            fast_source: FastSource::Hinted,
            finish: Finish::Begun,
            yields: Yields::BetweenZones,
            ..Knobs::linux_4_10()
        }
    }

    /// Linux 6.12: the pageblock that a search of the free lists finds is emptied, a failed migration makes compaction
    /// finish a pageblock, and large folios move.
    #[must_use]
    pub const fn linux_6_12() -> Knobs {
        Knobs {
            hints: Hints::AnyFrame,
            spare_wanted: true,
            target_order: TargetOrder::SmallestFirst,
            fast_source: FastSource::Found,
            finish: Finish::Failed,
            moves: Moves::Batch,
            large_folios: true,
            isolated_limit: IsolatedLimit::Sixteenth,
            ..Knobs::linux_6_1()
        }
    }

    /// The engine's own: it chooses what to empty, and where to move it, by what it knows of its pageblocks.
    #[must_use]
    pub const fn engine() -> Knobs {
        Knobs {
            direct_free: Scope::All,
            leases: true,
            deferral: Deferral::ByMode,
            capture: true,
            extfrag_threshold: 0,
            marks: Marks::Low,
            whole_blocks: false,
            moves: Moves::Upwards,
            leftovers_listed: false,
            spare_next: false,
            ..Knobs::linux_4_10()
        }
    }
}
