//! Text for people: readable numbers, aligned columns.

use std::fmt::{self, Write};

/// Writes a number with a comma every three digits.
#[must_use]
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The longest name that is shown whole, in characters.
const LONGEST_NAME: usize = 160;

/// Makes a name from outside safe to display: a path, a zone of a trace, an argument.
///
/// Characters that a terminal would act on instead of showing, escape sequences among them, and those that change the
/// direction of the text around them are written as `\u{1b}`; of a name of more than 160 characters the middle is left
/// out.
#[must_use]
pub fn shown(name: &str) -> String {
    cut(&escaped(name), LONGEST_NAME)
}

/// Makes text of several pieces safe to display, whatever its length.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_active(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Returns whether a terminal may do something else with `c` than show it.
fn is_active(c: char) -> bool {
    // Controls; marks, embeddings and isolates of direction; separators of lines; characters without width.
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Leaves out the middle of what is longer than `longest` characters.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    let length = text.chars().count();
    if length <= longest {
        return text.to_owned();
    }
    let head = longest * 2 / 3;
    let tail = (longest - head).saturating_sub(3);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}...{end}")
}

/// Cuts a piece of foreign text so that it fits into a one-line message.
#[must_use]
pub fn quoted(text: &[u8]) -> String {
    const LONGEST: usize = 40;
    // A character takes four bytes at most; the rest of a long text is not even looked at.
    let text = String::from_utf8_lossy(&text[..text.len().min(8 * LONGEST)]);
    cut(&escaped(&text), LONGEST)
}

/// Writes a share as a percentage.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Writes `n` and the noun, in the plural unless `n` is 1.
pub fn count(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// Writes frames as a size that people know.
pub fn size(frames: u64) -> String {
    size_of_kib(frames.saturating_mul(pageyard::PAGE_SIZE / 1024))
}

/// Writes KiB as a size that people know.
pub fn size_of_kib(kib: u64) -> String {
    let (unit, scale) = match kib {
        0..1024 => ("KiB", 1.0),
        1024..1_048_576 => ("MiB", 1024.0),
        _ => ("GiB", 1024.0 * 1024.0),
    };
    format!("{:.1} {unit}", kib as f64 / scale)
}

/// Rows of cells. The first column is words and lines up on the left, the others on the right.
pub struct Grid {
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Makes a grid with a first row of headings.
    pub fn new<T: Into<String>>(headings: impl IntoIterator<Item = T>) -> Grid {
        let mut grid = Grid { rows: Vec::new() };
        grid.row(headings);
        grid
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| {
            self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if i == 0 {
                    write!(line, "  {cell:width$}")?;
                } else {
                    write!(line, "  {cell:>width$}")?;
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_command_a_terminal() {
        assert_eq!(shown("a b'c\"\\é"), "a b'c\"\\é");
        assert_eq!(shown("\u{1b}[31mred\n\u{7}"), "\\u{1b}[31mred\\n\\u{7}");
        // The one-character form of the same sequences, and a name that is written backwards.
        assert_eq!(shown("\u{9b}2J\u{202e}txt"), "\\u{9b}2J\\u{202e}txt");
    }

    #[test]
    fn long_names_lose_their_middle() {
        let name = format!("start{}end", "x".repeat(100_000));
        let short = shown(&name);
        assert_eq!(short.chars().count(), LONGEST_NAME);
        assert!(short.starts_with("startx") && short.contains("x...x") && short.ends_with("xend"));
        assert_eq!(shown(&"\u{1b}".repeat(1000)).chars().count(), LONGEST_NAME);
    }

    #[test]
    fn numbers_are_grouped_in_threes() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn sizes_take_the_unit_that_fits() {
        assert_eq!(size(1), "4.0 KiB");
        assert_eq!(size(512), "2.0 MiB");
        assert_eq!(size(262_144), "1.0 GiB");
    }

    #[test]
    fn columns_line_up() {
        let mut grid = Grid::new(["", "n"]);
        grid.row(["one", "1"]);
        grid.row(["a thousand", "1,000"]);
        assert_eq!(grid.to_string(), "                  n\n  one             1\n  a thousand  1,000\n");
    }
}
