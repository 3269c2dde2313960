//! The kernel that a file's events came from, as the file describes it.

use std::fmt;

use crate::tracepoint::{Decoder, Format, REQUIRED, Tracepoint};
use pageyard_trace::TraceError;
use pageyard_trace::kernel_name;

/// More CPUs than any Linux can have.
pub(super) const MAX_CPUS: u32 = 8192;

/// Who wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorder {
    /// `perf record`.
    Perf,
    /// `trace-cmd record`.
    TraceCmd,
    /// Perfetto's `tracebox` or `perfetto`.
    Perfetto,
    /// The tracer of LLFree.
    Llfree,
}

impl Recorder {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Recorder::Perf => "perf",
            Recorder::TraceCmd => "trace-cmd",
            Recorder::Perfetto => "perfetto",
            Recorder::Llfree => "llfree",
        }
    }

    /// Returns how to record what a trace needs.
    pub(super) const fn how_to(self) -> &'static str {
        match self {
            Recorder::Perf => "record with `perf record -a -e kmem:mm_page_alloc,kmem:mm_page_free`",
            Recorder::TraceCmd => "record with `trace-cmd record -e kmem:mm_page_alloc -e kmem:mm_page_free`",
            Recorder::Perfetto => {
                "record with the ftrace_events `kmem/mm_page_alloc` and `kmem/mm_page_free`"
            }
            Recorder::Llfree => "every page of it is empty",
        }
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A kernel and its tracepoints.
#[derive(Debug)]
pub(super) struct Kernel {
    tracepoints: Vec<(&'static Tracepoint, Format)>,
    /// How `mm_page_alloc` is printed.
    pub(super) alloc_print: String,
    /// Its name and version.
    pub(super) name: String,
    pub(super) cpus: u32,
    pub(super) x86_64: bool,
    /// Bytes of a frame.
    pub(super) page_bytes: u64,
    /// The first frame past memory, where the file says: events beyond it are impossible.
    pub(super) memory_end: Option<u64>,
}

/// The descriptions of tracepoints that a file has, or what is wrong with them.
pub(super) type Formats = Vec<(&'static Tracepoint, Result<Format, String>)>;

impl Kernel {
    /// Checks the tracepoints that the file `label` describes.
    ///
    /// # Errors
    /// Which one is missing, or what one lacks.
    pub(super) fn new(label: &str, recorder: Recorder, formats: Formats) -> Result<Kernel, TraceError> {
        let damaged = |what: String| TraceError::Damaged { file: label.to_owned(), row: None, what };
        let unsupported =
            |what: &str| TraceError::Unsupported { file: label.to_owned(), what: what.to_owned() };
        let mut tracepoints = Vec::new();
        let mut alloc_print = String::new();
        for (tracepoint, format) in formats {
            let format = format
                .map_err(|what| damaged(format!("{}:{}: {what}", tracepoint.system, tracepoint.name)))?;
            if let Err(field) = Decoder::new().learn(tracepoint, &format) {
                let required = REQUIRED.iter().any(|r| r.known == tracepoint.known);
                if required && field == "pfn" && format.has("page") {
                    return Err(unsupported(
                        "its kernel names blocks by address (`page=`) and not by frame: this needs Linux 4.1 or newer",
                    ));
                }
                if required {
                    return Err(unsupported(&format!(
                        "{}:{} has no field `{field}` there",
                        tracepoint.system, tracepoint.name
                    )));
                }
                continue;
            }
            if tracepoint.known == REQUIRED[0].known {
                alloc_print.clone_from(&format.print);
            }
            tracepoints.push((tracepoint, format));
        }
        for required in &REQUIRED {
            if !tracepoints.iter().any(|(t, _)| t.known == required.known) {
                return Err(unsupported(&format!(
                    "it has no {}:{} events: {}",
                    required.system,
                    required.name,
                    recorder.how_to()
                )));
            }
        }
        Ok(Kernel {
            tracepoints,
            alloc_print,
            name: String::new(),
            cpus: 1,
            x86_64: false,
            page_bytes: 4096,
            memory_end: None,
        })
    }

    /// Sets what else is known: the kernel's release, its machine, and how many CPUs it has.
    pub(super) fn describe(&mut self, release: Option<&str>, machine: Option<&str>, cpus: u32) {
        self.name = release.map(kernel_name).unwrap_or_default();
        self.x86_64 = machine == Some("x86_64");
        self.cpus = cpus.clamp(1, MAX_CPUS);
    }

    /// [`describe`](Kernel::describe), in one piece.
    pub(super) fn on(mut self, release: Option<&str>, machine: Option<&str>, cpus: u32) -> Kernel {
        self.describe(release, machine, cpus);
        self
    }

    /// Makes a decoder for the file's tracepoints.
    pub(super) fn decoder(&self) -> Decoder {
        let mut decoder = Decoder::new();
        if let Some(end) = self.memory_end {
            decoder.set_memory_end(end);
        }
        for (tracepoint, format) in &self.tracepoints {
            // Every one of them was tried when the file was opened.
            let _ = decoder.learn(tracepoint, format);
        }
        decoder
    }
}

/// Returns a text of the file, without what a terminal could understand as a command.
pub(super) fn plain(text: &[u8]) -> Option<String> {
    let text = text.split(|&b| b == 0).next().unwrap_or_default();
    let text: String = String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).take(100).collect();
    (!text.is_empty()).then_some(text)
}
