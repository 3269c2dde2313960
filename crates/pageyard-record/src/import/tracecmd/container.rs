//! The head of a `trace.dat`: where the pages are, and what describes their events.

use bytes::Bytes;

use pageyard_trace::TraceError;
use pageyard_trace::source::Input;
use pageyard_trace::text::quoted;

use super::super::cursor::Cursor;
use super::super::kernel::{Formats, Kernel, MAX_CPUS, Recorder};
use super::super::section::{half, long, word};
use super::super::tracing::{self, MAGIC};
use super::super::unpack::Compression;
use super::options::Options;

/// The most that is read of a file before its pages. The names of a kernel's functions take most of it: 5 MiB.
const MAX_HEAD: u64 = 64 << 20;

/// The largest section, unpacked.
const MAX_SECTION: usize = 64 << 20;

/// More sections of options than any file has: one a buffer, and two.
const MAX_SECTIONS: usize = 2048;

/// The header of a section: its kind, flags, description and length.
const SECTION_HEADER: usize = 16;

/// The largest page of a ring buffer.
const MAX_PAGE: u32 = 1 << 20;

/// Pages of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) cpu: u32,
    pub(super) page_bytes: usize,
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) compression: Compression,
}

/// The facts known of a file before its pages are read.
#[derive(Debug)]
pub(in super::super) struct TraceDat {
    pub(super) pages: Vec<Pages>,
    pub(super) kernel: Kernel,
    /// Events that the kernel counted as lost.
    pub(super) lost: u64,
}

/// A file whose head is being read.
struct Head<'a> {
    input: &'a Input,
    compression: Compression,
    options: Options,
    pages: Vec<Pages>,
}

impl TraceDat {
    /// Reads the head.
    pub(in super::super) fn open(input: &Input) -> Result<TraceDat, TraceError> {
        let bytes = input.read(0, input.size().min(MAX_HEAD) as usize)?;
        let mut cursor = Cursor::new(&bytes);
        let head = |what: String| damaged(input, format!("its head {what}"));
        cursor.take(MAGIC.len() as u64).map_err(head)?;
        let version = match cursor.text().map_err(head)? {
            b"6" => 6,
            b"7" => 7,
            other => {
                return Err(unsupported(
                    input,
                    format!("it is in version {} of trace.dat, and 6 and 7 are known", quoted(other)),
                ));
            }
        };
        let (endian, long_bytes) = cursor.take(2).map(|m| (m[0], m[1])).map_err(head)?;
        if endian != 0 || long_bytes != 8 || cursor.word().map_err(head)? != 4096 {
            return Err(unsupported(
                input,
                "it was not recorded on a little-endian machine of 64 bits with frames of 4096 bytes"
                    .to_owned(),
            ));
        }
        let compression = Compression::None;
        let mut this = Head { input, compression, options: Options::default(), pages: Vec::new() };
        let formats = if version == 6 { this.version_6(&mut cursor)? } else { this.version_7(&mut cursor)? };
        let Head { options, pages, .. } = this;
        let cpus = pages.iter().map(|p| p.cpu + 1).max().unwrap_or(0).max(options.cpus);
        let kernel = Kernel::new(input.label(), Recorder::TraceCmd, formats)?;
        Ok(TraceDat {
            pages,
            kernel: kernel.on(options.release.as_deref(), options.machine.as_deref(), cpus),
            lost: options.lost,
        })
    }
}

impl Head<'_> {
    fn damaged(&self, what: String) -> TraceError {
        damaged(self.input, what)
    }

    /// Reads what follows the machine in version 6: all in one piece.
    fn version_6(&mut self, cursor: &mut Cursor<'_>) -> Result<Formats, TraceError> {
        let head = |what: String| damaged(self.input, format!("its head {what}"));
        let formats = tracing::after_machine(cursor).map_err(head)?;
        let mut pass = || -> Result<u32, String> {
            // Names of functions, texts of trace_printk, names of processes: nothing of it is read.
            for _ in 0..2 {
                let n = cursor.word()?;
                cursor.take(n.into())?;
            }
            let n = cursor.long()?;
            cursor.take(n)?;
            cursor.word()
        };
        let cpus = pass().map_err(head)?;
        if cpus > MAX_CPUS {
            return Err(self.damaged(format!("it claims {cpus} CPUs")));
        }
        let mut kind = cursor.take(10).map_err(head)?;
        if kind == b"options  \0" {
            let read = self.options.read(cursor, 6);
            read.map_err(|what| damaged(self.input, format!("of its options: {what}")))?;
            kind = cursor.take(10).map_err(|what| damaged(self.input, format!("its head {what}")))?;
        }
        if kind != b"flyrecord\0" {
            return Err(unsupported(
                self.input,
                "it holds text and no events: record with `trace-cmd record`".to_owned(),
            ));
        }
        self.table(cursor.used(), cpus)?;
        for buffer in std::mem::take(&mut self.options.buffers) {
            let kind = self.input.read(buffer.at, 10)?;
            if &kind[..] != b"flyrecord\0" {
                return Err(self.damaged(format!("at byte {}, a buffer was expected", buffer.at)));
            }
            self.table(buffer.at + 10, cpus)?;
        }
        Ok(formats)
    }

    /// Reads where the pages of each CPU are, in version 6.
    fn table(&mut self, at: u64, cpus: u32) -> Result<(), TraceError> {
        let table = self.input.read(at, cpus as usize * 16)?;
        for (cpu, entry) in table.chunks_exact(16).enumerate() {
            let (at, len) = (long(entry, 0).unwrap_or(0), long(entry, 8).unwrap_or(0));
            self.add(cpu as u32, 4096, at, len)?;
        }
        Ok(())
    }

    /// Reads what follows the machine in version 7: sections anywhere in the file, which options name.
    fn version_7(&mut self, cursor: &mut Cursor<'_>) -> Result<Formats, TraceError> {
        let head = |what: String| damaged(self.input, format!("its head {what}"));
        let name = cursor.text().map_err(head)?;
        self.compression = Compression::find(name).ok_or_else(|| {
            unsupported(
                self.input,
                format!(
                    "it is compressed with `{}`, and zstd and zlib are known: record with `--compression none`",
                    quoted(name)
                ),
            )
        })?;
        cursor.text().map_err(head)?;
        let mut next = cursor.long().map_err(head)?;
        for _ in 0..MAX_SECTIONS {
            if next == 0 {
                break;
            }
            let section = self.section(next, 0)?;
            let read = self.options.read(&mut Cursor::new(&section), 7);
            next =
                read.map_err(|what| damaged(self.input, format!("of its options at byte {next}: {what}")))?;
        }
        if next != 0 {
            return Err(self.damaged(format!("it has more than {MAX_SECTIONS} sections of options")));
        }
        for buffer in std::mem::take(&mut self.options.buffers) {
            let header = self.input.read(buffer.at, SECTION_HEADER)?;
            let packed = half(&header, 2).unwrap_or(0) & 1 != 0;
            let compression = if packed { self.compression } else { Compression::None };
            for (cpu, at, len) in buffer.cpus {
                self.add(cpu, buffer.page_bytes, at, len)?;
                if let Some(pages) = self.pages.last_mut() {
                    pages.compression = compression;
                }
            }
        }
        let Some(at) = self.options.formats else {
            return Err(self.damaged("it describes no tracepoints".to_owned()));
        };
        let section = self.section(at, 18)?;
        tracing::tracepoints(&mut Cursor::new(&section))
            .map_err(|what| self.damaged(format!("the description of its tracepoints {what}")))
    }

    /// Reads the section of the given kind at `at`, unpacked.
    fn section(&self, at: u64, kind: u16) -> Result<Bytes, TraceError> {
        let header = self.input.read(at, SECTION_HEADER)?;
        let (found, flags) = (half(&header, 0).unwrap_or(0), half(&header, 2).unwrap_or(0));
        let len = long(&header, 8).filter(|&n| n <= MAX_SECTION as u64);
        let (true, Some(len)) = (found == kind, len) else {
            return Err(self.damaged(format!("at byte {at}, a section of kind {kind} was expected")));
        };
        let from = at + SECTION_HEADER as u64;
        let bytes = self.input.read(from, len as usize)?;
        if flags & 1 == 0 {
            return Ok(bytes);
        }
        let unpacked = word(&bytes, 0).and_then(|n| bytes.get(8..)?.get(..n as usize));
        let unpacked = unpacked.and_then(|packed| self.compression.unpack(packed, MAX_SECTION));
        match unpacked {
            Some(unpacked) => Ok(Bytes::from(unpacked)),
            None => Err(self.damaged(format!("the section at byte {at} cannot be decompressed"))),
        }
    }

    /// Keeps where a CPU's pages are, if it has any.
    fn add(&mut self, cpu: u32, page_bytes: u32, at: u64, len: u64) -> Result<(), TraceError> {
        if cpu >= MAX_CPUS || !(4096..=MAX_PAGE).contains(&page_bytes) {
            return Err(self.damaged(format!("it claims pages of {page_bytes} bytes of CPU {cpu}")));
        }
        if at.checked_add(len).is_none_or(|end| end > self.input.size()) {
            return Err(self.damaged(format!(
                "the pages of CPU {cpu} would lie beyond the file's end: it is cut short"
            )));
        }
        let (page_bytes, compression) = (page_bytes as usize, Compression::None);
        self.pages.push(Pages { cpu, page_bytes, at, len, compression });
        Ok(())
    }
}

fn damaged(input: &Input, what: String) -> TraceError {
    TraceError::Damaged { file: input.label().to_owned(), row: None, what }
}

fn unsupported(input: &Input, what: String) -> TraceError {
    TraceError::Unsupported { file: input.label().to_owned(), what }
}
