//! Progress of long work: a line on a terminal only, and not in the first second.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How long work is silent.
const SILENT: Duration = Duration::from_secs(1);

/// The shortest time between two states of the line.
const EVERY: Duration = Duration::from_millis(100);

/// Columns of the bar, and of the whole line: more might wrap, and could not be cleared.
const BAR: usize = 24;
const WIDTH: usize = 79;

/// Shows how far work has come.
pub struct Progress {
    started: Instant,
    /// When the line was last written; `None`: there is none.
    written: Option<Instant>,
    is_terminal: bool,
    /// The step under way; `since` is its start.
    doing: String,
    since: Instant,
}

impl Default for Progress {
    fn default() -> Self {
        Progress::new()
    }
}

impl Progress {
    /// Begins; nothing is shown yet.
    #[must_use]
    pub fn new() -> Progress {
        let now = Instant::now();
        let is_terminal = std::io::stderr().is_terminal();
        Progress { started: now, written: None, is_terminal, doing: String::new(), since: now }
    }

    /// Says what is waited for, where it is not known how much of it is left.
    pub fn wait(&mut self, doing: &str) {
        if self.is_due() {
            self.write(doing);
        }
    }

    /// Says that `done` of `all` is done of what `doing` names.
    pub fn at(&mut self, doing: &str, done: u64, all: u64) {
        if self.doing != doing {
            (self.doing, self.since) = (doing.to_owned(), Instant::now());
        }
        if self.is_due() {
            self.write(&line(doing, done, all, self.since.elapsed()));
        }
    }

    /// Returns whether the line can be seen and is old enough to be written again.
    fn is_due(&self) -> bool {
        self.is_terminal
            && self.started.elapsed() >= SILENT
            && self.written.is_none_or(|at| at.elapsed() >= EVERY)
    }

    fn write(&mut self, text: &str) {
        self.written = Some(Instant::now());
        let shown: String = text.chars().filter(|c| !c.is_control()).take(WIDTH).collect();
        put(&shown);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.written.is_some() {
            put("");
        }
    }
}

/// Replaces the line of the terminal. A terminal that has gone away is no failure.
fn put(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = write!(out, "\r\u{1b}[2K{text}").and_then(|()| out.flush());
}

/// Returns the line of work that took `elapsed` so far.
fn line(doing: &str, done: u64, all: u64, elapsed: Duration) -> String {
    let share = if all == 0 { 0.0 } else { (done as f64 / all as f64).min(1.0) };
    let full = (share * BAR as f64) as usize;
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR - full));
    let left = match done {
        0 => String::new(),
        _ => format!("  {} left", duration(elapsed.as_secs_f64() * (1.0 - share) / share)),
    };
    format!("{doing:<28} {bar} {:>3.0} %{left}", share * 100.0)
}

/// Returns a time in minutes and seconds, as far as there are any.
fn duration(seconds: f64) -> String {
    match seconds.round() as u64 {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3600, s / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_share_and_the_time_that_is_left() {
        let at = |done, seconds| line("replaying", done, 200, Duration::from_secs(seconds));
        assert_eq!(at(0, 9), format!("replaying                    {}   0 %", "░".repeat(24)));
        assert_eq!(
            at(50, 30),
            format!(
                "replaying                    {}{}  25 %  1 min 30 s left",
                "█".repeat(6),
                "░".repeat(18)
            )
        );
        assert_eq!(
            at(300, 30),
            format!("replaying                    {} 100 %  0 s left", "█".repeat(24)),
            "more than all"
        );
        assert!(line("x", 0, 0, Duration::ZERO).ends_with("  0 %"), "of nothing");
        assert_eq!((duration(59.4), duration(7_260.0)), ("59 s".to_owned(), "2 h 1 min".to_owned()));
        assert!(at(1, 3600).chars().count() <= WIDTH);
    }
}
