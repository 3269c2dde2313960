//! Kept runs: their claims judged again by today's rules, as a page; and whether several runs agree.

use super::claim::{By, Claim, ClaimOutcome};
use super::{ClaimDocument, EXPERIMENTS, Experiment, Rows};
use crate::error::BenchError;
use flate2::read::GzDecoder;
use pageyard_replay::text::shown;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The documents, in their order: the experiment that reproduces each, and its subject.
const DOCUMENTS: [(&str, &str, &str); 5] = [
    ("irq-safe", "000", "per-CPU lists without interrupts off"),
    ("batched-clear", "001", "huge pages cleared in batches"),
    ("direct-compaction", "002", "direct compaction"),
    ("page-frag", "003", "fragments freed to the lists, and a router"),
    ("zonelist", "004", "the zonelist iterator inlined"),
];

/// A document may be so large when it is unpacked.
const LARGEST: u64 = 64 << 20;

/// A run of an experiment that was kept.
pub struct Kept {
    experiment: &'static dyn Experiment,
    /// The claims, judged again.
    pub claims: Vec<Claim>,
    quick: bool,
    machine: String,
    date: String,
}

/// The part of an experiment's document that is read back.
#[derive(Deserialize)]
struct Document {
    schema: String,
    name: String,
    machine: String,
    quick: bool,
    rows: Vec<DocumentRow>,
    made: DocumentMade,
}

#[derive(Deserialize)]
struct DocumentRow {
    metric: String,
    column: String,
    value: f64,
    unit: String,
    table: String,
    setting: String,
}

#[derive(Deserialize)]
struct DocumentMade {
    date: String,
    #[serde(default)]
    checked_build: bool,
}

/// Gives a string the life of the program. There are some hundred different ones in all kept runs.
fn lasting(known: &mut Vec<&'static str>, text: String) -> &'static str {
    known.iter().copied().find(|k| *k == text).unwrap_or_else(|| {
        let text: &'static str = text.leak();
        known.push(text);
        text
    })
}

impl Kept {
    /// Reads a document of `experiment NAME --json`, compressed by gzip or not.
    ///
    /// # Errors
    /// [`BenchError::Kept`] where it cannot be read, or is no such document.
    pub fn read(path: &Path) -> Result<Kept, BenchError> {
        let fail = |why: String| BenchError::Kept { path: shown(&path.display().to_string()), why };
        let file = File::open(path).map_err(|e| fail(e.to_string()))?;
        let mut text = String::new();
        let packed = path.extension().is_some_and(|e| e == "gz");
        let source: Box<dyn Read> = if packed { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
        source.take(LARGEST).read_to_string(&mut text).map_err(|e| fail(e.to_string()))?;
        let document: Document = serde_json::from_str(&text).map_err(|e| fail(e.to_string()))?;
        Kept::of(document).map_err(fail)
    }

    fn of(document: Document) -> Result<Kept, String> {
        let experiment = EXPERIMENTS.iter().copied().find(|e| e.name() == document.name);
        let Some(experiment) = experiment.filter(|_| document.schema == "pageyard.experiment/1") else {
            return Err("it is no document of an experiment that there is".into());
        };
        let (mut rows, mut known) = (Rows::default(), Vec::new());
        for row in document.rows {
            let setting = row.setting.strip_prefix(&row.table).unwrap_or("");
            rows.setting(setting.strip_prefix(": ").unwrap_or(""));
            rows.section(lasting(&mut known, row.table));
            rows.add(row.metric, row.column, row.value, lasting(&mut known, row.unit));
        }
        let mut claims = experiment.claims(&rows);
        if document.quick {
            claims = claims.into_iter().map(Claim::of_a_quick_run).collect();
        }
        if document.made.checked_build {
            claims = claims.into_iter().map(Claim::of_a_checked_build).collect();
        }
        let Document { quick, machine, made, .. } = document;
        Ok(Kept { experiment, claims, quick, machine, date: made.date })
    }

    /// Returns the name of the experiment.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.experiment.name()
    }

    /// Returns how many claims another run of the experiment judges, too, and those that it judges otherwise: here,
    /// then there. A verdict that one run cannot judge and another cannot measure is none in both.
    #[must_use]
    pub fn beside<'a>(&'a self, other: &'a Kept) -> (usize, Vec<(&'a Claim, &'a Claim)>) {
        let of = |what: &str| other.claims.iter().find(|c| c.what == what);
        let pairs: Vec<_> = self.claims.iter().filter_map(|c| Some((c, of(&c.what)?))).collect();
        let none = |c: &Claim| c.outcome.why().is_some();
        let differ = |a: &Claim, b: &Claim| a.mark() != b.mark() && !(none(a) && none(b));
        (pairs.len(), pairs.into_iter().filter(|(a, b)| differ(a, b)).collect())
    }
}

/// Kept runs, judged again.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimsDocument<'a> {
    /// The runs, in the order given.
    pub runs: Vec<RunDocument<'a>>,
}

/// A kept run, judged again.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunDocument<'a> {
    /// The experiment.
    pub experiment: &'static str,
    /// The machine it ran on.
    pub machine: &'a str,
    /// When, in UTC.
    pub date: &'a str,
    /// Whether it was a quick run.
    pub quick: bool,
    /// Its claims.
    pub claims: Vec<ClaimDocument<'a>>,
    /// In how many of them the first run of the experiment has the same verdict; left out for the first run itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreeing: Option<usize>,
}

impl pageyard_trace::Document for ClaimsDocument<'_> {
    const SCHEMA: &'static str = "pageyard.claims/1";
}

impl<'a> ClaimsDocument<'a> {
    /// Lists the claims of runs.
    #[must_use]
    pub fn of(runs: &'a [Kept]) -> ClaimsDocument<'a> {
        let run = |(i, kept): (usize, &'a Kept)| RunDocument {
            experiment: kept.name(),
            machine: &kept.machine,
            date: &kept.date,
            quick: kept.quick,
            claims: kept.claims.iter().map(ClaimDocument::of).collect(),
            agreeing: runs[..i].iter().find(|k| k.name() == kept.name()).map(|first| {
                let (all, others) = first.beside(kept);
                all - others.len()
            }),
        };
        ClaimsDocument { runs: runs.iter().enumerate().map(run).collect() }
    }
}

/// Returns a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn verdict(claim: &Claim) -> String {
    match (&claim.outcome, claim.by) {
        (ClaimOutcome::Reproduced, By::Document) => "holds".into(),
        (ClaimOutcome::Reproduced, By::Target) => "reached".into(),
        (ClaimOutcome::Missed, By::Document) => "**does not hold**".into(),
        (ClaimOutcome::Missed, By::Target) => "**missed**".into(),
        (ClaimOutcome::NotCarried(why), _) => format!("not carried: {}", cell(why)),
        (ClaimOutcome::Unmeasured(why), _) => format!("not measured: {}", cell(why)),
    }
}

/// The page that a claim is discussed on.
fn study(experiment: &str, claim: &Claim) -> String {
    let router = claim.rows.iter().any(|g| g.setting.starts_with("The router model"));
    let page = if router { "forwarding" } else { experiment };
    format!("[{page}]({page}.md)")
}

fn row(text: &mut String, experiment: &str, claim: &Claim, at: bool) {
    let what =
        if claim.asked.is_empty() { claim.what.clone() } else { format!("{} ({})", claim.what, claim.asked) };
    let place = if at {
        format!(" {} |", cell(claim.at.split_once(", ").map_or("", |(_, at)| at)))
    } else {
        String::new()
    };
    let figure = match claim.published.is_empty() {
        true => claim.measured.clone(),
        false if claim.measured.is_empty() => format!("published: {}", claim.published),
        false => format!("{}; published: {}", claim.measured, claim.published),
    };
    let (what, figure) = (cell(&what), cell(&figure));
    let _ =
        writeln!(text, "| {what} |{place} {} | {figure} | {} |", verdict(claim), study(experiment, claim));
}

fn count(claims: &[&Claim], name: &str) -> usize {
    claims.iter().filter(|c| c.outcome.name() == name).count()
}

/// Writes every claim of the documents, and every target of this project beside them, by the first run of each
/// experiment; then, where there are more runs of one, whether they agree.
#[must_use]
pub fn page(runs: &[Kept]) -> String {
    let first = |name: &str| runs.iter().find(|k| k.name() == name);
    let all: Vec<&Kept> = DOCUMENTS.iter().filter_map(|(name, ..)| first(name)).collect();
    let claims: Vec<&Claim> = all.iter().flat_map(|k| &k.claims).filter(|c| c.by == By::Document).collect();
    let could = claims.len() - count(&claims, "unmeasured");
    let open = count(&claims, "not_carried");
    let mut text = String::from("# Every claim of the five documents\n\n");
    let _ = write!(
        text,
        "Each claim, objection and request of the documents, judged by one full run of its experiment, which is kept in\n\
         `data/runs`. *Holds* and *does not hold* say what its rows say; *not carried*: another run of the same code may\n\
         differ by more than it is off what is asked; *not measured*: this machine cannot. What is asked stands in brackets\n\
         behind a claim. Written by\n\n    pageyard-lab claims data/runs/*.json.gz\n\n\
         and a test compares. Of {} claims {} hold, {} do not, {open} are not carried ({:.0} % of those that can be measured\n\
         here) and {} cannot be measured.\n",
        claims.len(),
        count(&claims, "reproduced"),
        count(&claims, "missed"),
        100.0 * open as f64 / could.max(1) as f64,
        count(&claims, "unmeasured"),
    );
    for (name, number, subject) in DOCUMENTS {
        let Some(kept) = first(name) else {
            let _ = write!(
                text,
                "\n## {number}: {subject}\n\nNo run is kept: [{name}]({name}.md) has its claims.\n"
            );
            continue;
        };
        let quick = if kept.quick { ", a quick run" } else { "" };
        let _ =
            write!(text, "\n## {number}: {subject}\n\n{}, {}{quick}.\n\n", kept.date, cell(&kept.machine));
        text.push_str("| claim | in the document | verdict | figure | study |\n|---|---|---|---|---|\n");
        kept.claims.iter().filter(|c| c.by == By::Document).for_each(|c| row(&mut text, name, c, true));
    }
    text.push_str(
        "\n## Targets of this project\n\n| target | verdict | figure | study |\n|---|---|---|---|\n",
    );
    for kept in &all {
        kept.claims.iter().filter(|c| c.by == By::Target).for_each(|c| row(&mut text, kept.name(), c, false));
    }
    let more = || later(runs);
    if more().next().is_some() {
        text.push_str("\n## On other machines\n\n");
        text.push_str("The verdicts of later runs, where they are not those above.\n");
    }
    for (first, kept) in more() {
        let (all, others) = first.beside(kept);
        let (name, quick) = (kept.name(), if kept.quick { ", a quick run" } else { "" });
        let same = all - others.len();
        let _ = write!(
            text,
            "\n{name}, {}, {}{quick}: {same} of {all} verdicts are the same.\n",
            kept.date,
            cell(&kept.machine)
        );
        if !others.is_empty() {
            text.push_str("\n| claim | above | here | figure |\n|---|---|---|---|\n");
        }
        for (a, b) in others {
            let (what, figure) = (cell(&a.what), cell(&b.measured));
            let _ = writeln!(text, "| {what} | {} | {} | {figure} |", verdict(a), verdict(b));
        }
    }
    text
}

/// The runs after the first of their experiment, each with the first.
fn later(runs: &[Kept]) -> impl Iterator<Item = (&Kept, &Kept)> {
    runs.iter()
        .enumerate()
        .filter_map(|(i, kept)| Some((runs[..i].iter().find(|k| k.name() == kept.name())?, kept)))
}

/// Says, for each run after the first of its experiment, how far its verdicts agree with the first.
#[must_use]
pub fn agreements(runs: &[Kept]) -> String {
    let mut text = String::new();
    for (first, kept) in later(runs) {
        let (all, others) = first.beside(kept);
        let (name, same) = (kept.name(), all - others.len());
        let share = 100.0 * same as f64 / all.max(1) as f64;
        let _ = writeln!(text, "{name}: {same} of {all} verdicts are those of the first run ({share:.0} %)");
        for (a, b) in others {
            let _ = writeln!(
                text,
                "  {}: {} ({}), then {} ({})",
                a.what,
                a.mark(),
                a.measured,
                b.mark(),
                b.measured
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{ExperimentReport, find, judged};

    /// A run of `irq-safe` in which 64 frames a call gain so much.
    fn kept(gain: f64) -> Kept {
        let mut rows = Rows::default();
        rows.section("Bulk");
        for column in ["reference:irqsave", "reference:trylock", "pageyard"] {
            rows.setting("one CPU");
            rows.add("gain bulk-64", column, gain, "%");
        }
        let report: ExperimentReport = judged(find("irq-safe").unwrap(), rows, Vec::new(), false);
        let mut document: Document = serde_json::from_value(report.json()).unwrap();
        document.made.checked_build = false;
        Kept::of(document).unwrap()
    }

    #[test]
    fn a_kept_run_is_judged_as_it_was_and_runs_are_compared() {
        let bulk =
            |k: &Kept| k.claims.iter().find(|c| c.what.starts_with("Taking 64")).unwrap().outcome.name();
        let (good, bad) = (kept(60.0), kept(3.0));
        assert_eq!((bulk(&good), bulk(&bad)), ("reproduced", "missed"));
        assert_eq!(good.beside(&bad).1.len(), 1);
        let text = page(&[good, bad]);
        assert!(
            text.contains("## 000: per-CPU lists") && text.contains("No run is kept: [zonelist]"),
            "{text}"
        );
        assert!(
            text.contains("| Taking 64 frames with one call is cheaper than one by one (at least 34 % less")
        );
        let other =
            "| Taking 64 frames with one call is cheaper than one by one | holds | **does not hold** |";
        assert!(text.contains("## On other machines") && text.contains(other), "{text}");
    }

    #[test]
    fn what_is_no_kept_run_is_refused() {
        let dir = std::env::temp_dir().join(format!("pageyard-kept-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (name, text) in [("a.json", "{}"), ("b.json.gz", "not gzip"), ("c.json", "{\"schema\": 1}")] {
            let path = dir.join(name);
            std::fs::write(&path, text).unwrap();
            assert!(matches!(Kept::read(&path), Err(BenchError::Kept { .. })), "{name}");
        }
        assert!(Kept::read(&dir.join("none.json")).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
