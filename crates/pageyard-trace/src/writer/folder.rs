//! The folder in which a trace is made.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use crate::error::TraceError;
use crate::trace::PARTIAL;

use super::table::refused;

/// The file that keeps room on the disk for the end of a trace.
pub(crate) const RESERVE: &str = "reserve";

/// A folder beside the future one, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Temporary {
    path: PathBuf,
    /// Locked while it is in use, so that a killed writer's leftovers can be recognised.
    _lock: File,
}

impl Temporary {
    /// Makes the folder for the trace `path`.
    pub(super) fn create(path: &Path) -> Result<Temporary, TraceError> {
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let folder = beside(path)?;
        match fs::create_dir(&folder) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                let busy = lock(&folder).is_ok_and(|lock| lock.is_none());
                return Err(TraceError::Unfinished { path: folder.display().to_string(), busy });
            }
            Err(e) => return Err(refused(&path.display().to_string(), &e)),
        }
        Temporary::of(folder, path)
    }

    /// Makes the folder for results at `path`, where nothing or an empty folder is.
    pub(crate) fn replacing(path: &Path) -> Result<Temporary, TraceError> {
        if path.symlink_metadata().is_ok() && !path.read_dir().is_ok_and(|mut all| all.next().is_none()) {
            return Err(exists(path));
        }
        let folder = beside(path)?;
        match fs::create_dir(&folder) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                return Err(match lock(&folder) {
                    Ok(None) => TraceError::Unfinished { path: folder.display().to_string(), busy: true },
                    // Left by a killed writer, or something of the user's: only the user can tell.
                    _ => exists(&folder),
                });
            }
            Err(e) => return Err(refused(&path.display().to_string(), &e)),
        }
        Temporary::of(folder, path)
    }

    fn of(folder: PathBuf, path: &Path) -> Result<Temporary, TraceError> {
        match lock(&folder) {
            Ok(Some(lock)) => Ok(Temporary { path: folder, _lock: lock }),
            Ok(None) => Err(TraceError::Unfinished { path: folder.display().to_string(), busy: true }),
            Err(e) => {
                // Just made, and empty.
                let _ = fs::remove_dir(&folder);
                Err(refused(&path.display().to_string(), &e))
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder behind, as a killed writer does.
    #[cfg(test)]
    pub(super) fn leave(mut self) {
        self.path = PathBuf::from("/nowhere/at/all");
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // An error cannot be reported here, and after a successful rename there is nothing to remove.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn exists(path: &Path) -> TraceError {
    TraceError::Exists { path: path.display().to_string() }
}

/// Names the folder in which the one at `path` is made.
fn beside(path: &Path) -> Result<PathBuf, TraceError> {
    let mut name = path.file_name().ok_or_else(|| exists(path))?.to_owned();
    name.push(PARTIAL);
    Ok(path.with_file_name(name))
}

/// Locks a folder; `None` where another process has locked it.
pub(crate) fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = File::open(folder)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        // A file system without locks: writers cannot be told apart.
        Err(_) => Ok(Some(file)),
    }
}

/// Reserves `bytes` on the disk, to be given back when the end of a trace has to be written.
pub(super) fn reserve(folder: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(folder.join(RESERVE))?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(()),
        Err(e @ (rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT | rustix::io::Errno::FBIG)) => {
            Err(e.into())
        }
        // A file system that cannot: written bytes take room anywhere.
        Err(_) => {
            let zeros = vec![0; 1 << 20];
            let mut left = bytes;
            while left > 0 {
                let n = left.min(zeros.len() as u64);
                file.write_all(&zeros[..n as usize])?;
                left -= n;
            }
            Ok(())
        }
    }
}
