//! The kernel's own description of its tracepoints.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::tracepoint::{Decoder, Format, REQUIRED, Tracepoint, WANTED, gfp_bits};
use pageyard_trace::source::reason;

use super::error::RecordError;

/// Where tracefs is mounted, newer kernels first.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The tracepoints that are recorded.
pub(super) struct Tracepoints {
    /// Where tracefs is mounted.
    root: PathBuf,
    found: Vec<(&'static Tracepoint, Format)>,
    missing: Vec<String>,
}

impl Tracepoints {
    /// Looks them up.
    pub(super) fn find(kernel: &str) -> Result<Tracepoints, RecordError> {
        Tracepoints::find_in(&mounted()?, kernel)
    }

    fn find_in(root: &Path, kernel: &str) -> Result<Tracepoints, RecordError> {
        let events = root.join("events");
        let lacks = |what: String| RecordError::Kernel { kernel: kernel.to_owned(), what };
        let mut this = Tracepoints { root: root.to_owned(), found: Vec::new(), missing: Vec::new() };
        for (tracepoint, required) in
            REQUIRED.iter().map(|t| (t, true)).chain(WANTED.iter().map(|t| (t, false)))
        {
            let name = format!("{}:{}", tracepoint.system, tracepoint.name);
            // How a migration entry names its frame is known for one kind of machine.
            if !cfg!(target_arch = "x86_64") && tracepoint.names_mapping() {
                this.missing.push(name);
                continue;
            }
            let path = events.join(tracepoint.system).join(tracepoint.name).join("format");
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                Err(e) if e.kind() == ErrorKind::NotFound && !required => {
                    this.missing.push(name);
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    return Err(lacks(format!("it was built without the tracepoint {name}")));
                }
                Err(e) => return Err(refused(&path, &e)),
            };
            let format = Format::parse(&text).map_err(|what| lacks(format!("of {name}, {what}")))?;
            match Decoder::new().learn(tracepoint, &format) {
                Ok(()) => this.found.push((tracepoint, format)),
                Err("pfn") if required && format.has("page") => {
                    return Err(lacks(format!(
                        "its {name} names blocks by address (`page=`) and not by frame; this needs Linux 4.1 or newer"
                    )));
                }
                Err(field) if required => return Err(lacks(format!("its {name} has no field `{field}`"))),
                Err(_) => this.missing.push(name),
            }
        }
        Ok(this)
    }

    /// Makes a decoder for them.
    pub(super) fn decoder(&self) -> Decoder {
        let mut decoder = Decoder::new();
        for (tracepoint, format) in &self.found {
            // Every one of them was tried when it was found.
            let _ = decoder.learn(tracepoint, format);
        }
        decoder
    }

    /// Returns the kernel's numbers for them.
    pub(super) fn ids(&self) -> Vec<u64> {
        self.found.iter().map(|(_, format)| format.id.into()).collect()
    }

    /// Returns their systems and names.
    pub(super) fn names(&self) -> Vec<(&'static str, &'static str)> {
        self.found.iter().map(|(tracepoint, _)| (tracepoint.system, tracepoint.name)).collect()
    }

    /// Returns where tracefs is mounted.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the kernel's gfp flags.
    pub(super) fn gfp_bits(&self) -> BTreeMap<String, u8> {
        self.found.first().map(|(_, format)| gfp_bits(&format.print)).unwrap_or_default()
    }

    /// Returns whether the kernel reports compaction and migration.
    pub(super) fn tell_moves(&self) -> bool {
        self.found.iter().any(|(tracepoint, _)| tracepoint.system != "kmem")
    }

    /// Returns the names of those that this kernel does not have.
    pub(super) fn missing(&self) -> Vec<String> {
        self.missing.clone()
    }
}

fn mounted() -> Result<PathBuf, RecordError> {
    for place in PLACES {
        let events = Path::new(place).join("events");
        match fs::read_dir(&events) {
            Ok(_) => return Ok(PathBuf::from(place)),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => return Err(refused(&events, &e)),
            Err(_) => {}
        }
    }
    Err(if rustix::process::geteuid().is_root() {
        RecordError::NoTracefs
    } else {
        RecordError::NotPermitted {
            what: "the kernel's tracepoints in /sys/kernel/tracing cannot be seen".to_owned(),
        }
    })
}

fn refused(path: &Path, error: &std::io::Error) -> RecordError {
    let what = format!("{} cannot be read", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied => RecordError::NotPermitted { what },
        _ => RecordError::Refused { what, why: reason(error) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(files: &[(&str, &str)]) -> Result<Tracepoints, RecordError> {
        let folder = tempfile::tempdir().unwrap();
        for (name, fields) in files {
            let path = folder.path().join("events").join(name);
            fs::create_dir_all(&path).unwrap();
            let short = path.file_name().unwrap().to_str().unwrap();
            let fields: String = fields
                .split_whitespace()
                .map(|f| format!("\tfield:unsigned long {f};\toffset:8;\tsize:8;\tsigned:0;\n"))
                .collect();
            fs::write(
                path.join("format"),
                format!("name: {short}\nID: 7\nformat:\n{fields}\nprint fmt: \"\"\n"),
            )
            .unwrap();
        }
        Tracepoints::find_in(folder.path(), "Linux 3.2")
    }

    #[test]
    fn a_kernel_that_tells_addresses_is_refused_by_name() {
        let error = kernel(&[
            ("kmem/mm_page_alloc", "page order gfp_flags migratetype"),
            ("kmem/mm_page_free", "page order"),
        ]);
        let text = error.err().unwrap().to_string();
        assert!(text.starts_with("Linux 3.2 cannot be recorded"), "{text}");
        assert!(text.contains("kmem:mm_page_alloc") && text.contains("Linux 4.1"), "{text}");
    }

    #[test]
    fn what_is_required_is_missed_and_what_is_wanted_is_noted() {
        let text = kernel(&[]).err().unwrap().to_string();
        assert!(text.contains("without the tracepoint kmem:mm_page_alloc"), "{text}");
        let alloc = ("kmem/mm_page_alloc", "pfn order gfp_flags migratetype");
        let text = kernel(&[alloc, ("kmem/mm_page_free", "pfn")]).err().unwrap().to_string();
        assert!(text.contains("no field `order`"), "{text}");
        let found = kernel(&[
            alloc,
            ("kmem/mm_page_free", "pfn order"),
            ("migrate/mm_migrate_pages", "succeeded failed"),
        ]);
        let found = found.unwrap();
        assert_eq!(found.ids().len(), 3);
        assert!(found.tell_moves());
        assert!(found.missing().contains(&"kmem:mm_page_pcpu_drain".to_owned()));
    }
}
