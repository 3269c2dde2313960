//! A progress bar for long work: on a terminal only, and not in the first second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// Shows how far work has come.
pub struct Progress {
    started: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins; nothing is shown yet.
    pub fn new() -> Progress {
        Progress { started: Instant::now(), bar: None }
    }

    /// Says that `done` of `all` is done of what `doing` names.
    pub fn at(&mut self, doing: &str, done: u64, all: u64) {
        if self.started.elapsed() < Duration::from_secs(1) {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{msg:<28} {bar:40} {percent:>3} %  {eta} left");
            let bar = ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::stderr());
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        if bar.message() != doing {
            bar.set_message(doing.to_owned());
            bar.reset_eta();
        }
        bar.set_length(all);
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
