//! Names of the threads that ask for memory, for a recording that is to keep them.

use pageyard_trace::ThreadNames;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Names that are kept: more threads than any host starts while it is recorded would only fill memory.
const MOST: usize = 1 << 20;

/// Looks names up while the threads live, and asks the kernel's tracer for those that ended between two looks.
///
/// A thread has another name after it has started a program, so it is looked up in each pass in which it asked for
/// memory, and the last name counts.
pub(super) struct Names {
    /// `/proc`, and the tracer's list of the threads that it wrote events of last.
    proc: PathBuf,
    saved: PathBuf,
    /// Threads that asked in this pass, by the recording's numbers.
    asked: BTreeSet<u32>,
    last: Option<u32>,
    known: ThreadNames,
}

impl Names {
    /// Begins with none. `tracefs` is where tracefs is mounted.
    pub(super) fn new(proc: &Path, tracefs: &Path) -> Names {
        Names {
            proc: proc.to_owned(),
            saved: tracefs.join("saved_cmdlines"),
            asked: BTreeSet::new(),
            last: None,
            known: ThreadNames::default(),
        }
    }

    /// Notes that a thread asked for memory, by its number in the recording.
    #[inline]
    pub(super) fn see(&mut self, number: u32) {
        // Most events come in rows of one thread.
        if self.last != Some(number) {
            self.last = Some(number);
            self.asked.insert(number);
        }
    }

    /// Looks up the threads that asked since the last time; `tid_of` says which thread of the host has a number.
    pub(super) fn look(&mut self, tid_of: impl Fn(u32) -> Option<u32>) {
        self.last = None;
        let mut gone = BTreeMap::new();
        for number in std::mem::take(&mut self.asked) {
            let Some(tid) = tid_of(number) else { continue };
            if tid == 0 {
                // That of each CPU has no place in `/proc`.
                self.keep(number, "idle");
                continue;
            }
            match fs::read(self.proc.join(format!("{tid}/comm"))) {
                Ok(name) => self.keep(number, String::from_utf8_lossy(&name).trim_end_matches('\n')),
                Err(_) => _ = gone.insert(tid, number),
            }
        }
        if gone.is_empty() {
            return;
        }
        // Without it, those threads keep their numbers for names.
        let saved = fs::read(&self.saved).unwrap_or_default();
        for line in String::from_utf8_lossy(&saved).lines() {
            let Some((tid, name)) = line.split_once(' ') else { continue };
            if let Some(number) = tid.parse().ok().and_then(|tid: u32| gone.get(&tid)) {
                self.keep(*number, name);
            }
        }
    }

    fn keep(&mut self, number: u32, name: &str) {
        // What the tracer writes for a thread that it does not know.
        if name != "<...>" && (self.known.len() < MOST || self.known.get(number).is_some()) {
            self.known.set(number, name);
        }
    }

    /// Returns the names.
    pub(super) fn known(self) -> ThreadNames {
        self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recording's numbers are a hundred less than the host's.
    fn tid_of(number: u32) -> Option<u32> {
        Some(if number == 0 { 0 } else { number + 100 })
    }

    #[test]
    fn the_last_name_counts_and_the_tracer_knows_who_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let comm = |tid: u32, name: &str| {
            fs::create_dir_all(folder.path().join(tid.to_string())).unwrap();
            fs::write(folder.path().join(format!("{tid}/comm")), format!("{name}\n")).unwrap();
        };
        comm(107, "make");
        comm(108, "a b");
        comm(7, "of another");
        let mut names = Names::new(folder.path(), folder.path());
        for tid in [0, 7, 8, 8, 7, 9, 10] {
            names.see(tid);
        }
        fs::write(folder.path().join("saved_cmdlines"), "109 ld\n108 other\n110 <...>\nx\n").unwrap();
        names.look(tid_of);
        comm(107, "cc1");
        names.see(7);
        names.look(tid_of);
        names.look(tid_of);
        let known = names.known();
        let of = |tid| known.get(tid);
        assert_eq!(
            (of(7), of(8), of(9), of(10), of(0)),
            (Some("cc1"), Some("a b"), Some("ld"), None, Some("idle"))
        );
    }

    #[test]
    fn a_thread_that_ends_after_it_was_seen_gets_the_name_that_the_tracer_saw_last() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("107")).unwrap();
        fs::write(folder.path().join("107/comm"), "sh\n").unwrap();
        let mut names = Names::new(folder.path(), folder.path());
        names.see(7);
        names.look(tid_of);
        fs::remove_dir_all(folder.path().join("107")).unwrap();
        fs::write(folder.path().join("saved_cmdlines"), "107 cc1\n").unwrap();
        names.see(7);
        names.look(tid_of);
        assert_eq!(names.known().get(7), Some("cc1"));
    }
}
