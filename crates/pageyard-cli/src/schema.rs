//! `pageyard schema`: the schemas of the JSON documents that the other verbs print.

use crate::output::{Failure, print};
use clap::Args;
use pageyard_replay::engine::did_you_mean;
use pageyard_trace::shown;
use std::fmt::Write;

/// A document's name, what prints it, and its schema.
struct Schema {
    name: &'static str,
    printed_by: &'static str,
    text: &'static str,
}

/// Names a schema of `docs/schemas`, which the tests compare with the types that write the documents.
macro_rules! schema {
    ($name:literal, $printed_by:literal) => {
        Schema {
            name: $name,
            printed_by: $printed_by,
            text: include_str!(concat!("../schemas/", $name, ".json")),
        }
    };
}

const SCHEMAS: [Schema; 27] = [
    schema!("replay", "pageyard replay --json"),
    schema!("compare", "pageyard compare --json"),
    schema!("map", "pageyard map TRACE -o FILE.html --json"),
    schema!("summary", "pageyard summary --json"),
    schema!("summary-blame", "pageyard summary --blame --json"),
    schema!("summaries", "pageyard summary FOLDER --json"),
    schema!("summary-host", "pageyard summary --host --json"),
    schema!("doctor", "pageyard doctor --json"),
    schema!("record", "pageyard record --json"),
    schema!("watch", "pageyard watch --json"),
    schema!("import", "pageyard import FILE --json"),
    schema!("import-partial", "pageyard import NAME.trace.partial --json"),
    schema!("export", "pageyard export TRACE -o FILE --json"),
    schema!("bench-sweep", "pageyard bench sweep --json"),
    schema!("bench-bulk", "pageyard bench bulk --json"),
    schema!("bench-primitives", "pageyard bench primitives --json"),
    schema!("bench-cross", "pageyard bench cross --json"),
    schema!("bench-mixed", "pageyard bench mixed --json"),
    schema!("bench-pools", "pageyard bench pools --json"),
    schema!("bench-scale", "pageyard bench scale --json"),
    schema!("bench-clear", "pageyard bench clear --json"),
    schema!("bench-fault", "pageyard bench fault --json"),
    schema!("bench-stream", "pageyard bench stream --json"),
    schema!("bench-router", "pageyard bench router --json"),
    schema!("experiment", "pageyard experiment NAME --json"),
    schema!("experiments", "pageyard experiment --json"),
    schema!("knobs", "pageyard knobs --json"),
];

/// Prints the JSON Schema of a document, or lists the documents.
#[derive(Args)]
#[command(after_help = "Examples:\n  pageyard schema\n  pageyard schema replay > replay.schema.json")]
pub struct SchemaArguments {
    /// The document's name; with --json and without a name, all schemas by name
    name: Option<String>,
}

impl SchemaArguments {
    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        match &self.name {
            Some(name) => print(find(name)?.text),
            None if json => print(&all()),
            None => print(&list()),
        }
    }
}

fn find(name: &str) -> Result<&'static Schema, Failure> {
    SCHEMAS.iter().find(|schema| schema.name == name).ok_or_else(|| {
        let meant = did_you_mean(name, SCHEMAS.iter().map(|schema| schema.name));
        Failure(format!("there is no document `{}`;{meant} `pageyard schema` lists all", shown(name)))
    })
}

fn list() -> String {
    let mut text = String::from("pageyard schema NAME prints the JSON Schema of one of these documents:\n\n");
    for schema in &SCHEMAS {
        let _ = writeln!(text, "  {:<18} {}", schema.name, schema.printed_by);
    }
    text
}

/// Returns one JSON object of all schemas by name.
fn all() -> String {
    let of = |schema: &Schema| format!("\"{}\": {}", schema.name, schema.text.trim_end());
    format!("{{{}}}\n", SCHEMAS.iter().map(of).collect::<Vec<_>>().join(",\n"))
}
