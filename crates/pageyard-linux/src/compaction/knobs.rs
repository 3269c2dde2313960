//! The knobs of compaction. Each works alone.

pub use super::choices::{
    ContendedLock, Deferral, FastSource, Finish, Gap, Hints, IsolatedLimit, Marks, Moves, Pivot, Scope, Skip,
    TargetOrder, Yields,
};
use pageyard_core::knob::Place::{BuildOption, Code, Ours, Sysctl};
use pageyard_core::knob::Releases::{Between, Every, Never, Since, Until};
use pageyard_core::knob::Values::{Amount, Number};
use pageyard_core::knob::{ANY, Version, follow};
use pageyard_core::knobs;
use pageyard_core::units::{Order, PAGEBLOCK_ORDER};

knobs! {
    /// The knobs, as `compaction.NAME`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Knobs {}
    prefix "compaction.";

    enabled: bool = true {
        about: "whether requests and the background compact at all",
        place: BuildOption("CONFIG_COMPACTION"),
        releases: &[("false", Every), ("true", Every)],
        note: "Since 2.6.35.",
    }
    /// After the block of the lowest such frame was left, rather than of the first frame scanned.
    last_migrated_drain: bool {
        about: "per-CPU lists are emptied only after a block that was really isolated (2016, patch 2)",
        place: Code("last_migrated_pfn in compact_zone"),
        releases: &[("false", Until(4, 6)), ("true", Since(4, 7))],
    }
    skip_on_failure: Scope {
        about: "where a block is passed over once a frame of it cannot be isolated (2016, patch 3)",
        place: Code("skip_on_failure in isolate_migratepages_block"),
        releases: &[("off", Until(4, 6)), ("direct_async", Since(4, 7)), ("direct", Never), ("all", Never)],
    }
    skip_on_failure_order: Order = PAGEBLOCK_ORDER {
        about: "the largest block that the background passes over that way",
        values: Number { from: 1, to: 9, unit: "" },
        place: Ours("Linux's background does not pass blocks over that way"),
    }
    direct_free: Scope {
        about: "where free frames to move to come straight from the free lists (2016, patch 4)",
        place: Code("compaction_alloc"),
        releases: &[("off", Every), ("direct_async", Never), ("direct", Never), ("all", Never)],
        note: "The patch was not merged. Since 5.1 fast_isolate_freepages looks for targets in the free lists in \
            another way: compaction.fast_free.",
    }
    release_leftovers: bool {
        about: "whether free frames left after a failed migration are given back at once",
        place: Ours("a reviewer's question about the patch behind compaction.direct_free, which was not merged"),
    }
    /// Where free frames come directly.
    migrate_ignores_free_scanner: bool {
        about: "whether the migrate scanner goes on past the free scanner",
        place: Ours("what the author of the patch behind compaction.direct_free meant to do"),
    }
    /// The free scanner looks at each pageblock once in a compaction, whatever its hint, and passes the one that is
    /// being emptied over. A pageblock that it came to the end of gets a hint, which the migrate scanner obeys.
    whole_zone: bool {
        about: "whether both scanners go through the whole zone, and what was filled is not emptied (J. Kim, 2015)",
        place: Code("compact_finished"),
        releases: &[("false", Every), ("true", Never)],
        note: "The reviewer's algorithm of document 002, which was not merged, after its description.",
    }
    deferral: Deferral {
        about: "how failures are remembered",
        place: Code("defer_compaction, compaction_deferred"),
        releases: &[("off", Never), ("shared", Never), ("by_mode", Never), ("until_success", Every)],
        note: "Asynchronous compaction never defers. An order that was never tried counts as failed \
            (compact_order_failed begins at 0).",
    }
    skip: Skip {
        about: "what makes a scanner pass a pageblock over",
        place: Code("PB_migrate_skip"),
        releases: &[("hints", Since(3, 7)), ("nothing", Until(3, 6)), ("random:500", Never)],
    }
    /// Of every type, from the zone's ends.
    thorough: bool {
        about: "whether a synchronous compaction looks at every pageblock",
        place: Code("COMPACT_PRIO_SYNC_FULL"),
        releases: &[("false", Every), ("true", Since(4, 8))],
        note: "Since 4.8 a request's last attempts are thorough; the first are not.",
    }
    async_movable_only: bool {
        about: "whether asynchronous compaction empties movable pageblocks only",
        place: Code("suitable_migration_source"),
        releases: &[("true", Every), ("false", Never)],
        note: "Of no account where compaction.async_same_type is true.",
    }
    /// Conflicts are counted either way.
    leases: bool {
        about: "whether two compactors keep out of each other's pageblocks",
        place: Ours("in Linux two compactors may meet in one pageblock"),
    }
    capture: bool {
        about: "whether a request takes the block made for it before others can",
        place: Code("compaction_capture"),
        releases: &[("false", Until(5, 0)), ("true", Since(5, 1))],
    }
    /// Otherwise it scans on.
    stop_at_floor: bool {
        about: "whether the free scanner stops when the zone is at its floor",
        place: Code("isolate_freepages_block"),
        releases: &[("false", Until(4, 7)), ("true", Since(4, 8))],
    }
    /// Then it counts as contended.
    async_budget: u64 {
        about: "frames that an asynchronous compaction may examine",
        values: Amount { to: u64::MAX, unit: "frames, 0 for no limit" },
        place: Ours("Linux gives up when a lock is contended or another task should run, which no run could repeat"),
    }
    extfrag_threshold: u16 = 500 {
        about: "the index, in thousandths, at or below which memory is short rather than fragmented",
        values: Number { from: 0, to: 1000, unit: "" },
        place: Sysctl("vm.extfrag_threshold"),
        releases: &[(ANY, Every)],
        note: "500 unless it is set. Since 2.6.35.",
    }
    proactiveness: u8 = 20 {
        about: "how much is compacted ahead of need",
        values: Number { from: 0, to: 100, unit: "" },
        place: Sysctl("vm.compaction_proactiveness"),
        releases: &[("0", Until(5, 8)), (ANY, Since(5, 9))],
        note: "20 unless it is set.",
    }
    marks: Marks {
        about: "which watermarks decide whether a compaction begins and has succeeded",
        place: Code("__compaction_suitable, __compact_finished, __isolate_free_page"),
        releases: &[("low", Until(4, 8)), ("min", Since(4, 9))],
    }
    hints: Hints {
        about: "when scanners leave skip hints, where the next scan begins, and how hints are forgotten",
        place: Code("test_and_set_skip, update_cached_migrate, update_pageblock_skip, __reset_isolation_suitable"),
        releases: &[
            ("nothing_found", Until(5, 0)),
            ("first_frame", Between((5, 1), (6, 1))),
            ("any_frame", Since(6, 12)),
        ],
        note: "Hints changed several times between 6.1 and 6.12.",
    }
    background_hints: bool {
        about: "whether the background obeys skip hints, and empties all CPUs' lists when it fails",
        place: Code("kcompactd_do_work"),
        releases: &[("false", Until(4, 10)), ("true", Since(5, 10))],
        note: "The change came between those releases.",
    }
    async_same_type: bool {
        about: "whether a request's asynchronous compaction empties its own type's pageblocks only",
        place: Code("suitable_migration_source"),
        releases: &[("false", Until(4, 11)), ("true", Since(4, 12))],
    }
    /// Otherwise only those that are free as a whole.
    spare_wanted: bool {
        about: "whether pageblocks that begin with a free block of the wanted order take nothing in",
        place: Code("suitable_migration_target"),
        releases: &[("false", Until(6, 8)), ("true", Since(6, 9))],
    }
    whole_blocks: bool {
        about: "whether the free scanner takes free blocks whole and keeps what is left for later",
        place: Code("isolate_freepages_block"),
        releases: &[("false", Never), ("true", Every)],
    }
    target_order: TargetOrder {
        about: "which of the free frames in stock is used first",
        place: Code("compaction_alloc"),
        releases: &[("last_first", Until(6, 8)), ("smallest_first", Since(6, 9))],
    }
    /// Asynchronously from the start.
    stride: bool {
        about: "whether the free scanner strides through pageblocks while it finds nothing",
        place: Code("isolate_freepages"),
        releases: &[("false", Until(5, 0)), ("true", Since(5, 1))],
    }
    fast_free: bool {
        about: "whether targets are looked for in the free lists before the free scanner moves",
        place: Code("fast_isolate_freepages"),
        releases: &[("false", Until(5, 0)), ("true", Since(5, 1))],
    }
    fast_source: FastSource {
        about: "whether a pageblock to empty is looked for in the free lists",
        place: Code("fast_find_migrateblock"),
        releases: &[("off", Until(5, 0)), ("hinted", Between((5, 1), (6, 1))), ("found", Since(6, 12))],
        note: "6.1 was released with the mended search, which its long-term branch took back; it came again before \
            6.12.",
    }
    finish: Finish {
        about: "whether a pageblock that was begun is finished",
        place: Code("rescan, later finish_pageblock, in struct compact_control"),
        releases: &[("off", Until(5, 0)), ("begun", Between((5, 1), (6, 1))), ("failed", Since(6, 12))],
        note: "The change from begun to failed came between 6.1 and 6.12. Since 4.12 requests that are not movable \
            end between pageblocks.",
    }
    moves: Moves {
        about: "in which order isolated frames are moved, and when they get their targets",
        place: Code("migrate_pages"),
        releases: &[("upwards", Never), ("downwards", Until(6, 2)), ("batch", Since(6, 3))],
        note: "Frames are isolated to the head of a list, so the last one is moved first. Until 6.8 targets are \
            looked for as many as were isolated.",
    }
    leftovers_listed: bool {
        about: "whether free frames that compaction did not need go to the CPU's lists",
        place: Code("release_freepages, later release_free_list"),
        releases: &[("false", Never), ("true", Every)],
    }
    /// Even if it has not begun it.
    spare_next: bool {
        about: "whether the free scanner leaves alone the pageblock that the migrate scanner comes to next",
        place: Code("low_pfn in isolate_freepages"),
        releases: &[("false", Never), ("true", Every)],
    }
    attempt_deferred: bool {
        about: "whether a request tries once more where compaction was left out in every zone",
        place: Code("__alloc_pages_direct_compact"),
        releases: &[("false", Until(4, 10)), ("true", Between((5, 10), (7, 1))), ("false", Since(7, 2))],
        note: "The first change came between 4.10 and 5.10.",
    }
    /// Those below the wanted order and a pageblock's. It takes effect with `whole_blocks` and
    /// `TargetOrder::SmallestFirst`, where free frames do not come directly.
    large_folios: bool {
        about: "whether movable blocks of several frames move as a whole",
        place: Code("skip_isolation_on_order, compaction_alloc"),
        releases: &[("false", Until(6, 8)), ("true", Since(6, 9))],
        note: "A block for which no target is large enough is split, if its owner does that.",
    }
    /// Then a compaction that does not wait ends, and one that does waits.
    isolated_limit: IsolatedLimit {
        about: "which part of what is on lists for reclaim may be isolated at once",
        place: Code("too_many_isolated in compaction"),
        releases: &[("off", Never), ("half", Until(6, 1)), ("sixteenth", Since(6, 12))],
        note: "The change came between 6.1 and 6.12. It takes effect where the owner of frames counts them; a request \
            that may not enter a filesystem is held to a half there in every version.",
    }
    contended_lock: ContendedLock {
        about: "what an asynchronous compaction does where a lock that it needs is held",
        place: Code("compact_trylock_irqsave, later compact_lock_irqsave"),
        releases: &[("waits", Until(3, 5)), ("gives_way", Between((3, 6), (5, 0))), ("gives_way_later", Since(5, 1))],
        note: "The zone's lock is tried once for each pageblock, the owner's lists before each cluster and at every 32nd \
            frame. What is searched for in the free lists waits in every release.",
    }
    yields: Yields {
        about: "where asynchronous compaction gives way to another task that wants its CPU",
        place: Code("compact_should_abort, try_to_compact_pages"),
        releases: &[("anywhere", Until(5, 0)), ("between_zones", Since(5, 1))],
        note: "It takes effect where the owner of frames says when the CPU is wanted.",
    }
    pivot: Pivot {
        about: "where both scanners set out: the zone's ends, or where they met last",
        place: Code("__reset_isolation_suitable"),
        releases: &[("start", Every), ("restarting", Never), ("forgetting", Never)],
        note: "restarting: \"mm, compaction: set pivot pfn to the pfn when scanners met last time\" (V. Babka, \
            January 2015), not merged. It takes effect with hints of nothing_found, so not from 6.1 on.",
    }
    async_resets: bool {
        about: "whether scanners that met in an asynchronous compaction set out anew",
        place: Code("reset_cached_positions in __compact_finished"),
        releases: &[("false", Never), ("true", Every)],
    }
    gap: Gap {
        about: "how many frames more than are kept back must be free for compaction to be worth it: twice the block, or \
            no more than 32",
        place: Code("compact_gap"),
        releases: &[("twice", Until(7, 1)), ("at_most_32", Since(7, 2))],
    }
    empties_lent: bool {
        about: "whether compaction for a request empties pageblocks that owners lend, where the request may not use them",
        place: Code("suitable_migration_source"),
        releases: &[("true", Until(7, 1)), ("false", Since(7, 2))],
    }
    /// Of blocks above order 3.
    async_needs_own: bool {
        about: "whether a request that may not use lent frames compacts without waiting only if enough others are free",
        place: Code("compaction_suit_allocation_order"),
        releases: &[("false", Until(6, 13)), ("true", Since(6, 14))],
    }
    /// A pageblock that it takes is converted as a whole.
    whole_empties_movable: bool {
        about: "whether a request for a whole pageblock empties movable ones while it does not wait, whatever its type",
        place: Code("suitable_migration_source, fast_find_migrateblock"),
        releases: &[("false", Until(7, 1)), ("true", Since(7, 2))],
        note: "Of the same series as defrag_promotes. It takes effect where asynchronous compaction keeps to \
            pageblocks of a type, from 5.1 on.",
    }
}

impl Knobs {
    /// Returns how many frames more than are kept back must be free for a compaction that makes a block.
    ///
    /// # Linux
    /// `compact_gap`.
    #[must_use]
    pub(crate) fn gap_for(&self, order: Order) -> u64 {
        let twice = 2 * order.frames().0;
        if self.gap == Gap::Twice { twice } else { twice.min(32) }
    }

    /// Linux 4.6 as document 002's patch 2 found it.
    #[must_use]
    pub fn linux_4_6() -> Knobs {
        Knobs::of_release(Version(4, 6))
    }

    /// Linux 4.10: document 002's patches 2 and 3 are in.
    #[must_use]
    pub fn linux_4_10() -> Knobs {
        Knobs::of_release(Version(4, 10))
    }

    /// Linux 6.1: free lists are searched for targets and sources, a pageblock that was begun is finished, blocks are
    /// captured, and compaction runs ahead of need.
    #[must_use]
    pub fn linux_6_1() -> Knobs {
        Knobs::of_release(Version(6, 1))
    }

    /// Linux 6.12: the pageblock that a search of the free lists finds is emptied, a failed migration makes compaction
    /// finish a pageblock, and large folios move.
    #[must_use]
    pub fn linux_6_12() -> Knobs {
        Knobs::of_release(Version(6, 12))
    }

    fn of_release(release: Version) -> Knobs {
        let mut knobs = Knobs::defaults();
        follow(knobs.fields(), release);
        knobs
    }
}
