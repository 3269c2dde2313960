//! Pictures: lines over a logarithmic axis, or bars, as PNG. A page draws its own: see `page`.

use super::lines::number;
use crate::error::BenchError;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Once;

/// A picture.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// The label of the horizontal axis; empty for bars.
    pub x: &'static str,
    /// The label of the vertical axis.
    pub y: &'static str,
    /// The lines, each with its points; or, where `x` is empty, bars: the first point's second number each.
    pub series: Vec<Series>,
}

/// A line of a [`Plot`], or a bar.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Width and height of one picture, in pixels.
const SIZE: (u32, u32) = (860, 420);

type Failed = Box<dyn Error + Send + Sync>;

/// Colours that are distinct in print and for colour-blind readers (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
];

/// The colour of each name, the same in every picture of a report.
struct Colours(Vec<String>);

impl Colours {
    /// Gives names colours in the order in which pictures show them.
    fn of(plots: &[Plot]) -> Colours {
        let mut names = Vec::new();
        for series in plots.iter().flat_map(|p| &p.series) {
            if !names.contains(&series.name) {
                names.push(series.name.clone());
            }
        }
        Colours(names)
    }

    fn get(&self, name: &str) -> RGBColor {
        let at = self.0.iter().position(|n| n == name).unwrap_or(self.0.len());
        COLOURS[at % COLOURS.len()]
    }
}

fn use_font() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // The font is built in, so that no system font is needed; a second registration cannot happen.
        let _ = register_font("sans-serif", FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
    });
}

fn draw<B: DrawingBackend>(area: &DrawingArea<B, Shift>, plot: &Plot, colours: &Colours) -> Result<(), Failed>
where
    B::ErrorType: 'static,
{
    let text = |e: DrawingAreaErrorKind<B::ErrorType>| e.to_string();
    area.fill(&WHITE).map_err(text)?;
    if plot.x.is_empty() {
        return bars(area, plot, colours).map_err(Into::into);
    }
    let points = || plot.series.iter().flat_map(|s| &s.points);
    let left = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let right = points().map(|p| p.0).fold(left * 2.0, f64::max);
    let top = points().map(|p| p.1).fold(f64::MIN_POSITIVE, f64::max) * 1.1;
    if !left.is_finite() || left <= 0.0 {
        return Ok(());
    }
    let mut chart = ChartBuilder::on(area)
        .caption(&plot.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((left..right).log_scale(), 0.0..top)
        .map_err(text)?;
    chart
        .configure_mesh()
        .x_desc(plot.x)
        .y_desc(plot.y)
        .light_line_style(WHITE)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| number(*y))
        .draw()
        .map_err(text)?;
    for series in &plot.series {
        let colour = colours.get(&series.name);
        let line = LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)).point_size(3);
        chart
            .draw_series(line)
            .map_err(text)?
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .position(SeriesLabelPosition::UpperRight)
        .draw()
        .map_err(text)?;
    area.present().map_err(text)?;
    Ok(())
}

/// Bars this many times as high as others make those invisible: then the axis is logarithmic.
const TOO_FAR_APART: f64 = 20.0;

fn bars<B: DrawingBackend>(area: &DrawingArea<B, Shift>, plot: &Plot, colours: &Colours) -> Result<(), String>
where
    B::ErrorType: 'static,
{
    let text = |e: DrawingAreaErrorKind<B::ErrorType>| e.to_string();
    let value = |s: &Series| s.points.first().map_or(0.0, |p| p.1);
    let top = plot.series.iter().map(value).fold(f64::MIN_POSITIVE, f64::max);
    let bottom = plot.series.iter().map(value).fold(0.0, f64::min);
    let least = plot.series.iter().map(value).filter(|v| *v > 0.0).fold(top, f64::min);
    // What is 0 has no bar on a logarithmic axis; its label says so.
    let logarithmic = bottom == 0.0 && top > TOO_FAR_APART * least;
    let height = |v: f64| if logarithmic { v.max(least / 10.0).log10() } else { v };
    let (low, high) = match logarithmic {
        true => ((least / 10.0).log10(), top.log10() + 0.2),
        false => (bottom * 1.1, top * 1.1),
    };
    let n = plot.series.len();
    let mut chart = ChartBuilder::on(area)
        .caption(&plot.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(100)
        .build_cartesian_2d(0.0..n as f64, low..high)
        .map_err(text)?;
    let name = |x: &f64| match x.fract() == 0.5 {
        true => plot
            .series
            .get(*x as usize)
            .map_or(String::new(), |s| format!("{} ({})", s.name, number(value(s)))),
        false => String::new(),
    };
    let unit = if logarithmic { format!("{} (logarithmic)", plot.y) } else { plot.y.to_owned() };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .y_desc(unit)
        .x_labels(2 * n + 1)
        .x_label_formatter(&name)
        .y_label_formatter(&|y| number(if logarithmic { 10f64.powf(*y) } else { *y }))
        .draw()
        .map_err(text)?;
    let bars = plot.series.iter().enumerate().map(|(i, s)| {
        let (x, colour) = (i as f64, colours.get(&s.name));
        let foot = if logarithmic { low } else { 0.0 };
        Rectangle::new([(x + 0.2, foot), (x + 0.8, height(value(s)))], colour.filled())
    });
    chart.draw_series(bars).map_err(text)?;
    area.present().map_err(text)
}

/// Draws pictures below one another into a PNG file.
///
/// # Errors
/// [`BenchError::Report`] where there is none, or the file cannot be written.
pub(super) fn write_png(plots: &[Plot], path: &Path) -> Result<(), BenchError> {
    let failed = |why: String| BenchError::Report { path: path.display().to_string(), why };
    if plots.is_empty() {
        return Err(failed("this experiment has no picture; write it as .html".into()));
    }
    use_font();
    let size = (SIZE.0, SIZE.1 * plots.len() as u32);
    let mut pixels = vec![0; 3 * size.0 as usize * size.1 as usize];
    {
        let root = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
        let colours = Colours::of(plots);
        for (area, plot) in root.split_evenly((plots.len(), 1)).iter().zip(plots) {
            draw(area, plot, &colours).map_err(|e| failed(e.to_string()))?;
        }
        root.present().map_err(|e| failed(e.to_string()))?;
    }
    let file = File::create(path).map_err(|e| failed(e.to_string()))?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), size.0, size.1);
    encoder.set_color(png::ColorType::Rgb);
    let written = encoder.write_header().and_then(|mut picture| {
        picture.write_image_data(&pixels)?;
        picture.finish()
    });
    written.map_err(|e| failed(e.to_string()))
}
