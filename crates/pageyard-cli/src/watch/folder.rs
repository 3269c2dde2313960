//! The folder of the snapshots: what is in it, what goes, and what a killed watch left there.

use crate::output::{Failure, say};
use pageyard_trace::source::reason;
use pageyard_trace::{TraceError, salvage, shown};
use rustix::fs::statvfs;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The part before the number in a snapshot's name, and those after it: of traces, and of a host's state.
const NAME: &str = "watch-";
pub const TRACE: &str = ".trace";
pub const HOST: &str = ".host";

/// The further suffix of an unfinished snapshot's name.
const PARTIAL: &str = ".partial";

/// A disk with less room than that is full.
const FULL: u64 = 64 << 20;

/// The folder of a watch's snapshots. Nothing else in it is touched.
pub struct Folder {
    path: PathBuf,
    /// The end of a snapshot's name.
    suffix: &'static str,
    /// How many snapshots stay, and how many bytes of them.
    keep: usize,
    room: u64,
}

impl Folder {
    /// Makes it, where it is not there, and tries whether it can be written: a failure must not be the first to learn
    /// that it cannot.
    ///
    /// # Errors
    /// When it cannot be made or written.
    pub fn make(path: &Path, suffix: &'static str, keep: usize, room: u64) -> Result<Folder, Failure> {
        let fail = |what: &str, e: &std::io::Error| {
            Failure(format!("{} cannot be {what}: {}", shown(&path.to_string_lossy()), reason(e)))
        };
        fs::create_dir_all(path).map_err(|e| fail("made", &e))?;
        let tried = path.join(format!("{NAME}tried-{}", std::process::id()));
        fs::File::create(&tried).and_then(|_| fs::remove_file(&tried)).map_err(|e| fail("written", &e))?;
        Ok(Folder { path: path.to_owned(), suffix, keep, room })
    }

    /// Names the next snapshot; `number` is that of no other one of this watch.
    pub fn next(&self, number: u64) -> PathBuf {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        self.path.join(format!("{NAME}{since}-{number}{}", self.suffix))
    }

    /// Returns the snapshots, the oldest first.
    pub fn kept(&self) -> Vec<PathBuf> {
        self.with_suffix(self.suffix)
    }

    /// Removes the oldest snapshots until no more are left than may stay. The newest always stays: one that is larger
    /// than all that may stay is worth more than none.
    pub fn make_room(&self) {
        let mut all = self.kept();
        let mut bytes: u64 = all.iter().map(|path| bytes_of(path)).sum();
        while all.len() > 1 && (all.len() > self.keep || bytes > self.room) {
            let oldest = all.remove(0);
            bytes -= bytes_of(&oldest).min(bytes);
            remove(&oldest);
        }
    }

    /// Removes the oldest snapshot where the disk is full, so that a new one may fit; says whether there was one. The
    /// newest stays.
    pub fn give_way(&self) -> bool {
        let is_full =
            statvfs(&self.path).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < FULL);
        let all = self.kept();
        let gives = is_full && all.len() > 1;
        if gives {
            remove(&all[0]);
        }
        gives
    }

    /// Makes traces of what a killed watch left half-written, and removes that of which nothing can be saved: otherwise
    /// each kill would take room for good.
    pub fn salvage(&self) {
        for partial in self.with_suffix(&format!("{}{PARTIAL}", self.suffix)) {
            let name = shown(&partial.to_string_lossy());
            match salvage(&partial, None) {
                Ok((_, saved)) => say(&format!(
                    "pageyard: {name} was left by a watch that was killed: {} has the {} events of it\n",
                    shown(&saved.path.to_string_lossy()),
                    saved.events
                )),
                Err(TraceError::NotATrace { .. }) => {
                    say(&format!(
                        "pageyard: {name} was left by a watch that was killed, and has nothing: it is removed\n"
                    ));
                    remove(&partial);
                }
                // Another watch writes it, or the disk is full.
                Err(why) => say(&format!("pageyard: {why}\n")),
            }
        }
    }

    /// Returns the snapshots whose names end so, the oldest first.
    fn with_suffix(&self, suffix: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        let mut all: Vec<_> = entries
            .flatten()
            .filter_map(|e| Some((number(e.file_name().to_str()?, suffix)?, e.path())))
            .collect();
        all.sort();
        all.into_iter().map(|(_, path)| path).collect()
    }
}

/// Reads `watch-1795437600-3.trace`.
fn number(name: &str, suffix: &str) -> Option<(u64, u64)> {
    let (seconds, n) = name.strip_prefix(NAME)?.strip_suffix(suffix)?.split_once('-')?;
    Some((seconds.parse().ok()?, n.parse().ok()?))
}

fn bytes_of(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.flatten().filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum()
}

fn remove(folder: &Path) {
    if let Err(e) = fs::remove_dir_all(folder) {
        say(&format!("pageyard: {} cannot be removed: {}\n", shown(&folder.to_string_lossy()), reason(&e)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_snapshots_are_counted_the_oldest_first() {
        assert_eq!(number("watch-1795437600-3.trace", TRACE), Some((1_795_437_600, 3)));
        assert_eq!(number("watch-1-2.trace.partial", ".trace.partial"), Some((1, 2)));
        for other in
            ["busy.trace", "watch-1-2.trace.partial", "watch-x-2.trace", "watch-1.trace", "watch--.trace"]
        {
            assert_eq!(number(other, TRACE), None, "{other}");
        }
    }

    fn with(names: &[(&str, usize)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in names {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("events.parquet"), vec![0; *bytes]).unwrap();
        }
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut all: Vec<_> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    }

    #[test]
    fn the_oldest_go_and_the_newest_stays_however_large_it_is() {
        let all =
            [("watch-9-0.trace", 10), ("watch-10-1.trace", 10), ("watch-11-2.trace", 900), ("other", 5)];
        for (keep, room, left) in [
            (2, 1 << 20, vec!["other", "watch-10-1.trace", "watch-11-2.trace"]),
            (9, 910, vec!["other", "watch-10-1.trace", "watch-11-2.trace"]),
            (9, 100, vec!["other", "watch-11-2.trace"]),
            (1, 0, vec!["other", "watch-11-2.trace"]),
        ] {
            let here = with(&all);
            Folder { path: here.path().to_owned(), suffix: TRACE, keep, room }.make_room();
            assert_eq!(names(here.path()), left, "{keep} {room}");
        }
    }

    #[test]
    fn what_a_killed_watch_left_without_an_event_is_removed_and_nothing_else_is() {
        let here =
            with(&[("watch-9-0.trace.partial", 10), ("busy.trace.partial", 10), ("watch-9-1.trace", 10)]);
        Folder { path: here.path().to_owned(), suffix: TRACE, keep: 9, room: 1 << 20 }.salvage();
        assert_eq!(names(here.path()), ["busy.trace.partial", "watch-9-1.trace"]);
    }
}
