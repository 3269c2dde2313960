//! Lines over a logarithmic axis, drawn for a page: text stays readable however narrow the page is.

use super::super::Plot;
use super::super::lines::number;
use super::colour::Colours;
use super::escape;
use pageyard_replay::text::round_ticks;
use std::fmt::Write;

/// Width and height, and the edges of the area with lines: left, right, top, bottom.
const SIZE: (f64, f64) = (480.0, 270.0);
const AREA: [f64; 4] = [50.0, 454.0, 12.0, 228.0];

/// Lines this many times as high as others make those flat: then the axis is logarithmic.
const TOO_FAR_APART: f64 = 50.0;

/// Labels below the horizontal axis at most.
const LABELS: usize = 8;

/// The vertical axis.
struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    ticks: Vec<f64>,
}

impl Axis {
    fn of(values: &[f64]) -> Axis {
        let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let least = values.iter().copied().fold(most, f64::min);
        if least > 0.0 && most > TOO_FAR_APART * least {
            let (low, high) = (least.log10().floor(), most.log10().ceil());
            let ticks = (low as i32..=high as i32).map(|n| 10f64.powi(n)).collect();
            return Axis { low: 10f64.powf(low), high: 10f64.powf(high), logarithmic: true, ticks };
        }
        let ticks = round_ticks(least.min(0.0), most.max(0.0), 4.0);
        Axis { low: ticks[0], high: ticks[ticks.len() - 1], logarithmic: false, ticks }
    }

    fn y(&self, value: f64) -> f64 {
        let share = match self.logarithmic {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        AREA[3] - share * (AREA[3] - AREA[2])
    }
}

/// Draws a plot; `None` where there is no point.
pub(super) fn chart(plot: &Plot, colours: &Colours) -> Option<String> {
    let points: Vec<(f64, f64)> = plot.series.iter().flat_map(|s| &s.points).copied().collect();
    if points.is_empty() || points.iter().any(|p| p.0 <= 0.0) {
        return None;
    }
    let axis = Axis::of(&points.iter().map(|p| p.1).collect::<Vec<_>>());
    let mut along: Vec<f64> = points.iter().map(|p| p.0).collect();
    along.sort_unstable_by(f64::total_cmp);
    along.dedup();
    let (first, last) = (along[0], along[along.len() - 1].max(along[0] * 2.0));
    let x = |value: f64| AREA[0] + (value / first).ln() / (last / first).ln() * (AREA[1] - AREA[0]);

    let title = escape(&plot.title);
    let mut text = format!(
        "<figure class=\"chart\"><h3>{title}</h3><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{title}\">",
        SIZE.0, SIZE.1
    );
    for tick in &axis.ticks {
        let (y, class) = (axis.y(*tick), if *tick == 0.0 { "zero" } else { "grid" });
        let _ = write!(
            text,
            "<path class=\"{class}\" d=\"M{} {y:.1}H{}\"/><text class=\"y\" x=\"{}\" y=\"{:.1}\">{}</text>",
            AREA[0],
            AREA[1],
            AREA[0] - 6.0,
            y + 4.0,
            label(*tick)
        );
    }
    let every = along.len().div_ceil(LABELS);
    let mut right = f64::NEG_INFINITY;
    for value in along.iter().step_by(every) {
        // Labels are some eight units a digit wide; one that would touch its neighbour is left out.
        let (at, name) = (x(*value), label(*value));
        let half = 4.0 * name.len() as f64;
        if at - half > right {
            let _ = write!(text, "<text class=\"x\" x=\"{at:.1}\" y=\"{}\">{name}</text>", AREA[3] + 16.0);
            right = at + half;
        }
    }
    let _ = write!(
        text,
        "<text class=\"x\" x=\"{}\" y=\"{}\">{}</text>",
        (AREA[0] + AREA[1]) / 2.0,
        SIZE.1 - 8.0,
        escape(plot.x)
    );
    for (series, class) in plot.series.iter().zip(classes(plot, colours)) {
        let path: Vec<String> =
            series.points.iter().map(|(a, b)| format!("{:.1} {:.1}", x(*a), axis.y(*b))).collect();
        let _ = write!(text, "<path class=\"line {class}\" d=\"M{}\"/>", path.join("L"));
        for point in &path {
            let (a, b) = point.split_once(' ').unwrap_or_default();
            let _ = write!(text, "<circle class=\"{class}\" cx=\"{a}\" cy=\"{b}\" r=\"2.5\"/>");
        }
    }
    text.push_str("</svg><figcaption>");
    for (series, class) in plot.series.iter().zip(classes(plot, colours)) {
        let _ = write!(text, "<span><i class=\"swatch {class}\"></i>{}</span> ", escape(&series.name));
    }
    let scale = if axis.logarithmic { ", logarithmic" } else { "" };
    let _ = write!(text, "<br>Vertical: {}{scale}</figcaption></figure>", escape(plot.y));
    Some(text)
}

/// Returns the class of each line: its column's colour, or one of its own where its name is no column's.
fn classes(plot: &Plot, colours: &Colours) -> Vec<String> {
    let own = |(at, name): (usize, &str)| match colours.class(name) {
        class if class == "other" => format!("r{}", at % 7),
        class => class,
    };
    plot.series.iter().map(|s| s.name.as_str()).enumerate().map(own).collect()
}

/// Writes a number of an axis, without digits that say nothing.
fn label(value: f64) -> String {
    match value.fract() == 0.0 {
        true => number(value).trim_end_matches(".00").trim_end_matches(".0").to_owned(),
        false => format!("{value:.2}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Rows, Series};
    use super::*;

    fn plot(points: &[(f64, f64)]) -> Plot {
        let series = vec![Series { name: "a".into(), points: points.to_vec() }];
        Plot { title: "t".into(), x: "frames", y: "ns", series }
    }

    #[test]
    fn an_axis_has_round_ticks_around_all_values() {
        let axis = Axis::of(&[3.0, 27.0]);
        assert_eq!(axis.ticks, [0.0, 10.0, 20.0, 30.0]);
        let axis = Axis::of(&[-2.0, 7.0]);
        assert!(axis.low <= -2.0 && axis.high >= 7.0 && axis.ticks.contains(&0.0), "{:?}", axis.ticks);
        let axis = Axis::of(&[5.0, 900.0]);
        assert!(axis.logarithmic);
        assert_eq!(axis.ticks, [1.0, 10.0, 100.0, 1000.0]);
        assert!(Axis::of(&[0.0]).high > Axis::of(&[0.0]).low, "a single zero still has a height");
    }

    #[test]
    fn lines_lie_within_the_picture() {
        let colours = Colours::of(&Rows::default());
        let html = chart(&plot(&[(1.0, 5.0), (16_384.0, -3.0)]), &colours).unwrap();
        assert!(html.contains("M50.0 ") && html.contains("L454.0 "), "{html}");
        assert!(html.contains(">16,384</text>") && html.contains(">frames</text>"));
        assert_eq!(html.matches("<circle").count(), 2);
        assert!(chart(&plot(&[]), &colours).is_none());
    }
}
