//! Compaction of whole zones from a named state, against what the pins allow; two compactors at once; and how long one
//! direct compaction for a huge frame takes.

use super::super::{Rows, Run};
use super::candidate::{Candidate, Knob, sets};
use crate::error::BenchError;
use hdrhistogram::Histogram;
use pageyard::{Counter, CpuId, Cx, Migratetype, Order, PAGEBLOCK_ORDER, PressureAllocator, Request, ZoneId};
use pageyard_replay::ReplayError;
use pageyard_replay::engine::ReplayEngine;
use pageyard_replay::engine::{AnyEngine, Visit};
use pageyard_replay::workload::fragment::{CLUSTERED_PINS, RANDOM_PINS, State, bring};
use pageyard_replay::workload::stress::{HUGE, Settings};
use pageyard_replay::workload::{Owners, Role, Shares};
use std::time::Instant;

/// The section of the recovery table.
pub const SECTION: &str = "Huge frames out of memory that is half free";
/// The section of the table of two compactors.
pub const OWNERSHIP: &str = "Pageblock ownership: two compactors in one zone";

/// Pageblocks in use for opposite ends, and requests that compacted.
pub const CONFLICTS: &str = "pageblocks in use for opposite ends";
pub const STALLS: &str = "requests that compacted, two CPUs";
/// The column in which leases are not obeyed.
pub const WITHOUT_LEASES: &str = "reference:patch4 leases=false";

/// The two sides of that table.
const OWNERSHIP_BY: [Knob; 2] = [("leases", "false"), ("leases", "true")];

/// Returns whether a table sets this knob.
pub fn asks_for(knob: &str) -> bool {
    sets(&OWNERSHIP_BY, knob)
}

/// Requests for a huge frame whose compaction is timed.
const TIMED: usize = 200;

/// The result of one compaction of everything.
struct Recovered {
    made: u64,
    allowed: u64,
    moved: u64,
    optimal: u64,
    asked_spoiled: f64,
    got_spoiled: f64,
    worst_index: f64,
}

struct Recover<'a> {
    state: &'a State,
    seed: u64,
}

/// Returns how many pageblocks of a zone could be freed at any cost, and the least moves to free `made` of them.
fn best<E: PressureAllocator + ReplayEngine>(owners: &Owners<'_, E>, zone: ZoneId) -> (u64, Vec<u64>) {
    let Some(stats) = owners.engine().zone_stats(zone) else { return (0, Vec::new()) };
    let first = stats.span.start.pageblock().0;
    let blocks = stats.span.end().pageblock().0.saturating_sub(first) as usize;
    let mut held = vec![(0u64, false); blocks];
    owners.for_each(|pfn, order, _, can_move| {
        if let Some(block) = pfn.pageblock().0.checked_sub(first)
            && stats.span.spans(pfn)
            && let Some(of) = held.get_mut(block as usize)
        {
            of.0 += order.frames().0;
            of.1 |= !can_move;
        }
    });
    // A pageblock that reaches below the zone cannot become a huge frame.
    if !stats.span.start.is_aligned(PAGEBLOCK_ORDER) && !held.is_empty() {
        held[0].1 = true;
    }
    let mut moves: Vec<u64> = held.iter().filter(|(_, pinned)| !pinned).map(|(n, _)| *n).collect();
    moves.sort_unstable();
    let allowed = (moves.len() as u64).min((stats.free.0 + stats.cached.0) >> PAGEBLOCK_ORDER.get());
    (allowed, moves)
}

fn huge<E: ReplayEngine>(engine: &E, zone: ZoneId) -> u64 {
    engine.zone_stats(zone).map_or(0, |z| pageyard::metrics::suitable_blocks(&z.blocks_by_order(), HUGE))
}

impl Visit for Recover<'_> {
    type Output = Result<Recovered, BenchError>;

    fn visit<E: AnyEngine>(self, engine: E) -> Result<Recovered, BenchError> {
        let engine = &engine;
        let owners = Owners::new(engine, Shares::NONE, self.seed);
        let reached = bring(&owners, self.state, self.seed)?;
        let cx = Cx::on(CpuId(0));
        let (mut made, mut allowed, mut optimal, mut moved) = (0, 0, 0, 0);
        for zone in (0..).map(ZoneId).take_while(|z| engine.zone_stats(*z).is_some()) {
            let (most, moves) = best(&owners, zone);
            allowed += most;
            if let Ok((_, work)) = engine.compact_zone_with(&cx, zone, &owners) {
                moved += work.moved;
            }
            let got = huge(engine, zone);
            made += got;
            optimal += moves.iter().take(got as usize).sum::<u64>();
        }
        sound(engine, &owners)?;
        Ok(Recovered {
            made,
            allowed,
            moved,
            optimal,
            asked_spoiled: reached.spoiled.0,
            got_spoiled: reached.spoiled.1,
            worst_index: reached.worst(),
        })
    }
}

/// Audits the engine after a run.
fn sound<E: PressureAllocator + ReplayEngine>(engine: &E, owners: &Owners<'_, E>) -> Result<(), BenchError> {
    let fail = |why: String| Err(ReplayError::Fragment { why }.into());
    match engine.audit() {
        Ok(census) if census.allocated == owners.held_frames() => Ok(()),
        Ok(census) => {
            fail(format!("{} frames are allocated and {} are held", census.allocated, owners.held_frames()))
        }
        Err(why) => fail(format!("the audit after compaction says: {why}")),
    }
}

struct Latency {
    seed: u64,
}

impl Visit for Latency {
    type Output = Result<(Histogram<u64>, usize), BenchError>;

    fn visit<E: AnyEngine>(self, engine: E) -> Self::Output {
        let engine = &engine;
        let owners = Owners::new(engine, Shares::NONE, self.seed);
        bring(&owners, &CLUSTERED_PINS, self.seed)?;
        let mut histogram =
            Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are valid constants");
        let request = Request::new(PAGEBLOCK_ORDER, Migratetype::Movable);
        let mut got = 0;
        for _ in 0..TIMED {
            let stalls = engine.stats()[Counter::CompactStall];
            let start = Instant::now();
            let result = owners.alloc(&Cx::on(CpuId(0)), &request, Role::Test);
            let ns = start.elapsed().as_nanos() as u64;
            if engine.stats()[Counter::CompactStall] > stalls {
                histogram.saturating_record(ns);
            }
            got += usize::from(result.is_ok());
        }
        sound(engine, &owners)?;
        Ok((histogram, got))
    }
}

/// Two CPUs that ask for blocks at once, use each as single frames, and free as many single frames elsewhere.
struct Ownership {
    seed: u64,
}

/// Memory of that machine: 64 pageblocks. On a larger one, two CPUs seldom come to the same pageblock.
const SHARED: u64 = 128 << 20;
/// How often each of its CPUs asks for a block, one at a time.
const ASKED: usize = 50_000;
/// Single frames that each CPU holds between its requests.
const SINGLES: usize = 4096;

impl Visit for Ownership {
    type Output = Result<[u64; 4], BenchError>;

    fn visit<E: AnyEngine>(self, engine: E) -> Result<[u64; 4], BenchError> {
        let engine = &engine;
        let owners = Owners::new(engine, Shares::NONE, self.seed);
        bring(&owners, &CLUSTERED_PINS, self.seed)?;
        let request = Request::new(Order::of(6), Migratetype::Movable);
        let single = Request::new(Order::ZERO, Migratetype::Movable);
        let got = std::thread::scope(|scope| {
            let requests = |cpu: u32| {
                let (owners, request, single) = (&owners, &request, &single);
                let mut rng = fastrand::Rng::with_seed(self.seed ^ u64::from(cpu) << 32);
                move || {
                    let cx = Cx::on(CpuId(cpu));
                    let take = || owners.alloc(&cx, single, Role::Anon).ok();
                    let mut singles: Vec<u32> = (0..SINGLES).filter_map(|_| take()).collect();
                    let mut got = 0;
                    for _ in 0..ASKED {
                        let block = owners.alloc_apart(&cx, request, Role::Anon, |id, _| singles.push(id));
                        got += u64::from(block.is_ok());
                        while singles.len() > SINGLES {
                            owners.free(&cx, singles.swap_remove(rng.usize(..singles.len())));
                        }
                    }
                    got
                }
            };
            let threads = [scope.spawn(requests(0)), scope.spawn(requests(1))];
            threads.map(|t| t.join().unwrap_or(0)).iter().sum()
        });
        sound(engine, &owners)?;
        let stats = engine.stats();
        Ok([
            got,
            stats[Counter::CompactConflict],
            stats[Counter::PgmigrateSuccess],
            stats[Counter::CompactStall],
        ])
    }
}

/// Measures on a machine of this much memory.
pub fn measure(memory: u64, seed: u64, run: &mut Run<'_>) -> Result<Rows, BenchError> {
    let mut rows = Rows::default();
    rows.setting(format!("{} MiB in a named state, no load, seed {seed}", memory >> 20));
    let settings = Settings { memory, ..Settings::study() };
    let candidates = [Candidate::patch(3), Candidate::patch(4), Candidate::pageyard()];
    let parts = candidates.len() * 3 + 2;
    let mut done = 0;
    let mut step = |run: &mut Run<'_>| {
        run.at("named states", done, parts);
        done += 1;
    };
    rows.section(SECTION);
    for candidate in &candidates {
        let column = candidate.column.as_str();
        for state in [&RANDOM_PINS, &CLUSTERED_PINS] {
            step(run);
            let r = candidate.on(&settings.regions(), &run.settings, Recover { state, seed })?;
            let name = state.name;
            let percent = |a: u64, b: u64| a as f64 / b.max(1) as f64 * 100.0;
            rows.add(format!("{name}: pageblocks with pins asked for"), column, r.asked_spoiled * 100.0, "%");
            rows.add(format!("{name}: pageblocks with pins"), column, r.got_spoiled * 100.0, "%");
            rows.add(format!("{name}: index off by at most"), column, r.worst_index, "");
            rows.add(format!("{name}: huge frames that the pins allow"), column, r.allowed as f64, "");
            rows.add(format!("{name}: huge frames made"), column, r.made as f64, "");
            rows.add(format!("{name}: made of allowed"), column, percent(r.made, r.allowed), "%");
            rows.add(format!("{name}: frames moved"), column, r.moved as f64, "");
            rows.add(format!("{name}: frames that must move for that"), column, r.optimal as f64, "");
            rows.add(format!("{name}: moved by must"), column, r.moved as f64 / r.optimal.max(1) as f64, "");
        }
        step(run);
        let (histogram, got) = candidate.on(&settings.regions(), &run.settings, Latency { seed })?;
        rows.add("order 9, got of 200", column, got as f64, "");
        if !histogram.is_empty() {
            let us = |q| histogram.value_at_quantile(q) as f64 / 1000.0;
            rows.add("order 9, one direct compaction: median", column, us(0.5), "µs");
            rows.add("order 9, one direct compaction: p99", column, us(0.99), "µs");
            rows.add("order 9, one direct compaction: max", column, histogram.max() as f64 / 1000.0, "µs");
        }
    }
    rows.section(OWNERSHIP);
    let shared = Settings { memory: SHARED, ..settings };
    rows.setting(format!("{} MiB, half free, two CPUs, seed {seed}", SHARED >> 20));
    for leases in OWNERSHIP_BY {
        step(run);
        let candidate = Candidate::patch(4).variant(&[leases]);
        let [got, conflicts, moved, stalls] =
            candidate.on(&shared.regions(), &run.settings, Ownership { seed })?;
        let column = candidate.column.as_str();
        rows.add(format!("blocks of order 6 that two CPUs got of {}", 2 * ASKED), column, got as f64, "");
        rows.add(CONFLICTS, column, conflicts as f64, "");
        rows.add("frames moved", column, moved as f64, "");
        rows.add(STALLS, column, stalls as f64, "");
    }
    Ok(rows)
}
