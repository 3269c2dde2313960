//! The schemas of `docs/schemas`, the documents that they describe and the types that they come from.

use crate::program::Program;
use boon::{Compiler, Schemas};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas").join(format!("{name}.json"))
}

/// The name of a document whose schema is `pageyard.NAME/VERSION`.
fn name_of(title: &Value) -> String {
    let title = title.as_str().expect("a schema's name is a text");
    let name = title.strip_prefix("pageyard.").and_then(|rest| rest.split_once('/'));
    name.unwrap_or_else(|| panic!("{title} is not pageyard.NAME/VERSION")).0.to_owned()
}

/// Reads what a verb printed under `--json`: one document, without nulls, that its schema describes.
pub fn document(stdout: &[u8]) -> Value {
    let document: Value = serde_json::from_slice(stdout).expect("standard output is one JSON document");
    if let Some(wrong) = wrong(&document) {
        panic!("{wrong}\n{document}");
    }
    assert!(!has_null(&document), "{document}");
    document
}

/// Returns how a document differs from what its schema describes.
#[must_use]
pub fn wrong(document: &Value) -> Option<String> {
    let name = name_of(&document["schema"]);
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let index = compiler.compile(file(&name).to_str().expect("a path is a text"), &mut schemas);
    let index = index.unwrap_or_else(|why| panic!("{name}: {why}"));
    schemas.validate(document, index).err().map(|wrong| format!("{name}: {wrong:#}"))
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(entries) => entries.values().any(has_null),
        _ => false,
    }
}

fn regenerate(package: &str) -> String {
    format!("run `PAGEYARD_BLESS=1 cargo test -p {package} --test command schemas`, and read the difference")
}

/// Checks that the files have the schemas that the types of a package generate. Where `PAGEYARD_BLESS` is set, writes
/// them first.
pub fn are_checked_in(generated: &[Value], package: &str) {
    let bless = std::env::var_os("PAGEYARD_BLESS").is_some();
    for schema in generated {
        let (path, text) = (file(&name_of(&schema["title"])), format!("{schema:#}\n"));
        if bless {
            fs::write(&path, &text).expect("the schema can be written");
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{} is not what the types say: {}", path.display(), regenerate(package));
    }
}

/// Checks that the command's verb `schema` lists and prints exactly these.
pub fn are_printed_by(program: &Program, generated: &[Value]) {
    let read = |stdout: Vec<u8>| serde_json::from_slice::<Value>(&stdout).expect("JSON");
    let all = read(program.stdout(&["schema", "--json"]));
    let list = String::from_utf8(program.stdout(&["schema"])).expect("the list is a text");
    assert_eq!(all.as_object().expect("an object").len(), generated.len());
    for schema in generated {
        let name = name_of(&schema["title"]);
        assert_eq!((&all[&name], &read(program.stdout(&["schema", &name]))), (schema, schema), "{name}");
        assert!(list.contains(&format!("  {name} ")), "{list}");
    }
}

/// Checks that no schema allows a null.
pub fn allow_no_null(generated: &[Value]) {
    for schema in generated {
        assert!(!schema.to_string().contains(r#""null""#), "{schema}");
    }
}
