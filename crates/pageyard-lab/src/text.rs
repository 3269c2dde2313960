//! Numbers as people read them.

pub use pageyard_trace::grouped as count;

/// Writes a number of bytes in the largest unit that keeps it above one.
#[must_use]
pub fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = (n.max(1).ilog2() / 10).min(4) as usize;
    match step {
        0 => format!("{n} B"),
        _ => format!("{:.1} {}", n as f64 / (1u64 << (10 * step)) as f64, units[step]),
    }
}

/// Draws values between `low` and `high` as one character each.
#[must_use]
pub fn sparkline(values: impl Iterator<Item = f64>, low: f64, high: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let span = (high - low).max(f64::MIN_POSITIVE);
    values.map(|v| BARS[(((v - low) / span).clamp(0.0, 1.0) * 7.0).round() as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!((count(0), count(999), count(1_234_567)), ("0".into(), "999".into(), "1,234,567".into()));
        assert_eq!(
            (bytes(0), bytes(4096), bytes(3 << 29)),
            ("0 B".into(), "4.0 KiB".into(), "1.5 GiB".into())
        );
        assert_eq!(sparkline([0.0, 0.5, 1.0, 9.0].into_iter(), 0.0, 1.0), "▁▅██");
    }
}
