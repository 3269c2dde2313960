//! The counts behind each packet's cost, and the source of the gain from lists: waiting, lines of the zone that
//! change hands, or frames that are no longer in a CPU's caches.
//!
//! Counts are of a pass of their own. The gain is then measured where each of the three is missing: on one CPU nothing
//! waits and nothing changes hands; with headers that no one touches, a frame's own memory is not needed.

use super::buffers::Leaves;
use super::columns::{COLUMNS, Column, close, column, timed};
use super::contention::{Turns, groups, rates};
use super::forward::{Load, MEMORY, Shape, World};
use super::reuse::Frames;
use super::subjects::{BUDDY, ENGINE, PCP};
use super::work::Level;
use crate::error::BenchError;
use crate::experiment::{Rows, Run};
use crate::harness::team::Team;
use pageyard::Counter;
use std::sync::Arc;

/// The counters that are shown for each packet.
const COUNTERS: [(Counter, &str); 5] = [
    (Counter::ZoneLock, "zone lock taken"),
    (Counter::ZoneLockContended, "zone lock found held"),
    (Counter::PcpRefill, "lists filled"),
    (Counter::PcpDrain, "lists spilled"),
    (Counter::PcpDrainPages, "frames spilled"),
];

/// Passes until one counts.
const PASSES: usize = 20;

/// How often a free takes the zone lock, and the zone's cache lines with it, from another CPU.
const HANDED: &str = "zone lock taken by a free after another CPU";

/// The mean number of other frames between two uses of one.
const BETWEEN: &str = "other frames between two uses of a frame";

/// The settings in which the gain is measured, by the work of a router.
const SETTINGS: [(Shape, bool); 4] =
    [(Shape::Both, true), (Shape::Both, false), (Shape::One, true), (Shape::One, false)];

/// Returns the metrics of a setting: packets a second, the gain, and the A/A pair.
fn metrics(shape: Shape, headers: bool) -> [String; 3] {
    let touched = if headers { "headers touched" } else { "headers not touched" };
    let setting = format!("{}, 1.1 us of work, {touched}", shape.name());
    ["rate", "gain of it over buddy", "A/A rate"].map(|m| format!("{m}, {setting}"))
}

pub(super) fn measure(
    run: &mut Run<'_>,
    world: &World,
    team: &Team,
    rows: &mut Rows,
) -> Result<(), BenchError> {
    let both = team.len() >= 2;
    let shapes = [Shape::One, Shape::Both, Shape::Split];
    let shapes = &shapes[..if both { 3 } else { 1 }];
    for (nth, name) in COLUMNS.into_iter().enumerate() {
        run.at("counts", nth, COLUMNS.len());
        let frames = Arc::new(Frames::below(MEMORY));
        let host = column::<Leaves, Frames>(name, &run.settings, world, &frames)?;
        for shape in shapes.iter().copied() {
            count(&host, shape, (team, run.quick), &frames, rows);
        }
        close(&[host])?;
    }
    explain(run, world, team, rows)
}

/// Adds the counts of a host for each packet of a pass.
fn count(
    (name, host): &Column,
    shape: Shape,
    (team, quick): (&Team, bool),
    frames: &Frames,
    rows: &mut Rows,
) {
    let load = Load { shape, level: Level::Router, groups: groups(quick), headers: true };
    // The first pass brings lists and zone to the state in which they stay; one whose threads ran apart is repeated.
    let mut before = host.engine().stats();
    let pass = (0..PASSES).find_map(|nth| {
        frames.forget();
        before = host.engine().stats();
        host.run(load, team).filter(|_| nth > 0)
    });
    let Some(pass) = pass else { return };
    let after = host.engine().stats();
    let each = |n: u64| n as f64 / pass.packets as f64;
    rows.section("Counts for each packet: 1.1 us of work");
    let zone = [Counter::ZoneLock, Counter::ZoneLockContended];
    for (counter, metric) in COUNTERS.iter().filter(|(c, _)| *name != ENGINE || !zone.contains(c)) {
        rows.add(format!("{metric}, {}", shape.name()), *name, each(after[*counter] - before[*counter]), "");
    }
    let reuse = frames.reuse();
    if *name != ENGINE {
        let metric = format!("{HANDED}, {}", shape.name());
        rows.add(metric, *name, each(reuse.locks_from_another), "");
    }
    let mut add = |metric: &str, value| rows.add(format!("{metric}, {}", shape.name()), *name, value, "");
    add("frames of another CPU", each(reuse.from_another));
    add("frames in use in turn", reuse.distinct as f64);
    add(BETWEEN, reuse.between);
}

/// Measures the gain where each of its possible reasons is missing.
fn explain(run: &mut Run<'_>, world: &World, team: &Team, rows: &mut Rows) -> Result<(), BenchError> {
    let columns = timed::<Leaves>(&run.settings, world)?;
    let settings = SETTINGS.into_iter().filter(|(shape, _)| *shape == Shape::One || team.len() >= 2);
    let groups = groups(run.quick);
    let mut turns = Turns::new(run, team, "what the gain rests on", SETTINGS.len());
    rows.section("What the gain at 1.1 us of work rests on");
    for (shape, headers) in settings {
        let series = turns.forward(&columns, Load { shape, level: Level::Router, groups, headers });
        let [rate, gain, pair] = metrics(shape, headers);
        for (column, [rates, _]) in COLUMNS.into_iter().zip(&series) {
            rows.add(&rate, column, rates.median(), "1/s");
        }
        for (column, [after, _]) in [PCP, ENGINE].into_iter().zip(&series[1..]) {
            rows.add(&gain, column, rates(&series[0][0], after), "%");
        }
        rows.add(pair, BUDDY, rates(&series[0][0], &series[3][0]), "% apart");
    }
    turns.end();
    close(&columns)
}
