//! Packets a second, and the time that CPUs wait for the zone lock: with recycling that fails, as in the document, and
//! with recycling that works.
//!
//! A router's CPUs do both ends, each for its own queues: that is the first table. With two CPUs, each end can also be
//! on its own CPU.

use super::buffers::{Leaves, Recycled};
use super::columns::{COLUMNS, Column, close, timed};
use super::forward::{Load, Shape, World};
use super::subjects::{BUDDY, ENGINE, ONE, PCP, SHARE, TWO};
use super::work::Level;
use crate::error::BenchError;
use crate::experiment::{Rows, Run};
use crate::harness::sampler::Sample;
use crate::harness::samples::Samples;
use crate::harness::team::Team;

const SECTION: &str = "Contention";

pub(super) const GAIN: &str = "gain over buddy, 2 CPUs";

/// By how much the same variant, measured twice, differs.
pub(super) const APART: &str = "A/A packets per second, 2 CPUs";

/// The rows of a load, by the names that say which: rate, waits and gain.
pub(super) fn metrics(shape: Shape, level: Level) -> [String; 3] {
    let load = format!("{}, {}", shape.name(), level.name());
    ["packets per second", "zone lock wait share", "gain over buddy"].map(|m| format!("{m}, {load}"))
}

/// The A/A pair of a load.
pub(super) fn pair(shape: Shape, level: Level) -> String {
    format!("A/A packets per second, {}, {}", shape.name(), level.name())
}

/// Packets a second where recycling works.
pub(super) fn recycled(shape: Shape) -> String {
    format!("packets per second with recycling, {}", shape.name())
}

/// Takes turns of hosts.
pub(super) struct Turns<'a, 'r> {
    run: &'a mut Run<'r>,
    team: &'a Team,
    part: &'static str,
    done: usize,
    all: usize,
    dropped: u64,
}

impl<'a, 'r> Turns<'a, 'r> {
    /// Begins a part of the experiment with this many loads.
    pub fn new(run: &'a mut Run<'r>, team: &'a Team, part: &'static str, all: usize) -> Self {
        Turns { run, team, part, done: 0, all, dropped: 0 }
    }

    /// Measures a load on hosts, of which the last is the first again: rates and waits of each.
    pub fn forward(&mut self, columns: &[Column], load: Load) -> Vec<[Samples; 2]> {
        self.run.at(self.part, self.done, self.all);
        self.done += 1;
        let mut subjects: Vec<&Column> = columns.iter().collect();
        let series = self.run.sampler().run(&mut subjects, |(_, host)| {
            let pass = host.run(load, self.team);
            self.dropped += u64::from(pass.is_none());
            Sample::from(pass.map(|pass| [pass.rate, pass.waited]))
        });
        if let (Some([first, _]), Some([again, _])) = (series.first(), series.last()) {
            let what = format!("{} ({}, {})", self.part, load.shape.name(), load.level.name());
            self.run.check_pair(&what, rates(first, again));
        }
        series
    }

    /// Ends the part: says how many samples were dropped.
    pub fn end(self) {
        let Turns { run, part, dropped, .. } = self;
        if dropped > 0 {
            run.note(format!("{part}: {dropped} samples were dropped: the threads of two CPUs ran apart"));
        }
    }
}

/// Returns the groups of packets of a timed pass.
pub(super) fn groups(quick: bool) -> usize {
    if quick { 256 } else { 2048 }
}

pub(super) fn measure(
    run: &mut Run<'_>,
    world: &World,
    team: &Team,
    rows: &mut Rows,
) -> Result<(), BenchError> {
    let load = |shape, level, quick| Load { shape, level, groups: groups(quick), headers: true };
    let quick = run.quick;
    let columns = timed::<Leaves>(&run.settings, world)?;
    let mut turns = Turns::new(run, team, "contention", 1 + 2 * Level::ALL.len());
    let one = turns.forward(&columns, load(Shape::One, Level::Scaled, quick));
    rows.section(SECTION);
    for (column, [rate, _]) in COLUMNS.into_iter().zip(&one) {
        rows.add(ONE, column, rate.median(), "1/s");
    }
    if team.len() >= 2 {
        for level in Level::ALL {
            for shape in [Shape::Split, Shape::Both] {
                let series = turns.forward(&columns, load(shape, level, quick));
                if (shape, level) == (Shape::Both, Level::Scaled) {
                    two(rows, SECTION, [TWO, SHARE, GAIN].map(str::to_owned), &series);
                    rows.add(APART, BUDDY, rates(&series[0][0], &series[3][0]), "% apart");
                }
                two(rows, "By work for a packet, 2 CPUs", metrics(shape, level), &series);
                rows.add(pair(shape, level), BUDDY, rates(&series[0][0], &series[3][0]), "% apart");
            }
        }
    }
    turns.end();
    close(&columns)?;
    recycling(run, world, team, rows)
}

/// The contrast: the pool's ring takes the pages back.
fn recycling(run: &mut Run<'_>, world: &World, team: &Team, rows: &mut Rows) -> Result<(), BenchError> {
    let columns = timed::<Recycled>(&run.settings, world)?;
    let groups = groups(run.quick);
    let shapes = [Shape::One, Shape::Split, Shape::Both];
    let shapes = &shapes[..if team.len() < 2 { 1 } else { 3 }];
    let mut turns = Turns::new(run, team, "recycling", shapes.len());
    rows.section("Where recycling works: 0.16 us of work");
    for shape in shapes.iter().copied() {
        let before: Vec<_> = columns.iter().map(|(_, host)| host.pools()).collect();
        let series = turns.forward(&columns, Load { shape, level: Level::Scaled, groups, headers: true });
        for (column, [rate, _]) in COLUMNS.into_iter().zip(&series) {
            rows.add(recycled(shape), column, rate.median(), "1/s");
        }
        for ((column, (_, host)), before) in COLUMNS.into_iter().zip(&columns).zip(before) {
            let now = host.pools();
            let kept = now.recycle_ring + now.recycle_cached - before.recycle_ring - before.recycle_cached;
            let lost = now.recycle_ring_full - before.recycle_ring_full;
            let share = kept as f64 / (kept + lost) as f64 * 100.0;
            rows.add(
                format!("pages that came back to their pool, {}", shape.name()),
                column,
                share,
                "% of packets",
            );
        }
    }
    turns.end();
    close(&columns)
}

/// Returns by how many percent `after` forwards more, turn by turn, or by medians where samples were dropped.
pub(super) fn rates(before: &Samples, after: &Samples) -> f64 {
    let less = after.paired_gain(before);
    if less.is_nan() { (after.median() / before.median() - 1.0) * 100.0 } else { less / (1.0 - less / 100.0) }
}

/// Adds rates, shares and gains of a run on two CPUs.
fn two(rows: &mut Rows, section: &'static str, [rate, share, gain]: [String; 3], series: &[[Samples; 2]]) {
    rows.section(section);
    for (column, [rates, shares]) in COLUMNS.into_iter().zip(series) {
        rows.add(&rate, column, rates.median(), "1/s");
        rows.add(&share, column, shares.median(), "%");
    }
    for (column, [after, _]) in [PCP, ENGINE].into_iter().zip(&series[1..]) {
        rows.add(&gain, column, rates(&series[0][0], after), "%");
    }
}
