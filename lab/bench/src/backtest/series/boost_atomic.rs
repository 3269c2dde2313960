//! Watermarks that are boosted when an atomic request fails.

use super::posting::{Patch, Series, claim, on};
use pageyard::knob::Version;
use pageyard_replay::what_if::Figure::{Failures, Reclaimed, Scanned, Wakes};
use pageyard_replay::what_if::Reclaim::Imitated;
use pageyard_replay::what_if::Sign::{Down, Up};

/// The posting has no figures, but the log of a host whose packet buffers were refused.
const IN_AGED_MEMORY: Patch = Patch {
    subject: "mm/page_alloc: boost watermarks on atomic allocation failure",
    posted: "Qiliang Yuan, v10, 14 February 2026; not merged",
    load: "atomic",
    recorded: on("7.2"),
    before: on("7.2+none"),
    after: on("7.2+boost"),
    release: Version(7, 2),
    rules: &[("boost_atomic", "true")],
    claims: &[
        claim(Failures, Down, Imitated, "single frames for packets are refused while memory is short"),
        claim(Wakes, Up, Imitated, "a boost wakes the background reclaimer"),
        claim(Scanned, Up, Imitated, "it reclaims early, for the requests to come"),
        claim(Reclaimed, Up, Imitated, "it reclaims early, for the requests to come"),
    ],
};

pub(super) const SERIES: Series = Series {
    name: "boost-atomic",
    about: "watermarks that are boosted when an atomic request fails, Linux 7.2",
    patches: &[
        IN_AGED_MEMORY,
        Patch {
            subject: "mm/page_alloc: boost watermarks on atomic allocation failure, where only pieces are free",
            load: "pieces",
            ..IN_AGED_MEMORY
        },
    ],
};
