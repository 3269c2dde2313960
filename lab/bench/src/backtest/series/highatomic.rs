//! The reserve for atomic requests.

use super::posting::{Patch, Series, claim, on};
use pageyard::knob::Version;
use pageyard_replay::what_if::Figure::{
    Compacted, EightRefused, Failures, Fallbacks, HugeRefused, Scanned, SetAside, Wakes,
};
use pageyard_replay::what_if::Reclaim::{Imitated, Recorded};
use pageyard_replay::what_if::Sign::{Down, None as Same, Up};

pub(super) const SERIES: Series = Series {
    name: "highatomic",
    about: "the reserve for atomic requests, from Linux 7.0 to 7.3",
    patches: &[
        Patch {
            subject: "mm/page_alloc: don't increase highatomic reserve after pcp alloc",
            posted: "Frank van der Linden, 20 March 2026; merged in 7.1",
            load: "reserve",
            recorded: on("7.0"),
            before: on("7.0"),
            after: on("7.1"),
            release: Version(7, 0),
            rules: &[("highatomic_growth", "unlisted")],
            claims: &[
                claim(
                    SetAside,
                    Down,
                    Recorded,
                    "each request that a per-CPU list serves sets a pageblock aside, up to 1 % of the zone",
                ),
                claim(Failures, Same, Recorded, "such a request needs no larger reserve"),
                claim(Wakes, Down, Imitated, "the reserve sends others to reclaim too soon"),
                claim(Scanned, Down, Imitated, "the reserve sends others to reclaim too soon"),
            ],
        },
        Patch {
            subject: "mm/page_alloc: skip high atomic reservation at or below costly order",
            posted: "JP Kobryn, 18 May 2026; not merged",
            load: "reserve",
            recorded: on("7.2"),
            before: on("7.2+none"),
            after: on("7.2+skip"),
            release: Version(7, 2),
            rules: &[("highatomic_growth", "costly")],
            claims: &[
                claim(SetAside, Down, Recorded, "309 to 312 pageblocks on hosts of 64 GB, then 1"),
                claim(HugeRefused, Down, Imitated, "1 to 6 % of huge pages given, then 44 to 78 %"),
                claim(Compacted, Up, Imitated, "0 to 2 % of compactions succeed, then 24 % or more"),
                claim(Scanned, Down, Imitated, "70.2 million frames a minute on 60 hosts, then 29.9"),
            ],
        },
        Patch {
            subject: "mm/page_alloc: use existing highatomic reserves on the buddy fastpath",
            posted: "JP Kobryn, v3, 22 June 2026; merged in 7.3",
            load: "reserve",
            recorded: on("7.2"),
            before: on("7.2"),
            after: on("7.3"),
            release: Version(7, 2),
            rules: &[("highatomic_first", "true")],
            claims: &[
                claim(SetAside, Same, Recorded, "the reserve did not grow"),
                claim(Fallbacks, Down, Recorded, "requests fell back to other types beside a free reserve"),
                claim(Failures, Same, Recorded, "no request failed"),
                claim(EightRefused, Same, Recorded, "fragments of packets found their blocks of 8 frames"),
            ],
        },
    ],
};
