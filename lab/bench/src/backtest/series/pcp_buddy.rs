//! Per-CPU lists that own pageblocks, and to which every CPU frees.

use super::posting::{Patch, Series, claim, on};
use pageyard::knob::Version;
use pageyard_replay::what_if::Figure::{Drained, Fallbacks, Returns};
use pageyard_replay::what_if::Reclaim::Recorded;
use pageyard_replay::what_if::Sign::Down;

/// The hosts have many CPUs, and a few threads that free what all of them allocate.
const UNDER_FORK: Patch = Patch {
    subject: "mm: page_alloc: pcp buddy allocator",
    posted: "Johannes Weiner, RFC, 3 April 2026; not merged",
    load: "fork",
    recorded: on("7.2"),
    before: on("7.2+none"),
    after: on("7.2+owners"),
    release: Version(7, 2),
    rules: &[("pcp_owners", "true")],
    claims: &[
        claim(Returns, Down, Recorded, "lists give back under the zone's lock less often"),
        claim(Drained, Down, Recorded, "pages free back to where they are allocated from next"),
        claim(Fallbacks, Down, Recorded, "what is less than a pageblock is taken without stealing first"),
    ],
};

pub(super) const SERIES: Series = Series {
    name: "pcp-buddy",
    about: "per-CPU lists that own pageblocks, Linux 7.2",
    patches: &[
        UNDER_FORK,
        Patch {
            subject: "mm: page_alloc: pcp buddy allocator, under a load of sockets",
            load: "net",
            ..UNDER_FORK
        },
        Patch { subject: "mm: page_alloc: pcp buddy allocator, for huge pages", load: "huge", ..UNDER_FORK },
    ],
};
