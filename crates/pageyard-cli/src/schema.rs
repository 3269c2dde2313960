//! `pageyard schema`: the schemas of the JSON documents that the other verbs print.

use crate::output::{Failure, print};
use clap::Args;
use pageyard_replay::engine::did_you_mean;
use pageyard_trace::shown;
use std::fmt::Write;

/// A document of a command: its name, what prints it, and its schema.
pub struct Schema {
    /// The name of the document.
    pub name: &'static str,
    /// The arguments that print one.
    pub printed_by: &'static str,
    /// The JSON Schema.
    pub text: &'static str,
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

const SCHEMAS: [Schema; 19] = [
    schema!("replay", "pageyard replay --json"),
    schema!("compare", "pageyard compare --json"),
    schema!("compare-recordings", "pageyard compare TRACE TRACE --json"),
    schema!("map", "pageyard map TRACE -o FILE.html --json"),
    schema!("summary", "pageyard summary --json"),
    schema!("summary-blame", "pageyard summary --blame --json"),
    schema!("summaries", "pageyard summary FOLDER --json"),
    schema!("summary-host", "pageyard summary --host --json"),
    schema!("summary-stacks", "pageyard summary --stacks --json"),
    schema!("doctor", "pageyard doctor --json"),
    schema!("record", "pageyard record --json"),
    schema!("watch", "pageyard watch --json"),
    schema!("watch-reports", "pageyard watch --level reports --json"),
    schema!("snapshot-cost", "pageyard snapshot-cost --json"),
    schema!("fleet", "pageyard fleet FOLDER --json"),
    schema!("import", "pageyard import FILE --json"),
    schema!("import-partial", "pageyard import NAME.trace.partial --json"),
    schema!("export", "pageyard export TRACE -o FILE --json"),
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
        match self.name.as_deref().filter(|name| name.starts_with("bench-") || name.starts_with("experiment"))
        {
            Some(_) => Err(Failure(
                "that document is the laboratory's: `pageyard-lab schema` prints its schema".into(),
            )),
            None => print_schema("pageyard", &SCHEMAS, self.name.as_deref(), json),
        }
    }
}

/// Prints the schema of one of a command's documents, or all: a list, or an object by name.
///
/// # Errors
/// There is no such document, or the result cannot be written.
pub fn print_schema(command: &str, all: &[Schema], name: Option<&str>, json: bool) -> Result<(), Failure> {
    match name {
        Some(name) => print(find(command, all, name)?.text),
        None if json => print(&by_name(all)),
        None => print(&list(command, all)),
    }
}

fn find<'a>(command: &str, schemas: &'a [Schema], name: &str) -> Result<&'a Schema, Failure> {
    schemas.iter().find(|schema| schema.name == name).ok_or_else(|| {
        let meant = did_you_mean(name, schemas.iter().map(|schema| schema.name));
        Failure(format!("there is no document `{}`;{meant} `{command} schema` lists all", shown(name)))
    })
}

fn list(command: &str, schemas: &[Schema]) -> String {
    let mut text = format!("{command} schema NAME prints the JSON Schema of one of these documents:\n\n");
    for schema in schemas {
        let _ = writeln!(text, "  {:<18} {}", schema.name, schema.printed_by);
    }
    text
}

/// Returns one JSON object of all schemas by name.
fn by_name(schemas: &[Schema]) -> String {
    let of = |schema: &Schema| format!("\"{}\": {}", schema.name, schema.text.trim_end());
    format!("{{{}}}\n", schemas.iter().map(of).collect::<Vec<_>>().join(",\n"))
}
