//! The schemas of `docs/schemas` beside the types that write the documents, and documents checked against them.
//!
//! After a change of a document: `PAGEYARD_BLESS=1 cargo test -p pageyard-cli --test command schemas`, then read the
//! difference.

use crate::PAGEYARD;
use pageyard_documents::schemas;
use pageyard_record::export::ExportDocument;
use pageyard_record::host::{HostDocument, StacksDocument};
use pageyard_record::import::ImportDocument;
use pageyard_record::record::RecordDocument;
use pageyard_record::record::reports::ReportsDocument;
use pageyard_record::record::watch::WatchDocument;
use pageyard_replay::beside::BesideDocument;
use pageyard_replay::compare::CompareDocument;
use pageyard_replay::doctor::DoctorDocument;
use pageyard_replay::engine::KnobsDocument;
use pageyard_replay::fleet::FleetDocument;
use pageyard_replay::replay::ReplayReport;
use pageyard_replay::story::{BlameDocument, MapDocument};
use pageyard_trace::contents::SnapshotCost;
use pageyard_trace::document::schema;
use pageyard_trace::{SalvageDocument, SeveralDocument, SummaryDocument};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// Every schema, from the types.
fn generated() -> Vec<Value> {
    vec![
        schema::<ReplayReport>(),
        schema::<CompareDocument<'_>>(),
        schema::<BesideDocument<'_>>(),
        schema::<MapDocument>(),
        schema::<SummaryDocument<'_>>(),
        schema::<BlameDocument<'_>>(),
        schema::<SeveralDocument>(),
        schema::<HostDocument<'_>>(),
        schema::<StacksDocument<'_>>(),
        schema::<DoctorDocument<'_>>(),
        schema::<RecordDocument<'_>>(),
        schema::<WatchDocument<'_>>(),
        schema::<ReportsDocument<'_>>(),
        schema::<SnapshotCost>(),
        schema::<FleetDocument<'_>>(),
        schema::<ImportDocument<'_>>(),
        schema::<SalvageDocument<'_>>(),
        schema::<ExportDocument<'_>>(),
        schema::<KnobsDocument<'_>>(),
    ]
}

#[test]
fn the_schemas_that_are_checked_in_are_those_of_the_types() {
    schemas::are_checked_in(&generated(), "pageyard-cli");
}

#[test]
fn the_command_prints_every_schema() {
    schemas::are_printed_by(&PAGEYARD, &generated());
}

#[test]
fn a_schema_allows_no_null_and_refuses_what_lacks_a_key() {
    schemas::allow_no_null(&generated());
    let mut knobs = PAGEYARD.json(&["knobs", "--json"]);
    assert!(schemas::wrong(&knobs).is_none());
    knobs["knobs"][0].as_object_mut().unwrap().remove("about");
    assert!(schemas::wrong(&knobs).is_some());
}

#[test]
fn what_the_verbs_print_is_what_the_schemas_describe() {
    for arguments in [
        &["knobs", "--json"][..],
        &["summary", "--json"],
        &["summary", "--host", "--json"],
        &["summary", concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/traces"), "--json"],
        &["snapshot-cost", "--json"],
        &["doctor", "--json"],
        &["replay", "--threads", "--engine", "linux-6.18", "--json"],
    ] {
        PAGEYARD.json(arguments);
    }
}

#[test]
fn an_import_is_what_its_schema_describes() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("schemas-import");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    let (file, trace) = (folder.join("perf.data"), folder.join("a.trace"));
    fs::write(&file, &pageyard_record::hostile::seeds("perf_data")[0]).unwrap();
    let import = PAGEYARD.json(&["import", file.to_str().unwrap(), "-o", trace.to_str().unwrap(), "--json"]);
    assert!(import["events"].as_u64().unwrap() > 0, "{import}");
}
