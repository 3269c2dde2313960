//! The rules of a crate's structure, and their violations.

use crate::graph::{Graph, circles};
use crate::needs::{Needs, needs};
use crate::source::{Id, Tree};
use std::collections::BTreeMap;
use std::path::Path;

/// The most files that may need each other.
const LONGEST_CIRCLE: usize = 2;

/// The most columns of a line.
const WIDTH: usize = 120;

/// Returns a sentence for each place that breaks a rule.
pub(crate) fn judge(tree: &Tree) -> Vec<String> {
    let needs = needs(tree);
    let mut broken = Vec::new();
    for circle in circles(&needs.files) {
        if circle.len() > LONGEST_CIRCLE {
            let names: Vec<String> = circle.iter().map(|id| tree.modules[*id].title()).collect();
            broken.push(format!("{} files need each other: {}", circle.len(), names.join(", ")));
        }
    }
    for (id, module) in tree.modules.iter().enumerate() {
        if module.home == id {
            broken.extend(upward(tree, id, &needs));
        }
    }
    for (id, name) in &needs.doors {
        broken.push(format!(
            "{} imports {name} through the root, which only re-exports it",
            tree.modules[*id].title()
        ));
    }
    broken
}

/// Returns the modules in a folder that cannot be put into an order.
fn upward(tree: &Tree, folder: Id, needs: &Needs) -> Vec<String> {
    let children: Vec<Id> = tree.modules[folder].children.values().copied().collect();
    let mut graph: Graph<Id> = children.iter().map(|child| (*child, Default::default())).collect();
    let mut example = BTreeMap::new();
    for (from, to) in needs.files.iter().flat_map(|(from, all)| all.iter().map(move |to| (*from, *to))) {
        if let (Some(a), Some(b)) = (tree.child_above(folder, from), tree.child_above(folder, to))
            && a != b
        {
            graph.entry(a).or_default().insert(b);
            example.entry((a, b)).or_insert((from, to));
        }
    }
    let title = |id: Id| tree.modules[id].title();
    let is_file = |id: &Id| tree.modules[*id].children.values().all(|child| tree.modules[*child].home == *id);
    let circles = circles(&graph).into_iter();
    let circles = circles.filter(|circle| circle.len() > LONGEST_CIRCLE || !circle.iter().all(is_file));
    circles
        .map(|circle| {
            let edges = example.iter().filter(|((a, b), _)| circle.contains(a) && circle.contains(b));
            let edges: Vec<String> =
                edges.map(|(_, (from, to))| format!("{} needs {}", title(*from), title(*to))).collect();
            let names: Vec<String> = circle.iter().map(|id| title(*id)).collect();
            format!("no order of layers fits {}: {}", names.join(", "), edges.join("; "))
        })
        .collect()
}

impl Tree {
    /// Returns the child of a module in which another lies.
    fn child_above(&self, folder: Id, module: Id) -> Option<Id> {
        let mut at = module;
        while at != 0 {
            let parent = self.modules[at].parent;
            if parent == folder {
                return Some(at);
            }
            at = parent;
        }
        None
    }
}

/// Returns the places in a folder's sources where a line is too wide.
pub(crate) fn too_wide(folder: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).map_err(|e| format!("{} cannot be read: {e}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path)
                    .map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
                let wide = text.lines().enumerate().filter(|(_, line)| is_too_wide(line));
                found.extend(
                    wide.map(|(n, _)| format!("{}:{}: more than {WIDTH} columns", path.display(), n + 1)),
                );
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns whether a line is a comment that is too wide; a row of a table cannot be broken. The formatter sees to code.
fn is_too_wide(line: &str) -> bool {
    let comment = line.trim_start().trim_start_matches(['/', '!']).trim_start();
    line.chars().count() > WIDTH && line.trim_start().starts_with("//") && !comment.starts_with('|')
}

#[cfg(test)]
mod tests {
    use super::judge;
    use crate::source;
    use std::path::PathBuf;

    /// A crate in a folder of its own, removed when it is dropped.
    struct Crate(PathBuf);

    impl Crate {
        fn of(name: &str, files: &[(&str, &str)]) -> Crate {
            let folder =
                std::env::temp_dir().join(format!("pageyard-structure-{}-{name}", std::process::id()));
            for (file, text) in files {
                let path = folder.join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Crate(folder)
        }

        fn broken(&self) -> Vec<String> {
            judge(&source::read(&self.0.join("lib.rs")).unwrap())
        }
    }

    impl Drop for Crate {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_circle_behind_a_continued_string_is_seen() {
        // What reads lines instead of tokens loses everything from the backslash to the next quote.
        let a = "const TEXT: &str = \"one \\\n  two\";\npub struct A(pub crate::b::B);";
        let three = Crate::of(
            "circle",
            &[
                ("lib.rs", "mod a; mod b; mod c;"),
                ("a.rs", a),
                ("b.rs", "pub struct B(pub crate::c::C);"),
                ("c.rs", "pub struct C(pub Box<crate::a::A>);"),
            ],
        );
        let broken = three.broken();
        assert!(broken[0].starts_with("3 files need each other: a, b, c"), "{broken:?}");
        let two = Crate::of(
            "pair",
            &[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "pub struct A(pub crate::b::B);"),
                ("b.rs", "pub struct B(pub Box<crate::a::A>);"),
            ],
        );
        assert!(two.broken().is_empty(), "{:?}", two.broken());
    }

    #[test]
    fn folders_that_use_each_other_have_no_order_of_layers() {
        let files = [
            ("lib.rs", "mod low; mod high;"),
            ("low/mod.rs", "pub mod a; pub mod b;"),
            ("low/a.rs", "pub struct A;"),
            ("low/b.rs", "pub fn f() { crate::high::d::g(); }"),
            ("high/mod.rs", "pub mod c; pub mod d;"),
            ("high/c.rs", "pub struct C(pub crate::low::a::A);"),
            ("high/d.rs", "pub fn g() {}"),
        ];
        let broken = Crate::of("layers", &files).broken();
        assert_eq!(broken.len(), 1, "{broken:?}");
        assert!(
            broken[0].contains("low::b needs high::d") && broken[0].contains("high::c needs low::a"),
            "{broken:?}"
        );
    }

    #[test]
    fn re_exports_are_followed_and_the_root_is_no_way_in() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub use std::fmt; #[cfg(test)] mod t { use crate::A; }"),
            ("a.rs", "pub struct A;"),
            ("b.rs", "use crate::A; use crate::fmt::Debug;"),
        ];
        let broken = Crate::of("doors", &files).broken();
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(broken.iter().all(|why| why.starts_with("b imports ")), "{broken:?}");
    }
}
