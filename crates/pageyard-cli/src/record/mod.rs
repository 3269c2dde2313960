//! `pageyard record`: this host, recorded.

mod job;
pub mod signals;

use crate::output::{Failure, print, print_json, say};
use crate::progress::Progress;
use clap::Args;
use job::Job;
use pageyard_record::record::{Live, Recorder, Running, SAMPLE_EVERY, Through};
use pageyard_trace::{Trace, grouped, shown};
use signals::Signals;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long to wait at most before the buffers are emptied.
const PASS: Duration = Duration::from_millis(100);

/// The longest time between two samples: an hour.
const LONGEST_SAMPLE_MS: u64 = 3_600_000;

/// Records the requests to this host's page allocator, until Ctrl-C, for a time, or while a command runs.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  sudo pageyard record -- make -j8\n  sudo pageyard record -o busy.trace --seconds 30\n  sudo pageyard record -o busy.trace --sample-ms 50 -- ./job\n  sudo pageyard record --names -o busy.trace -- make -j8\n\nNo process name, path or host name is kept, unless --names asks for names of threads. docs/recording.md says what is, and what it costs."
)]
pub struct Record {
    /// Where the trace goes: a folder that does not exist yet
    #[arg(short, long, value_name = "NAME.trace", default_value = "recording.trace")]
    output: PathBuf,

    /// Stop after this many seconds
    #[arg(long, value_name = "N", value_parser = seconds, conflicts_with = "command", allow_negative_numbers = true)]
    seconds: Option<Duration>,

    /// Read the host's free blocks, per-CPU lists and counters each so many milliseconds, for `replay` to be compared
    /// with; 0 turns it off
    #[arg(long, value_name = "N", default_value_t = SAMPLE_EVERY.as_millis() as u64, value_parser = clap::value_parser!(u64).range(..=LONGEST_SAMPLE_MS))]
    sample_ms: u64,

    /// Let the kernel write into perf's buffers, as on hosts that have no other; an event costs about twice as much
    #[arg(long)]
    perf_buffers: bool,

    /// Keep the names of the threads that ask for memory, so that blame names them; they stay in a file of their own,
    /// which can be deleted before the recording is passed on
    #[arg(long)]
    names: bool,

    /// Record while this command runs; its exit status becomes this command's
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Reads a number of seconds above 0.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a number of seconds above 0");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|d| !d.is_zero()).ok_or_else(wrong)
}

/// Reads the length of a window: a second or more.
pub fn window(text: &str) -> Result<Duration, String> {
    let window = seconds(text)?;
    let is_long = window >= Duration::from_secs(1);
    if is_long { Ok(window) } else { Err("a window has a second or more".to_owned()) }
}

impl Record {
    /// Runs the verb; the exit status is that of the command, if there was one.
    pub fn run(&self, json: bool) -> Result<ExitCode, Failure> {
        let signals = Signals::catch(!self.command.is_empty())?;
        let every = (self.sample_ms > 0).then(|| Duration::from_millis(self.sample_ms));
        let through = if self.perf_buffers { Through::Perf } else { Through::Cheapest };
        let mut recorder = Recorder::prepare_through(&self.output, through)?.sample_every(every)?;
        if self.names {
            recorder = recorder.with_names();
        }
        if let Some(signal) = signals.stopped() {
            return Ok(self.never_began(signal));
        }
        let mut running = recorder.start()?;
        if let Some(signal) = signals.stopped() {
            return Ok(self.never_began(signal));
        }
        let mut child = match self.command.split_first() {
            Some((program, arguments)) => Some(Job::start(program, arguments, json)?),
            None => None,
        };
        // Only now: the command would inherit it.
        running.raise_priority();
        let recorded = match record(&mut running, &signals, child.as_mut(), self.seconds) {
            Ok(()) => running.finish().map_err(Failure::from),
            Err(e) => {
                drop(running);
                Err(e)
            }
        };
        // However the recording went, the command gets to its end, and its status is what is returned.
        let status = match &mut child {
            Some(job) => Some(job.end(&signals)?),
            None => None,
        };
        let exit = match status {
            Some(status) => ExitCode::from(job::code(status)),
            None if matches!(&recorded, Ok((_, recorded)) if recorded.partial.is_none()) => ExitCode::SUCCESS,
            None => ExitCode::FAILURE,
        };
        let recorded = match recorded {
            Ok((_, recorded)) => recorded,
            Err(failure) if status.is_none() => return Err(failure),
            Err(Failure(why)) => {
                say(&format!("pageyard: nothing was recorded: {why}\n"));
                return Ok(exit);
            }
        };
        let place = shown(&self.output.to_string_lossy());
        let document = recorded.document(&place, status.map(job::code));
        if json {
            print_json(&document)?;
        } else if status.is_some() {
            // Standard output is the command's.
            say(&document.text());
        } else {
            print(&document.text())?;
        }
        Ok(exit)
    }
}

impl Record {
    /// Says that a signal came while the recording was prepared, and returns the exit status that a shell would report.
    fn never_began(&self, signal: i32) -> ExitCode {
        let command = if self.command.is_empty() { "" } else { ", and the command was not started" };
        say(&format!(
            "pageyard: {} came before the recording began: nothing was recorded{command}\n",
            signals::name(signal)
        ));
        ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
    }
}

/// Records this host for a time, or until a signal comes.
pub fn for_a_time(output: &Path, time: Duration) -> Result<Trace, Failure> {
    let signals = Signals::catch(false)?;
    let mut running = Recorder::prepare(output)?.start()?;
    running.raise_priority();
    record(&mut running, &signals, None, Some(time))?;
    let (trace, recorded) = running.finish()?;
    match recorded.partial {
        None => Ok(trace),
        Some(why) => Err(Failure(format!("the recording is not whole: {why}"))),
    }
}

/// Empties the buffers until it is time to stop.
fn record(
    running: &mut Running,
    signals: &Signals,
    mut child: Option<&mut Job>,
    seconds: Option<Duration>,
) -> Result<(), Failure> {
    let started = Instant::now();
    let mut progress = Progress::new();
    loop {
        let left = seconds.map_or(PASS, |s| s.saturating_sub(started.elapsed()).min(PASS));
        let live = running.wait(signals.wake(), left)?;
        progress.wait(&state(&live));
        signals.drain();
        let over = seconds.is_some_and(|s| started.elapsed() >= s);
        let ended = match &mut child {
            Some(job) => job.has_ended()?,
            None => false,
        };
        if live.has_failed {
            // The reason follows with the report, once the command has ended, which may be in an hour.
            let command = if child.is_some() { ", and the command goes on" } else { "" };
            say(&format!(
                "pageyard: the trace cannot be written any more: the recording ends here{command}\n"
            ));
        }
        if over || ended || live.has_failed || signals.stopped().is_some() {
            return Ok(());
        }
    }
}

/// Returns how far a recording is.
fn state(live: &Live) -> String {
    let (events, lost) = (grouped(live.events), grouped(live.lost));
    format!("recording: {:.0} s, {events} events, {lost} lost", live.elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_above_nothing() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["", "0", "-1", "nan", "1e99", "x"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
