//! The `pageyard-lab` command: what Pageyard's claims rest on, measured again.
#![forbid(unsafe_code)]

mod backtest;
mod bench;
mod claims;
mod experiment;
mod judge;
mod report;
mod router;
mod samples;
mod schema;
mod states;
mod what_if;

use clap::{Parser, Subcommand};
use pageyard_cli::output;
use pageyard_cli::record::Record;
use std::process::ExitCode;

/// musl's own allocator gives freed memory back at once, and the kernel clears every page of it again.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Pageyard's laboratory: benchmarks, experiments, a router, predictions, states and the judge.
#[derive(Parser)]
#[command(
    name = "pageyard-lab",
    version,
    arg_required_else_help = true,
    after_help = "Example:\n  pageyard-lab bench sweep --quick"
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,

    /// Print one JSON document on standard output, and nothing else there
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure what a frame costs, beside floors and peers
    Bench(bench::Bench),
    /// Reproduce a published result on this machine
    Experiment(experiment::Experiment),
    /// Judge kept runs of experiments again, and list every claim of the documents
    Claims(claims::Claims),
    /// Simulate a forwarding host with real frames: where it drops, what its rings hold, which rings it needs
    Router(router::Router),
    /// Predict from a recording what a setting does, then try it on this host or in a guest
    WhatIf(experiment::WhatIf),
    /// Predict from recordings what a posted series does, then measure it in the kernels
    Backtest(backtest::Backtest),
    /// Compare the reference with a real kernel, operation by operation and frame by frame
    Judge(judge::Judge),
    /// Make named states of fragmented memory, for engines, kernels and other allocators to open in
    States(states::States),
    /// Print the JSON Schema of what a verb prints under --json
    Schema(schema::SchemaArguments),
    #[command(hide = true)]
    CountZonelist(experiment::CountZonelist),
    #[command(hide = true)]
    WhatIfLoad(what_if::Load),
    #[command(hide = true)]
    WhatIfTrial(what_if::TrialArguments),
    #[command(hide = true)]
    WhatIfGuard,
    #[command(hide = true)]
    WhatIfGuest,
    /// Record a load of `what-if`, as `pageyard record` does: a guest has this program alone
    #[command(hide = true)]
    Record(Record),
}

fn main() -> ExitCode {
    let Arguments { verb, json } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::wrong_arguments(&error),
    };
    let done = match verb {
        Verb::Bench(bench) => bench.run(json),
        Verb::Experiment(experiment) => experiment.run(json),
        Verb::Claims(claims) => claims.run(json),
        Verb::Router(router) => router.run(json),
        Verb::WhatIf(what_if) => what_if.run(json),
        Verb::Backtest(backtest) => backtest.run(json),
        Verb::States(states) => states.run(json),
        Verb::Schema(schema) => schema.run(json),
        Verb::CountZonelist(count) => count.run(),
        Verb::WhatIfLoad(load) => load.run(),
        Verb::WhatIfTrial(trial) => trial.run(),
        Verb::WhatIfGuard => what_if::guard(),
        Verb::WhatIfGuest => what_if::guest(),
        Verb::Judge(judge) => match judge.run(json) {
            Ok(status) => return status,
            Err(failure) => Err(failure),
        },
        Verb::Record(record) => match record.run(json) {
            Ok(status) => return status,
            Err(failure) => Err(failure),
        },
    };
    output::exit("pageyard-lab", done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn commands_of_the_pages_and_of_help_are_taken() {
        pageyard_documents::commands::check(&Arguments::command());
    }
}
