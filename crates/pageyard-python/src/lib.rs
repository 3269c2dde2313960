//! The compiled half of the Python package. Each call returns a report twice: as the JSON document that the command
//! prints, and as its text. `python/pageyard/__init__.py` makes objects and tables of both, and is what users import.

use pageyard_replay::compare::compare;
use pageyard_replay::engine::{EngineSpec, KnobsDocument, all_knobs};
use pageyard_replay::replay::{Progress, ReplayOptions, SlowPath, faults, replay};
use pageyard_replay::story::blame;
use pageyard_trace::document::{Document, Versioned};
use pageyard_trace::series::SeriesFormat;
use pageyard_trace::{Summary, Trace};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

create_exception!(
    pageyard,
    PageyardError,
    PyException,
    "Something was refused: one sentence says what is wrong and what to do."
);

/// How often long work looks for signals and reports its progress.
const EVERY: Duration = Duration::from_millis(50);

/// A report: its document, as JSON, and its text.
type Said = (String, String);

/// Reports progress: what is being done, how many rows of it are done, and of how many.
type Tell<'a> = &'a mut dyn FnMut(&str, u64, u64);

fn refused(why: impl std::fmt::Display) -> PyErr {
    PageyardError::new_err(why.to_string())
}

fn said<T: Document>(document: &T, text: &impl ToString) -> Result<Said, String> {
    let json = serde_json::to_string(&Versioned::of(document)).map_err(|why| why.to_string())?;
    Ok((json, text.to_string()))
}

/// The payload of the panic that unwinds work when a signal, or an exception from `progress`, stops it.
struct Stopped;

/// Runs long work without the interpreter's lock. It calls `progress` and handles signals every [`EVERY`]; an exception
/// from either stops the work and is returned.
fn run<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(Tell<'_>) -> Result<T, String> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let done = py.detach(|| {
        let mut last = Instant::now();
        let mut tell = |doing: &str, done: u64, all: u64| {
            if last.elapsed() < EVERY {
                return;
            }
            let asked = Python::attach(|py| {
                py.check_signals()?;
                progress.as_ref().map(|call| call.call1(py, (doing, done, all))).transpose()
            });
            last = Instant::now();
            if let Err(why) = asked {
                raised = Some(why);
                // Unlike `panic!`, this prints nothing.
                resume_unwind(Box::new(Stopped));
            }
        };
        catch_unwind(AssertUnwindSafe(|| work(&mut tell)))
    });
    match (done, raised) {
        (_, Some(why)) => Err(why),
        (Ok(done), None) => done.map_err(refused),
        (Err(panic), None) => resume_unwind(panic),
    }
}

/// Describes the current step of a replay.
fn step(doing: &Progress<'_>) -> String {
    match doing {
        Progress::Opening => "finding the opening state".to_owned(),
        Progress::Recorded => "following the recording".to_owned(),
        Progress::Preparing(engine) => format!("preparing {engine}"),
        Progress::Replaying(engine) => format!("replaying on {engine}"),
    }
}

/// Arguments that replays and comparisons share.
#[derive(FromPyObject)]
struct Options {
    engines: Vec<String>,
    settings: Vec<(String, String)>,
    memory: Option<u64>,
    slow_path: Option<String>,
    pinned: f64,
    fail_page_alloc: Option<String>,
    fail_min_order: u8,
}

impl Options {
    fn engines(&self, default: &[&str]) -> PyResult<Vec<EngineSpec>> {
        let named: Vec<&str> = self.engines.iter().map(String::as_str).collect();
        let names = if named.is_empty() { default } else { &named };
        EngineSpec::parse_all(names, &self.settings).map_err(refused)
    }

    fn replay(&self) -> PyResult<ReplayOptions> {
        let slow_path = self.slow_path.as_deref().map(str::parse::<SlowPath>).transpose().map_err(refused)?;
        let slow_path = slow_path.map(|parts| SlowPath { pinned: self.pinned, ..parts });
        let faults = self.fail_page_alloc.as_deref().map(|text| faults(text, self.fail_min_order));
        let faults = faults.transpose().map_err(refused)?;
        let judge = std::env::var_os("PAGEYARD_JUDGE").map(PathBuf::from);
        Ok(ReplayOptions { memory: self.memory, slow_path, judge, faults, ..ReplayOptions::default() })
    }
}

/// An open trace.
#[pyclass(frozen, module = "pageyard._pageyard")]
struct Recording(Trace);

#[pymethods]
impl Recording {
    #[new]
    fn open(path: PathBuf) -> PyResult<Recording> {
        Trace::open(&path).map(Recording).map_err(refused)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn rows(&self) -> PyResult<u64> {
        self.0.rows().map_err(refused)
    }

    fn meta(&self) -> PyResult<String> {
        serde_json::to_string(self.0.meta()).map_err(refused)
    }

    fn summary(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Said> {
        run(py, progress, |tell| {
            let rows = self.0.rows().map_err(|why| why.to_string())?;
            let summary = Summary::of(&self.0, |done| tell("counting", done, rows));
            let summary = summary.map_err(|why| why.to_string())?;
            said(&summary.document(), &summary)
        })
    }

    fn blame(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Said> {
        run(py, progress, |tell| {
            let report = blame(&self.0, &mut |doing, done, all| tell(&step(&doing), done, all));
            let report = report.map_err(|why| why.to_string())?;
            said(&report.document(), &report)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "each is an argument of the Python call")]
    fn replay(
        &self,
        py: Python<'_>,
        options: Options,
        threads: bool,
        opening: u64,
        samples: Option<u64>,
        series: Option<PathBuf>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Said> {
        let default = if threads { EngineSpec::DEFAULT_THREADS } else { EngineSpec::DEFAULT };
        let engines = options.engines(&default)?;
        let options = ReplayOptions {
            threads,
            samples,
            opening_seed: opening,
            series: series.is_some(),
            ..options.replay()?
        };
        run(py, progress, |tell| {
            let mut tell = |doing: Progress<'_>, done, all| tell(&step(&doing), done, all);
            let report = replay(&self.0, &engines, &options, &mut tell).map_err(|why| why.to_string())?;
            if let Some(folder) = &series {
                report.write_series(folder, SeriesFormat::Parquet).map_err(|why| why.to_string())?;
            }
            match report.engines.iter().find(|engine| !engine.is_sound()) {
                Some(engine) => {
                    Err(format!("{} broke its promises: {}", engine.name, engine.broken_promises()))
                }
                None => said(&report, &report),
            }
        })
    }

    fn compare(
        &self,
        py: Python<'_>,
        options: Options,
        seeds: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Said, String)> {
        let engines =
            options.engines(&[EngineSpec::of_kernel(&self.0.meta().kernel), EngineSpec::DEFAULT[0]])?;
        if engines.len() < 2 {
            return Err(refused("a comparison needs two settings or more"));
        }
        let options = ReplayOptions { samples: Some(1), ..options.replay()? };
        run(py, progress, |tell| {
            let mut tell = |_, doing: Progress<'_>, done, all| tell(&step(&doing), done, all);
            let comparison =
                compare(&self.0, &engines, seeds, &options, &mut tell).map_err(|why| why.to_string())?;
            Ok((said(&comparison.document(), &comparison)?, comparison.page(None)))
        })
    }
}

/// The settings of every engine.
#[pyfunction]
fn knobs() -> PyResult<Said> {
    let knobs = all_knobs();
    let document = KnobsDocument::of(&knobs);
    said(&document, &document).map_err(refused)
}

/// `pageyard._pageyard`.
#[pymodule]
fn _pageyard(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PageyardError", module.py().get_type::<PageyardError>())?;
    module.add_function(wrap_pyfunction!(knobs, module)?)?;
    module.add_class::<Recording>()
}
