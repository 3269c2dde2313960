//! `pageyard-lab router`: a forwarding host, simulated.

use crate::report::writable;
use clap::Args;
use pageyard_bench::document::RouterDocument;
use pageyard_bench::machine::Machine;
use pageyard_bench::router::{self, PARAMETERS, RouterSettings, SweepRow};
use pageyard_cli::output::{Failure, show};
use pageyard_cli::progress::Progress;
use pageyard_cli::setting::knob;
use pageyard_trace::series::{SeriesFolder, SeriesFormat};
use std::fmt::Write;
use std::path::PathBuf;

/// Simulates a forwarding host with real frames: where it drops, what its rings hold, which rings it needs.
#[derive(Args)]
#[command(after_help = after_help())]
pub struct Router {
    /// Simulate for a shorter time, within a minute
    #[arg(long)]
    quick: bool,

    /// Set a parameter; may be given several times. Values of a file come first
    #[arg(long, value_name = "NAME=VALUE", value_parser = knob)]
    set: Vec<(String, String)>,

    /// Read parameters from a file: lines `name = value`, or a JSON object
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Sweep receive rings, transmit rings and coalescing around the setting, and name the smallest rings that keep the
    /// rate
    #[arg(long)]
    sweep: bool,

    /// Search the highest rate without loss, from an idle host and after a surge, and show what happens around it
    #[arg(long, conflicts_with_all = ["sweep", "out"])]
    throughput: bool,

    /// Begin random numbers with N: one seed, one result
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Also write the rows as Parquet into a new folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Also draw the sweep as a page at FILE.html
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// Returns examples, and the list of parameters.
fn after_help() -> String {
    let mut text = String::from(
        "Examples:\n  pageyard-lab router --set rx-ring=256 --set mix=imix\n  pageyard-lab router --throughput --set rx-ring=128\n  pageyard-lab router --sweep --out rings --plot rings.html\n  \
         pageyard-lab router --set path=xdp --set rx-ring=128 --set tx-ring=128 --json\n\nParameters, and what they are by default:\n",
    );
    let default = RouterSettings::default();
    for p in PARAMETERS {
        let value = format!("{} {}", p.get(&default), p.unit);
        let _ =
            writeln!(text, "  {:<15} {:<16} {}; it takes {}", p.name, value.trim_end(), p.about, p.takes());
    }
    text
}

impl Router {
    fn settings(&self) -> Result<RouterSettings, Failure> {
        let default = RouterSettings::default();
        let mut settings = if self.quick { default.quick() } else { default };
        if let Some(file) = &self.config {
            router::read_config(&mut settings, file)?;
        }
        for (name, value) in &self.set {
            settings.set(name, value)?;
        }
        if let Some(seed) = self.seed {
            settings.set("seed", &seed.to_string())?;
        }
        settings.check()?;
        if self.plot.is_some() && !self.sweep {
            return Err(Failure("--plot draws a sweep; add --sweep, or leave it out".into()));
        }
        Ok(settings)
    }

    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        let (quick, mut bar) = (self.quick, Progress::new());
        let settings = self.settings()?;
        if let Some(out) = &self.out {
            SeriesFolder::check(out)?;
        }
        if let Some(plot) = &self.plot {
            writable(plot)?;
        }
        let machine = Machine::this();
        if self.throughput {
            let found = router::throughput(&settings, quick, &mut |done, all| bar.at("trials", done, all))?;
            drop(bar);
            let document =
                RouterDocument { quick, ..RouterDocument::of_throughput(&machine, &settings, &found) };
            return show(json, &document, RouterDocument::text);
        }
        if !self.sweep {
            let routed = router::route(&settings)?;
            drop(bar);
            self.write(&[SweepRow::of(&routed)])?;
            let document = RouterDocument { quick, ..RouterDocument::of_one(&machine, &routed) };
            return show(json, &document, RouterDocument::text);
        }
        let found = router::sweep(&settings, quick, &mut |done, all| bar.at("router", done, all))?;
        drop(bar);
        self.write(&found.rows)?;
        if let Some(plot) = &self.plot {
            found.write(plot, quick)?;
            eprintln!("pageyard-lab: wrote {}", plot.display());
        }
        let document = RouterDocument { quick, ..RouterDocument::of_sweep(&machine, &settings, &found) };
        show(json, &document, RouterDocument::text)
    }

    fn write(&self, rows: &[SweepRow]) -> Result<(), Failure> {
        let Some(out) = &self.out else { return Ok(()) };
        router::write_series(rows, out, SeriesFormat::Parquet)?;
        eprintln!("pageyard-lab: wrote {}", out.display());
        Ok(())
    }
}
