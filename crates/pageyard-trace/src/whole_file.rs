//! A file that is there whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::TraceError;
use crate::writer::refused;

/// A file that is being written beside the place where it will be.
///
/// It takes the place of what is there only when it is complete. One that is dropped before [`WholeFile::finish`]
/// leaves nothing behind.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    /// Where it is made, until it is complete.
    temporary: Option<PathBuf>,
    file: BufWriter<File>,
    written: u64,
}

impl WholeFile {
    /// Starts a file that will be at `path`.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`], also where something other than a file is there.
    pub fn create(path: &Path) -> Result<WholeFile, TraceError> {
        let fail = |why: &io::Error| refused(&path.display().to_string(), why);
        match path.metadata() {
            Ok(there) if there.is_dir() => {
                return Err(fail(&io::Error::new(
                    ErrorKind::IsADirectory,
                    "it is a folder; name a file in it",
                )));
            }
            Ok(there) if !there.is_file() => {
                return Err(fail(&io::Error::other("it is no file, and would be replaced by one")));
            }
            Ok(_) => {}
            Err(why) if why.kind() == ErrorKind::NotFound => {}
            Err(why) => return Err(fail(&why)),
        }
        // What a link names is written, not the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = path.file_name().ok_or_else(|| fail(&io::Error::other("it is not the name of a file")))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.partial", std::process::id()));
        let temporary = path.with_file_name(hidden);
        let file = File::create(&temporary).map_err(|why| fail(&why))?;
        Ok(WholeFile {
            file: BufWriter::with_capacity(1 << 16, file),
            path,
            temporary: Some(temporary),
            written: 0,
        })
    }

    /// Overwrites the beginning of what was written, for what is known only at the end.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn overwrite_start(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        let done = self.file.flush().and_then(|()| self.file.get_ref().write_all_at(bytes, 0));
        done.map_err(|why| self.refused(&why))
    }

    /// Gives the complete file its name; returns its bytes.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`]; then what was there before is there still.
    pub fn finish(mut self) -> Result<u64, TraceError> {
        let fail = |why: &io::Error| refused(&self.path.display().to_string(), why);
        self.file.flush().map_err(|why| fail(&why))?;
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path).map_err(|why| fail(&why))?;
        }
        self.temporary = None;
        Ok(self.written)
    }

    /// Says that it cannot be written.
    #[must_use]
    pub fn refused(&self, why: &io::Error) -> TraceError {
        refused(&self.path.display().to_string(), why)
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // An error cannot be reported here.
            let _ = fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.html");
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert!(names(folder.path()).is_empty());
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"all").unwrap();
        assert_eq!(file.finish().unwrap(), 3);
        // What was there stays until the new one is complete.
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"other").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"all");
        file.finish().unwrap();
        assert_eq!(
            (fs::read(&path).unwrap(), names(folder.path())),
            (b"other".to_vec(), vec!["map.html".to_owned()])
        );
    }

    #[test]
    fn what_is_no_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        for (path, says) in [
            (folder.path().to_owned(), "it is a folder"),
            (PathBuf::from("/dev/null"), "it is no file"),
            (folder.path().join("no/such/folder"), "No such file or directory"),
            (PathBuf::from("/dev/null/x"), "Not a directory"),
        ] {
            let why = WholeFile::create(&path).unwrap_err().to_string();
            assert!(why.contains("cannot be written") && why.contains(says), "{why}");
        }
        assert!(names(folder.path()).is_empty());
    }
}
