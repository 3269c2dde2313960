//! What `vm.defrag_mode` did to requests that cannot wait, and to those for what cannot be moved.

use super::posting::{Patch, Series, Side, claim, set};
use pageyard::knob::Version;
use pageyard_replay::what_if::Figure::{
    CompactStalls, DirectReclaimed, DirectScanned, Failures, Fallbacks, ReclaimStalls,
};
use pageyard_replay::what_if::Reclaim::{Imitated, Recorded};
use pageyard_replay::what_if::Sign::{Down, Up};

const WITHOUT: Side = set("7.1", "vm/defrag_mode", "1");
const WITH: Side = set("7.2", "vm/defrag_mode", "1");

const IN_PIECES: Patch = Patch {
    subject: "mm/page_alloc: fix defrag_mode for non-reclaimable allocations",
    posted: "Dmitry Ilvokhin, v2, 20 May 2026; merged in 7.2",
    load: "pieces",
    recorded: WITHOUT,
    before: WITHOUT,
    after: WITH,
    release: Version(7, 1),
    rules: &[("defrag_falls_back", "true")],
    claims: &[
        claim(Failures, Down, Recorded, "85,509 requests for packets fail in two hours with 13 GB free"),
        claim(Fallbacks, Up, Recorded, "such a request mixes types in the end"),
    ],
};

/// Both patches are in 7.2, so each is measured along with the other.
pub(super) const SERIES: Series = Series {
    name: "defrag-fixes",
    about: "requests that vm.defrag_mode refused, or had reclaim without end, from Linux 7.1 to 7.2",
    patches: &[
        IN_PIECES,
        Patch {
            subject: "mm/page_alloc: fix defrag_mode for non-reclaimable allocations, in aged memory",
            load: "atomic",
            ..IN_PIECES
        },
        Patch {
            subject: "mm: fix reclaim storms in defrag_mode",
            posted: "Johannes Weiner, 26 June 2026; merged in 7.2",
            load: "net",
            recorded: WITHOUT,
            before: WITHOUT,
            after: WITH,
            release: Version(7, 1),
            rules: &[("defrag_promotes", "true"), ("compaction.whole_empties_movable", "true")],
            claims: &[
                claim(ReclaimStalls, Down, Imitated, "requests reclaim without end"),
                claim(DirectScanned, Down, Imitated, "requests reclaim without end"),
                claim(DirectReclaimed, Down, Imitated, "requests reclaim without end"),
                claim(CompactStalls, Up, Imitated, "they compact for a whole pageblock instead"),
            ],
        },
    ],
};
