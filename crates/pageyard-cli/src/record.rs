//! `pageyard record`: this host, recorded.

use crate::output::{Failure, print, print_json};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pageyard_trace::EventKind;
use pageyard_trace::grouped;
use pageyard_trace::record::{Live, Recorded, Recorder, Running};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long to wait at most before the buffers are emptied.
const PASS: Duration = Duration::from_millis(100);

/// How long a command may take to end once it was asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// Records what this host's page allocator is asked, until Ctrl-C, for a time, or while a command runs.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  sudo pageyard record -- make -j8\n  sudo pageyard record -o busy.trace --seconds 30\n\nNo process name, path or host name is kept. docs/recording.md says what is, and what it costs."
)]
pub struct Record {
    /// Where the trace goes, a folder that is not there yet
    #[arg(short, long, value_name = "NAME.trace", default_value = "recording.trace")]
    output: PathBuf,

    /// Stop after so many seconds
    #[arg(long, value_name = "N", value_parser = seconds, conflicts_with = "command", allow_negative_numbers = true)]
    seconds: Option<Duration>,

    /// Record while this command runs; its exit status becomes this command's
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a number of seconds above 0");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|d| !d.is_zero()).ok_or_else(wrong)
}

impl Record {
    /// Runs the verb; the exit status is that of the command, if there was one.
    pub fn run(&self, json: bool) -> Result<ExitCode, Failure> {
        let signals = Signals::catch(!self.command.is_empty())?;
        let recorder = Recorder::prepare(&self.output)?;
        let mut running = recorder.start()?;
        let mut child = match self.command.split_first() {
            Some((program, arguments)) => Some(Job::start(program, arguments, json)?),
            None => None,
        };
        let recorded = match record(&mut running, &signals, child.as_mut(), self.seconds) {
            Ok(()) => running.finish().map_err(Failure::from),
            Err(e) => {
                drop(running);
                Err(e)
            }
        };
        // However the recording went, the command gets to its end.
        let status = match &mut child {
            Some(job) => Some(job.end(signals.stopped())?),
            None => None,
        };
        let (trace, recorded) = recorded?;
        drop(trace);
        let place = self.output.display().to_string();
        if json {
            print_json(&document(&recorded, &place, status))?;
        } else if status.is_some() {
            // Standard output is the command's.
            eprint!("{}", text(&recorded, &place));
        } else {
            print(&text(&recorded, &place))?;
        }
        Ok(status.map_or(ExitCode::SUCCESS, |s| ExitCode::from(code(s))))
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
    let mut shown = Shown::new();
    loop {
        let left = seconds.map_or(PASS, |s| s.saturating_sub(started.elapsed()).min(PASS));
        let live = running.wait(signals.wake.as_fd(), left)?;
        shown.at(&live);
        signals.drain();
        let over = seconds.is_some_and(|s| started.elapsed() >= s);
        let ended = match &mut child {
            Some(job) => job.has_ended()?,
            None => false,
        };
        if over || ended || signals.stopped().is_some() {
            return Ok(());
        }
    }
}

/// The signals that end a recording, and the one that says that the command has ended.
struct Signals {
    stop: Arc<AtomicUsize>,
    wake: UnixStream,
}

impl Signals {
    fn catch(child: bool) -> Result<Signals, Failure> {
        let (wake, write) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let stop = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_usize(signal, Arc::clone(&stop), signal as usize)?;
            pipe::register(signal, write.try_clone()?)?;
        }
        if child {
            pipe::register(SIGCHLD, write)?;
        }
        Ok(Signals { stop, wake })
    }

    /// Returns the signal that asked to stop, if one did.
    fn stopped(&self) -> Option<i32> {
        let signal = self.stop.load(Ordering::SeqCst);
        (signal != 0).then_some(signal as i32)
    }

    /// Forgets that there was something to wake up for.
    fn drain(&self) {
        let mut buffer = [0; 64];
        while matches!((&self.wake).read(&mut buffer), Ok(n) if n > 0) {}
    }
}

/// The recorded command.
struct Job {
    child: Child,
    status: Option<ExitStatus>,
}

impl Job {
    fn start(program: &OsString, arguments: &[OsString], json: bool) -> Result<Job, Failure> {
        let mut command = Command::new(program);
        command.args(arguments);
        if json {
            // Standard output is for the one document.
            command.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
        }
        match command.spawn() {
            Ok(child) => Ok(Job { child, status: None }),
            Err(e) => Err(Failure(format!("{} cannot be run: {e}", program.display()))),
        }
    }

    fn has_ended(&mut self) -> Result<bool, Failure> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status.is_some())
    }

    /// Waits for the command; one whose recording was stopped by a signal is asked to end.
    fn end(&mut self, stopped: Option<i32>) -> Result<ExitStatus, Failure> {
        if stopped.is_some() && !self.has_ended()? {
            if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
                // It may have ended by itself a moment ago.
                let _ = kill_process(pid, Signal::TERM);
            }
            let asked = Instant::now();
            while !self.has_ended()? && asked.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(10));
            }
            if !self.has_ended()? {
                self.child.kill()?;
            }
        }
        match self.status {
            Some(status) => Ok(status),
            None => Ok(self.child.wait()?),
        }
    }
}

/// Returns the exit status that a shell would report.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}

/// How far the recording is, on a terminal only and not in the first second.
struct Shown {
    started: Instant,
    last: Instant,
    bar: Option<ProgressBar>,
}

impl Shown {
    fn new() -> Shown {
        Shown { started: Instant::now(), last: Instant::now(), bar: None }
    }

    fn at(&mut self, live: &Live) {
        if self.started.elapsed() < Duration::from_secs(1) || self.last.elapsed() < Duration::from_millis(250)
        {
            return;
        }
        self.last = Instant::now();
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(
                ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
            );
            bar
        });
        bar.set_message(format!(
            "recording: {:.0} s, {} events, {} lost",
            live.elapsed.as_secs_f64(),
            grouped(live.events),
            grouped(live.lost)
        ));
        bar.tick();
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn text(recorded: &Recorded, place: &str) -> String {
    let mut out = String::new();
    let rate = recorded.events() as f64 / recorded.seconds.max(1e-9);
    let _ = writeln!(
        out,
        "{place}: {} events in {:.1} s, {} a second; {} lost",
        grouped(recorded.events()),
        recorded.seconds,
        grouped(rate as u64),
        grouped(recorded.lost)
    );
    let kinds: Vec<String> = EventKind::ALL
        .iter()
        .zip(recorded.by_kind)
        .map(|(k, n)| format!("{} {}", grouped(n), k.name()))
        .collect();
    let _ = writeln!(out, "  {}", kinds.join(", "));
    if let Some(moves) = recorded.moves {
        let _ = writeln!(
            out,
            "  {} rows about compaction and migration, {} of them name both frames of a move",
            grouped(moves),
            grouped(recorded.moved)
        );
    }
    let own = recorded.own_seconds / (recorded.seconds * f64::from(recorded.cpus)).max(1e-9) * 100.0;
    let _ = write!(
        out,
        "  cost: the recorder took {:.2} s of processor time, {own:.1} % of {} CPUs",
        recorded.own_seconds, recorded.cpus
    );
    match (recorded.event_ns, recorded.overhead()) {
        (Some(ns), Some(all)) => {
            let _ = writeln!(out, "; an event takes {ns:.0} ns in the kernel: {:.1} % in all", all * 100.0);
        }
        _ => out.push('\n'),
    }
    for (n, what) in [
        (
            recorded.lost,
            "events were lost: the counts are a little low, and the replay will find frees without allocation",
        ),
        (recorded.impossible, "events said what cannot be, and are left out"),
        (
            recorded.late,
            "events came too late to be put in their place, and have the time of their successors",
        ),
    ] {
        if n > 0 {
            let _ = writeln!(out, "  {} {what}", grouped(n));
        }
    }
    if !recorded.missing.is_empty() {
        let _ = writeln!(out, "  this kernel has no {}", recorded.missing.join(", "));
    }
    out
}

fn document(recorded: &Recorded, place: &str, status: Option<ExitStatus>) -> Value {
    let kinds: serde_json::Map<String, Value> =
        EventKind::ALL.iter().zip(recorded.by_kind).map(|(k, n)| (k.name().to_owned(), n.into())).collect();
    let mut document = json!({
        "trace": place,
        "events": recorded.events(),
        "by_event": kinds,
        "lost": recorded.lost,
        "impossible": recorded.impossible,
        "late": recorded.late,
        "seconds": recorded.seconds,
        "cpus": recorded.cpus,
        "buffer_bytes": recorded.buffer_bytes,
        "recorder_cpu_seconds": recorded.own_seconds,
        "missing_tracepoints": recorded.missing,
    });
    if let Some(moves) = recorded.moves {
        document["moves"] = json!({ "rows": moves, "with_both_frames": recorded.moved });
    }
    if let (Some(ns), Some(all)) = (recorded.event_ns, recorded.overhead()) {
        document["event_ns"] = ns.into();
        document["overhead"] = all.into();
    }
    if let Some(status) = status {
        document["exit_status"] = code(status).into();
    }
    document
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

    #[test]
    fn a_signal_makes_a_status_like_a_shell_s() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(15)), 143);
    }
}
