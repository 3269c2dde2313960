//! `pageyard-lab backtest`: a posted series, predicted from recordings and then measured in the kernels themselves.

use clap::Args;
use pageyard_bench::backtest::{self, Options, RUNS, Series, SeriesDocument, Sources};
use pageyard_bench::machine::{CHECKED_BUILD, CHECKED_BUILD_WARNING};
use pageyard_cli::output::{Failure, print, show};
use pageyard_cli::progress::Progress;
use pageyard_cli::setting::knob;
use std::fs;
use std::path::PathBuf;

/// Predicts what a posted series does to recorded loads, then measures it in the kernels without it and with it.
///
/// Loads are recorded and measured in guests, each of which boots and ages its memory anew. Predictions are written
/// down before the first measured run. Without a name, lists the series.
#[derive(Args)]
#[command(
    after_help = "Example, with packages of Debian 13's backports unpacked in the folders:\n  pageyard-lab backtest highatomic --kernel 7.0=k7.0 --kernel 7.1=k7.1 --kernel 7.2=k7.2 --kernel 7.3=k7.3"
)]
pub struct Backtest {
    /// The series
    series: Option<String>,

    /// Take this kernel, by the series' name for it, from the package that is unpacked in a folder (`dpkg-deb -x`); may
    /// be given several times. What needs another kernel is left out
    #[arg(long, value_name = "NAME=FOLDER", value_parser = knob, requires = "series")]
    kernel: Vec<(String, String)>,

    /// Build kernels from the sources of a kernel in a folder: without a patch and with each `--patch`
    #[arg(long, value_name = "FOLDER", requires = "patch")]
    sources: Option<PathBuf>,

    /// Build a kernel that is in no release, by the series' name for it, with a patch in a file; the patch's claims are
    /// measured between a kernel that is built without it and one with it
    #[arg(long, value_name = "NAME=FILE", value_parser = knob, requires = "sources")]
    patch: Vec<(String, String)>,

    /// For patches: the folder bench/linux/judge of Pageyard, which has the script that builds kernels
    /// [default: PAGEYARD_JUDGE, or looked for above the current folder and above the command]
    #[arg(long, value_name = "FOLDER", requires = "sources")]
    judge: Option<PathBuf>,

    /// Predict from the recordings that a backtest kept in a folder, and measure nothing
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["kernel", "sources"], requires = "series")]
    recordings: Option<PathBuf>,

    /// Recordings of each kernel, and measured runs of each
    #[arg(long, value_name = "N", default_value_t = RUNS, value_parser = runs)]
    runs: usize,

    /// The seed of the loads, and of the order of the runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Where recordings, predictions and logs go
    #[arg(long, value_name = "FOLDER", default_value = "backtest")]
    keep: PathBuf,

    /// Also write the table to a file, as text of 78 columns
    #[arg(long, value_name = "FILE", requires = "series")]
    mail: Option<PathBuf>,
}

/// Reads a number of runs: an interval needs two.
fn runs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(runs @ 2..=100) => Ok(runs),
        _ => Err("it is a number from 2 to 100".into()),
    }
}

/// Returns the paths behind names.
fn paths(named: Vec<(String, String)>) -> Vec<(String, PathBuf)> {
    named.into_iter().map(|(name, path)| (name, path.into())).collect()
}

impl Backtest {
    /// Runs the verb.
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let Some(name) = &self.series else { return show(json, &SeriesDocument::all(), list) };
        let series = Series::find(name).ok_or_else(|| {
            let known: Vec<&str> = backtest::ALL.iter().map(|s| s.name).collect();
            Failure(format!("there is no series `{name}`; there are {}", known.join(", ")))
        })?;
        if self.kernel.is_empty() && self.sources.is_none() && self.recordings.is_none() {
            return Err(Failure(format!(
                "{name} is measured on {}: give those there are, as in --kernel 7.2=FOLDER, each with a package unpacked \
                 in it (`apt-get download` and `dpkg-deb -x`)",
                series.kernels().join(", ")
            )));
        }
        if let Some(mail) = &self.mail {
            fs::write(mail, "").map_err(|e| Failure(format!("{} cannot be written: {e}", mail.display())))?;
        }
        if CHECKED_BUILD {
            eprintln!("pageyard-lab: {CHECKED_BUILD_WARNING}");
        }
        let judge = self.judge.or_else(|| std::env::var_os("PAGEYARD_JUDGE").map(PathBuf::from));
        let patches = paths(self.patch);
        let sources = self.sources.map(|tree| Sources { tree, patches, judge });
        let options = Options {
            program: std::env::current_exe()?,
            kernels: paths(self.kernel),
            sources,
            recordings: self.recordings,
            runs: self.runs,
            seed: self.seed,
            folder: self.keep,
        };
        let mut progress = Progress::new();
        let done = backtest::run(series, &options, &mut |part, done, all| {
            progress.at(part, done as u64, all as u64)
        });
        drop(progress);
        let done = done?;
        if let Some(mail) = &self.mail {
            fs::write(mail, done.text())
                .map_err(|e| Failure(format!("{} cannot be written: {e}", mail.display())))?;
        }
        if json { pageyard_cli::output::print_json(&done) } else { print(&done.text()) }
    }
}

fn list(all: &SeriesDocument) -> String {
    let mut text = String::from("pageyard-lab backtest SERIES predicts and measures one of these:\n\n");
    for series in &all.series {
        text.push_str(&format!(
            "  {:<18} {}\n  {:<18} kernels {}\n",
            series.name,
            series.about,
            "",
            series.kernels.join(", ")
        ));
    }
    text
}
