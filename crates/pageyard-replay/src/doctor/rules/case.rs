//! A failure, and what all rules need of it.

use crate::doctor::answer::{self, Answer, Otherwise, of_zone, usable};
use crate::doctor::facts::{Asked, Facts, Zone};

/// A failure, or a request that might be made, and what all rules need of it.
pub(in crate::doctor) struct Case<'a> {
    /// Whether it was refused: then something stood in its way, whatever the numbers say.
    pub(in crate::doctor) has_failed: bool,
    pub(in crate::doctor) asked: &'a Asked,
    pub(in crate::doctor) facts: &'a Facts,
    /// The zones that it may use, each with its answer.
    pub(in crate::doctor) zones: Vec<(&'a Zone, Answer)>,
}

impl<'a> Case<'a> {
    /// A request that was refused.
    pub(in crate::doctor) fn failed(asked: &'a Asked, facts: &'a Facts) -> Case<'a> {
        Case { has_failed: true, ..Case::tried(asked, facts) }
    }

    /// A request that might be made.
    pub(in crate::doctor) fn tried(asked: &'a Asked, facts: &'a Facts) -> Case<'a> {
        let plain = Otherwise::default();
        let zones = usable(facts, asked, plain).map(|z| (z, of_zone(facts, z, asked, plain))).collect();
        Case { has_failed: false, asked, facts, zones }
    }

    /// Returns a sum over the zones that the request may use.
    pub(super) fn sum(&self, of: fn(&Zone) -> u64) -> u64 {
        self.zones.iter().map(|(z, _)| of(z)).sum()
    }

    /// Returns whether some zone has a block for it as it is.
    pub(in crate::doctor) fn is_served(&self) -> bool {
        self.zones.iter().any(|(_, answer)| *answer == Answer::Served)
    }

    /// Returns whether some zone has enough, in blocks that are too small.
    pub(super) fn is_fragmented(&self) -> bool {
        self.scattered() > 0.0
    }

    /// Returns the share of the memory that it may use that lies in zones with enough free, in blocks that are too
    /// small.
    pub(super) fn scattered(&self) -> f64 {
        let size = |z: &Zone| z.managed.max(z.free).max(1);
        let all: u64 = self.zones.iter().map(|(z, _)| size(z)).sum();
        let such = self.zones.iter().filter(|(_, answer)| *answer == Answer::NoBlock);
        share(such.map(|(z, _)| size(z)).sum(), all)
    }

    /// Returns whether what is scattered is a small part, so that something else refused it.
    pub(super) fn is_hardly_scattered(&self) -> bool {
        self.scattered() < 0.25
    }

    /// Names the blocks that are lacking: before 4.4 some of the order can be free, with too few near it.
    pub(super) fn lacking(&self) -> String {
        let order = self.asked.order;
        let has_one = self.zones.iter().any(|(z, answer)| {
            *answer == Answer::NoBlock && answer::blocks(z, self.asked, Otherwise::default()) > 0
        });
        match has_one {
            true => format!("too little is in blocks near order {order}"),
            false => format!("no block of order {order} or larger is"),
        }
    }

    /// Writes frames as a size.
    pub(super) fn size(&self, frames: u64) -> String {
        self.facts.size(frames)
    }

    /// Returns how many such requests would be served one after the other.
    pub(in crate::doctor) fn in_a_row(&self) -> u64 {
        self.zones
            .iter()
            .map(|(z, _)| answer::in_a_row(self.facts, z, self.asked))
            .fold(0, u64::saturating_add)
    }

    /// Returns the free frames of the zones that it may use as a share of all their frames.
    pub(super) fn free_share(&self) -> f64 {
        share(self.sum(|z| z.free), self.sum(|z| z.managed))
    }
}

/// Returns a part as a share of the whole, from 0 to 1.
pub(super) fn share(part: u64, of: u64) -> f64 {
    (part as f64 / of.max(1) as f64).clamp(0.0, 1.0)
}

/// The free memory, as a share, below which a request of several frames fails for lack of it, whatever its shape: the
/// larger part of it is watermarks.
pub(super) const SCARCE: f64 = 0.03;
