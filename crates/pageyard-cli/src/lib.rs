//! The `pageyard` command: Linux's page allocator, replayed and examined.
//!
//! The public items serve `pageyard-lab`, whose verbs print, fail, show progress and read settings the same way. They
//! are not an interface for others.
#![forbid(unsafe_code)]

pub mod carried;
mod compare;
mod doctor;
mod export;
mod fleet;
mod import;
mod knobs;
pub mod made;
mod map;
mod moved;
pub mod output;
pub mod progress;
pub mod record;
mod replay;
pub mod schema;
pub mod setting;
pub mod size;
mod snapshot_cost;
mod summary;
mod watch;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use made::CommandLine;
use std::process::ExitCode;

/// Linux's page allocator: replay what a host did, and see what its memory is like.
///
/// Without a verb, replays the trace built into the command.
#[derive(Parser)]
#[command(
    name = "pageyard",
    version,
    after_help = "Example:\n  pageyard replay data/traces/build.trace --engine linux-6.1,linux-6.18"
)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,

    /// Print one JSON document on standard output, and nothing else there
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Verb {
    /// Re-execute a trace on one engine or several, side by side
    Replay(replay::Replay),
    #[command(hide = true)]
    Bench(moved::Moved),
    #[command(hide = true)]
    Experiment(moved::Moved),
    /// Say what a trace holds, or what this host's memory is like now
    Summary(summary::SummaryArguments),
    /// Replay a trace on several settings, and say what differs
    Compare(compare::Compare),
    /// Write a page that shows physical memory at every moment of a recording
    Map(map::Map),
    /// Explain why allocations fail: on this host, in a kernel's log or in a trace
    Doctor(doctor::Doctor),
    /// Record this host, for a time or while a command runs (needs root)
    Record(record::Record),
    /// Keep the last seconds in memory, and write them down when an allocation fails (needs root)
    Watch(watch::Watch),
    /// Say what a snapshot of a guest's memory has to keep
    SnapshotCost(snapshot_cost::SnapshotCostArguments),
    /// Say what is usual on many hosts, which are not, and whether cohorts of them differ
    Fleet(fleet::Fleet),
    /// List the settings of every engine
    Knobs(knobs::Knobs),
    /// Print the JSON Schema of what a verb prints under --json
    Schema(schema::SchemaArguments),
    /// Make a trace of what perf, trace-cmd or Perfetto wrote
    Import(import::Import),
    /// Make a file of a trace that another program shows: Perfetto
    Export(export::Export),
}

/// Returns the command's verbs and options.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command on the arguments of this process, and returns its exit status.
#[must_use]
pub fn run() -> ExitCode {
    let command = command();
    let parsed = command.clone().try_get_matches();
    let parsed = parsed.and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    let (arguments, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return output::wrong_arguments(&error),
    };
    let line = CommandLine::of(&command, &matches, "replay");
    let verb = arguments.verb.unwrap_or(Verb::Replay(replay::Replay::default()));
    let done = match verb {
        Verb::Replay(replay) => replay.run(line, arguments.json),
        Verb::Bench(moved) => Err(moved.refuse("bench", &["router"])),
        Verb::Experiment(moved) => Err(moved.refuse("experiment", &["what-if"])),
        Verb::Summary(summary) => summary.run(&line, arguments.json),
        Verb::Compare(compare) => compare.run(line, arguments.json),
        Verb::Map(map) => map.run(line, arguments.json),
        Verb::Doctor(doctor) => doctor.run(&line, arguments.json),
        Verb::Watch(watch) => watch.run(arguments.json),
        Verb::SnapshotCost(cost) => cost.run(&line, arguments.json),
        Verb::Fleet(fleet) => fleet.run(&line, arguments.json),
        Verb::Knobs(knobs) => knobs.run(arguments.json),
        Verb::Schema(schema) => schema.run(arguments.json),
        Verb::Import(import) => import.run(arguments.json),
        Verb::Export(export) => export.run(arguments.json),
        Verb::Record(record) => match record.run(arguments.json) {
            // The recorded command's status is this command's.
            Ok(status) => return status,
            Err(failure) => Err(failure),
        },
    };
    output::exit("pageyard", done)
}
