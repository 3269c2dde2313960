//! Checks the structure of the sources: imports inside each crate point one way, and comments have at most 120 columns.
//!
//!     cargo run -p pageyard-structure            fails where a rule is broken, and names every place
//!
//! The rules, for each crate:
//!
//! * **Circles.** No more than two files need each other, directly or through others. Two such files are one subject in
//!   two parts; three or more are a knot.
//! * **Layers.** The modules in a folder can be put into an order in which each uses only those before it. Two plain
//!   files may need each other.
//! * **Doors.** `crate::Name` names a module or an item of the crate's root. What `lib.rs` re-exports is for users
//!   outside.
//! * **Width.** No comment has more than 120 columns, rows of tables apart. The formatter sees to code.
//!
//! A file needs another where it names an item of it, through re-exports or not. Tests do not count, nor does a
//! re-export in the root of a module.
//!
//! `source` reads a crate's modules, `needs` finds which files each of them needs, `graph` finds circles, `rules`
//! judges.
#![forbid(unsafe_code)]

mod graph;
mod needs;
mod rules;
mod source;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match check(&root) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(n) => {
            println!("{n} places break the rules that `lab/structure` states");
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("structure: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Checks every crate, prints what is wrong, and returns how many places that is.
fn check(root: &Path) -> Result<usize, String> {
    let mut found = 0;
    let mut crates = 0;
    for folder in ["crates", "adapters", "lab"] {
        for home in folders(&root.join(folder))? {
            let name = home.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for file in ["lib.rs", "main.rs"].map(|file| home.join("src").join(file)) {
                if file.is_file() {
                    let tree = source::read(&file)?;
                    for broken in rules::judge(&tree) {
                        println!("{name}: {broken}");
                        found += 1;
                    }
                    crates += 1;
                }
            }
            for wide in rules::too_wide(&home)? {
                println!("{wide}");
                found += 1;
            }
        }
    }
    println!("{crates} crates were looked at");
    Ok(found)
}

fn folders(of: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(of).map_err(|e| format!("{} cannot be read: {e}", of.display()))?;
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    Ok(found)
}
