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

use crate::external::ExternalNote;
use crate::harness::machine::{CHECKED_BUILD_WARNING, Machine, Taken};
use crate::harness::noise::{Disturbance, Skipped};
use pageyard_trace::text::Grid;
use std::borrow::Cow;
use std::fmt::{Display, Write};

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
fn shown_name(name: &str, external: bool) -> String {
    if external { format!("{name} (external)") } else { name.to_owned() }
}

/// Returns a figure with its digits, or a dash where it is missing.
fn figure(value: impl Into<Option<f64>>, digits: usize) -> String {
    value.into().map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
}

/// Returns a heading, marked where figures below it are doubtful.
fn marked(heading: impl Display, doubtful: bool) -> String {
    format!("{heading}{}", if doubtful { "!" } else { "" })
}

/// Returns cells of words, all of one width: a column of them lines up on the left.
fn words<'a>(cells: impl Iterator<Item = &'a str> + Clone) -> impl Iterator<Item = String> {
    let width = cells.clone().map(|cell| cell.chars().count()).max().unwrap_or(0);
    cells.map(move |cell| format!("{cell:<width$}"))
}

/// Returns each value once, in the order in which they first appear.
fn unique<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    values.for_each(|value| {
        if !all.contains(&value) {
            all.push(value);
        }
    });
    all
}

/// Returns a table under an empty line: a line for each name that has a figure, a column for each heading, and a dash
/// where a figure is missing. Nothing where no name has a figure.
fn across(
    title: &str,
    headings: impl Iterator<Item = String>,
    lines: impl Iterator<Item = (String, Vec<Option<String>>)>,
) -> String {
    let mut grid = Grid::new([title.to_owned()].into_iter().chain(headings));
    let mut any = false;
    for (name, cells) in lines.filter(|(_, cells)| cells.iter().any(Option::is_some)) {
        any = true;
        let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".into()));
        grid.row([name].into_iter().chain(cells));
    }
    if any { format!("\n{grid}") } else { String::new() }
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

fn disturbance_text(disturbance: &Disturbance) -> String {
    let Disturbance { settings, disturbed, pair_apart_pct_max, taken } = disturbance;
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
    use crate::harness::machine::Machine;
    use crate::mixed::MixedPattern;
    use crate::scale::Scale;
    use crate::sweep::Pattern;
    use crate::{bulk, pools};
    use pageyard_trace::Document;

    #[test]
    fn a_quick_run_says_so_in_its_first_line() {
        let machine = Machine { checked_build: false, ..Machine::this() };
        let full = Scale { machine: machine.clone(), ..Scale::default() };
        let quick = Scale { quick: true, ..full.clone() };
        let first = |text: &str| text.lines().next().unwrap().to_owned();
        assert!(first(&quick.text()).starts_with("A quick run: not the whole benchmark"), "{}", quick.text());
        assert!(quick.text().ends_with(&full.text()) && !full.text().contains("quick"));
        assert!(full.text().starts_with(&machine.to_string()), "{}", full.text());
    }

    #[test]
    fn a_document_names_things_as_texts_and_options_do() {
        for pattern in Pattern::ALL {
            assert_eq!(serde_json::to_value(pattern).unwrap(), pattern.name());
        }
        for at in [bulk::Where::InCache, bulk::Where::Across] {
            assert_eq!(serde_json::to_value(at).unwrap(), at.name());
        }
        for at in [pools::Where::Same, pools::Where::Across] {
            assert_eq!(serde_json::to_value(at).unwrap(), at.name());
        }
        for pattern in MixedPattern::ALL {
            assert_eq!(serde_json::to_value(pattern).unwrap(), pattern.name());
        }
    }

    #[test]
    fn a_checked_build_says_so_before_any_figure() {
        let machine = Machine { checked_build: true, ..Machine::this() };
        let document = Scale { machine: machine.clone(), ..Scale::default() };
        assert!(document.text().starts_with("CHECKED BUILD: "), "{}", document.text());
        let json = document.json();
        assert_eq!(json["machine"]["checked_build"], true);
        let release = Machine { checked_build: false, ..machine };
        assert!(serde_json::to_value(&release).unwrap().get("checked_build").is_none());
    }
}
