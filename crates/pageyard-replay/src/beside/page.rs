//! Two recordings beside each other, as a page: figures over time on one scale, and tables.

use super::text::{held, unit};
use super::{Aspect, Beside, Compared, FIGURES, Side, Windows};
use crate::compare::{Interval, figure, interval};
use crate::page::{page, trust_box};
use crate::text::{markup, round_ticks, shown};
use pageyard_trace::document::Made;
use pageyard_trace::{TrustLevel, grouped};
use std::fmt::Write;

/// The height of a chart's lines in pixels, and of the axis below them.
const HEIGHT: usize = 120;
const AXIS: usize = 18;

/// Steps of an axis, about.
const STEPS: f64 = 3.0;

impl Beside {
    /// Returns it as a page of its own. `made` says what made it.
    #[must_use]
    pub fn page(&self, made: Option<&Made>) -> String {
        let [before, after] = [&self.before, &self.after].map(|side| markup(&shown(&side.name)));
        let title = format!("{before} and {after} compared");
        let doubtful =
            [&self.before, &self.after].into_iter().filter(|side| side.trust.level > TrustLevel::High);
        let above: String =
            doubtful.map(|side| trust_box(&format!(" in {}", shown(&side.name)), &side.trust)).collect();
        let introduction = format!(
            "<p><strong>{}</strong></p>\n<p>{}<br>{}</p>\n\
             <ul class=\"key\"><li>{}before</li><li>{}after</li></ul>\n",
            markup(&self.sentence()),
            about("Before", &self.before),
            about("After", &self.after),
            key("before"),
            key("after"),
        );
        let mut body = String::new();
        let figures = self.figures();
        let mut charts = 0;
        for aspect in Aspect::ALL {
            let of: Vec<&Compared> = figures.iter().filter(|c| c.figure.aspect == aspect).collect();
            if of.is_empty() {
                continue;
            }
            let (differ, same): (Vec<&Compared>, Vec<&Compared>) = of.into_iter().partition(|c| c.differs());
            let title = aspect.title();
            let _ = write!(body, "<section aria-label=\"{title}\"><h2>{title}</h2>\n<div class=\"charts\">");
            // An aspect in which nothing differs still shows its first figure that is not 0 throughout.
            let drawn = match &differ[..] {
                [] => same.iter().filter(|c| c.before > 0.0 || c.after > 0.0).take(1).collect(),
                differ => differ.iter().collect::<Vec<_>>(),
            };
            for compared in drawn {
                body.push_str(&self.chart(compared, charts));
                charts += 1;
            }
            body.push_str("</div>\n");
            table(&mut body, title, &differ);
            if !same.is_empty() {
                let _ = writeln!(body, "<details><summary>No difference: {}</summary>", same.len());
                table(&mut body, title, &same);
                body.push_str("</details>\n");
            }
            body.push_str("</section>\n");
        }
        self.ends_and_contents(&mut body);
        if !self.left_out.is_empty() {
            let left: Vec<String> =
                self.left_out.iter().map(|what| format!("<li>{}.</li>", markup(&shown(what)))).collect();
            let _ = writeln!(body, "<section><h2>Not compared</h2><ul>{}</ul></section>", left.join(""));
        }
        page(&title, &above, &introduction, &body, made)
    }

    /// Writes the tables of what is known of the ends alone.
    fn ends_and_contents(&self, body: &mut String) {
        if self.lost_pct().is_some() {
            let losses = self.losses().into_iter().map(|loss| {
                (shown(&loss.what), [grouped(loss.before), grouped(loss.after)], self.loses_otherwise())
            });
            let of =
                |side: &Side| format!("{} of {}", grouped(side.lost_pageblocks), grouped(side.pageblocks));
            let all = ("all".to_owned(), [of(&self.before), of(&self.after)], self.loses_otherwise());
            let rows: Vec<_> = std::iter::once(all).chain(losses).collect();
            plain_table(body, "Pageblocks lost to huge frames at the end", &rows);
        }
        let contents = self.contents().into_iter();
        let percent = |value: f64| format!("{} %", figure(value));
        let rows: Vec<_> = contents
            .map(|c| (held(c.kind).to_owned(), [percent(c.before), percent(c.after)], c.differs()))
            .collect();
        if !rows.is_empty() {
            plain_table(body, "Memory at the end", &rows);
        }
    }

    /// Draws a figure of both over their windows, on one scale.
    fn chart(&self, compared: &Compared, number: usize) -> String {
        let at = FIGURES.iter().position(|figure| std::ptr::eq(figure, compared.figure));
        let of = |side: &'_ Side| at.and_then(|at| side.windows[at].clone());
        let (Some(before), Some(after)) = (of(&self.before), of(&self.after)) else { return String::new() };
        let most = before.0.iter().chain(&after.0).copied().fold(0.0, f64::max);
        let ticks = round_ticks(0.0, most, STEPS);
        let high = ticks[ticks.len() - 1];
        let name = compared.figure.name;
        let unit = unit(compared.figure.unit);
        let mut text = format!(
            "<figure class=\"chart\"><h3 id=\"chart-{number}\">{name}</h3>\n<svg role=\"img\" height=\"{}\" \
             aria-labelledby=\"chart-{number}\" aria-describedby=\"chart-{number}-says\">\
             <desc id=\"chart-{number}-says\">Means: {}{unit} before, {}{unit} after. Scale from 0 to {}{unit}.</desc>",
            HEIGHT + AXIS,
            figure(compared.before),
            figure(compared.after),
            figure(high),
        );
        for tick in &ticks {
            let y = AXIS as f64 / 2.0 + HEIGHT as f64 * (1.0 - tick / high);
            let _ = write!(
                text,
                "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"0\" y=\"{:.1}\">{}{unit}</text>",
                y - 3.0,
                figure(*tick)
            );
        }
        let _ = writeln!(
            text,
            "<svg y=\"{}\" width=\"100%\" height=\"{HEIGHT}\" viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\">{}{}</svg>\
             </svg><figcaption>From the beginning of each recording to its end.</figcaption></figure>",
            AXIS / 2,
            line("before", &before, high),
            line("after", &after, high),
        );
        text
    }
}

/// Draws windows as a line; `high` is at the top.
fn line(class: &str, windows: &Windows, high: f64) -> String {
    let n = windows.0.len() as f64;
    let point = |(at, value): (usize, &f64)| {
        format!("{:.2},{:.2}", 100.0 * (at as f64 + 0.5) / n, 100.0 * (1.0 - value / high))
    };
    let points: Vec<String> = windows.0.iter().enumerate().map(point).collect();
    format!("<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "))
}

/// Draws a line beside the word that says what it means.
fn key(class: &str) -> String {
    format!(
        "<svg class=\"symbol\" width=\"24\" height=\"16\" viewBox=\"0 0 24 16\" aria-hidden=\"true\">\
         <polyline class=\"{class}\" points=\"0,8 24,8\"/></svg>"
    )
}

fn about(which: &str, side: &Side) -> String {
    format!("{which}: {}", markup(&side.words()))
}

fn table(body: &mut String, title: &str, figures: &[&Compared]) {
    let value = |c: &Compared, v: f64| format!("{}{}", figure(v), unit(c.figure.unit));
    if figures.is_empty() {
        return;
    }
    head(body, title, &["figure", "before", "after", "change"]);
    for c in figures {
        let class = if c.differs() { " class=\"differs\"" } else { "" };
        let change = interval(Some(Interval { mean: c.change(), low: c.low, high: c.high }));
        let _ = writeln!(
            body,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td{class}>{}</td></tr>",
            c.figure.name,
            value(c, c.before),
            value(c, c.after),
            markup(&change),
        );
    }
    body.push_str("</tbody></table></div>\n");
}

/// Writes a table of what has no interval: names, both values, and whether they differ.
fn plain_table(body: &mut String, title: &str, rows: &[(String, [String; 2], bool)]) {
    let _ = writeln!(body, "<section aria-label=\"{title}\"><h2>{title}</h2>");
    head(body, title, &["", "before", "after"]);
    for (name, [before, after], differs) in rows {
        let class = if *differs { " class=\"differs\"" } else { "" };
        let _ = writeln!(
            body,
            "<tr><th scope=\"row\">{}</th><td>{before}</td><td{class}>{after}</td></tr>",
            markup(name)
        );
    }
    body.push_str("</tbody></table></div></section>\n");
}

fn head(body: &mut String, title: &str, columns: &[&str]) {
    // A table that is wider than the page is moved by itself, with keys as well.
    let _ = write!(
        body,
        "<div class=\"wide\" role=\"group\" aria-label=\"{title}, table\" tabindex=\"0\"><table><thead><tr>"
    );
    columns.iter().for_each(|name| _ = write!(body, "<th scope=\"col\">{name}</th>"));
    body.push_str("</tr></thead><tbody>\n");
}
