//! A comparison as pictures: of a figure, the settings under one another, each a point with its interval.

use super::text::figure;
use super::{Comparison, Interval, Metric};
use crate::text::{markup, round_ticks, shown};
use std::fmt::Write;

/// Heights in pixels: a setting's row, its text's baseline and its point within it, and the axis below all rows.
const ROW: usize = 40;
const TEXT: usize = 13;
const POINT: usize = 26;
const AXIS: usize = 22;

/// Steps of an axis, about.
const STEPS: f64 = 4.0;

/// Characters of a setting's name beside its figure.
const LONGEST_NAME: usize = 32;

/// Values closer together than this share of themselves are drawn on an axis that omits 0.
const NEAR: f64 = 0.25;

/// Symbols drawn around the point of origin: the first setting, one that differs from it, one that does not.
pub(super) const FIRST: &str = "<path class=\"first\" d=\"M-5.5-5.5h11v11h-11z\"/>";
pub(super) const DIFFERS: &str = "<circle class=\"differs\" r=\"6\"/>";
pub(super) const ALIKE: &str = "<circle class=\"alike\" r=\"5\"/>";

/// The horizontal axis of one figure.
#[derive(Debug)]
struct Axis {
    ticks: Vec<f64>,
}

impl Axis {
    /// Takes in all intervals, and 0 unless that would push them together.
    fn of(intervals: &[Interval]) -> Axis {
        let low = intervals.iter().map(|of| of.low).fold(f64::INFINITY, f64::min);
        let high = intervals.iter().map(|of| of.high).fold(f64::NEG_INFINITY, f64::max);
        let near = high - low < NEAR * low.abs().max(high.abs());
        let (low, high) = if near && low < high { (low, high) } else { (low.min(0.0), high.max(0.0)) };
        Axis { ticks: round_ticks(low, high, STEPS) }
    }

    fn low(&self) -> f64 {
        self.ticks[0]
    }

    fn high(&self) -> f64 {
        self.ticks[self.ticks.len() - 1]
    }

    /// Returns how far right a value stands, in percent of the axis.
    fn at(&self, value: f64) -> f64 {
        100.0 * (value - self.low()) / (self.high() - self.low())
    }

    /// Writes a tick with as many decimals as the step between two has use for.
    fn label(&self, tick: f64) -> String {
        let step = self.ticks[1] - self.ticks[0];
        let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        if decimals == 0 { figure(tick) } else { format!("{tick:.decimals$}") }
    }

    /// Draws the lines of the ticks through all rows, and their labels below.
    fn draw(&self, text: &mut String, rows: usize) {
        let bottom = rows * ROW;
        for (n, tick) in self.ticks.iter().enumerate() {
            let (x, label) = (self.at(*tick), self.label(*tick));
            let anchor = match n {
                0 => "start",
                n if n + 1 == self.ticks.len() => "end",
                _ => "middle",
            };
            let y = bottom + AXIS - 6;
            let _ = write!(
                text,
                "<line class=\"grid\" x1=\"{x:.3}%\" x2=\"{x:.3}%\" y1=\"{TEXT}\" y2=\"{bottom}\"/>\
                 <text class=\"tick\" x=\"{x:.3}%\" y=\"{y}\" text-anchor=\"{anchor}\">{label}</text>"
            );
        }
    }
}

impl Comparison {
    /// Draws a figure of every setting. `number` tells the chart from the others of the page.
    ///
    /// Each `g` of class `setting` has the setting's row of the document in its attributes. Text keeps its size however
    /// wide the page is: places along the axis are percentages, those across it are pixels.
    pub(super) fn chart(&self, metric: &Metric, number: usize) -> String {
        let rows = self.settings.len();
        let intervals: Vec<Interval> = (0..rows).filter_map(|n| metric.of(n)).collect();
        if intervals.is_empty() || intervals.iter().any(|of| !(of.low.is_finite() && of.high.is_finite())) {
            return String::new();
        }
        let axis = Axis::of(&intervals);
        let name = markup(&shown(&metric.name));
        let mut text = format!(
            "<figure class=\"chart\"><h3 id=\"chart-{number}\">{name}</h3>\n<svg role=\"img\" height=\"{}\" \
             aria-labelledby=\"chart-{number}\" aria-describedby=\"chart-{number}-says\"><title>{name}</title>\
             <desc id=\"chart-{number}-says\">{}</desc>",
            rows * ROW + AXIS,
            self.described(metric, &axis),
        );
        axis.draw(&mut text, rows);
        if let Some(first) = metric.of(0).filter(|_| rows > 1) {
            let x = axis.at(first.mean);
            let _ = write!(
                text,
                "<line class=\"from\" x1=\"{x:.3}%\" x2=\"{x:.3}%\" y1=\"{POINT}\" y2=\"{}\"/>",
                rows * ROW
            );
        }
        for n in 0..rows {
            match metric.of(n) {
                Some(of) => self.draw_setting(&mut text, metric, (n, of), &axis),
                None => self.name_setting(&mut text, n),
            }
        }
        text.push_str("</svg>");
        if axis.low() > 0.0 || axis.high() < 0.0 {
            text.push_str("<figcaption>The scale leaves out 0.</figcaption>");
        }
        text + "</figure>\n"
    }

    /// Names a setting whose figure is not known.
    fn name_setting(&self, text: &mut String, n: usize) {
        let top = n * ROW + TEXT;
        let _ = write!(
            text,
            "<text x=\"0\" y=\"{top}\">{}</text><text class=\"value\" x=\"100%\" y=\"{top}\" text-anchor=\"end\">-</text>",
            markup(&shortened(&shown(&self.settings[n]))),
        );
    }

    /// Draws a setting, whose mean and interval are `of`.
    fn draw_setting(&self, text: &mut String, metric: &Metric, (n, of): (usize, Interval), axis: &Axis) {
        let (differs, setting) = (metric.differs(n), shown(&self.settings[n]));
        let (top, y) = (n * ROW + TEXT, n * ROW + POINT);
        let (low, at, high) = (axis.at(of.low), axis.at(of.mean), axis.at(of.high));
        let symbol = match (n, differs) {
            (0, _) => FIRST,
            (_, true) => DIFFERS,
            (_, false) => ALIKE,
        };
        let class = if differs { " class=\"value differs\"" } else { " class=\"value\"" };
        let _ = write!(
            text,
            "<g class=\"setting\" data-setting=\"{}\" data-metric=\"{}\" data-value=\"{}\" data-low=\"{}\" data-high=\"{}\">\
             <text x=\"0\" y=\"{top}\">{}</text><text{class} x=\"100%\" y=\"{top}\" text-anchor=\"end\">{}</text>\
             <line class=\"interval\" x1=\"{low:.3}%\" x2=\"{high:.3}%\" y1=\"{y}\" y2=\"{y}\"/>\
             <svg class=\"point\" x=\"{at:.3}%\" y=\"{y}\">{symbol}</svg></g>",
            markup(&setting),
            markup(&shown(&metric.name)),
            of.mean,
            of.low,
            of.high,
            markup(&shortened(&setting)),
            value(metric, n, of),
        );
    }

    /// Says in words what a chart shows.
    fn described(&self, metric: &Metric, axis: &Axis) -> String {
        let settings = (0..self.settings.len()).map(|n| {
            let setting = markup(&shown(&self.settings[n]));
            let Some(of) = metric.of(n) else { return format!("{setting}: not known") };
            let interval = match of.low == of.high {
                true => String::new(),
                false => format!(", interval {} to {}", figure(of.low), figure(of.high)),
            };
            let differs = match (n, metric.change(n)) {
                (0, _) | (_, None) => "",
                (_, Some(change)) if change.leaves_out_zero() => ", differs from the first",
                (_, Some(_)) => ", no difference beyond that between seeds",
            };
            format!("{setting}: {}{interval}{differs}", figure(of.mean))
        });
        let settings: Vec<String> = settings.collect();
        format!(
            "{}. Scale from {} to {}.",
            settings.join("; "),
            axis.label(axis.low()),
            axis.label(axis.high())
        )
    }
}

/// Writes a setting's mean and, after the first setting, the change from that where it is known.
fn value(metric: &Metric, n: usize, of: Interval) -> String {
    let mean = figure(of.mean);
    match metric.change(n).map(|change| change.mean).filter(|_| n > 0) {
        None => mean,
        Some(0.0) => format!("{mean} (same)"),
        Some(change) => format!("{mean} ({}{})", if change > 0.0 { "+" } else { "" }, figure(change)),
    }
}

/// Leaves out the middle of a name that would run into the figure beside it.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let (head, tail) = (LONGEST_NAME / 2, LONGEST_NAME - LONGEST_NAME / 2 - 1);
    letters[..head].iter().chain(['…'].iter()).chain(&letters[letters.len() - tail..]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Objective;
    use super::*;
    use pageyard_trace::{Meta, Trust};

    fn interval(low: f64, mean: f64, high: f64) -> Interval {
        Interval { mean, low, high }
    }

    #[test]
    fn an_axis_holds_all_intervals_between_round_ticks() {
        for intervals in [
            vec![interval(3.0, 4.0, 5.0), interval(20.0, 27.0, 29.0)],
            vec![interval(-7.5, -2.0, 3.0)],
            vec![interval(1_000_000.0, 1_000_010.0, 1_000_020.0)],
            vec![interval(0.0, 0.0, 0.0)],
            vec![interval(5.0, 5.0, 5.0); 3],
            vec![interval(1e-9, 2e-9, 3e-9)],
            vec![interval(-1010.0, -1005.0, -1000.0)],
        ] {
            let axis = Axis::of(&intervals);
            for of in &intervals {
                assert!(axis.at(of.low) >= -1e-6 && axis.at(of.high) <= 100.0 + 1e-6, "{axis:?} {of:?}");
            }
            assert!((2..=9).contains(&axis.ticks.len()), "{axis:?}");
            let labels: Vec<String> = axis.ticks.iter().map(|tick| axis.label(*tick)).collect();
            assert!(labels.windows(2).all(|two| two[0] != two[1]), "{labels:?}");
        }
        assert_eq!(Axis::of(&[interval(3.0, 4.0, 27.0)]).low(), 0.0, "0 is taken in");
        assert!(
            Axis::of(&[interval(100.0, 101.0, 102.0)]).low() >= 100.0,
            "unless values lie close together"
        );
    }

    /// Returns the values of an attribute, in the order of the text.
    fn attribute<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
        let key = format!(" {name}=\"");
        text.split(&key).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn points_and_intervals_stand_where_the_axis_has_their_values() {
        let values = [[10.0, 12.0, 14.0], [30.0, 31.0, 35.0], [12.0, 12.0, 12.0]];
        let values = values.map(|of| of.map(Some).to_vec()).to_vec();
        let metric = Metric { name: "work".to_owned(), objective: Objective::Work, values };
        let settings = ["a", "b", "c"].map(str::to_owned).to_vec();
        let comparison = Comparison {
            trust: Trust::of(&Meta::new(2), 1),
            trace: String::new(),
            kernel: String::new(),
            settings,
            seeds: 3,
            metrics: vec![metric.clone()],
        };
        let text = comparison.chart(&metric, 0);
        let axis = Axis::of(&[0, 1, 2].map(|n| metric.of(n).unwrap()));
        let points: Vec<&str> = text.split("<svg class=\"point\"").skip(1).collect();
        let lines: Vec<&str> = text.split("<line class=\"interval\"").skip(1).collect();
        assert_eq!((points.len(), lines.len()), (3, 3));
        for n in 0..3 {
            let of = metric.of(n).unwrap();
            // A place on the axis, read back as a value: places are written to a thousandth of a percent.
            let value = |place: &str| {
                let share = place.trim_end_matches('%').parse::<f64>().unwrap() / 100.0;
                axis.low() + share * (axis.high() - axis.low())
            };
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-5 * (axis.high() - axis.low());
            assert!(near(value(attribute(points[n], "x")[0]), of.mean));
            assert!(near(value(attribute(lines[n], "x1")[0]), of.low));
            assert!(near(value(attribute(lines[n], "x2")[0]), of.high));
            assert_eq!(attribute(&text, "data-value")[n].parse::<f64>().unwrap(), of.mean);
            assert_eq!(attribute(&text, "data-low")[n].parse::<f64>().unwrap(), of.low);
            assert_eq!(attribute(&text, "data-high")[n].parse::<f64>().unwrap(), of.high);
        }
        let symbols = |symbol: &str| text.matches(symbol).count();
        assert_eq!([FIRST, DIFFERS, ALIKE].map(symbols), [1, 1, 1], "{text}");
        assert!(text.contains(">32 (+20)</text>") && text.contains("; b: 32, interval "), "{text}");
    }

    #[test]
    fn long_names_lose_their_middle_and_what_is_no_number_has_no_chart() {
        let long = shortened(&"ab".repeat(60));
        assert!(long.chars().count() == LONGEST_NAME && long.contains('…'));
        assert_eq!(shortened("linux-6.18"), "linux-6.18");
        let metric =
            Metric { name: String::new(), objective: Objective::Work, values: vec![vec![Some(f64::NAN)]] };
        let comparison = Comparison {
            trust: Trust::of(&Meta::new(2), 1),
            trace: String::new(),
            kernel: String::new(),
            settings: vec![String::new()],
            seeds: 1,
            metrics: Vec::new(),
        };
        assert_eq!(comparison.chart(&metric, 0), "");
    }
}
