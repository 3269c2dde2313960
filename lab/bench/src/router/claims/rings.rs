//! The limits of receive and transmit rings: the highest rates without loss, and what is sent above them.

use super::super::run::Effort;
use super::super::settings::RouterSettings;
use super::lab::Lab;
use super::spread::spread;
use crate::error::BenchError;

/// Receive and transmit rings that are compared: pairs of a size, the thread's two, and the model's.
const PAIRS: [(&str, &str); 7] = [
    ("64", "64"),
    ("128", "128"),
    ("256", "256"),
    ("1024", "1024"),
    ("4096", "128"),
    ("4096", "256"),
    ("4096", "1024"),
];

/// More than any of them forwards, Gbit/s, or nearly.
const OVERLOAD: &str = "100";

/// Rings, and the rates that they carry.
#[derive(Clone, Debug)]
pub struct RingLimits {
    /// Receive and transmit descriptors, as in `RX 128, TX 128`.
    pub rings: String,
    /// The highest rate without loss, Gbit/s; `None` where packets are lost at any.
    pub lossless_gbit: Option<f64>,
    /// The same after a surge that filled the rings.
    pub after_surge_gbit: Option<f64>,
    /// The rate sent while 100 Gbit/s are offered, Gbit/s.
    pub overloaded_gbit: f64,
}

/// Measures the rings. `progress` is told how many of how many are done.
///
/// # Errors
/// As [`super::super::route`].
pub fn ring_limits(progress: &mut dyn FnMut(usize, usize)) -> Result<(Vec<RingLimits>, Effort), BenchError> {
    let lab = Lab::new(false);
    let of = |n: usize| {
        let (rx, tx) = PAIRS[n];
        let settings = RouterSettings::default().with(&[("rx-ring", rx), ("tx-ring", tx)]);
        Ok(RingLimits {
            rings: format!("RX {rx}, TX {tx}"),
            lossless_gbit: lab.limit(&settings)?,
            after_surge_gbit: lab.limit_after_surge(&settings)?,
            overloaded_gbit: lab.with(&settings, &[("offered-gbit", OVERLOAD)])?.out_gbit,
        })
    };
    let limits = spread(PAIRS.len(), of, progress)?;
    Ok((limits, lab.effort()))
}
