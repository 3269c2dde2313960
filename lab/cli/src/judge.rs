//! `pageyard-lab judge`: compares the reference with what kernels did, now in a guest or recorded.
//! `bench/linux/judge/run` prepares guests.

use clap::{Args, Subcommand};
use pageyard_cli::output::{Failure, print};
use pageyard_guest::guest::{Guest, GuestError, PATIENCE};
use pageyard_judge::exchange::{self, Task};
use pageyard_judge::guest::{Machine, SMALL, judge};
use pageyard_judge::recording::Recording;
use pageyard_judge::settings::{apply, settings, shape};
use pageyard_judge::verdict::{self, LEFT_OUT, Verdict};
use pageyard_judge::{report, stream, vectors};
use pageyard_linux::Config;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compares the reference with a real kernel, operation by operation and frame by frame.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard-lab judge check data/judge/*\n  bench/linux/judge/run prepares a guest and judges in it"
)]
pub struct Judge {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Boots a kernel once for each set of settings, and compares.
    Guest(InGuest),
    /// Counts the instructions of an allocation and of a free in a kernel.
    Weigh {
        /// The kernel's image.
        #[arg(long)]
        kernel: PathBuf,
        /// The initial file system with the judge's module.
        #[arg(long)]
        initrd: PathBuf,
        /// Where the exchange with the guest and its console's log go.
        #[arg(long)]
        folder: PathBuf,
    },
    /// Prints a recorded ruling as text: the kernel's state, what it was asked, and which frames it gave.
    ///
    /// The lines are for other allocators and for tests of kernels; `docs/design/vectors.md` describes them, and
    /// `lab/judge/examples/vectors.c` reads them.
    #[command(
        after_help = "Example:\n  pageyard-lab judge export data/judge/linux-7.2-set0.ruling > set0.vectors"
    )]
    Export {
        /// The file.
        file: PathBuf,
        /// Only so many operations, and no state at the end.
        #[arg(long)]
        operations: Option<usize>,
    },
    /// Compares with recorded rulings, such as those in `data/judge`.
    Check {
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

#[derive(Args)]
struct InGuest {
    /// The kernel's image.
    #[arg(long)]
    kernel: PathBuf,
    /// The initial file system with the judge's module.
    #[arg(long)]
    initrd: PathBuf,
    /// The preset that should do the same, such as linux-6.12.
    #[arg(long)]
    preset: String,
    /// Where the exchange with the guest and its console's log go.
    #[arg(long)]
    folder: PathBuf,
    /// How many sets of settings.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    sets: u64,
    /// The number of the first of them.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// How many operations for each.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=exchange::MOST_OPERATIONS as i64))]
    operations: u32,
    /// Let requests that may wait compact.
    #[arg(long)]
    compact: bool,
    /// Set this many MiB aside for CMA, on a kernel that has it, as Debian's of 7.2 and 7.3.
    #[arg(long, value_name = "MIB", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=128))]
    cma: u32,
    /// Give every kernel, and the reference, this setting of /proc/sys/vm besides; may be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = named)]
    also: Vec<(String, String)>,
    /// Write each ruling into this folder.
    #[arg(long)]
    save: Option<PathBuf>,
}

impl Judge {
    /// Runs the verb; the exit status tells whether all were alike.
    pub fn run(&self, json: bool) -> Result<ExitCode, Failure> {
        let rows = match &self.verb {
            Verb::Weigh { kernel, initrd, folder } => {
                return weigh(kernel, initrd, folder, json).map(|()| ExitCode::SUCCESS);
            }
            Verb::Export { file, operations } => {
                return export(file, operations.unwrap_or(usize::MAX), json).map(|()| ExitCode::SUCCESS);
            }
            Verb::Guest(options) => in_guest(options, json)?,
            Verb::Check { files } => check(files, json)?,
        };
        let report = report::Report::new(&rows);
        if json {
            line(serde_json::to_string_pretty(&report)?)?;
        } else {
            line(&report)?;
            line(format_args!("left out: {}", LEFT_OUT.join("; ")))?;
        }
        Ok(if report.equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn named(text: &str) -> Result<(String, String), String> {
    let named = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    named.ok_or_else(|| "a setting is NAME=VALUE, such as defrag_mode=1".to_owned())
}

fn in_guest(options: &InGuest, json: bool) -> Result<Vec<report::Row>, Failure> {
    let preset = preset(&options.preset)?;
    made(&options.folder)?;
    options.save.as_deref().map_or(Ok(()), made)?;
    let guest = Guest {
        kernel: options.kernel.clone(),
        initrd: options.initrd.clone(),
        folder: options.folder.clone(),
        patience: PATIENCE,
    };
    let task = if options.compact { Task::Compact } else { Task::Plain };
    let machine = Machine { cma_mib: options.cma, ..SMALL };
    let mut rows = Vec::new();
    for set in options.first..options.first + options.sets {
        let settings: Vec<_> = settings(set).into_iter().chain(options.also.iter().cloned()).collect();
        let operations = stream::make(shape(set, options.operations, &preset, options.compact));
        let ruling = match judge(&guest, machine, &settings, &operations, task) {
            Ok(ruling) => ruling,
            Err(why @ GuestError::Start(_)) => return Err(why.into()),
            // The others are judged all the same.
            Err(why) => {
                let (name, release) = (format!("set {set}"), "no ruling".to_owned());
                let row = report::Row { name, release, verdict: Verdict::none(why.to_string()) };
                if !json {
                    line(&row)?;
                }
                rows.push(row);
                continue;
            }
        };
        let compacts = options.compact;
        let recording = Recording { preset: options.preset.clone(), settings, compacts, operations, ruling };
        let verdict = compared(&recording, &preset)?;
        if let Some((n, ours)) = &verdict.counts
            && let Some(theirs) = exchange::counted(&guest.folder.join("exchange"), *n)
        {
            let zones = recording.ruling.opening.zones.len();
            eprintln!("  {}", verdict::count_differences(zones, ours, &theirs).join("\n  "));
        }
        if let Some(folder) = &options.save {
            let file = folder.join(format!(
                "{}{}-set{set}.ruling",
                options.preset,
                if options.compact { "-compacting" } else { "" }
            ));
            recording.write(&file).map_err(|e| Failure(format!("{}: {e}", file.display())))?;
        }
        let row = report::Row { name: format!("set {set}"), release: recording.ruling.release, verdict };
        if !json {
            line(&row)?;
        }
        rows.push(row);
    }
    Ok(rows)
}

fn weigh(kernel: &Path, initrd: &Path, folder: &Path, json: bool) -> Result<(), Failure> {
    let [kernel, initrd, folder] = [kernel, initrd, folder].map(Path::to_path_buf);
    let guest = Guest { kernel, initrd, folder, patience: PATIENCE };
    made(&guest.folder)?;
    let ruling = judge(&guest, SMALL, &settings(0), &[], Task::Weigh)?;
    let names = ["alloc-hit", "free-hit", "alloc-bulk-64"];
    if json {
        let rows = names.into_iter().zip(ruling.weights).map(|(name, n)| (name.to_owned(), n.into()));
        let rows = serde_json::Map::from_iter(rows);
        return line(serde_json::json!({ "version": 1, "kernel": ruling.release, "instructions": rows }));
    }
    line(format_args!(
        "instructions of {}, a frame each, where the CPU's list has what is needed:",
        ruling.release
    ))?;
    names.iter().zip(ruling.weights).try_for_each(|(name, n)| line(format_args!("  {name:14} {n:8.1}")))
}

/// Creates a folder for a guest, unless it is there.
fn made(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|e| Failure(format!("{}: {e}", folder.display())))
}

fn check(files: &[PathBuf], json: bool) -> Result<Vec<report::Row>, Failure> {
    let mut rows = Vec::new();
    for file in files {
        let recording = Recording::read(file).map_err(|e| Failure(format!("{}: {e}", file.display())))?;
        let verdict = compared(&recording, &preset(&recording.preset)?)?;
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        let row = report::Row { name, release: recording.ruling.release, verdict };
        if !json {
            line(&row)?;
        }
        rows.push(row);
    }
    Ok(rows)
}

fn export(file: &Path, operations: usize, json: bool) -> Result<(), Failure> {
    if json {
        return Err(Failure("`judge export` writes lines of text, and has no --json".to_owned()));
    }
    let recording = Recording::read(file).map_err(|e| Failure(format!("{}: {e}", file.display())))?;
    let mut text = Vec::new();
    vectors::write(&recording, operations, &mut text)?;
    print(&String::from_utf8_lossy(&text))
}

fn preset(name: &str) -> Result<Config, Failure> {
    Config::preset(name).ok_or_else(|| {
        Failure(format!("there is no preset `{name}`; there are {}", Config::PRESETS.join(", ")))
    })
}

fn compared(recording: &Recording, preset: &Config) -> Result<Verdict, Failure> {
    let config = apply(preset, &recording.settings, recording.compacts).map_err(Failure)?;
    Ok(match verdict::compare(&recording.operations, &recording.ruling, &config) {
        Ok(verdict) => {
            let explanation = verdict::explain(&recording.operations, &recording.ruling, &config, &verdict);
            Verdict { explanation, ..verdict }
        }
        Err(e) => Verdict::none(e.to_string()),
    })
}

/// Prints a line of the result.
fn line(line: impl Display) -> Result<(), Failure> {
    print(&format!("{line}\n"))
}
