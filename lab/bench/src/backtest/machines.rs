//! Guests of the kernels that a series is measured on.

use super::series::Series;
use crate::error::BenchError;
use crate::experiment::what_if::guest::Guest;
use crate::experiment::what_if::place::TestMachine;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The settings of a backtest.
pub struct Options {
    /// This program, which guests run.
    pub program: PathBuf,
    /// The folders in which packages of kernels are unpacked, by the series' names for the kernels.
    pub kernels: Vec<(String, PathBuf)>,
    /// Recordings of each kernel, and measured runs of each.
    pub runs: usize,
    /// Decides what loads do, and the order of runs.
    pub seed: u64,
    /// Where recordings, predictions and logs go.
    pub folder: PathBuf,
}

/// Kernels in guests, by name.
pub(super) type Machines = BTreeMap<&'static str, Box<dyn TestMachine>>;

/// Makes a guest of each kernel that was given.
pub(super) fn machines(
    series: &'static Series,
    options: &Options,
    notes: &mut Vec<String>,
) -> Result<Machines, BenchError> {
    let wrong = |why: String| BenchError::Settings { why };
    let names = series.kernels();
    if let Some((unknown, _)) = options.kernels.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        let unknown = pageyard_replay::text::shown(unknown);
        let known = names.join(", ");
        return Err(wrong(format!("{} needs no kernel `{unknown}`; it is measured on {known}", series.name)));
    }
    let mut machines = Machines::new();
    for name in names {
        let Some((_, package)) = options.kernels.iter().find(|(given, _)| given == name) else {
            notes.push(format!("{name} was not given: what needs it is left out (--kernel {name}=FOLDER)"));
            continue;
        };
        let folder = options.folder.join(name);
        let made = std::fs::create_dir_all(&folder)
            .map_err(|e| format!("{} cannot be made: {e}", folder.display()))
            .and_then(|()| folder.canonicalize().map_err(|e| e.to_string()))
            .and_then(|folder| Guest::booting(&options.program, package, &folder, options.seed));
        match made {
            Ok(guest) => _ = machines.insert(name, Box::new(guest)),
            Err(why) => notes.push(format!("{name} is left out: {why}")),
        }
    }
    match machines.is_empty() {
        true => Err(wrong(format!("there is no kernel to measure: {}", notes.join("; ")))),
        false => Ok(machines),
    }
}
