//! The rules: from what is known of a failure to what may have caused it.
//!
//! A rule asks where it can what the zones would have answered if something had been otherwise. Its weight is then near
//! 1; a rule that can only say who holds the memory takes the share that is held.

mod case;
mod check;
mod limits;
mod memory;
mod reserve;
mod shape;

pub(super) use case::Case;
pub use check::{Check, ZoneCheck};

use super::cause::Finding;
use super::settings;

/// A rule.
type Rule = fn(&Case<'_>) -> Option<Finding>;

/// Every rule.
const RULES: [Rule; 14] = [
    limits::node,
    limits::low_zone,
    limits::protection,
    reserve::highatomic,
    reserve::contiguous,
    reserve::low,
    memory::lists,
    memory::used_up,
    memory::ballooned,
    shape::defrag_mode,
    shape::huge_pages,
    shape::unmovable,
    shape::movable,
    shape::scattered,
];

/// The weight below which a cause is not worth a paragraph.
const LEAST: f64 = 0.05;

/// Finds why a request that is served now will be refused before long.
pub(super) fn at_risk(case: &Case<'_>) -> Option<Finding> {
    reserve::at_risk(case)
}

/// Finds what may have caused a failure, the likeliest first.
pub(super) fn findings(case: &Case<'_>) -> Vec<Finding> {
    let mut all: Vec<_> = RULES.iter().filter_map(|rule| rule(case)).filter(|f| f.weight >= LEAST).collect();
    for finding in &mut all {
        finding.setting = finding.setting.take().filter(|setting| settings::has(case.facts, setting.name));
    }
    all.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.cause.cmp(&b.cause)));
    all
}
