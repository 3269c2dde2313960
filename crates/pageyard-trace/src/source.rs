//! Where the bytes of a trace are: in a folder, or in the program itself.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::TraceError;

/// The files of a trace.
#[derive(Clone, Debug)]
pub enum Source {
    /// A folder.
    Folder(PathBuf),
    /// Files inside the program.
    Embedded(&'static str, &'static [(&'static str, &'static [u8])]),
}

impl Source {
    /// Returns what messages call the file `name`.
    pub fn label(&self, name: &str) -> String {
        match self {
            Source::Folder(path) => path.join(name).display().to_string(),
            Source::Embedded(trace, _) => format!("{trace}.trace/{name}"),
        }
    }

    /// Opens the file `name`, or returns `None` if there is none.
    pub fn open(&self, name: &str) -> Result<Option<Input>, TraceError> {
        let label = self.label(name);
        let bytes = match self {
            Source::Embedded(_, files) => {
                let Some((_, bytes)) = files.iter().find(|(n, _)| *n == name) else { return Ok(None) };
                Data::Memory(Bytes::from_static(bytes))
            }
            Source::Folder(path) => {
                let unreadable =
                    |e: io::Error| TraceError::Unreadable { file: label.clone(), why: reason(&e) };
                let path = path.join(name);
                // Checked before it is opened: opening a pipe would wait for a writer.
                match path.metadata() {
                    Ok(found) if found.is_file() => {}
                    Ok(_) => {
                        return Err(TraceError::Unreadable {
                            file: label,
                            why: "it is not a regular file".to_owned(),
                        });
                    }
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Err(e) => return Err(unreadable(e)),
                }
                let file = File::open(path).map_err(unreadable)?;
                let len = file.metadata().map_err(unreadable)?.len();
                Data::Disk(Arc::new(file), len)
            }
        };
        Ok(Some(Input { label, data: bytes }))
    }
}

/// Says what the operating system said, without its number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// A file opened for reading at any offset; clones share it.
#[derive(Clone, Debug)]
pub struct Input {
    label: String,
    data: Data,
}

#[derive(Clone, Debug)]
enum Data {
    Disk(Arc<File>, u64),
    Memory(Bytes),
}

impl Input {
    /// Makes an input of bytes in memory.
    pub fn memory(label: &str, bytes: Vec<u8>) -> Input {
        Input { label: label.to_owned(), data: Data::Memory(Bytes::from(bytes)) }
    }

    /// Returns what messages call the file.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the file's size in bytes when it was opened.
    pub fn size(&self) -> u64 {
        match &self.data {
            Data::Disk(_, len) => *len,
            Data::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Reads `len` bytes at `offset`. The caller bounds `len`.
    pub fn read(&self, offset: u64, len: usize) -> Result<Bytes, TraceError> {
        let short = || TraceError::Damaged {
            file: self.label.clone(),
            row: None,
            what: format!("the file ends inside the {len} bytes at offset {offset}: it is cut short"),
        };
        if offset.checked_add(len as u64).is_none_or(|end| end > self.size()) {
            return Err(short());
        }
        match &self.data {
            Data::Memory(bytes) => Ok(bytes.slice(offset as usize..offset as usize + len)),
            Data::Disk(file, _) => {
                let mut buffer = vec![0; len];
                match file.read_exact_at(&mut buffer, offset) {
                    Ok(()) => Ok(Bytes::from(buffer)),
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(short()),
                    Err(e) => Err(TraceError::Unreadable { file: self.label.clone(), why: reason(&e) }),
                }
            }
        }
    }
}
