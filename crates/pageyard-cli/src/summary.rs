//! `pageyard summary`: what a trace holds, or what this host's memory is like now.

mod several;

use crate::carried;
use crate::made::CommandLine;
use crate::output::{Failure, print, print_json, print_made};
use crate::progress::Progress;
use clap::Args;
use pageyard_record::HostSummary;
use pageyard_record::host::AskedFor;
use pageyard_replay::engine::did_you_mean;
use pageyard_replay::replay::Progress as Doing;
use pageyard_replay::story::blame;
use pageyard_trace::Summary;
use pageyard_trace::text::shown;
use std::path::PathBuf;

/// Counts what a trace holds, or examines this host.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard summary data/traces/build.trace\n  pageyard summary data/traces/build.trace --blame\n  pageyard summary data/traces\n  sudo pageyard summary --host"
)]
pub struct SummaryArguments {
    /// The trace, a folder NAME.trace, or a folder of several [default: the trace built into the command]
    #[arg(conflicts_with = "host")]
    trace: Option<PathBuf>,

    /// Say who keeps pageblocks from becoming huge frames at the end of the recording
    #[arg(long, conflicts_with = "host")]
    blame: bool,

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
