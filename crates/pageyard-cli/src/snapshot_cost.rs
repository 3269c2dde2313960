//! `pageyard snapshot-cost`: what a snapshot of a guest's memory has to keep.

use crate::made::CommandLine;
use crate::output::{Failure, print_made};
use crate::progress::Progress;
use crate::{carried, record};
use clap::Args;
use pageyard_record::host::snapshot_cost_now;
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::Progress as Doing;
use pageyard_replay::snapshot_cost::{snapshot_cost, snapshot_cost_on};
use std::path::PathBuf;
use std::time::Duration;

/// Says what a snapshot of a guest's memory has to keep: in chunks of 4 KiB, 2 MiB and 4 MiB, and what telling the
/// hypervisor of free memory would save.
///
/// A chunk with one live frame is kept whole, and so is free memory that is not zero, unless somebody tells. Of a
/// recording it is known what allocations and moves wrote to, of a running guest which free frames are not zero (read
/// from /proc/kcore, as root).
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard snapshot-cost data/traces/guest-6.12-huge.trace\n  pageyard snapshot-cost busy.trace --engine linux-6.18\n  sudo pageyard snapshot-cost --host --json\n\ndocs/design/sandboxes.md says what the figures mean, and what settings of the guest do to them."
)]
pub struct SnapshotCostArguments {
    /// The trace, a folder NAME.trace [default: the trace built into the command]
    #[arg(conflicts_with = "host")]
    trace: Option<PathBuf>,

    /// Examine what this engine would hold at the end, in place of what the guest held: `linux-6.18`, or with settings
    #[arg(long, value_name = "NAME[:KNOB=VALUE]..", conflicts_with = "host")]
    engine: Option<String>,

    /// Examine this host, which is the guest, now
    #[arg(long)]
    host: bool,

    /// The length of an interval in which chunks are dirtied, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = record::seconds, default_value = "1", conflicts_with = "host")]
    interval: Duration,
}

impl SnapshotCostArguments {
    /// Runs the verb.
    pub fn run(&self, line: &CommandLine, json: bool) -> Result<(), Failure> {
        let mut progress = Progress::new();
        let cost = if self.host {
            snapshot_cost_now(&mut |done, all| progress.at("reading frames", done, all))?
        } else {
            let trace = carried::open(self.trace.as_deref())?;
            match &self.engine {
                None => snapshot_cost(&trace, self.interval, &mut |done, all| {
                    progress.at("counting", done, all);
                })?,
                Some(name) => {
                    let spec = EngineSpec::parse(name, &[])?;
                    snapshot_cost_on(&trace, &spec, self.interval, &mut |doing, done, all| match doing {
                        Doing::Opening => progress.at("finding the opening state", done, all),
                        _ => progress.at("replaying", done, all),
                    })?
                }
            }
        };
        drop(progress);
        print_made(json, &line.made(), &cost, &cost)
    }
}
