//! Which check refused a request in each zone: a fact, before any cause.

use super::case::Case;
use crate::doctor::answer::{Answer, Otherwise, blocks, mark, usable_frames};
use crate::doctor::facts::Zone;
use serde::Serialize;

/// The outcome of a zone's checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// It had a block for the request.
    Passed,
    /// Too little was free.
    Count,
    /// Enough was free, but for what is kept for others.
    Reserve,
    /// Enough was free, and no block of the order that the request may take.
    NoBlock,
    /// A block of the order was there, and too little was free in blocks near it: kernels before 4.4 check each smaller
    /// order, too.
    SmallerOrders,
    /// Its watermarks or its blocks are not known.
    Unknown,
}

/// A zone's checks of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ZoneCheck {
    /// The zone, with its node where that is not the first.
    pub zone: String,
    /// The outcome.
    pub check: Check,
    /// Bytes free.
    pub free_bytes: u64,
    /// Bytes that the request has to leave free; omitted where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark_bytes: Option<u64>,
    /// The zone's min watermark; omitted where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_bytes: Option<u64>,
    /// Bytes that are kept for others: low zones' protection, contiguous areas, blocks for urgent requests.
    pub kept_bytes: u64,
}

impl Case<'_> {
    /// Returns the checks of every zone that the request may use, the largest first.
    pub(in crate::doctor) fn checks(&self) -> Vec<ZoneCheck> {
        let mut zones: Vec<_> = self.zones.iter().collect();
        zones.sort_by_key(|(z, _)| std::cmp::Reverse(z.managed));
        zones.into_iter().map(|(zone, answer)| self.check(zone, *answer)).collect()
    }

    fn check(&self, zone: &Zone, answer: Answer) -> ZoneCheck {
        let mark = mark(zone, self.asked);
        let bytes = |frames: u64| frames.saturating_mul(self.facts.frame_kib).saturating_mul(1024);
        let protected = self.facts.kept_from(zone, self.asked.highest());
        let usable = usable_frames(zone, self.asked, Otherwise::default());
        let lacks = zone.free.saturating_sub(mark) < self.asked.frames();
        let known = |frames: u64| zone.has_marks.then(|| bytes(frames));
        ZoneCheck {
            zone: zone.title(),
            check: match answer {
                Answer::Served => Check::Passed,
                Answer::NoBlock if blocks(zone, self.asked, Otherwise::default()) > 0 => Check::SmallerOrders,
                Answer::NoBlock => Check::NoBlock,
                Answer::Unknown => Check::Unknown,
                Answer::Below if lacks => Check::Count,
                Answer::Below => Check::Reserve,
            },
            free_bytes: bytes(zone.free),
            mark_bytes: known(mark),
            min_bytes: known(zone.min),
            kept_bytes: bytes(protected.saturating_add(zone.free.saturating_sub(usable))),
        }
    }
}
