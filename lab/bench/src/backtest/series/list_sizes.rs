//! Per-CPU lists that find their own size.

use super::posting::{Patch, Series, claim, on};
use pageyard::knob::Version;
use pageyard_replay::what_if::Figure::{Drained, Refilled, Returns};
use pageyard_replay::what_if::Reclaim::Recorded;
use pageyard_replay::what_if::Sign::Down;

/// The posting's table of a kernel build, in percent of what it was: "alloc_zone", "free_high", "lock contend%".
const FROM_ZONES: &str = "pages allocated from the zone: 100 %, then 20";
const GIVEN_BACK: &str = "lists emptied for blocks of higher orders: 100 %, then 8.8";
const LOCKED: &str = "14 % of all cycles wait for the zone's lock, then 1";

pub(super) const SERIES: Series = Series {
    name: "list-sizes",
    about: "per-CPU lists that find their own size, from Linux 6.1 to 6.12",
    patches: &[
        Patch {
            subject: "mm: PCP high auto-tuning",
            posted: "Huang Ying, v3, 16 October 2023; merged in 6.7",
            load: "fork",
            recorded: on("6.1"),
            before: on("6.1"),
            after: on("6.12"),
            release: Version(6, 1),
            rules: &[("pcp_policy", "auto")],
            claims: &[
                claim(Refilled, Down, Recorded, FROM_ZONES),
                claim(Drained, Down, Recorded, GIVEN_BACK),
                claim(Returns, Down, Recorded, LOCKED),
            ],
        },
        Patch {
            subject: "mm: PCP high auto-tuning, under a load of sockets",
            posted: "Huang Ying, v3, 16 October 2023; merged in 6.7",
            load: "net",
            recorded: on("6.1"),
            before: on("6.1"),
            after: on("6.12"),
            release: Version(6, 1),
            rules: &[("pcp_policy", "auto")],
            claims: &[
                claim(Refilled, Down, Recorded, FROM_ZONES),
                claim(Drained, Down, Recorded, GIVEN_BACK),
                claim(Returns, Down, Recorded, LOCKED),
            ],
        },
    ],
};
