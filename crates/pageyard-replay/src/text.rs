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

/// Writes a percentage, and a dash where it is not known.
#[must_use]
pub fn percent(pct: Option<f64>) -> String {
    pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.2} %"))
}

/// Writes foreign text so that a terminal only displays it: control characters, and those that change the direction of
/// writing, are spelt out, and text longer than a few lines is cut.
#[must_use]
pub fn shown(text: &str) -> String {
    /// Characters that are shown.
    const MOST: usize = 1000;
    let active = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut out = String::new();
    for (n, c) in text.chars().enumerate() {
        match n {
            MOST => return out + "..",
            _ if active(c) => out.extend(c.escape_default()),
            _ => out.push(c),
        }
    }
    out
}

/// Writes text so that a browser shows it and does nothing else with it, in an attribute in double quotes as well.
#[must_use]
pub fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the ticks of an axis on which `low` and `high` lie: two or more multiples of 1, 2 or 5 times a power of ten,
/// about `parts` steps apart at most.
#[must_use]
pub fn round_ticks(low: f64, high: f64, parts: f64) -> Vec<f64> {
    let span = if high > low { high - low } else { 1.0 };
    let least = (span / parts).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().map(|n| n * power).find(|s| *s >= least).unwrap_or(10.0 * power);
    let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
    (first..=last.max(first + 1)).map(|n| n as f64 * step).collect()
}

/// Draws values between `low` and `high` as one character each, and a space where there is none.
#[must_use]
pub fn sparkline(values: impl Iterator<Item = Option<f64>>, low: f64, high: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let span = (high - low).max(f64::MIN_POSITIVE);
    let bar = |v: f64| BARS[(((v - low) / span).clamp(0.0, 1.0) * 7.0).round() as usize];
    values.map(|v| v.map_or(' ', bar)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_command_a_terminal() {
        assert_eq!(shown("a\u{1b}[2J\n\u{202e}b"), "a\\u{1b}[2J\\n\\u{202e}b");
        assert_eq!(shown("größe 7 %"), "größe 7 %");
        assert_eq!(shown(&"x".repeat(5000)).len(), 1002);
    }

    #[test]
    fn text_in_a_page_stays_text() {
        assert_eq!(markup("</b> \"&amp;\" größe"), "&lt;/b&gt; &quot;&amp;amp;&quot; größe");
    }

    #[test]
    fn ticks_are_round_and_take_in_both_ends() {
        assert_eq!(round_ticks(0.0, 27.0, 4.0), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(round_ticks(-2.0, 7.0, 4.0), [-5.0, 0.0, 5.0, 10.0]);
        assert_eq!(round_ticks(1001.0, 1003.0, 4.0), [1001.0, 1001.5, 1002.0, 1002.5, 1003.0]);
        assert_eq!(round_ticks(0.0, 0.0, 4.0), [0.0, 0.5]);
        assert_eq!(round_ticks(5.0, 5.0, 4.0), [5.0, 5.5]);
    }

    #[test]
    fn numbers() {
        assert_eq!((percent(Some(0.0)), percent(None)), ("0.00 %".into(), "-".into()));
        assert_eq!((count(0), count(999), count(1_234_567)), ("0".into(), "999".into(), "1,234,567".into()));
        assert_eq!(
            (bytes(0), bytes(4096), bytes(3 << 29)),
            ("0 B".into(), "4.0 KiB".into(), "1.5 GiB".into())
        );
        assert_eq!(
            sparkline([Some(0.0), Some(0.5), None, Some(1.0), Some(9.0)].into_iter(), 0.0, 1.0),
            "▁▅ ██"
        );
    }
}
