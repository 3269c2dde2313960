//! `pageyard summary`: what a trace holds, or what this host's memory is like now.

mod several;

use crate::made::CommandLine;
use crate::output::{Failure, print, print_json, print_made, say};
use crate::progress::Progress;
use crate::{carried, record};
use clap::Args;
use pageyard_record::HostSummary;
use pageyard_record::host::{AskedFor, PAGE_OWNER, Stacks};
use pageyard_replay::engine::did_you_mean;
use pageyard_replay::replay::Progress as Doing;
use pageyard_replay::story::blame;
use pageyard_trace::fleet::{path_of, rows_of_trace, write_rows};
use pageyard_trace::text::{count, shown};
use pageyard_trace::{Summary, Trace};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Counts what a trace holds, or examines this host.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard summary data/traces/build.trace\n  pageyard summary data/traces/build.trace --blame\n  pageyard summary data/traces\n  pageyard summary busy.trace --rows fleet --as web-17\n  sudo pageyard summary --host\n  pageyard summary --stacks page_owner.txt"
)]
pub struct SummaryArguments {
    /// The trace, a folder NAME.trace, or a folder of several [default: the trace built into the command]
    #[arg(conflicts_with = "host")]
    trace: Option<PathBuf>,

    /// Say which stacks keep pageblocks from becoming huge frames, by Linux's page_owner: this host's, or a copy of
    /// another's in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = PAGE_OWNER)]
    #[arg(conflicts_with_all = ["trace", "host", "blame", "rows"])]
    stacks: Option<PathBuf>,

    /// Say who keeps pageblocks from becoming huge frames at the end of the recording
    #[arg(long, conflicts_with = "host")]
    blame: bool,

    /// Write a row for each window of the recording into a fleet's folder, which `pageyard fleet` reads
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["host", "blame"], requires = "host_name")]
    rows: Option<PathBuf>,

    /// The recorded host's name in its rows: recordings do not have it
    #[arg(long = "as", id = "host_name", value_name = "HOST", requires = "rows")]
    host_name: Option<String>,

    /// The length of a window, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = record::window, default_value = "60", requires = "rows")]
    window: Duration,

    /// When the recording began, in seconds since 1970 [default: what it says itself]
    #[arg(long, value_name = "SECONDS", requires = "rows")]
    began: Option<u64>,

    /// Examine this host's memory now; without root, some parts are left out, and the report says which
    #[arg(long)]
    host: bool,

    /// The kind of request to judge this host for: GFP_KERNEL, GFP_ATOMIC or GFP_HIGHUSER_MOVABLE
    #[arg(long = "for", value_name = "GFP", requires = "host", default_value = "GFP_KERNEL")]
    asked: String,
}

impl SummaryArguments {
    /// Runs the verb.
    pub fn run(&self, line: &CommandLine, json: bool) -> Result<(), Failure> {
        if self.host {
            let host = HostSummary::collect(self.asked_for()?)?;
            return if json { print_json(&host.document()) } else { print(&host.to_string()) };
        }
        if let Some(path) = &self.stacks {
            let mut progress = Progress::new();
            let stacks = Stacks::read(path, &mut |bytes| {
                progress.wait(&format!("reading stacks: {} MB", bytes / 1_000_000));
            })?;
            drop(progress);
            return if json { print_json(&stacks.document()) } else { print(&stacks.to_string()) };
        }
        if let Some(folder) = &self.trace
            && let Some(several) = several::traces_in(folder)
        {
            if self.blame {
                let folder = folder.to_string_lossy();
                return Err(Failure(format!(
                    "`--blame` takes one trace, and {} is a folder of {}: name one of them",
                    shown(&folder),
                    several.len()
                )));
            }
            return several::run(&several, json);
        }
        let trace = carried::open(self.trace.as_deref())?;
        let mut progress = Progress::new();
        if let Some(folder) = &self.rows {
            self.write_rows(&trace, folder, &mut progress)?;
        }
        if self.blame {
            let report = blame(&trace, &mut |doing, done, all| match doing {
                Doing::Opening => progress.at("finding the opening state", done, all),
                _ => progress.at("following the recording", done, all),
            })?;
            drop(progress);
            return print_made(json, &line.made(), &report.document(), &report);
        }
        let rows = trace.rows()?;
        let summary = Summary::of(&trace, |done| progress.at("counting", done, rows))?;
        drop(progress);
        print_made(json, &line.made(), &summary.document(), &summary)
    }

    /// Writes the recording's rows into a fleet's folder.
    fn write_rows(&self, trace: &Trace, folder: &Path, progress: &mut Progress) -> Result<(), Failure> {
        let start = self.began.or(trace.meta().started_s).ok_or_else(|| {
            let name = shown(trace.name());
            Failure(format!("{name} does not say when it began: say so with --began, in seconds since 1970"))
        })?;
        let host = self.host_name.as_deref().unwrap_or_default();
        let path = path_of(folder, host, start, &format!("recording-{start}")).map_err(Failure)?;
        let rows = rows_of_trace(trace, start, self.window, &mut |done, all| {
            progress.at("counting rows", done, all)
        })?;
        write_rows(&path, &rows)?;
        let rows = count(rows.len() as u64, "row");
        say(&format!("pageyard: {rows} in {}\n", shown(&path.to_string_lossy())));
        Ok(())
    }

    fn asked_for(&self) -> Result<AskedFor, Failure> {
        let names = AskedFor::ALL.map(AskedFor::name);
        self.asked.parse().map_err(|()| {
            let meant = did_you_mean(&self.asked, names.into_iter());
            let separator = if meant.is_empty() { "" } else { ";" };
            Failure(format!(
                "`--for` takes {}, not `{}`{separator}{meant}",
                names.join(", "),
                shown(&self.asked)
            ))
        })
    }
}
