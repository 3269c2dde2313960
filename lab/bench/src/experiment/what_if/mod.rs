//! `what-if`: settings predicted by replays of a recording, then tried.
//!
//! * [`Figure`]: what is counted; `load`, `work`, `mapped`: what runs meanwhile; `setting`: what is changed, and
//!   trivial rules;
//! * `predict`: replays, written down before anything is measured; `sign`: signs, confusion, intervals;
//! * `trial`, `counts`, `guard`: one run, its counts, and settings put back whatever happens;
//! * `place`: where it runs; `host`: here; `guest`, `agent`: in a stock kernel, from one saved state or booted anew;
//! * `cell`: runs in random order; `verdict`: hits, misses and false alarms.

mod agent;
mod cell;
mod counts;
pub mod guard;
pub(crate) mod guest;
mod host;
pub(crate) mod load;
mod mapped;
pub(crate) mod place;
pub(crate) mod predict;
pub(crate) mod setting;
pub(crate) mod sign;
pub mod trial;
mod verdict;
mod work;

pub use agent::serve;
pub use load::{LOADS, Load, State};
pub use pageyard_replay::what_if::{Figure, Figures};
pub use work::Work;

use super::{Claim, Experiment, Published, Rows, Run};
use crate::error::BenchError;
use place::TestMachine;

/// The experiment.
pub struct WhatIf;

/// Runs of each setting under each load, unless another number is asked for; the baseline has half as many again.
const RUNS: usize = 6;

impl Experiment for WhatIf {
    fn name(&self) -> &'static str {
        "what-if"
    }

    fn about(&self) -> &'static str {
        "settings of the kernel, predicted by replay and then tried (needs root)"
    }

    fn quick_cannot_show(&self) -> &'static str {
        "2 of its 5 loads under 3 of its 9 settings: it judges no accuracy"
    }

    fn columns(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "predicted",
                "the change that replays of one recording predict, the reference with and without the setting",
            ),
            ("measured", "the mean of the runs under the setting, less that of the repeated baseline"),
            ("baseline", "the mean of the repeated baseline"),
            ("spread", "the standard deviation of the repeated baseline"),
            ("low", "with high: what 95 % of redrawn samples of the measured change lie between"),
            ("rule", "a trivial rule: what the setting is for, and no more (-1 less, 0 the same, 1 more)"),
            ("refused", "1 where no replay can answer"),
        ]
    }

    fn engines(&self) -> &'static [&'static str] {
        &[]
    }

    fn varies(&self, _knob: &str) -> bool {
        true
    }

    fn samples(&self) -> Option<usize> {
        Some(RUNS)
    }

    fn measure(&self, run: &mut Run<'_>) -> Result<Rows, BenchError> {
        let wrong = |why: String| BenchError::Settings { why };
        let program = run.program.clone().ok_or_else(|| wrong("the program cannot find itself".into()))?;
        let options = run.what_if.clone();
        if let Some(unknown) = options.loads.iter().find(|name| load::Load::find(name).is_none()) {
            let all = load::LOADS.map(|load| load.name).join(", ");
            let unknown = pageyard_replay::text::shown(unknown);
            return Err(wrong(format!("there is no load `{unknown}`; there are {all}")));
        }
        std::fs::create_dir_all(&options.folder)
            .map_err(|e| wrong(format!("{} cannot be made: {e}", options.folder.display())))?;
        let folder = options.folder.canonicalize().map_err(|e| wrong(e.to_string()))?;
        let mut places: Vec<Box<dyn TestMachine>> = Vec::new();
        if options.host {
            places.push(Box::new(host::Host::new(&program, &folder, options.seed).map_err(wrong)?));
        }
        if let Some(package) = &options.guest {
            run.at("booting and ageing the guest", 0, 1);
            places.push(Box::new(
                guest::Guest::saved(&program, package, &folder, options.seed).map_err(wrong)?,
            ));
        }
        let runs = run.samples.unwrap_or(RUNS);
        cell::measure(run, &mut places, &folder, options.seed, runs)
    }

    fn published(&self, _tables: &Published) -> Rows {
        Rows::default()
    }

    fn claims(&self, rows: &Rows) -> Vec<Claim> {
        verdict::claims(rows)
    }
}
