//! The mode in which no request mixes types before reclaim and compaction have failed.

use super::posting::{Patch, Series, claim, on, set};
use pageyard::knob::Version;
use pageyard_replay::what_if::Figure::{
    CompactFailed, CompactHelped, DirectReclaimed, DirectScanned, Fallbacks, FreeScanned, HugeRefused,
    MigrateScanned, ReclaimStalls, Reclaimed, Scanned,
};
use pageyard_replay::what_if::Reclaim::{Imitated, Recorded};
use pageyard_replay::what_if::Sign::{Down, Up};

/// The figures are those of 15 kernel builds beside bursts of requests for huge pages, before the series and with it.
pub(super) const SERIES: Series = Series {
    name: "defrag-mode",
    about: "whole pageblocks by reclaim and compaction instead of mixed ones, Linux 6.18",
    patches: &[Patch {
        subject: "mm: reliable huge page allocator",
        posted: "Johannes Weiner, 13 March 2025; merged in 6.15 as vm.defrag_mode",
        load: "huge",
        recorded: on("6.18"),
        before: on("6.18"),
        after: set("6.18", "vm/defrag_mode", "1"),
        release: Version(6, 18),
        rules: &[("defrag_mode", "1")],
        claims: &[
            claim(Fallbacks, Down, Recorded, "186,235 requests mix types in a pageblock, then none"),
            claim(HugeRefused, Down, Imitated, "21,911 huge pages not given, then 5,412"),
            claim(CompactFailed, Down, Imitated, "compaction does not help 196 requests, then 59"),
            claim(CompactHelped, Down, Imitated, "it helps 7.9, then 2.8"),
            claim(MigrateScanned, Down, Imitated, "3.53 million frames, then 2.32"),
            claim(FreeScanned, Down, Imitated, "5.24 million frames, then 2.38"),
            claim(ReclaimStalls, Down, Imitated, "2,371 requests wait for reclaim, then 639"),
            claim(Scanned, Up, Imitated, "2.16 million frames, then 4.00"),
            claim(Reclaimed, Up, Imitated, "533,191 frames, then 718,578"),
            claim(DirectScanned, Down, Imitated, "400,450 frames, then 355,173"),
            claim(DirectReclaimed, Down, Imitated, "94,442 frames, then 31,163"),
        ],
    }],
};
