//! Background reclaim that leaves a block to compaction where enough is free.

use super::posting::{Patch, Series, claim, on};
use pageyard::knob::Version;
use pageyard_replay::what_if::Figure::{MigrateScanned, Reclaimed, Scanned};
use pageyard_replay::what_if::Reclaim::Imitated;
use pageyard_replay::what_if::Sign::{Down, Up};

/// The figure is of a guest whose sockets ask for blocks of 8 frames (wang lian, 17 April 2026); the posting has none.
const UNDER_NET: Patch = Patch {
    subject: "mm: Improve pgdat_balanced() to avoid over-reclamation for higher-order allocation",
    posted: "Barry Song, RFC v2, 22 April 2026; not merged",
    load: "net",
    recorded: on("7.2"),
    before: on("7.2+none"),
    after: on("7.2+balance"),
    release: Version(7, 2),
    rules: &[("balanced_without_block", "true")],
    claims: &[
        claim(Scanned, Down, Imitated, "the reclaimer takes 90.9 % of a CPU with 273 MB free"),
        claim(Reclaimed, Down, Imitated, "it frees far more than twice the block"),
        claim(MigrateScanned, Up, Imitated, "compaction makes the block instead"),
    ],
};

pub(super) const SERIES: Series = Series {
    name: "balance",
    about: "background reclaim that leaves a block to compaction where enough is free, Linux 7.2",
    patches: &[
        UNDER_NET,
        Patch {
            subject: "mm: Improve pgdat_balanced() to avoid over-reclamation for higher-order allocation, for huge pages",
            load: "huge",
            ..UNDER_NET
        },
    ],
};
