//! The recorded command, and what it started.

use super::signals::Signals;
use crate::output::Failure;
use pageyard_trace::shown;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a command may take to end once it was asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// How often the zombies of orphans are looked for while recording.
const REAP: Duration = Duration::from_secs(10);

/// The recorded command.
pub struct Job {
    child: Child,
    status: Option<ExitStatus>,
    reaped: Instant,
}

impl Job {
    /// Starts it. With `json`, what it prints goes to standard error, as standard output is for the one document.
    ///
    /// This process becomes the parent of whatever the command leaves behind, so that a command which is made to end
    /// can be ended as a whole.
    pub fn start(program: &OsString, arguments: &[OsString], json: bool) -> Result<Job, Failure> {
        // Without it, a process whose parent has gone cannot be found any more; all others still can.
        let _ = set_child_subreaper(Some(getpid()));
        let mut command = Command::new(program);
        command.args(arguments);
        if json {
            command.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
        }
        match command.spawn() {
            Ok(child) => Ok(Job { child, status: None, reaped: Instant::now() }),
            Err(e) => Err(Failure(format!("{} cannot be run: {e}", shown(&program.to_string_lossy())))),
        }
    }

    /// Returns whether the command itself has ended; what it left running does not count.
    pub fn has_ended(&mut self) -> Result<bool, Failure> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        if self.reaped.elapsed() >= REAP {
            self.reaped = Instant::now();
            reap(&self.orphans(&processes()));
        }
        Ok(self.status.is_some())
    }

    /// Waits for the command. When a signal asks to stop, now or while it is waited for, the command and everything
    /// that it started are asked to end, and killed if they do not.
    pub fn end(&mut self, signals: &Signals) -> Result<ExitStatus, Failure> {
        while !self.has_ended()? {
            if signals.stopped().is_some() {
                self.end_all()?;
                break;
            }
            std::thread::sleep(LOOK);
        }
        match self.status {
            Some(status) => Ok(status),
            None => Ok(self.child.wait()?),
        }
    }

    /// Ends the command and what it started: SIGTERM, and SIGKILL for what is left after [`PATIENCE`].
    fn end_all(&mut self) -> Result<(), Failure> {
        let mut asked = Vec::new();
        let begun = Instant::now();
        loop {
            self.has_ended()?;
            let all = processes();
            reap(&self.orphans(&all));
            let left = descendants(&all, getpid().as_raw_pid());
            if left.is_empty() {
                return Ok(());
            }
            let patient = begun.elapsed() < PATIENCE;
            if begun.elapsed() > 2 * PATIENCE {
                // Killed, and still there: stuck in the kernel. It will end there, and need not be waited for here.
                return Ok(());
            }
            for pid in left {
                // Each is asked once; one that was started meanwhile is asked too.
                if patient && asked.contains(&pid) {
                    continue;
                }
                asked.push(pid);
                if let Some(pid) = Pid::from_raw(pid) {
                    // It may have ended by itself a moment ago.
                    let _ = kill_process(pid, if patient { Signal::TERM } else { Signal::KILL });
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the processes that have ended, are this process's children, and are not the command itself.
    fn orphans(&self, all: &BTreeMap<i32, Process>) -> Vec<i32> {
        let own = getpid().as_raw_pid();
        let command = self.child.id() as i32;
        all.iter()
            .filter(|(pid, p)| p.parent == own && p.ended && **pid != command)
            .map(|(pid, _)| *pid)
            .collect()
    }
}

/// Forgets processes that have ended.
fn reap(pids: &[i32]) {
    for pid in pids.iter().filter_map(|&pid| Pid::from_raw(pid)) {
        // One that cannot be waited for is no child any more.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// The facts known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    /// Whether it has ended, and waits for its parent to look.
    ended: bool,
}

/// Returns all processes by their numbers.
fn processes() -> BTreeMap<i32, Process> {
    let Ok(folder) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let numbers = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter_map(|pid| {
            let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, process(&String::from_utf8_lossy(&stat))?))
        })
        .collect()
}

/// Reads `7 (a name (with anything) in it) S 1 ..`.
fn process(stat: &str) -> Option<Process> {
    let mut words = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = words.next()?;
    Some(Process { parent: words.next()?.parse().ok()?, ended: matches!(state, "Z" | "X") })
}

/// Returns those processes below `root` that have not ended.
fn descendants(all: &BTreeMap<i32, Process>, root: i32) -> Vec<i32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        next += 1;
        for (&pid, process) in all.iter().filter(|(_, p)| p.parent == parent) {
            // A number that is used again while the list is read could make a circle.
            if !process.ended && !found.contains(&pid) {
                found.push(pid);
            }
        }
    }
    found.split_off(1)
}

/// Returns the exit status that a shell would report.
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_makes_a_status_like_a_shell_s() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(15)), 143);
    }

    #[test]
    fn descendants_are_found_through_each_other() {
        let process = |parent, ended| Process { parent, ended };
        let all = [
            (2, process(1, false)),
            (10, process(1, false)),
            (11, process(10, false)),
            (12, process(11, false)),
            (13, process(11, true)),
            (14, process(2, false)),
        ];
        assert_eq!(descendants(&all.into(), 10), [11, 12]);
        // As it can look when numbers are used again while the list is read.
        let circle = [(10, process(12, false)), (11, process(10, false)), (12, process(11, false))];
        assert_eq!(descendants(&circle.into(), 10), [11, 12]);
    }

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_parent() {
        let name = "7 (a) S 9 (b) Z 1 1) S 3 7 7 0 -1\n";
        assert_eq!(process(name), Some(Process { parent: 3, ended: false }));
        assert_eq!(process("8 (x) Z 7 8"), Some(Process { parent: 7, ended: true }));
        assert_eq!(process("8 (x"), None);
    }
}
