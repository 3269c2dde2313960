//! Settings that are put back whatever happens: another process, in a session of its own, waits for the end of this
//! one.
//!
//! The settings to restore are written to its input before anything is changed. Its input ends when this process does,
//! by whatever signal; then it restores them, the last first.

use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The verb of this program that waits.
pub const VERB: &str = "what-if-guard";

/// Settings that were changed, until it is dropped.
pub struct Guard {
    child: Child,
}

impl Guard {
    /// Starts the process that puts things back.
    ///
    /// # Errors
    /// When this program cannot be started again.
    pub fn start(program: &Path) -> Result<Guard, String> {
        let child = Command::new(program).arg(VERB).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        child
            .map(|child| Guard { child })
            .map_err(|e| format!("{} cannot be started again: {e}", program.display()))
    }

    /// Writes `value` into a setting; what it says now is put back later.
    ///
    /// # Errors
    /// When the setting does not exist, or the kernel refuses the value.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<(), String> {
        let before = fs::read_to_string(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                format!("{} is not there: this kernel has no such setting", path.display())
            }
            _ => format!("{} cannot be read: {e}", path.display()),
        })?;
        self.tell(&format!("write\t{}\t{}", path.display(), before.trim()))?;
        super::counts::write(path, value)
    }

    /// Has an empty folder, such as an instance of the tracer, removed later.
    ///
    /// # Errors
    /// When the other process is gone.
    pub fn remove(&mut self, path: &Path) -> Result<(), String> {
        self.tell(&format!("remove\t{}", path.display()))
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        let told = self.child.stdin.as_mut().map(|to| writeln!(to, "{line}").and_then(|()| to.flush()));
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err("the process that puts settings back has gone: nothing is changed".to_owned()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // Once it has ended, everything is as it was.
        let _ = self.child.wait();
    }
}

/// Runs the other process: waits for the end of its input, and restores the settings. Returns those it could not
/// restore.
#[must_use]
pub fn wait(input: impl BufRead) -> Vec<String> {
    // Not ended by what ends the process that it waits for.
    let _ = rustix::process::setsid();
    let lines: Vec<String> = input.lines().map_while(Result::ok).collect();
    let failed = |line: &String| {
        let mut words = line.split('\t');
        let (what, path, value) = (words.next()?, PathBuf::from(words.next()?), words.next());
        let done = match (what, value) {
            ("write", Some(value)) => fs::write(&path, value),
            ("remove", _) => fs::remove_dir(&path),
            _ => return None,
        };
        done.err().map(|e| format!("{} could not be put back: {e}", path.display()))
    };
    lines.iter().rev().filter_map(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_twice_ends_as_it_began() {
        let folder = tempfile::tempdir().unwrap();
        let (one, gone) = (folder.path().join("one"), folder.path().join("gone"));
        fs::write(&one, "9").unwrap();
        fs::create_dir(&gone).unwrap();
        let one = one.display();
        let lines = format!("write\t{one}\t1\nremove\t{}\nwrite\t{one}\t5\nwrite\t{one}", gone.display());
        assert!(wait(lines.as_bytes()).is_empty());
        assert_eq!(fs::read_to_string(one.to_string()).unwrap(), "1");
        assert!(!gone.exists());
        let missing = wait(&b"write\t/nowhere/at/all\t1\n"[..]);
        assert!(missing[0].contains("/nowhere/at/all could not be put back"), "{missing:?}");
    }
}
