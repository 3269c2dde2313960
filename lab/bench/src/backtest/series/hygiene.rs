//! Free blocks that stay on the lists of their pageblock's type.

use super::posting::{Patch, Series, claim, on};
use pageyard::knob::Version;
use pageyard_replay::what_if::Figure::{
    CompactFailed, CompactHelped, CompactStalls, DirectReclaimed, DirectScanned, Fallbacks, FreeScanned,
    HugeRefused, MigrateScanned, ReclaimStalls, Reclaimed, Scanned,
};
use pageyard_replay::what_if::Reclaim::{Imitated, Recorded};
use pageyard_replay::what_if::Sign::{Down, None as Same, Up};

/// The figures are those of 50 kernel builds beside bursts of requests for huge pages.
pub(super) const SERIES: Series = Series {
    name: "hygiene",
    about: "free blocks that stay on the lists of their pageblock's type, from Linux 6.1 to 6.12",
    patches: &[Patch {
        subject: "mm: page_alloc: freelist migratetype hygiene",
        posted: "Johannes Weiner, v4, 20 March 2024; merged in 6.10",
        load: "huge",
        recorded: on("6.1"),
        before: on("6.1"),
        after: on("6.12"),
        release: Version(6, 1),
        rules: &[("fallback", "claim_or_steal")],
        claims: &[
            claim(Fallbacks, Down, Recorded, "1,328 fallbacks, then 1"),
            claim(HugeRefused, Down, Imitated, "36,626 huge pages not given, then 26,358"),
            claim(CompactStalls, Down, Imitated, "435 requests wait for compaction, then 258"),
            claim(CompactFailed, Down, Imitated, "it does not help 422 of them, then 250"),
            claim(CompactHelped, Down, Imitated, "it helps 12.9 of them, then 7.7"),
            claim(MigrateScanned, Same, Imitated, "3.68 million frames, then 3.79 (3 % more)"),
            claim(FreeScanned, Down, Imitated, "8.15 million frames, then 5.70"),
            claim(ReclaimStalls, Up, Imitated, "872 requests wait for reclaim, then 5,156"),
            claim(Scanned, Down, Imitated, "510,646 frames, then 3,395"),
            claim(Reclaimed, Down, Imitated, "134,812 frames, then 2,701"),
            claim(DirectScanned, Up, Imitated, "99,546 frames, then 376,408"),
            claim(DirectReclaimed, Up, Imitated, "62,123 frames, then 289,536"),
        ],
    }],
};
