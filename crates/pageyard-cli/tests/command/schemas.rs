//! The schemas of `docs/schemas` beside the types that write the documents, and documents checked against them.
//!
//! After a change of a document: `PAGEYARD_BLESS=1 cargo test -p pageyard-cli --test command schemas`, then read the
//! difference.

use boon::{Compiler, Schemas};
use pageyard_bench::document::{
    BulkDocument, ClearDocument, CrossDocument, FaultDocument, MixedDocument, PoolsDocument,
    PrimitivesDocument, RouterDocument, ScaleDocument, StreamDocument, SweepDocument,
};
use pageyard_bench::experiment::{ExperimentDocument, ExperimentsDocument};
use pageyard_record::export::ExportDocument;
use pageyard_record::host::HostDocument;
use pageyard_record::import::ImportDocument;
use pageyard_record::record::RecordDocument;
use pageyard_record::record::watch::WatchDocument;
use pageyard_replay::compare::CompareDocument;
use pageyard_replay::doctor::DoctorDocument;
use pageyard_replay::engine::KnobsDocument;
use pageyard_replay::replay::ReplayDocument;
use pageyard_replay::story::{BlameDocument, MapDocument};
use pageyard_trace::document::schema;
use pageyard_trace::{SalvageDocument, SeveralDocument, SummaryDocument};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const REGENERATE: &str =
    "run `PAGEYARD_BLESS=1 cargo test -p pageyard-cli --test command schemas`, and read the difference";

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas").join(format!("{name}.json"))
}

/// The name of a document whose schema is `pageyard.NAME/VERSION`.
fn name_of(title: &Value) -> String {
    let title = title.as_str().expect("a schema's name is a text");
    let name = title.strip_prefix("pageyard.").and_then(|rest| rest.split_once('/'));
    name.unwrap_or_else(|| panic!("{title} is not pageyard.NAME/VERSION")).0.to_owned()
}

/// Every schema, from the types.
fn generated() -> Vec<Value> {
    vec![
        schema::<ReplayDocument<'_>>(),
        schema::<CompareDocument<'_>>(),
        schema::<MapDocument>(),
        schema::<SummaryDocument<'_>>(),
        schema::<BlameDocument<'_>>(),
        schema::<SeveralDocument>(),
        schema::<HostDocument<'_>>(),
        schema::<DoctorDocument<'_>>(),
        schema::<RecordDocument<'_>>(),
        schema::<WatchDocument<'_>>(),
        schema::<ImportDocument<'_>>(),
        schema::<SalvageDocument<'_>>(),
        schema::<ExportDocument<'_>>(),
        schema::<SweepDocument<'_>>(),
        schema::<BulkDocument<'_>>(),
        schema::<PrimitivesDocument<'_>>(),
        schema::<CrossDocument<'_>>(),
        schema::<MixedDocument<'_>>(),
        schema::<ScaleDocument<'_>>(),
        schema::<ClearDocument<'_>>(),
        schema::<FaultDocument<'_>>(),
        schema::<StreamDocument<'_>>(),
        schema::<PoolsDocument<'_>>(),
        schema::<RouterDocument<'_>>(),
        schema::<ExperimentDocument<'_>>(),
        schema::<ExperimentsDocument>(),
        schema::<KnobsDocument<'_>>(),
    ]
}

/// Reads what a verb printed under `--json`: one document, without nulls, that its schema describes.
pub fn document(stdout: &[u8]) -> Value {
    let document: Value = serde_json::from_slice(stdout).expect("standard output is one JSON document");
    let name = name_of(&document["schema"]);
    let path = file(&name);
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let index = compiler.compile(path.to_str().unwrap(), &mut schemas).unwrap();
    if let Err(wrong) = schemas.validate(&document, index) {
        panic!("{name}: {wrong:#}\n{document}");
    }
    assert!(!has_null(&document), "{document}");
    document
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(entries) => entries.values().any(has_null),
        _ => false,
    }
}

fn stdout(arguments: &[&str]) -> Vec<u8> {
    let out = Command::new(env!("CARGO_BIN_EXE_pageyard")).args(arguments).output().unwrap();
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

#[test]
fn the_schemas_that_are_checked_in_are_those_of_the_types() {
    let bless = std::env::var_os("PAGEYARD_BLESS").is_some();
    for schema in generated() {
        let (path, text) = (file(&name_of(&schema["title"])), format!("{schema:#}\n"));
        if bless {
            fs::write(&path, &text).unwrap();
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{} is not what the types say: {REGENERATE}", path.display());
    }
}

#[test]
fn the_command_prints_every_schema() {
    let all: Value = serde_json::from_slice(&stdout(&["schema", "--json"])).unwrap();
    let list = String::from_utf8(stdout(&["schema"])).unwrap();
    let generated = generated();
    assert_eq!(all.as_object().unwrap().len(), generated.len());
    for schema in generated {
        let name = name_of(&schema["title"]);
        assert_eq!(all[&name], schema, "{name}: {REGENERATE}");
        assert_eq!(serde_json::from_slice::<Value>(&stdout(&["schema", &name])).unwrap(), schema);
        assert!(list.contains(&format!("  {name} ")), "{list}");
    }
}

#[test]
fn a_schema_allows_no_null_and_refuses_what_lacks_a_key() {
    for schema in generated() {
        assert!(!schema.to_string().contains(r#""null""#), "{schema}");
    }
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let index = compiler.compile(file("knobs").to_str().unwrap(), &mut schemas).unwrap();
    let mut knobs = document(&stdout(&["knobs", "--json"]));
    knobs["knobs"][0].as_object_mut().unwrap().remove("about");
    assert!(schemas.validate(&knobs, index).is_err());
}

#[test]
fn what_the_verbs_print_is_what_the_schemas_describe() {
    for arguments in [
        &["knobs", "--json"][..],
        &["experiment", "--json"],
        &["summary", "--json"],
        &["summary", "--host", "--json"],
        &["summary", concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/traces"), "--json"],
        &["doctor", "--json"],
        &["replay", "--threads", "--engine", "linux-6.18", "--json"],
        &["bench", "bulk", "--quick", "--samples", "3", "--json"],
        &["bench", "cross", "--quick", "--samples", "3", "--json"],
        &["bench", "clear", "--quick", "--samples", "3", "--json"],
        &["bench", "fault", "--quick", "--samples", "3", "--json"],
        &["bench", "stream", "--quick", "--elements", "100000", "--json"],
        &["bench", "router", "--quick", "--set", "cpus=4", "--set", "offered-gbit=10", "--json"],
        &[
            "bench",
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
        document(&stdout(arguments));
    }
}

#[test]
fn an_import_is_what_its_schema_describes() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("schemas-import");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    let (file, trace) = (folder.join("perf.data"), folder.join("a.trace"));
    fs::write(&file, &pageyard_record::hostile::seeds("perf_data")[0]).unwrap();
    let import =
        document(&stdout(&["import", file.to_str().unwrap(), "-o", trace.to_str().unwrap(), "--json"]));
    assert!(import["events"].as_u64().unwrap() > 0, "{import}");
}
