//! A claim's bars: published, before, after and the engine, each group in its own unit or all in one.

use super::super::figure::{Bar, Figure, Group, Scale};
use super::super::lines::{number, value};
use super::colour::Colours;
use super::escape;
use std::fmt::Write;

/// Bars this many times as long as others make those invisible: then they are drawn on a logarithmic scale. Shares are
/// not: there a bar that is almost gone says what it should.
const TOO_FAR_APART: f64 = 100.0;

/// How long bars are drawn, in percent of the place that they have.
struct Lengths {
    most: f64,
    /// The value at the left edge of a logarithmic scale.
    least: Option<f64>,
}

impl Lengths {
    fn of(figure: &Figure) -> Lengths {
        let bars = figure.groups.iter().flat_map(|g| g.bars.iter().map(move |b| figure.length(g, b)));
        let all: Vec<f64> = bars.chain(figure.asked).collect();
        let most = all.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let least = all.iter().copied().filter(|v| *v > 0.0).fold(most, f64::min);
        let shares = figure.rows().all(|r| r.unit.starts_with('%'));
        let least = (most > TOO_FAR_APART * least && !shares).then(|| least / 3.0);
        Lengths { most, least }
    }

    fn percent(&self, value: f64) -> f64 {
        let share = match self.least {
            Some(least) if value > least => (value / least).ln() / (self.most / least).ln(),
            Some(_) => 0.0,
            None => value / self.most,
        };
        (share * 100.0).clamp(0.0, 100.0)
    }
}

/// Writes a figure.
pub(super) fn bars(figure: &Figure, colours: &Colours) -> String {
    let lengths = Lengths::of(figure);
    let mut text = String::from("<figure class=\"bars\">");
    for group in &figure.groups {
        let _ = write!(text, "<h4>{}</h4>", escape(&group.name));
        for bar in &group.bars {
            let long = lengths.percent(figure.length(group, bar));
            let asked = figure.asked.map_or(String::new(), |asked| {
                format!("<b class=\"asked\" style=\"left:{:.2}%\"></b>", lengths.percent(asked))
            });
            // What is 0 has no bar at all.
            let drawn = (bar.row.value != 0.0).then(|| {
                format!("<i class=\"{}\" style=\"width:{long:.2}%\"></i>", colours.class(&bar.row.column))
            });
            let _ = write!(
                text,
                "<div class=\"bar\"><span class=\"name\">{}</span><span class=\"track\">{}{asked}</span>\
                 <span class=\"value\">{}</span></div>",
                escape(&bar.label),
                drawn.unwrap_or_default(),
                said(figure, group, bar)
            );
        }
    }
    let mut caption = escape(&figure.caption);
    if figure.asked.is_some() {
        caption.push_str("; the line is what is asked for");
    }
    if lengths.least.is_some() {
        caption.push_str("; logarithmic");
    }
    let _ = write!(text, "<figcaption>{caption}</figcaption></figure>");
    text
}

/// Writes a bar's value, and by how much it differs from its group's first.
fn said(figure: &Figure, group: &Group, bar: &Bar) -> String {
    let own = escape(&value(&bar.row)).replace(" 1/s", "/s");
    if figure.scale == Scale::Shared || std::ptr::eq(bar, &group.bars[0]) {
        return own;
    }
    format!("{own} <em>{}</em>", change(figure.length(group, bar)))
}

/// Says a multiple as a change in percent, or as a multiple where that is larger than two.
fn change(times: f64) -> String {
    match times {
        t if t > 2.0 => format!("× {}", number(t)),
        t => format!("{:+.1} %", (t - 1.0) * 100.0).replace('-', "−"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Rows;
    use super::*;

    fn rows(values: &[f64]) -> Rows {
        let mut rows = Rows::default();
        for (i, value) in values.iter().enumerate() {
            rows.add("m", format!("reference:{i}"), *value, "ns");
        }
        rows
    }

    fn widths(figure: &Figure, rows: &Rows) -> Vec<String> {
        let html = bars(figure, &Colours::of(rows));
        html.split("style=\"width:").skip(1).map(|s| s.split('%').next().unwrap().to_owned()).collect()
    }

    const BARS: [(&str, &str, &str); 3] =
        [("a", "m", "reference:0"), ("b", "m", "reference:1"), ("c", "m", "reference:2")];

    #[test]
    fn groups_of_their_own_scale_begin_with_the_same_length() {
        let (few, many) = (rows(&[4.0, 3.0]), rows(&[4e9, 1e9]));
        let figure = Figure::own("").group(&few, "published", &BARS[..2]).group(&many, "here", &BARS[..2]);
        assert_eq!(widths(&figure, &few), ["100.00", "75.00", "100.00", "25.00"]);
        let html = bars(&figure, &Colours::of(&few));
        assert!(html.contains("−25.0 %") && html.contains("−75.0 %") && html.contains("1,000,000,000 ns"));
        assert!(!html.contains("logarithmic"));
    }

    #[test]
    fn bars_far_apart_are_logarithmic_and_nothing_is_no_bar() {
        let rows = rows(&[32_000.0, 300.0, 0.0]);
        let figure = Figure::shared("frames").group(&rows, "here", &BARS);
        let widths: Vec<f64> = widths(&figure, &rows).iter().map(|w| w.parse().unwrap()).collect();
        assert!(
            widths[0] == 100.0 && widths[1] > 10.0 && widths[1] < 50.0 && widths.len() == 2,
            "{widths:?}"
        );
        assert!(bars(&figure, &Colours::of(&rows)).contains("frames; logarithmic"));
    }

    #[test]
    fn what_is_asked_for_is_a_line_within_the_picture() {
        let rows = rows(&[10.0, 5.0]);
        let figure = Figure::own("time").group(&rows, "here", &BARS[..2]).asked(2.0);
        let html = bars(&figure, &Colours::of(&rows));
        assert_eq!(html.matches("left:100.00%").count(), 2);
        assert!(html.contains("width:50.00%"), "the scale has place for it: {html}");
    }

    #[test]
    fn a_group_without_its_first_bar_has_no_scale_of_its_own() {
        let rows = rows(&[0.0, 5.0]);
        assert!(Figure::own("").group(&rows, "here", &BARS[..2]).groups.is_empty());
        assert_eq!(Figure::shared("").group(&rows, "here", &BARS).rows().count(), 2);
    }

    #[test]
    fn changes_are_percentages_up_to_twice_as_much() {
        assert_eq!([0.757, 1.07, 2.0, 5.5].map(change), ["−24.3 %", "+7.0 %", "+100.0 %", "× 5.50"]);
    }
}
