//! Per-CPU lists that give back in batches.

use super::posting::{Patch, Series, claim, on};
use pageyard::knob::Version;
use pageyard_replay::what_if::Figure::{Drained, Listed, Returns};
use pageyard_replay::what_if::Reclaim::Recorded;
use pageyard_replay::what_if::Sign::{None as Same, Up};

pub(super) const SERIES: Series = Series {
    name: "batched-returns",
    about: "per-CPU lists that let go of the zone's lock between batches, from Linux 6.18 to 7.0",
    patches: &[Patch {
        subject: "mm/page_alloc: Batch page freeing in free_frozen_page_commit",
        posted: "Joshua Hahn, 13 October 2025; merged in 7.0",
        load: "fork",
        recorded: on("6.18"),
        before: on("6.18"),
        after: on("7.0"),
        release: Version(6, 18),
        rules: &[("pcp_spill", "by_batch")],
        claims: &[
            claim(Returns, Up, Recorded, "more than 2,000 frames under one hold of the lock, then a batch"),
            claim(Drained, Same, Recorded, "as many frames are given back"),
            claim(Listed, Same, Recorded, "lists become as long"),
        ],
    }],
};
