//! A stock kernel in a guest: the emulator's command, its progress, and why it failed.

use crate::emulator;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a guest may show no progress: on a host with other work an emulated kernel boots for minutes.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The kernel, the initrd and the other settings that a guest is booted with.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The kernel's image.
    pub kernel: PathBuf,
    /// An initial file system whose init loads the judge's module.
    pub initrd: PathBuf,
    /// Where the exchange and the console's log go.
    pub folder: PathBuf,
    /// How long a guest may show no progress, however long it takes in all.
    pub patience: Duration,
}

/// How a guest that was booted failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The guest never came to the stream.
    NotBegun,
    /// The guest began and did not end: how many operations it had carried out.
    Hung(u64),
    /// The guest says why it could not.
    Refused(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NotBegun => f.write_str("the guest never began with the stream"),
            Failure::Hung(done) => write!(f, "the guest stopped after {done} operations"),
            Failure::Refused(why) => write!(f, "the guest could not judge: {why}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Why nothing came of a guest.
#[derive(Debug)]
#[non_exhaustive]
pub enum GuestError {
    /// The emulator could not be started.
    Start(io::Error),
    /// It was started, and the guest failed.
    Failed {
        /// Why.
        why: String,
        /// The last lines of the log.
        last: String,
        /// The log's file.
        log: PathBuf,
    },
}

impl fmt::Display for GuestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuestError::Start(e) => write!(f, "qemu-system-x86_64 does not start: {e}"),
            GuestError::Failed { why, last, log } => match last.as_str() {
                "" => write!(f, "{why}; the log {} is empty", log.display()),
                last => write!(f, "{why}; the log is {}, and ends with:\n{last}", log.display()),
            },
        }
    }
}

impl std::error::Error for GuestError {}

impl Guest {
    fn emulator_log(&self) -> PathBuf {
        self.folder.join("emulator.log")
    }

    /// Returns the file that the guest's console is written to.
    #[must_use]
    pub fn console_log(&self) -> PathBuf {
        self.folder.join("console.log")
    }

    /// Returns an emulator's command that lacks only memory and CPUs. `words` are the kernel's, and
    /// name the module that the guest loads; it sees the file `exchange` of `bytes` bytes as the memory of a device;
    /// `settings` are names below `/proc/sys/vm` and their values.
    ///
    /// # Errors
    /// The emulator's log cannot be created.
    pub fn emulator(
        &self,
        settings: &[(String, String)],
        words: &str,
        exchange: &Path,
        bytes: u64,
        log: &Path,
    ) -> io::Result<Command> {
        let mut words = format!("psi=0 init_on_alloc=0 {words}");
        for (name, value) in settings {
            words += &format!(" judge.{name}={}", value.replace(' ', ","));
        }
        let shared =
            format!("memory-backend-file,id=exchange,share=on,mem-path={},size={bytes}", exchange.display());
        let mut command = emulator::command(&self.kernel, &self.initrd, &words, log);
        command
            .args(["-object", &shared, "-device", "ivshmem-plain,memdev=exchange"])
            .stderr(std::fs::File::create(self.emulator_log())?);
        Ok(command)
    }

    /// Returns the error of a guest that failed: why, and what its console or the emulator said last.
    pub fn failed(&self, why: &dyn fmt::Display) -> GuestError {
        let (log, why) = (self.console_log(), why.to_string());
        match last_lines(&log) {
            // The emulator may have had something against it before the kernel could say a word.
            said if said.is_empty() => {
                let log = self.emulator_log();
                GuestError::Failed { why, last: last_lines(&log), log }
            }
            last => GuestError::Failed { why, last, log },
        }
    }
}

/// The last progress seen of a guest, and when it changed.
pub struct Progress {
    console: PathBuf,
    /// Bytes on its console, and operations.
    seen: (u64, u64),
    at: Instant,
}

impl Progress {
    /// Begins to watch a guest that writes its console to a file.
    #[must_use]
    pub fn new(console: &Path, now: Instant) -> Progress {
        Progress { console: console.to_path_buf(), seen: (0, 0), at: now }
    }

    /// Returns for how long a guest that has carried out `done` operations has neither done more nor written to its
    /// console.
    pub fn stands_since(&mut self, done: u64, now: Instant) -> Duration {
        let seen = (std::fs::metadata(&self.console).map_or(0, |file| file.len()), done);
        if seen != self.seen {
            (self.seen, self.at) = (seen, now);
        }
        now.duration_since(self.at)
    }
}

/// Returns the last lines of a console, without what a terminal would act on.
pub(crate) fn last_lines(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    let shown = lines.into_iter().rev().map(|l| l.chars().filter(|c| !c.is_control()).collect::<String>());
    shown.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_gets_on_is_never_given_up_however_long_it_takes() {
        let folder = tempfile::tempdir().unwrap();
        let (console, begun) = (folder.path().join("console"), Instant::now());
        let mut progress = Progress::new(&console, begun);
        let minute = Duration::from_secs(60);
        let mut stands = |done, minutes| progress.stands_since(done, begun + minutes * minute);
        assert_eq!(stands(0, 2), 2 * minute, "no console yet");
        std::fs::write(&console, "a word").unwrap();
        assert_eq!(stands(0, 4), Duration::ZERO);
        assert_eq!(stands(0, 7), 3 * minute);
        assert_eq!(stands(1, 9), Duration::ZERO, "an operation");
        std::fs::write(&console, "a word, and another").unwrap();
        assert_eq!(stands(1, 99), Duration::ZERO);
        assert_eq!(stands(1, 104), 5 * minute);
    }
}
