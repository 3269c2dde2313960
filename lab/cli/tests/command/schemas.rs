//! The schemas of `docs/schemas` beside the types that write the documents, and documents checked against them.
//!
//! After a change of a document: `PAGEYARD_BLESS=1 cargo test -p pageyard-lab --test command schemas`, then read the
//! difference.

use crate::LAB;
use pageyard_bench::backtest::{Backtest, SeriesDocument};
use pageyard_bench::bulk::Bulk;
use pageyard_bench::clear::Cleared;
use pageyard_bench::cross::Cross;
use pageyard_bench::document::RouterDocument;
use pageyard_bench::experiment::kept::ClaimsDocument;
use pageyard_bench::experiment::{ExperimentDocument, ExperimentsDocument};
use pageyard_bench::fault::Faulted;
use pageyard_bench::mixed::Mixed;
use pageyard_bench::pools::Pools;
use pageyard_bench::primitives::Primitives;
use pageyard_bench::scale::Scale;
use pageyard_bench::states::StatesDocument;
use pageyard_bench::sweep::Sweep;
use pageyard_documents::schemas;
use pageyard_trace::document::schema;
use serde_json::Value;

/// Every schema, from the types.
fn generated() -> Vec<Value> {
    vec![
        schema::<Sweep>(),
        schema::<Bulk>(),
        schema::<Primitives>(),
        schema::<Cross>(),
        schema::<Mixed>(),
        schema::<Scale>(),
        schema::<Cleared>(),
        schema::<Faulted>(),
        schema::<pageyard_bench::stream::Streamed>(),
        schema::<Pools>(),
        schema::<RouterDocument<'_>>(),
        schema::<ExperimentDocument<'_>>(),
        schema::<ExperimentsDocument>(),
        schema::<ClaimsDocument>(),
        schema::<Backtest>(),
        schema::<SeriesDocument>(),
        schema::<StatesDocument>(),
    ]
}

#[test]
fn the_schemas_that_are_checked_in_are_those_of_the_types() {
    schemas::are_checked_in(&generated(), "pageyard-lab");
}

#[test]
fn the_command_prints_every_schema() {
    schemas::are_printed_by(&LAB, &generated());
}

#[test]
fn a_schema_allows_no_null() {
    schemas::allow_no_null(&generated());
}

#[test]
fn what_the_verbs_print_is_what_the_schemas_describe() {
    for arguments in [
        &["experiment", "--json"][..],
        &["states", "--json"],
        &["states", "slab-scatter", "--memory", "256M", "--json"],
        &["bench", "bulk", "--quick", "--samples", "3", "--json"],
        &["bench", "cross", "--quick", "--samples", "3", "--json"],
        &["bench", "clear", "--quick", "--samples", "3", "--json"],
        &["bench", "fault", "--quick", "--samples", "3", "--json"],
        &["bench", "stream", "--quick", "--elements", "100000", "--json"],
        &["router", "--quick", "--set", "cpus=4", "--set", "offered-gbit=10", "--json"],
        &[
            "router",
            "--quick",
            "--sweep",
            "--set",
            "cpus=2",
            "--set",
            "run-us=500",
            "--set",
            "warm-up-us=100",
            "--json",
        ],
    ] {
        LAB.json(arguments);
    }
}
