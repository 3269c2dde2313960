//! Lines over a logarithmic axis: [`page`](super::page) draws them.

/// A picture.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// The label of the horizontal axis.
    pub x: &'static str,
    /// The label of the vertical axis.
    pub y: &'static str,
    /// The lines, each with its points.
    pub series: Vec<Series>,
}

/// A line of a [`Plot`].
#[derive(Clone, Debug)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}
