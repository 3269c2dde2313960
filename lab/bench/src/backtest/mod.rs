//! `backtest`: a posted series, predicted from recordings and then measured in the kernels themselves.
//!
//! * [`series`]: what was posted, and what it says that it does;
//! * `machines`: guests of the kernels;
//! * `predict`: replays of recordings with the rules of the kernel and with the patch's, before anything is measured;
//! * `measure`: runs of the same load on the kernels, in turns;
//! * [`document`]: claim, prediction and measurement, row by row, as JSON; `text`: as 78 columns for a mail.

pub mod document;
mod machines;
mod measure;
mod predict;
pub mod series;
mod text;

pub use document::{Backtest, SeriesDocument};
pub use machines::{Built, Options, Sources};
pub use series::{ALL, Series};

use crate::error::BenchError;
use crate::experiment::made::Made;
use crate::experiment::what_if::guest::MEMORY_MIB;
use crate::experiment::what_if::predict::write_down;
use crate::harness::machine::Machine;
use document::RecordingDocument;
use machines::{Machines, machines};
use predict::Recordings;
use std::time::Instant;

/// How many recordings and runs there are unless another number is asked for.
pub const RUNS: usize = 5;

/// Records loads, predicts what each patch of a series does to them, and measures it; with recordings that are kept,
/// predicts.
///
/// # Errors
/// A kernel that the series does not name, a folder without recordings or one that cannot be written. What goes wrong
/// with one kernel is a note, and the rest of the table is made.
pub fn run(
    series: &'static Series,
    options: &Options,
    progress: &mut dyn FnMut(&'static str, usize, usize),
) -> Result<Backtest, BenchError> {
    let mut notes = Vec::new();
    if let Some(kept) = &options.recordings {
        let recordings = predict::kept(series, kept)?;
        return foretold(series, options, Machines::new(), Vec::new(), &recordings, notes, progress);
    }
    let (machines, built) = machines(series, options, &mut notes, progress)?;
    backtest(series, options, machines, built, notes, progress)
}

/// The same on machines that are there already.
fn backtest(
    series: &'static Series,
    options: &Options,
    mut machines: Machines,
    built: Vec<Built>,
    mut notes: Vec<String>,
    progress: &mut dyn FnMut(&'static str, usize, usize),
) -> Result<Backtest, BenchError> {
    let recordings = predict::record(series, options, &mut machines, &mut notes, progress);
    foretold(series, options, machines, built, &recordings, notes, progress)
}

/// Predicts from recordings, and measures on the machines that there are.
fn foretold(
    series: &'static Series,
    options: &Options,
    mut machines: Machines,
    built: Vec<Built>,
    recordings: &[Recordings],
    mut notes: Vec<String>,
    progress: &mut dyn FnMut(&'static str, usize, usize),
) -> Result<Backtest, BenchError> {
    let begun = Instant::now();
    let predictions = predict::predict(series, recordings, options.seed, &mut notes, progress);
    let seconds = begun.elapsed().as_secs_f64();
    let path = options.folder.join("predictions.json");
    std::fs::create_dir_all(&options.folder)
        .map_err(|e| BenchError::Report { path: path.display().to_string(), why: e.to_string() })?;
    let hash = write_down(&path, &predictions, options.seed)?;
    let runs = measure::measure(series, options, &mut machines, &mut notes, progress);
    let mut backtest = Backtest {
        name: series.name,
        about: series.about,
        machine: Machine::this().to_string(),
        guest: format!("2 CPUs and {MEMORY_MIB} MiB, emulated"),
        runs: options.runs,
        seed: options.seed,
        kernels: machines.iter().map(|(name, m)| ((*name).to_owned(), m.kernel().to_owned())).collect(),
        built,
        recordings: recordings.iter().flat_map(RecordingDocument::of).collect(),
        predictions_hash: format!("{hash:016x}"),
        prediction_seconds: seconds,
        patches: Vec::new(),
        score: Default::default(),
        notes,
        made: Made::now(),
    };
    backtest.judge(series, &predictions, &runs, options.seed);
    Ok(backtest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::what_if::load::Load;
    use crate::experiment::what_if::place::TestMachine;
    use crate::experiment::what_if::setting::Baseline;
    use pageyard_replay::what_if::{Figure, Figures, Sign};
    use std::cell::Cell;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// A recording that ships, in which requests cannot wait.
    const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/traces/guest-6.12-atomic.trace");

    /// A kernel that sets so many pageblocks aside, and may fail in its first run.
    struct Counting {
        folder: PathBuf,
        baseline: Baseline,
        set_aside: f64,
        fails: Cell<bool>,
        recorded: Cell<u32>,
    }

    impl TestMachine for Counting {
        fn name(&self) -> &'static str {
            "guest"
        }

        fn kernel(&self) -> &str {
            "7.0-counting"
        }

        fn baseline(&self) -> &Baseline {
            &self.baseline
        }

        fn record(&mut self, _: &Load, _: Option<(&str, &str)>) -> Result<PathBuf, String> {
            let trace = self.folder.join("new.trace");
            self.recorded.set(self.recorded.get() + 1);
            match self.recorded.get() {
                // A recording that cannot be read.
                1 => std::fs::create_dir(&trace).map_err(|e| e.to_string())?,
                _ => _ = Command::new("cp").arg("-r").arg(SHIPPED).arg(&trace).status(),
            }
            Ok(trace)
        }

        fn count(&mut self, _: &Load, _: Option<(&str, &str)>) -> Result<Figures, String> {
            match self.fails.take() {
                true => Err("the guest has ended".into()),
                // All but one of the figures that the first patch's claims are about.
                false => {
                    let counted =
                        [(Figure::SetAside, self.set_aside), (Figure::Failures, 0.0), (Figure::Wakes, 0.0)];
                    Ok(Figures(counted.into()))
                }
            }
        }
    }

    fn options(folder: &Path) -> Options {
        Options {
            program: "/bin/true".into(),
            kernels: Vec::new(),
            sources: None,
            recordings: None,
            runs: 3,
            seed: 1,
            folder: folder.to_owned(),
        }
    }

    #[test]
    fn claim_prediction_and_measurement_stand_in_one_row_and_what_is_missing_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let machine = |set_aside, fails| -> Box<dyn TestMachine> {
            let folder = folder.path().to_owned();
            let (fails, recorded) = (Cell::new(fails), Cell::new(0));
            Box::new(Counting { folder, baseline: Baseline::new(), set_aside, fails, recorded })
        };
        ["7.0", "7.1"].iter().for_each(|name| std::fs::create_dir(folder.path().join(name)).unwrap());
        let machines = Machines::from([("7.0", machine(3.0, false)), ("7.1", machine(1.0, true))]);
        let series = Series::find("highatomic").unwrap();
        let done =
            backtest(series, &options(folder.path()), machines, Vec::new(), Vec::new(), &mut |_, _, _| {})
                .unwrap();
        let row = &done.patches[0].claims[0];
        assert_eq!((row.figure, row.claimed, row.decided_by_requests), (Figure::SetAside, Sign::Down, true));
        let measured = row.measured.unwrap();
        assert_eq!((measured.before, measured.after, measured.sign), (3.0, 1.0, Sign::Down));
        assert!(row.predicted.is_some() && done.patches[0].claims[3].predicted.is_some());
        assert!(done.patches[1].claims.iter().all(|row| row.measured.is_none() && row.predicted.is_none()));
        assert!(done.patches[0].claims[3].measured.is_none(), "a figure that no kernel counted");
        assert_eq!((done.score.claims, done.recordings.len()), (3, 2));
        let (unread, others): (Vec<&String>, Vec<_>) =
            done.notes.iter().partition(|note| note.contains("1.trace predicts nothing"));
        assert_eq!(
            (unread.len(), others),
            (1, vec![&"run 1 of reserve on 7.1 is left out: the guest has ended".to_owned()])
        );
        let written = std::fs::read(folder.path().join("predictions.json")).unwrap();
        assert_eq!(
            done.predictions_hash,
            format!("{:016x}", crate::experiment::what_if::predict::fnv(&written))
        );
        let text = done.text();
        assert!(text.contains("set_aside            less |"), "{text}");
        let paths = |line: &&str| !line.contains(".trace");
        assert!(text.lines().filter(paths).all(|line| line.chars().count() <= 78), "{text}");
    }

    #[test]
    fn kept_recordings_are_predicted_from_and_nothing_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let series = Series::find("highatomic").unwrap();
        let options = Options { recordings: Some(folder.path().join("kept")), ..options(folder.path()) };
        let why = run(series, &options, &mut |_, _, _| {}).unwrap_err().to_string();
        assert!(
            why.contains("no recording of highatomic") && why.contains("kept/7.0/reserve/1.trace"),
            "{why}"
        );
        let kept = folder.path().join("kept/7.0/reserve");
        std::fs::create_dir_all(&kept).unwrap();
        for name in ["1.trace", "2.trace", "4.trace"] {
            assert!(
                Command::new("cp").arg("-r").arg(SHIPPED).arg(kept.join(name)).status().unwrap().success()
            );
        }
        let mut done = run(series, &options, &mut |_, _, _| {}).unwrap();
        assert_eq!(
            (done.recordings.len(), done.score.claims),
            (2, 0),
            "the third has no number after the second"
        );
        let row = &done.patches[0].claims[0];
        assert!(row.predicted.is_some() && row.measured.is_none());
        assert!(done.text().contains("nothing was measured") && !done.text().contains("s: replays"));
        done.patches[0].claims[0].ran_short = true;
        let text = done.text();
        assert!(text.contains("\nset_aside        s   less |") && text.contains("\ns: replays"), "{text}");
    }

    #[test]
    fn kernels_that_cannot_be_had_are_said() {
        let folder = tempfile::tempdir().unwrap();
        let series = Series::find("highatomic").unwrap();
        let with = |name: &str| {
            let kernels = vec![(name.to_owned(), folder.path().to_owned())];
            let options = Options { kernels, ..options(folder.path()) };
            run(series, &options, &mut |_, _, _| {}).unwrap_err().to_string()
        };
        assert!(with("6.1").contains("highatomic needs no kernel `6.1`; it is measured on 7.0, 7.1"));
        let why = with("7.0");
        assert!(why.contains("7.0 is left out") && why.contains("has no kernel"), "{why}");
        assert!(why.contains("7.3 was not given"), "{why}");
        assert!(why.contains("7.2+skip was not given") && why.contains("--sources and --patch"), "{why}");
    }
}
