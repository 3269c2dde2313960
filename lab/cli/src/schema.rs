//! `pageyard-lab schema`: the schemas of the JSON documents that the other verbs print.

use clap::Args;
use pageyard_cli::output::Failure;
use pageyard_cli::schema::{Schema, print_schema};

/// Names a schema of `docs/schemas`, which the tests compare with the types that write the documents.
macro_rules! schema {
    ($name:literal, $printed_by:literal) => {
        Schema {
            name: $name,
            printed_by: $printed_by,
            text: include_str!(concat!("../../../docs/schemas/", $name, ".json")),
        }
    };
}

const SCHEMAS: [Schema; 17] = [
    schema!("bench-sweep", "pageyard-lab bench sweep --json"),
    schema!("bench-bulk", "pageyard-lab bench bulk --json"),
    schema!("bench-primitives", "pageyard-lab bench primitives --json"),
    schema!("bench-cross", "pageyard-lab bench cross --json"),
    schema!("bench-mixed", "pageyard-lab bench mixed --json"),
    schema!("bench-pools", "pageyard-lab bench pools --json"),
    schema!("bench-scale", "pageyard-lab bench scale --json"),
    schema!("bench-clear", "pageyard-lab bench clear --json"),
    schema!("bench-fault", "pageyard-lab bench fault --json"),
    schema!("bench-stream", "pageyard-lab bench stream --json"),
    schema!("bench-router", "pageyard-lab router --json"),
    schema!("experiment", "pageyard-lab experiment NAME --json"),
    schema!("experiments", "pageyard-lab experiment --json"),
    schema!("claims", "pageyard-lab claims RUN --json"),
    schema!("backtest", "pageyard-lab backtest SERIES --json"),
    schema!("backtests", "pageyard-lab backtest --json"),
    schema!("states", "pageyard-lab states --json"),
];

/// Prints the JSON Schema of a document, or lists the documents.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard-lab schema\n  pageyard-lab schema bench-sweep > sweep.schema.json"
)]
pub struct SchemaArguments {
    /// The document's name; with --json and without a name, all schemas by name
    name: Option<String>,
}

impl SchemaArguments {
    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        print_schema("pageyard-lab", &SCHEMAS, self.name.as_deref(), json)
    }
}
