//! Runs of the load on each kernel, in turns.

use super::machines::{Machines, Options};
use crate::experiment::what_if::load::RESERVE;
use pageyard_replay::what_if::Figures;
use std::collections::BTreeMap;

/// The counts of each run, by kernel.
pub(super) type Runs = BTreeMap<&'static str, Vec<Figures>>;

/// Runs the load once on each kernel, in random order, and that as often as was asked for.
pub(super) fn measure(
    options: &Options,
    machines: &mut Machines,
    notes: &mut Vec<String>,
    progress: &mut dyn FnMut(&'static str, usize, usize),
) -> Runs {
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let mut runs = Runs::new();
    let mut kernels: Vec<&'static str> = machines.keys().copied().collect();
    let all = kernels.len() * options.runs;
    for turn in 0..options.runs {
        rng.shuffle(&mut kernels);
        for (n, kernel) in kernels.iter().enumerate() {
            progress("measuring", turn * kernels.len() + n, all);
            let Some(machine) = machines.get_mut(kernel) else { continue };
            match machine.count(&RESERVE, None) {
                Ok(figures) => runs.entry(kernel).or_default().push(figures),
                Err(why) => notes.push(format!("run {} of {kernel} is left out: {why}", turn + 1)),
            }
        }
    }
    runs
}
