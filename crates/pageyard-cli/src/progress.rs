//! A progress bar for long work: on a terminal only, and not in the first second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// Shows how far work has come.
pub struct Progress {
    started: Instant,
    bar: Option<ProgressBar>,
    /// The template of what is shown.
    style: &'static str,
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
        Progress { started: Instant::now(), bar: None, style: "" }
    }

    /// Says what is waited for, where it is not known how much of it is left.
    pub fn wait(&mut self, doing: &str) {
        if let Some(bar) = self.shown("{spinner} {msg}", 0) {
            bar.set_message(doing.to_owned());
            bar.tick();
        }
    }

    /// Says that `done` of `all` is done of what `doing` names.
    pub fn at(&mut self, doing: &str, done: u64, all: u64) {
        let Some(bar) = self.shown("{msg:<28} {bar:40} {percent:>3} %  {eta} left", all) else { return };
        if bar.message() != doing {
            bar.set_message(doing.to_owned());
            bar.reset_eta();
        }
        bar.set_length(all);
        bar.set_position(done);
    }

    /// Returns the bar in this style, unless it is too early for one.
    fn shown(&mut self, style: &'static str, all: u64) -> Option<&ProgressBar> {
        if self.started.elapsed() < Duration::from_secs(1) {
            return None;
        }
        let bar = self
            .bar
            .get_or_insert_with(|| ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::stderr()));
        if self.style != style {
            self.style = style;
            bar.set_style(
                ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
        }
        Some(bar)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
