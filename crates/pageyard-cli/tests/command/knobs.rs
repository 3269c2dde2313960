//! `docs/design/knobs.md` beside the knobs themselves.
//!
//! After a change of a knob: `PAGEYARD_BLESS=1 cargo test -p pageyard-cli --test command knobs`, then read the
//! difference.

use pageyard_replay::engine::{Engine, KnobDocument, KnobsDocument, all_knobs};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

const HEAD: &str = "\
# Knobs

Every setting that `--set KNOB=VALUE` and `ENGINE:KNOB=VALUE` take, as `pageyard knobs` prints them; `pageyard knobs --json` has the
same as a document. This page is made from the knobs themselves by the test that compares them.

Linux's side: a *sysctl* or a *build option* can be set there too; of *code* the function or type is named that decides. Releases count,
not distributions, which carry patches back; a release is named only where it is certain.

";

const LEFT: &str = "
## Knobs that the engine had

The engine's compaction has no scanners any more, and so none of their knobs. Each is refused there with the names of the
engines that have it, `linux-4.6` to `linux-7.3`. It keeps `compaction.enabled` and `compaction.proactiveness`.

";

fn page(document: &KnobsDocument<'_>) -> String {
    let mut page = HEAD.to_owned();
    page.push_str("| knob | what it does | values | where it is not set | Linux |\n|---|---|---|---|---|\n");
    for knob in &document.knobs {
        let KnobDocument { name, about, values, .. } = knob;
        let _ = writeln!(page, "| `{name}` | {about} | {values} | {} | {} |", defaults(knob), knob.linux());
    }
    page.push_str("\n## Patches that are in no release\n\nEach is an engine: a release with these knobs set.\n\n| engine | what it is |\n|---|---|\n");
    for posted in &document.posted {
        let _ = writeln!(page, "| `{}` | {} |", posted.name, posted.about);
    }
    page.push_str(LEFT);
    for knob in document.knobs.iter().filter(|knob| is_of_scanners(knob)) {
        let _ = writeln!(page, "* `{}`", knob.name);
    }
    page
}

/// Returns whether it is a knob of compaction that the engine has not.
fn is_of_scanners(knob: &KnobDocument<'_>) -> bool {
    let has_engine = knob.by_default().iter().any(|(_, engines)| engines.contains(&"pageyard"));
    knob.name.starts_with("compaction.") && !has_engine
}

/// The defaults, engines with the same one together.
fn defaults(knob: &KnobDocument<'_>) -> String {
    let group = |(default, engines): &(&str, Vec<&str>)| format!("**{default}** {}", engines.join(", "));
    match &knob.by_default()[..] {
        [(default, engines)] if engines.len() == Engine::names().count() => {
            format!("**{default}** everywhere")
        }
        groups => groups.iter().map(group).collect::<Vec<_>>().join("; "),
    }
}

#[test]
fn the_page_is_that_of_the_knobs() {
    let knobs = all_knobs();
    let page = page(&KnobsDocument::of(&knobs));
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/knobs.md");
    if std::env::var_os("PAGEYARD_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "{} is not what the knobs say: run `PAGEYARD_BLESS=1 cargo test -p pageyard-cli --test command knobs`, and read \
         the difference",
        path.display()
    );
}
