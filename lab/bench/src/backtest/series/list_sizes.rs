//! Per-CPU lists that find their own size.

use super::posting::{Patch, Series, claim, on};
use pageyard::knob::Version;
use pageyard_replay::what_if::Figure::{Drained, Refilled, Returns};
use pageyard_replay::what_if::Reclaim::Recorded;
use pageyard_replay::what_if::Sign::Down;

/// The claims are of a kernel build: "alloc_zone", "free_high" and "lock contend%" in the posting's table.
const UNDER_FORK: Patch = Patch {
    subject: "mm: PCP high auto-tuning",
    posted: "Huang Ying, v3, 16 October 2023; merged in 6.7",
    load: "fork",
    recorded: on("6.1"),
    before: on("6.1"),
    after: on("6.12"),
    release: Version(6, 1),
    rules: &[("pcp_policy", "auto")],
    claims: &[
        claim(Refilled, Down, Recorded, "pages allocated from the zone: 100 %, then 20"),
        claim(Drained, Down, Recorded, "lists emptied for blocks of higher orders: 100 %, then 8.8"),
        claim(Returns, Down, Recorded, "14 % of all cycles wait for the zone's lock, then 1"),
    ],
};

pub(super) const SERIES: Series = Series {
    name: "list-sizes",
    about: "per-CPU lists that find their own size, from Linux 6.1 to 6.12",
    patches: &[
        UNDER_FORK,
        Patch { subject: "mm: PCP high auto-tuning, under a load of sockets", load: "net", ..UNDER_FORK },
    ],
};
