//! The comparison of a kernel's answers with the reference's, operation by operation, and of the states after the last
//! one.

use crate::exchange::Ruling;
use crate::kernel_state::KernelState;
use crate::operation::{Answer, Kind, Move, Operation};
use crate::reference::{OpenError, Reference};
use crate::steps::{self, TakenStep};
use pageyard_core::{Counter, NodeId};
use pageyard_linux::{Config, LinuxAllocator, Opening, ZoneOpening};
use serde::Serialize;
use std::fmt;

/// Behaviour that a comparison does not see.
pub const LEFT_OUT: [&str; 8] = [
    "the two CPUs take turns and never meet in a lock",
    "free pages are counted exactly: no CPU keeps a difference to itself, so lists of another node do not expire",
    "runs of the background reclaimer, which is woken by the kernel, frees nothing and ends when the stream says so; hopeless nodes",
    "reclaim frees what the stream says; no compaction in the background, of frames on lists for reclaim, or with capture",
    "the out-of-memory killer, and requests that must not fail",
    "cpusets, memory control groups and dirty limits; CMA, unless memory is set aside for it",
    "memory that comes and goes, and page reporting",
    "until 6.3, urgent requests that cannot wait without being GFP_ATOMIC",
];

/// The paths that a stream's operations took, by the reference's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Covered {
    /// Requests.
    pub requests: u64,
    /// Requests that the kernel refused.
    pub refused: u64,
    /// Requests below the low watermark.
    pub slow: u64,
    /// Times that a request reclaimed.
    pub reclaims: u64,
    /// Blocks taken from another type.
    pub fallbacks: u64,
    /// Pageblocks converted.
    pub claims: u64,
    /// Times that the watermarks were boosted.
    pub boosts: u64,
    /// Pageblocks set aside for urgent high orders.
    pub set_aside: u64,
    /// Those given back.
    pub given_back: u64,
    /// Refills of lists.
    pub refills: u64,
    /// Spills and drains of lists.
    pub drains: u64,
    /// Requests served by another node than they preferred.
    pub elsewhere: u64,
    /// Single frames and compound pages that compaction moved, the same ones in both.
    pub moved: u64,
    /// Of those, compound pages: since 6.9.
    pub moved_blocks: u64,
    /// Steps that compaction took, the same ones in both.
    pub steps: u64,
    /// Requests that were to isolate more frames than the judge lets one isolate.
    pub cut_short: u64,
    /// Times that watermarks were set.
    pub watermarks_set: u64,
}

impl Covered {
    fn of(allocator: &LinuxAllocator) -> Covered {
        let stats = pageyard_core::PageAllocator::stats(allocator);
        Covered {
            slow: stats[Counter::AllocSlow],
            fallbacks: stats[Counter::Extfrag],
            claims: stats[Counter::ExtfragClaim],
            boosts: stats[Counter::WatermarkBoost],
            set_aside: stats[Counter::HighatomicReserve],
            given_back: stats[Counter::HighatomicUnreserve],
            refills: stats[Counter::PcpRefill],
            drains: stats[Counter::PcpDrain],
            elsewhere: stats[Counter::NumaMiss],
            ..Covered::default()
        }
    }

    fn by_name(&self) -> [(&'static str, u64); 17] {
        [
            ("requests", self.requests),
            ("refused", self.refused),
            ("below the low watermark", self.slow),
            ("reclaims", self.reclaims),
            ("fallbacks", self.fallbacks),
            ("pageblocks converted", self.claims),
            ("boosts", self.boosts),
            ("set aside", self.set_aside),
            ("given back", self.given_back),
            ("refills", self.refills),
            ("drains", self.drains),
            ("served by another node", self.elsewhere),
            ("moved", self.moved),
            ("of those compound pages", self.moved_blocks),
            ("steps of compaction", self.steps),
            ("cut short", self.cut_short),
            ("watermarks set", self.watermarks_set),
        ]
    }

    /// Adds what another stream met.
    pub fn add(&mut self, other: &Covered) {
        self.requests += other.requests;
        self.refused += other.refused;
        self.slow += other.slow;
        self.reclaims += other.reclaims;
        self.fallbacks += other.fallbacks;
        self.claims += other.claims;
        self.boosts += other.boosts;
        self.set_aside += other.set_aside;
        self.given_back += other.given_back;
        self.refills += other.refills;
        self.drains += other.drains;
        self.elsewhere += other.elsewhere;
        self.moved += other.moved;
        self.moved_blocks += other.moved_blocks;
        self.steps += other.steps;
        self.cut_short += other.cut_short;
        self.watermarks_set += other.watermarks_set;
    }
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.by_name().map(|(name, n)| format!("{name} {n}"));
        f.write_str(&parts.join(", "))
    }
}

/// The rule that explains a first difference: set otherwise, alone, it lets more operations agree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Explanation {
    /// The knob, its value, what it decides and where Linux does.
    pub rule: String,
    /// Operations that are equal then: all, or those before the next difference.
    pub operations: u64,
}

/// The outcome of a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// Operations that were compared and equal: all, or those before the first that differs.
    pub operations: u64,
    /// Whether everything was equal.
    pub equal: bool,
    /// The first difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<String>,
    /// The rule that explains it, if one does. [`explain`] looks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// The paths that the operations took.
    pub covered: Covered,
    /// Where counts differ first: the operation, and what the reference counts.
    #[serde(skip)]
    pub counts: Option<(u64, Vec<u64>)>,
}

impl Verdict {
    /// Says that nothing was compared, and why.
    #[must_use]
    pub fn none(why: String) -> Verdict {
        let covered = Covered::default();
        let first_difference = Some(why);
        Verdict { operations: 0, equal: false, first_difference, explanation: None, covered, counts: None }
    }
}

/// Looks for the rule that explains a difference: each is set otherwise in turn, and the stream carried out again.
#[must_use]
pub fn explain(
    operations: &[Operation],
    ruling: &Ruling,
    config: &Config,
    verdict: &Verdict,
) -> Option<Explanation> {
    verdict.first_difference.as_ref()?;
    // A reference that cannot be in the opening state agrees with nothing.
    let agrees = |config: &Config| compare(operations, ruling, config).map_or(0, |v| v.operations);
    let (rule, operations) = config.rule_that_explains(verdict.operations, agrees)?;
    Some(Explanation { rule: rule.to_string(), operations })
}

/// Carries out a stream in the reference and compares.
///
/// # Errors
/// [`OpenError`]: the reference cannot be in the state in which the kernel began.
pub fn compare(operations: &[Operation], ruling: &Ruling, config: &Config) -> Result<Verdict, OpenError> {
    let mut reference = Reference::open(&ruling.opening, config)?;
    let before = Counters::of_reference(reference.allocator());
    let (mut counts, mut requests, mut refused, mut reclaims) = (None, 0, 0, 0);
    let (mut equal, mut moved, mut stepped, mut watermarks_set) = (0, 0, 0, 0);
    let differs = operations.iter().enumerate().find_map(|(n, op)| {
        let (ours, theirs) = (reference.carry_out(op), &ruling.answers[n]);
        watermarks_set += u64::from(op.kind == Kind::SetWatermarks);
        if op.kind.asks() {
            requests += 1;
            let nothing = op.kind == Kind::AllocExact && *theirs == Answer::Bulk(Vec::new());
            refused += u64::from(nothing || matches!(theirs, Answer::Block(None)));
            reclaims += u64::from(ruling.reclaims[n]);
        }
        let of_it = |s: &&TakenStep| s.operation as usize == n;
        let theirs_steps: Vec<TakenStep> = ruling
            .steps
            .iter()
            .skip_while(|s| (s.operation as usize) < n)
            .take_while(of_it)
            .filter(|s| s.is_told_by(&ruling.release))
            .copied()
            .collect();
        let told = |s: &&TakenStep| s.is_told_by(&ruling.release);
        let our_steps: Vec<TakenStep> = reference.steps()[stepped..].iter().filter(told).copied().collect();
        if (!ruling.steps.is_empty() || ruling.moves.is_empty())
            && let Some(what) = steps::difference(&theirs_steps, &our_steps)
        {
            return Some(format!("operation {n}, {op:?}, compacts otherwise: {what}"));
        }
        stepped = reference.steps().len();
        if let Some(what) = move_difference(n, &reference.moves()[moved..], &ruling.moves[moved..]) {
            return Some(what);
        }
        moved = reference.moves().len();
        if ours != *theirs {
            let compacted: String = theirs_steps.iter().map(|s| format!("\n    {s}")).collect();
            return Some(format!(
                "operation {n}, {op:?}: the kernel gives {theirs:?}, the reference {ours:?}{compacted}"
            ));
        }
        let (ours, theirs) = (reference.reclaims(op), u64::from(ruling.reclaims[n]));
        if ours != theirs {
            return Some(format!(
                "operation {n}, {op:?}: the kernel reclaims {theirs} times, the reference {ours}"
            ));
        }
        if reference.counts() != ruling.counts[n] {
            let mut now = Vec::new();
            reference.allocator().counts(|n| now.push(n));
            counts = Some((n as u64, now));
            return Some(format!("operation {n}, {op:?}: afterwards zones or lists count otherwise"));
        }
        equal += 1;
        None
    });
    let covered = Covered {
        requests,
        refused,
        reclaims,
        moved: moved as u64,
        moved_blocks: reference.moved_blocks(),
        steps: stepped as u64,
        cut_short: ruling.cut_short,
        watermarks_set,
        ..Covered::of(reference.allocator())
    };
    let first_difference = differs
        .or_else(|| state_difference(&reference.allocator().opening(), &ruling.closing.opening()))
        .or_else(|| Some(format!("at the end, {}", reference.computed_difference(&ruling.closing)?)))
        .or_else(|| {
            let ours = Counters::of_reference(reference.allocator()).since(&before);
            let theirs = Counters::of_kernel(&ruling.closing).since(&Counters::of_kernel(&ruling.opening));
            (ours != theirs).then(|| format!("the kernel counts {theirs:?}, the reference {ours:?}"))
        });
    let all_equal = first_difference.is_none();
    Ok(Verdict { operations: equal, equal: all_equal, first_difference, explanation: None, covered, counts })
}

/// Says what differs first in what an operation moved; both lists begin with its moves.
fn move_difference(operation: usize, ours: &[Move], theirs: &[Move]) -> Option<String> {
    let of_it = |m: &&Move| m.operation as usize == operation;
    let theirs: Vec<&Move> = theirs.iter().take_while(of_it).collect();
    let at = (0..ours.len().max(theirs.len())).find(|i| ours.get(*i) != theirs.get(*i).copied())?;
    let text = |m: Option<&Move>| m.map_or("nothing".to_owned(), |m| format!("{} to {}", m.from, m.to));
    Some(format!(
        "operation {operation} moves {} frames in the kernel and {} in the reference; number {at} is {} there and {} here",
        theirs.len(),
        ours.len(),
        text(theirs.get(at).copied()),
        text(ours.get(at))
    ))
}

/// The counters that both have.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Counters {
    pgalloc: u64,
    pgfree: u64,
    /// By node: `numa_hit`, `numa_miss`, `numa_foreign`, `numa_local`, `numa_other`.
    numa: Vec<[u64; 5]>,
}

impl Counters {
    fn of_kernel(state: &KernelState) -> Counters {
        let mut numa = Vec::new();
        for zone in &state.zones {
            let node = usize::from(zone.node.0);
            numa.resize(numa.len().max(node + 1), [0; 5]);
            for (sum, n) in numa[node].iter_mut().zip(zone.numa) {
                *sum += n;
            }
        }
        Counters { pgalloc: state.pgalloc, pgfree: state.pgfree, numa }
    }

    fn of_reference(allocator: &LinuxAllocator) -> Counters {
        let stats = pageyard_core::PageAllocator::stats(allocator);
        let numa = |node| {
            let n = allocator.numa_stats(NodeId(node));
            [n.numa_hit, n.numa_miss, n.numa_foreign, n.numa_local, n.numa_other]
        };
        Counters {
            pgalloc: stats[Counter::Pgalloc],
            pgfree: stats[Counter::Pgfree],
            numa: vec![numa(0), numa(1)],
        }
    }

    fn since(&self, before: &Counters) -> Counters {
        let numa = self.numa.iter().zip(&before.numa);
        Counters {
            pgalloc: self.pgalloc - before.pgalloc,
            pgfree: self.pgfree - before.pgfree,
            numa: numa.map(|(now, then)| std::array::from_fn(|i| now[i] - then[i])).collect(),
        }
    }
}

/// The numbers that are counted of a zone, and of each CPU's lists in it.
const OF_ZONE: [&str; 6] = ["free", "boost", "reserve", "reclaiming", "boosted", "below high"];
const OF_LISTS: [&str; 4] = ["in lists", "high", "factor", "free_count"];
/// And behind all zones, of a node.
const OF_NODE: [&str; 4] =
    ["reclaimer's order", "reclaimer's highest zone", "compactor's order", "compactor's highest zone"];

/// Says which counts of so many zones and their nodes differ, by name.
#[must_use]
pub fn count_differences(zones: usize, ours: &[u64], theirs: &[u32]) -> Vec<String> {
    let zone = OF_ZONE.len() + 2 * OF_LISTS.len();
    let name = |n: usize| match n % zone {
        _ if n >= zones * zone => {
            let i = n - zones * zone;
            format!("node {} {}", i / OF_NODE.len(), OF_NODE[i % OF_NODE.len()])
        }
        i if i < OF_ZONE.len() => format!("zone {} {}", n / zone, OF_ZONE[i]),
        i => {
            let i = i - OF_ZONE.len();
            format!("zone {} CPU {} {}", n / zone, i / OF_LISTS.len(), OF_LISTS[i % OF_LISTS.len()])
        }
    };
    let differ = ours.iter().zip(theirs).enumerate().filter(|(_, (a, b))| **a != u64::from(**b));
    differ.map(|(n, (ours, theirs))| format!("{}: kernel {theirs}, reference {ours}", name(n))).collect()
}

/// Says what differs first in two states.
#[must_use]
pub fn state_difference(ours: &Opening, theirs: &Opening) -> Option<String> {
    ours.zones.iter().zip(&theirs.zones).enumerate().find_map(|(n, (ours, theirs))| {
        zone_difference(ours, theirs).map(|what| format!("at the end, zone {n}: {what}"))
    })
}

fn zone_difference(ours: &ZoneOpening, theirs: &ZoneOpening) -> Option<String> {
    let flags = |z: &ZoneOpening| (z.boost, z.reserved_highatomic, z.reclaiming, z.boosted, z.below_high);
    if flags(ours) != flags(theirs) {
        let (ours, theirs) = (flags(ours), flags(theirs));
        return Some(format!(
            "boost, reserve, reclaiming, boosted and below high are {theirs:?} in the kernel and {ours:?} in the reference"
        ));
    }
    if let Some(n) = ours.types.iter().zip(&theirs.types).position(|(a, b)| a != b) {
        return Some(format!(
            "pageblock {n} is {:?} in the kernel and {:?} in the reference",
            theirs.types[n], ours.types[n]
        ));
    }
    for (ours, theirs) in ours.free.iter().zip(&theirs.free) {
        if ours != theirs {
            let at = ours.blocks.iter().zip(&theirs.blocks).position(|(a, b)| a != b);
            return Some(format!(
                "the free list of order {}, {:?} ({} and {} blocks) differs at {at:?}",
                theirs.order.get(),
                theirs.migratetype,
                theirs.blocks.len(),
                ours.blocks.len()
            ));
        }
    }
    if ours.free.len() != theirs.free.len() {
        return Some("another number of free lists holds something".to_owned());
    }
    for (cpu, (ours, theirs)) in ours.cpus.iter().zip(&theirs.cpus).enumerate() {
        let seen = |c: &pageyard_linux::CpuOpening| (c.high, c.factor, c.free_count, c.freed_high_order);
        if seen(ours) != seen(theirs) {
            let (ours, theirs) = (seen(ours), seen(theirs));
            return Some(format!(
                "CPU {cpu}: high, factor, free_count and whether it freed a high order are {theirs:?} in the kernel and {ours:?} in the reference"
            ));
        }
        if let Some(list) = ours.lists.iter().zip(&theirs.lists).position(|(a, b)| a != b) {
            return Some(format!("list {list} of CPU {cpu} differs"));
        }
    }
    let at = (0..ours.movable.len().max(theirs.movable.len()))
        .find(|i| ours.movable.get(*i) != theirs.movable.get(*i))?;
    Some(format!(
        "other frames can be moved: run {at} is {:?} in the kernel and {:?} in the reference",
        theirs.movable.get(at),
        ours.movable.get(at)
    ))
}
