//! The choices of compaction's knobs.

use pageyard_core::knob::{Typed, Values};
use pageyard_core::named;

named! {
    /// How many frames more than are kept back must be free, so that compaction has where to move things to.
    pub enum Gap {
        /// Twice the block (until 7.1).
        Twice = "twice",
        /// The same, but at most 32 (7.2 and later).
        AtMost32 = "at_most_32",
    }

    /// In which compactions a technique is used.
    pub enum Scope {
        /// In none.
        Off = "off",
        /// In direct asynchronous ones: what document 002 proposes.
        DirectAsync = "direct_async",
        /// In all direct ones.
        Direct = "direct",
        /// In the background as well.
        All = "all",
    }

    /// How the memory of failures is kept.
    pub enum Deferral {
        /// Not at all: every request compacts.
        Off = "off",
        /// One for all modes: a synchronous failure holds asynchronous compaction back as well.
        Shared = "shared",
        /// One for each mode, and asynchronous failures count too.
        ByMode = "by_mode",
        /// One for all modes, and an order counts as failed until it succeeds for the first time: so a failure holds
        /// back smaller orders, too, of which nothing is known.
        UntilSuccess = "until_success",
    }

    /// Which watermarks decide whether a compaction begins, ends, and may take a free block.
    pub enum Marks {
        /// The low one for everything, and it must be met for a compaction to have succeeded.
        Low = "low",
        /// The min one, except that orders above 3 need room above the low one to begin. A free block that suits the
        /// request is a success whatever the watermark.
        Min = "min",
    }

    /// When the scanners leave skip hints, where the next scan begins, and how hints are forgotten.
    pub enum Hints {
        /// A pageblock in which a scan found nothing gets a hint. All hints are forgotten at once.
        NothingFound = "nothing_found",
        /// A free scanner leaves one wherever it came to the end of a pageblock; a migrate scanner also where it
        /// isolated the pageblock's first frame. Hints are forgotten where a sample of the pageblock shows something
        /// to do.
        FirstFrame = "first_frame",
        /// As before, but a migrate scanner leaves one as soon as it has isolated any frame.
        AnyFrame = "any_frame",
    }

    /// Whether free lists are searched for a pageblock that is cheap to empty.
    pub enum FastSource {
        /// They are not.
        Off = "off",
        /// They are, and the pageblock found gets a skip hint before it is scanned: so it is passed over.
        Hinted = "hinted",
        /// They are, and the pageblock found is emptied.
        Found = "found",
    }

    /// Whether a pageblock that was begun is finished.
    pub enum Finish {
        /// No: a compaction ends as soon as its goal is reached.
        Off = "off",
        /// Yes: it ends only between pageblocks, and a second visit to a pageblock does not stop until its end.
        Begun = "begun",
        /// The same, and a failed migration makes it finish the pageblock instead of passing over the rest of a block.
        Failed = "failed",
    }

    /// How the frames of a cluster are moved.
    pub enum Moves {
        /// One by one, the lowest first. Free frames are looked for as many as are left to move.
        Upwards = "upwards",
        /// One by one, the highest first. Free frames are looked for as many as the cluster had.
        Downwards = "downwards",
        /// The highest first, and each gets its target before the first one is moved.
        Batch = "batch",
    }

    /// How many frames may be isolated, where the owner says how many there are
    /// ([`Migrate::listed`](super::Migrate::listed)).
    pub enum IsolatedLimit {
        /// Any number.
        Off = "off",
        /// Half as many as are on lists for reclaim.
        Half = "half",
        /// A sixteenth of them.
        Sixteenth = "sixteenth",
    }

    /// Where an asynchronous compaction gives way when its CPU is wanted
    /// ([`Migrate::must_yield`](super::Migrate::must_yield)).
    pub enum Yields {
        /// Wherever it is: it ends as contended.
        Anywhere = "anywhere",
        /// Behind a zone: a request goes on to no other.
        BetweenZones = "between_zones",
    }

    /// How an asynchronous compaction behaves where a lock that it needs is held.
    pub enum ContendedLock {
        /// It waits.
        Waits = "waits",
        /// It gives way at once.
        GivesWay = "gives_way",
        /// It waits, and gives way after the cluster.
        GivesWayLater = "gives_way_later",
    }

    /// From where both scanners set out. It takes effect with hints of `nothing_found`, where the migrate scanner
    /// stops at the free scanner.
    pub enum Pivot {
        /// From the zone's ends, towards its middle.
        Start = "start",
        /// From where they met last, once a compaction has started over after the longest deferral. As posted in
        /// January 2015.
        Restarting = "restarting",
        /// From where they met last, whenever hints have been forgotten, so also when the background reclaimer has
        /// gone to sleep.
        Forgetting = "forgetting",
    }

    /// In which order free frames in stock are used.
    pub enum TargetOrder {
        /// The highest frame of the block that was found last.
        LastFirst = "last_first",
        /// The lowest frame of the smallest block.
        SmallestFirst = "smallest_first",
    }
}

/// The reason for which a scanner skips a pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Skip {
    /// A hint that an earlier scan left.
    Hints,
    /// Nothing.
    Nothing,
    /// Chance: this many of a thousand pageblocks, different ones in each compaction.
    Random(u16),
}

impl Typed for Skip {
    const VALUES: Values = Values::NamesOr {
        names: &["hints", "nothing"],
        prefix: "random:",
        to: 999,
        unit: "of a thousand pageblocks",
    };
    const FIRST: Skip = Skip::Hints;

    fn number(self) -> u64 {
        match self {
            Skip::Hints => 0,
            Skip::Nothing => 1,
            Skip::Random(n) => 1 + u64::from(n),
        }
    }

    fn of(number: u64) -> Skip {
        match number {
            0 => Skip::Hints,
            1 => Skip::Nothing,
            n => Skip::Random(n as u16 - 1),
        }
    }
}
