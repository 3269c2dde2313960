//! Builds the published tables that are present into the crate; without them it has none, and still measures.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    // A link to `data/published`, which packaging replaces with the files.
    let folder = Path::new(&root).join("published");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
    let mut files: Vec<_> =
        entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "csv")).collect();
    files.sort();
    let mut code = String::from("&[\n");
    for path in &files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let _ = writeln!(code, "    ({name:?}, include_str!({:?})),", path.display().to_string());
    }
    code.push_str("]\n");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("published.rs"), code).expect("the build folder can be written");
}
