//! The steps of compaction, from a kernel's trace events and from the reference, as numbers that can be compared.

use pageyard_core::compaction::{Outcome, Step};
use std::fmt;

/// The search of free lists, which kernels tell of since 6.7.
const SEARCHED: u32 = 10;

/// The kind of a step that no kernel tells of.
const GAVE_WAY: u32 = 11;

/// A step, and the operation that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakenStep {
    /// The operation that was carried out.
    pub operation: u32,
    /// The kind of step, as `exchange.h` numbers them.
    pub kind: u32,
    /// Its numbers.
    pub numbers: [u32; 3],
}

const NAMES: [&str; 10] = [
    "left out, zone and order",
    "begins at, free scanner, waits",
    "asked whether done",
    "sources from, to, isolated",
    "targets from, to, taken",
    "moved",
    "ends at, free scanner, result",
    "failed, zone and order",
    "helped, zone and order",
    "searched from, blocks seen, taken",
];

const RESULTS: [&str; 7] =
    ["goes on", "skipped", "deferred", "contended", "partly skipped", "complete", "success"];

/// Numbers an outcome as `exchange.h` does.
fn result(outcome: Option<Outcome>) -> u32 {
    match outcome {
        None => 0,
        Some(Outcome::Skipped) => 1,
        Some(Outcome::Deferred) => 2,
        Some(Outcome::Contended) => 3,
        Some(Outcome::PartialSkipped) => 4,
        Some(Outcome::Complete) => 5,
        Some(Outcome::Success) => 6,
    }
}

impl TakenStep {
    /// Bytes of a step.
    pub const BYTES: usize = 20;

    /// Puts a step of the reference into numbers.
    #[must_use]
    pub fn new(operation: u32, step: Step) -> TakenStep {
        let (kind, [a, b, c]) = match step {
            Step::Deferred(zone, order) => (1, [zone.0, u64::from(order.get()), 0]),
            Step::Begun { migrate, free, waits } => (2, [migrate.0, free.0, u64::from(waits)]),
            Step::Checked(outcome) => (3, [u64::from(result(outcome)), 0, 0]),
            Step::Sources { from, to, taken } => (4, [from.0, to.0, taken]),
            Step::Targets { from, to, taken } => (5, [from.0, to.0, taken]),
            Step::Searched { least, seen, taken } => (SEARCHED, [least.0, seen, taken]),
            Step::GaveWay(_) => (GAVE_WAY, [0; 3]),
            Step::Moved(frames) => (6, [frames, 0, 0]),
            Step::Ended { migrate, free, outcome } => {
                (7, [migrate.0, free.0, u64::from(result(Some(outcome)))])
            }
            Step::Failed(zone, order) => (8, [zone.0, u64::from(order.get()), 0]),
            Step::Helped(zone, order) => (9, [zone.0, u64::from(order.get()), 0]),
        };
        TakenStep { operation, kind, numbers: [a, b, c].map(|n| n as u32) }
    }

    /// Returns whether a kernel of a release tells of such steps.
    #[must_use]
    pub fn is_told_by(&self, release: &str) -> bool {
        match self.kind {
            GAVE_WAY => false,
            SEARCHED => !release.starts_with("6.1."),
            _ => true,
        }
    }

    /// Reads five numbers of 32 bits; there must be as many.
    #[must_use]
    pub fn read(bytes: &[u8]) -> TakenStep {
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[4 * at + i]));
        TakenStep { operation: number(0), kind: number(1), numbers: [number(2), number(3), number(4)] }
    }

    /// Writes them.
    #[must_use]
    pub fn to_bytes(self) -> [u8; TakenStep::BYTES] {
        let [a, b, c] = self.numbers;
        let mut out = [0; TakenStep::BYTES];
        for (part, n) in out.chunks_exact_mut(4).zip([self.operation, self.kind, a, b, c]) {
            part.copy_from_slice(&n.to_le_bytes());
        }
        out
    }
}

impl fmt::Display for TakenStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = |n: u32| RESULTS.get(n as usize).copied().unwrap_or("?");
        let name = NAMES.get((self.kind as usize).wrapping_sub(1)).copied().unwrap_or("unknown step");
        let [a, b, c] = self.numbers;
        match self.kind {
            3 => write!(f, "{name}: {}", result(a)),
            7 => write!(f, "{name}: {a}, {b}, {}", result(c)),
            6 => write!(f, "{name}: {a}"),
            1 | 8 | 9 => write!(f, "{name}: {a}, {b}"),
            _ => write!(f, "{name}: {a}, {b}, {c}"),
        }
    }
}

/// Says what differs first between two lists of steps of one operation, with the steps before it.
#[must_use]
pub fn difference(theirs: &[TakenStep], ours: &[TakenStep]) -> Option<String> {
    let at = (0..ours.len().max(theirs.len())).find(|i| ours.get(*i) != theirs.get(*i))?;
    let text = |step: Option<&TakenStep>| step.map_or("nothing".to_owned(), TakenStep::to_string);
    let mut said = format!("step {at} of {} there and {} here; before it:", theirs.len(), ours.len());
    for step in &theirs[at.saturating_sub(8)..at] {
        said += &format!("\n    {step}");
    }
    for (who, steps) in [("kernel", theirs), ("reference", ours)] {
        for n in at..(at + 4) {
            said += &format!("\n  {who}: {}", text(steps.get(n)));
        }
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_core::{Order, Pfn};

    #[test]
    fn a_step_is_read_as_it_was_written_and_the_first_difference_is_told() {
        let sources = |to| TakenStep::new(7, Step::Sources { from: Pfn(512), to: Pfn(to), taken: 3 });
        assert_eq!(TakenStep::read(&sources(600).to_bytes()), sources(600));
        let asked = TakenStep::new(7, Step::Deferred(Pfn(1), Order::of(4)));
        assert_eq!(difference(&[asked, sources(600)], &[asked, sources(600)]), None);
        let said = difference(&[asked, sources(600)], &[asked, sources(601)]).unwrap();
        assert!(said.contains("kernel: sources from, to, isolated: 512, 600, 3"), "{said}");
        assert!(said.contains("reference: sources from, to, isolated: 512, 601, 3"), "{said}");
        assert!(difference(&[asked], &[]).unwrap().contains("reference: nothing"));
    }
}
