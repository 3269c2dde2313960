//! Runs of the loads on each kernel, in turns.

use super::machines::{Machines, Options};
use super::series::{Case, Series, load};
use pageyard_replay::what_if::Figures;
use std::collections::BTreeMap;

/// The counts of each run.
pub(super) type Runs = BTreeMap<Case, Vec<Figures>>;

/// Runs each load once on each kernel, in random order, and that as often as was asked for.
pub(super) fn measure(
    series: &'static Series,
    options: &Options,
    machines: &mut Machines,
    notes: &mut Vec<String>,
    progress: &mut dyn FnMut(&'static str, usize, usize),
) -> Runs {
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let mut runs = Runs::new();
    let there = series.measured().into_iter().filter(|(side, _)| machines.contains_key(side.kernel));
    let mut cases: Vec<Case> = there.collect();
    let all = cases.len() * options.runs;
    for turn in 0..options.runs {
        rng.shuffle(&mut cases);
        for (n, case) in cases.iter().enumerate() {
            progress("measuring", turn * cases.len() + n, all);
            let (side, name) = *case;
            let (Some(machine), Some(load)) = (machines.get_mut(side.kernel), load(name)) else { continue };
            match machine.count(load, side.setting) {
                Ok(figures) => runs.entry(*case).or_default().push(figures),
                Err(why) => notes.push(format!("run {} of {name} on {side} is left out: {why}", turn + 1)),
            }
        }
    }
    runs
}
