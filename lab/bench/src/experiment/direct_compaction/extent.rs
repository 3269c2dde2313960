//! How much is run, and how a setting is named.

use pageyard_replay::workload::stress::{Settings, Turns};
use pageyard_replay::workload::{LoadTrace, Shape};

/// Seeds of the document's table; the first two of them with `--quick`.
pub(super) const SEEDS: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/// How many nanoseconds the load's recording goes on for each nanosecond of processor time that a request takes: frames
/// are not copied here, so a request's compaction takes less time than a kernel's. Fixed before the table was measured
/// with it.
pub(super) const PACE: f64 = 2.0;

/// How much is measured.
pub(super) struct Extent {
    pub(super) settings: Settings,
    /// Seeds of the document's table.
    pub(super) table_seeds: &'static [u64],
    /// The same on a smaller machine, for the tables with many variants.
    pub(super) small: Settings,
    pub(super) seeds: &'static [u64],
    /// Seeds of the state that was chosen by the first one.
    pub(super) other_seeds: &'static [u64],
    /// The same with half of the jobs, for the questions: with all of them every patch succeeds alike, so success could
    /// answer none.
    pub(super) asked: Settings,
    pub(super) phases: usize,
    pub(super) background: u64,
    pub(super) sensitivity: bool,
}

impl Extent {
    pub(super) fn new(quick: bool) -> Extent {
        let study = Settings::study();
        let sized =
            |mib: u64, jobs| Settings { memory: mib << 20, shape: Shape { jobs, ..study.shape }, ..study };
        let short = Settings { rounds: 0.5, settle: 0.25, ..sized(512, 2) };
        match quick {
            false => Extent {
                settings: Settings { turns: Turns::Beside(PACE), ..study },
                table_seeds: &SEEDS,
                small: sized(2048, 4),
                seeds: &SEEDS[..3],
                other_seeds: &SEEDS[1..4],
                asked: sized(2048, 2),
                phases: 20,
                background: 16 << 30,
                sensitivity: true,
            },
            true => Extent {
                settings: Settings { turns: Turns::Beside(PACE), ..short },
                table_seeds: &SEEDS[..2],
                small: short,
                seeds: &SEEDS[..1],
                other_seeds: &SEEDS[1..2],
                asked: short,
                phases: 0,
                background: 512 << 20,
                sensitivity: false,
            },
        }
    }
}

/// Says in a few words which machine and load a run is of.
pub(super) fn setting(s: &Settings, load: &LoadTrace, seeds: &[u64]) -> String {
    format!(
        "{} MiB, {} jobs of {}, {} rounds a phase, seeds {seeds:?}",
        s.memory >> 20,
        s.shape.jobs,
        load.name(),
        s.rounds
    )
}
