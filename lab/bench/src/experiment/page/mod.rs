//! A report as a page: claims with their bars first, then lines over a range, tables, remarks, and how it was made.
//!
//! * `bars`: a claim's picture; `chart`: lines; `table`: tables that scroll in boxes of their own;
//! * `colour`: one colour for a column, wherever it is shown; `page.css`: the style.
//!
//! A page is one file without scripts: it needs nothing from elsewhere.

mod bars;
mod chart;
mod colour;
mod table;

use super::claim::{Claim, PAIR, tally, worst_pair};
use super::{DISTURBED, ExperimentReport, Made};
use colour::Colours;
use pageyard_replay::text::markup as escape;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// Writes a report as a page.
pub(super) fn page(report: &ExperimentReport) -> String {
    let colours = Colours::of(&report.rows);
    let mut page = head(report);
    page.push_str("<section><h2>What was claimed, and what came out here</h2>");
    page.push_str(&tallied(&report.claims));
    page.push_str("<div class=\"claims\">");
    for claim in &report.claims {
        page.push_str(&card(claim, &colours));
    }
    page.push_str("</div></section>");
    let charts: Vec<String> = report.plots.iter().filter_map(|p| chart::chart(p, &colours)).collect();
    if !charts.is_empty() {
        let _ = write!(
            page,
            "<section><h2>Over the whole range</h2><div class=\"charts\">{}</div></section>",
            charts.concat()
        );
    }
    page.push_str(&columns(report, &colours));
    page.push_str("<section><h2>Every row</h2>");
    for section in report.rows.sections() {
        page.push_str(&table::table(&report.rows, section));
    }
    page.push_str("</section>");
    if !report.notes.is_empty() {
        page.push_str("<section><h2>Notes</h2><ul>");
        for note in &report.notes {
            let _ = write!(page, "<li>{}.</li>", escape(note));
        }
        page.push_str("</ul></section>");
    }
    page.push_str(&foot(report));
    page.push_str("</body></html>\n");
    page
}

fn head(report: &ExperimentReport) -> String {
    let mut head = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <link rel=\"icon\" href=\"data:,\"><title>{0}</title><style>{STYLE}</style></head><body>\
         <header><h1>{0}</h1>",
        escape(report.name)
    );
    if let Some(line) = report.quick_line() {
        let _ = write!(head, "<p class=\"quick\">{}</p>", escape(&line));
    }
    let disturbed = disturbance(report);
    if disturbed.starts_with("disturbed") {
        let _ = write!(head, "<p class=\"disturbed\">{}.</p>", escape(&capital(&disturbed)));
    }
    let about = capital(report.about);
    let _ = write!(
        head,
        "<p>{}. Measured on {}, {}.</p></header>",
        escape(&about),
        escape(&report.machine),
        escape(&report.made.date)
    );
    head
}

/// Says how many claims came to what.
fn tallied(claims: &[Claim]) -> String {
    let mut text = String::from("<p class=\"tally\">");
    for (mark, n) in tally(claims) {
        let class = claims.iter().find(|c| c.mark() == mark).map_or("", |c| c.outcome.name());
        let _ = write!(text, "<span class=\"{class}\"><b>{n}</b> {mark}</span> ");
    }
    text + "</p><p class=\"soft\">Reproduced or not: what the document says. Reached or missed: what this project asks of its own \
            engine.</p>"
}

fn card(claim: &Claim, colours: &Colours) -> String {
    let class = claim.outcome.name();
    let mut card = format!(
        "<article class=\"{class}\"><p class=\"mark {class}\">{}</p><h3>{}</h3><dl class=\"said\">",
        claim.mark(),
        escape(&capital(&claim.what))
    );
    for (name, said) in [("Published", &claim.published), ("Here", &claim.measured)] {
        if !said.is_empty() {
            let (first, rest) = said.split_at(said.find(';').unwrap_or(said.len()));
            let _ = write!(card, "<dt>{name}</dt><dd><b>{}</b>{}</dd>", escape(first), escape(rest));
        }
    }
    if !claim.asked.is_empty() {
        let _ = write!(card, "<dt>Asked</dt><dd>{}</dd>", escape(&claim.asked));
    }
    if let Some(why) = claim.outcome.why() {
        let _ = write!(card, "<dt>No verdict</dt><dd>{}</dd>", escape(why));
    }
    card.push_str("</dl>");
    if let Some(figure) = &claim.figure {
        card.push_str(&bars::bars(figure, colours));
    }
    if !claim.rows.is_empty() {
        let _ =
            write!(card, "<details><summary>Rests on {} of the rows below</summary><ul>", claim.rows.len());
        for ground in &claim.rows {
            let (metric, setting) = (escape(&ground.metric), escape(&ground.setting));
            let _ = write!(
                card,
                "<li>{metric} <small>({setting}; {})</small></li>",
                escape(&ground.columns.join(", "))
            );
        }
        card.push_str("</ul></details>");
    }
    card + "</article>"
}

/// Explains the columns, in their colours.
fn columns(report: &ExperimentReport, colours: &Colours) -> String {
    if report.columns.is_empty() {
        return String::new();
    }
    let mut text = String::from("<section><h2>What the columns are</h2><dl class=\"columns\">");
    for (name, meaning) in report.columns {
        let column = report
            .rows
            .iter()
            .map(|r| r.column.as_str())
            .find(|c| c == name || c.ends_with(&format!(":{name}")));
        let class = colours.class(column.unwrap_or(name));
        let _ = write!(
            text,
            "<dt><i class=\"swatch {class}\"></i>{}</dt><dd>{}</dd>",
            escape(name),
            escape(meaning)
        );
    }
    text + "</dl></section>"
}

/// Says how the page was made.
fn foot(report: &ExperimentReport) -> String {
    let Made { command, version, kernel, date, checked_build } = &report.made;
    let mut settings: Vec<&str> = Vec::new();
    for row in report.rows.iter().filter(|r| !r.setting.is_empty() && !r.column.starts_with("published")) {
        if !settings.contains(&row.setting.as_str()) {
            settings.push(&row.setting);
        }
    }
    let size = if report.quick { "a quick run" } else { "a full run" };
    let set = match report.settings.is_empty() {
        true => "every knob as the document has it".to_owned(),
        false => format!("not the document's: {}", report.settings.text()),
    };
    let samples = report.samples.map(|samples| format!("{samples} samples of each row"));
    let facts = [Some(size.to_owned()), Some(set), samples].into_iter().flatten();
    let settings = facts.chain(settings.into_iter().map(str::to_owned)).collect::<Vec<_>>().join("; ");
    let mut text = String::from("<footer><h2>How this was made</h2><dl>");
    for (name, fact) in [
        ("Command", format!("<code>{}</code>", escape(command))),
        (
            "Version",
            format!("pageyard {}{}", escape(version), if *checked_build { ", a checked build" } else { "" }),
        ),
        ("Machine", escape(&report.machine)),
        ("Kernel", format!("Linux {}", escape(kernel))),
        ("Date", format!("{} (UTC)", escape(date))),
        ("Disturbance", escape(&disturbance(report))),
        ("Settings", escape(&settings)),
    ] {
        let _ = write!(text, "<dt>{name}</dt><dd>{fact}</dd>");
    }
    text + "</dl></footer>"
}

/// Tells whether a run was disturbed, by the pairs of the same variant that it measured and by its remarks.
fn disturbance(report: &ExperimentReport) -> String {
    let pairs = report.rows.iter().filter(|r| r.metric.starts_with(PAIR)).count();
    let worst = worst_pair(report.rows.iter());
    let remarks = report.notes.iter().filter(|n| n.starts_with("disturbed")).count();
    let (of, differ) =
        if pairs == 1 { ("a pair".to_owned(), "differs") } else { (format!("{pairs} pairs"), "differ") };
    if worst > DISTURBED || remarks > 0 {
        return format!(
            "disturbed: {of} of the same variant {differ} by up to {worst:.1} %, and smaller differences mean nothing; remarks on \
             that below: {remarks}"
        );
    }
    match pairs {
        0 => "undisturbed as far as is known: no variant was measured twice".into(),
        _ => format!("undisturbed: {of} of the same variant {differ} by at most {worst:.1} %"),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::claim::ClaimOutcome;
    use super::super::figure::Figure;
    use super::super::{Plot, Rows, Series};
    use super::*;

    /// A made-up report with something of everything.
    pub fn outcome() -> ExperimentReport {
        let mut rows = Rows::default();
        rows.section("A table");
        rows.add("one", "reference:a", 1.5, "ns");
        rows.add("one", "pageyard", f64::NAN, "ns");
        rows.add("two", "pageyard", 1234.5, "ns");
        rows.add("A/A one", "reference:a", 2.5, "% apart");
        let mut published = Rows::default();
        published.section("A table");
        published.add("one", "published:a", 99.0, "cycles");
        rows.merge(published);
        let line = Series { name: "a <b>".into(), points: vec![(1.0, 2.0), (4.0, -3.0)] };
        let figure = Figure::own("a & b")
            .group(&rows, "published", &[("before", "one", "published:a")])
            .group(&rows, "here", &[("before", "one", "reference:a"), ("after", "two", "pageyard")])
            .asked(0.5);
        ExperimentReport {
            name: "none",
            about: "nothing",
            machine: "a machine".into(),
            claims: vec![
                Claim::document("a is less than <b>")
                    .asked("half")
                    .published(Some("99 cycles".into()))
                    .measured(ClaimOutcome::Reproduced, "1.5 ns")
                    .figure(figure),
                Claim::target("nothing is lost").unmeasured("a second machine is needed"),
            ],
            rows,
            notes: vec!["a remark".into()],
            quick: true,
            cannot_show: "it is another machine",
            columns: &[("a", "what a is")],
            settings: crate::experiment::Settings::default(),
            samples: Some(15),
            plots: vec![Plot { title: "lines".into(), x: "x", y: "y", series: vec![line] }],
            made: Made {
                command: "pageyard-lab experiment none --quick <x>".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                kernel: "6.1.2".into(),
                date: "2026-01-02".into(),
                checked_build: false,
            },
        }
    }

    #[test]
    fn the_first_paragraph_says_that_a_run_was_quick() {
        let html = page(&outcome());
        let first = &html[html.find("<p").unwrap()..];
        assert!(
            first.starts_with("<p class=\"quick\">A quick run: not the document's setting (it is another"),
            "{first}"
        );
        let full = ExperimentReport { quick: false, ..outcome() };
        assert!(!page(&full).contains("A quick run"));
    }

    #[test]
    fn the_foot_says_how_the_page_was_made() {
        let html = page(&outcome());
        let foot = &html[html.find("<footer>").unwrap()..];
        for fact in [
            "<code>pageyard-lab experiment none --quick &lt;x&gt;</code>",
            concat!("pageyard ", env!("CARGO_PKG_VERSION")),
            "a machine",
            "Linux 6.1.2",
            "2026-01-02",
            "undisturbed: a pair of the same variant differs by at most 2.5 %",
            "a quick run",
        ] {
            assert!(foot.contains(fact), "{fact} is not in {foot}");
        }
        let mut disturbed = outcome();
        disturbed.rows.add("A/A two", "reference:a", -7.0, "% apart");
        assert!(
            page(&disturbed).contains(
                "<p class=\"disturbed\">Disturbed: 2 pairs of the same variant differ by up to 7.0 %"
            )
        );
        disturbed.rows = Rows::default();
        assert!(page(&disturbed).contains("no variant was measured twice"));
        disturbed.notes = vec!["disturbed: by something".into()];
        assert!(page(&disturbed).contains("remarks on that below: 1"));
    }

    #[test]
    fn a_claim_is_a_card_with_its_mark_its_figures_and_its_bars() {
        let html = page(&outcome());
        assert_eq!(html.matches("<article").count(), 2);
        assert!(html.contains("<b>1</b> reproduced") && html.contains("<b>1</b> not measured"));
        assert!(html.contains("A is less than &lt;b&gt;") && html.contains("a second machine is needed"));
        // Three bars in two groups, on scales of their own.
        assert_eq!(html.matches("class=\"bar\"").count(), 3);
        assert!(html.contains("99.00 cycles") && html.contains("what a is"));
        assert!(!html.contains("<b>.") && !html.contains("<x>"), "text is escaped");
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let html = page(&outcome());
        assert!(!html.contains("<script") && !html.contains("http://") && !html.contains("https://"));
        assert_eq!(html.matches("<svg").count(), 1, "lines are drawn");
    }
}
