//! The documents of the benchmarks as text for people; here the head and the foot that the tables share.

mod bulk;
mod clear;
mod cross;
mod fault;
mod mixed;
mod pools;
mod primitives;
mod router;
mod scale;
mod stream;
mod sweep;

use crate::document::DisturbanceDocument;
use crate::external::ExternalNote;
use crate::harness::machine::{CHECKED_BUILD_WARNING, Machine, Taken};
use crate::harness::noise::Skipped;
use std::borrow::Cow;
use std::fmt::Write;

/// Says first that a run was quick, and what the whole benchmark has beside it.
fn quick_text(quick: bool, beside: &str) -> String {
    if quick {
        format!("A quick run: not the whole benchmark, which also has {beside}.\n")
    } else {
        String::new()
    }
}

fn machine_text(m: &Machine) -> String {
    let costs = m.costs.map_or_else(String::new, |costs| format!("{costs}\n"));
    let checked = if m.checked_build { format!("{CHECKED_BUILD_WARNING}\n") } else { String::new() };
    format!("{checked}{m}, Linux {}\n{costs}", m.kernel)
}

/// Says how many threads there are: the usual numbers in words.
fn threads_text(threads: usize) -> Cow<'static, str> {
    match threads {
        1 => "one thread".into(),
        2 => "two threads".into(),
        n => format!("{n} threads").into(),
    }
}

fn samples_text(samples: usize) -> String {
    format!("Each row has {samples} samples, taken in turn; figures are their medians.\n")
}

/// Returns an allocator's name as a table has it: marked where its row was measured elsewhere.
fn shown_name(name: &str, external: bool) -> Cow<'_, str> {
    if external { format!("{name} (external)").into() } else { name.into() }
}

/// Says where external rows come from, and in what that machine is not like this one.
fn external_text(text: &mut String, note: Option<&ExternalNote>) {
    let Some(note) = note else { return };
    let _ = write!(text, "\n(external): not measured in this run, but on {}", machine_text(&note.machine));
    for difference in &note.differences {
        let _ = writeln!(text, "WARNING: (external) rows do not compare with the others: {difference}.");
    }
    if note.rows_left_out > 0 {
        let _ = writeln!(
            text,
            "{} rows of the file are of settings that were not measured here.",
            note.rows_left_out
        );
    }
}

fn skipped_text(text: &mut String, skipped: &[Skipped]) {
    if !skipped.is_empty() {
        text.push('\n');
    }
    for s in skipped {
        let _ = writeln!(text, "skipped: {}: {}", s.allocator, s.why);
    }
}

fn disturbance_text(disturbance: &DisturbanceDocument) -> String {
    let DisturbanceDocument { settings, disturbed, pair_apart_pct_max, taken } = disturbance;
    let Taken { steal_ms, waited_ms, elapsed_ms } = taken;
    if *disturbed == 0 {
        return format!(
            "Undisturbed: in all {settings} settings a pair of the same code agreed within 5 %, and others took little time.\n"
        );
    }
    format!(
        "DISTURBED: {disturbed} of {settings} settings are doubtful (!): a pair of the same code disagreed, by \
         {pair_apart_pct_max:.0} % at most, or others took time ({waited_ms:.0} ms of waiting and {steal_ms:.0} ms stolen, of \
         {elapsed_ms:.0} ms).\n"
    )
}

#[cfg(test)]
mod tests {
    use crate::document::ScaleDocument;
    use crate::harness::machine::Machine;

    #[test]
    fn a_quick_run_says_so_in_its_first_line() {
        let machine = Machine { checked_build: false, ..Machine::this() };
        let full = ScaleDocument::of(&machine, &[], &[]);
        let quick = ScaleDocument { quick: true, ..full.clone() };
        let first = |text: &str| text.lines().next().unwrap().to_owned();
        assert!(first(&quick.text()).starts_with("A quick run: not the whole benchmark"), "{}", quick.text());
        assert!(quick.text().ends_with(&full.text()) && !full.text().contains("quick"));
        assert!(full.text().starts_with(&machine.to_string()), "{}", full.text());
    }

    #[test]
    fn a_checked_build_says_so_before_any_figure() {
        let machine = Machine { checked_build: true, ..Machine::this() };
        let document = ScaleDocument::of(&machine, &[], &[]);
        assert!(document.text().starts_with("CHECKED BUILD: "), "{}", document.text());
        let json = serde_json::to_value(&document).unwrap();
        assert_eq!(json["machine"]["checked_build"], true);
        let release = Machine { checked_build: false, ..machine };
        assert!(serde_json::to_value(&release).unwrap().get("checked_build").is_none());
    }
}
