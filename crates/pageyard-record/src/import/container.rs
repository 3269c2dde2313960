//! The head and the tail of a `perf.data` file: where the records are, and what describes them.

use bytes::Bytes;

use crate::tracepoint::{Decoder, Format, REQUIRED, Tracepoint};
use pageyard_trace::TraceError;
use pageyard_trace::kernel_name;
use pageyard_trace::source::Input;

use super::attributes::Attributes;
use super::section::{Section, long, word};
use super::tracing;

/// The size of the header of every perf since 3.0.
const HEADER_BYTES: u64 = 104;

/// The largest description of tracepoints that is read. Those of all of Linux have about 5 MiB.
const MAX_TRACING_BYTES: u64 = 64 << 20;

/// The longest text of the file's description that is read.
const MAX_TEXT_BYTES: u64 = 4 << 10;

/// More CPUs than any Linux can have.
const MAX_CPUS: u32 = 8192;

// The parts of the description, by perf's numbers.
const TRACING_DATA: usize = 1;
const OSRELEASE: usize = 4;
const ARCH: usize = 6;
const NRCPUS: usize = 7;

/// What is known of a file before its records are read.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) label: String,
    /// Where the records are.
    pub(super) data: (u64, u64),
    pub(super) attributes: Attributes,
    tracepoints: Vec<(&'static Tracepoint, Format)>,
    /// How `mm_page_alloc` is printed.
    pub(super) alloc_print: String,
    pub(super) kernel: String,
    pub(super) cpus: u32,
    pub(super) x86_64: bool,
}

impl Container {
    /// Reads head and tail.
    pub(super) fn open(input: &Input) -> Result<Container, TraceError> {
        let damaged = |what: String| TraceError::Damaged { file: input.label().to_owned(), row: None, what };
        let unsupported =
            |what: &str| TraceError::Unsupported { file: input.label().to_owned(), what: what.to_owned() };
        let file_len = input.size();
        if file_len < 16 {
            return Err(damaged(format!("{file_len} bytes are too few for a file of `perf record`")));
        }
        let start = input.read(0, 16)?;
        match &start[..8] {
            b"PERFILE2" => {}
            b"2ELIFREP" => {
                return Err(unsupported("it was recorded on a big-endian machine, which is not supported"));
            }
            b"PERFFILE" => {
                return Err(unsupported(
                    "it is in perf's first format, from before Linux 3.0: record it again",
                ));
            }
            _ => return Err(damaged("this is not a file of `perf record`".to_owned())),
        }
        if long(&start, 8) == Some(16) {
            return Err(unsupported("it was written to a pipe: write it with `perf record -o FILE` instead"));
        }
        if file_len < HEADER_BYTES {
            return Err(damaged(format!("the header is cut short at {file_len} bytes")));
        }
        let header = input.read(0, HEADER_BYTES as usize)?;
        let section = |at: usize, what: &str| {
            Section::read(&header[at..], file_len).ok_or_else(|| {
                damaged(format!("{what} would lie beyond the file's {file_len} bytes: it is cut short"))
            })
        };
        let data = section(40, "the records")?;
        if data.len == 0 {
            return Err(damaged(
                "it says that it has no records: `perf record` was killed before it could finish".to_owned(),
            ));
        }
        let attributes = Attributes::read(
            input,
            long(&header, 16).unwrap_or(0),
            section(24, "the events' descriptions")?,
        )?;
        let parts = Parts::read(input, &header[72..HEADER_BYTES as usize], data)?;
        let described = parts
            .bytes(input, TRACING_DATA, MAX_TRACING_BYTES)?
            .ok_or_else(|| damaged(format!("it describes no tracepoints: {}", HOW_TO)))?;
        let tracing = tracing::Tracing::parse(&described)
            .map_err(|what| damaged(format!("the description of its tracepoints {what}")))?;
        if !tracing.little_endian || tracing.long_bytes != 8 || tracing.page_size != 4096 {
            return Err(unsupported(
                "it was not recorded on a little-endian machine of 64 bits with frames of 4096 bytes",
            ));
        }
        let mut tracepoints = Vec::new();
        let mut alloc_print = String::new();
        for (tracepoint, format) in tracing.formats {
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
                    "it has no {}:{} events: {HOW_TO}",
                    required.system, required.name
                )));
            }
        }
        let text = |part| parts.text(input, part);
        let release = text(OSRELEASE)?;
        let nr_cpus = parts.bytes(input, NRCPUS, MAX_TEXT_BYTES)?.and_then(|b| word(&b, 0)).unwrap_or(1);
        Ok(Container {
            label: input.label().to_owned(),
            data: (data.at, data.at + data.len),
            attributes,
            tracepoints,
            alloc_print,
            kernel: release.map(|r| kernel_name(&r)).unwrap_or_default(),
            cpus: nr_cpus.clamp(1, MAX_CPUS),
            x86_64: text(ARCH)?.is_some_and(|arch| arch == "x86_64"),
        })
    }

    /// Makes a decoder for the file's tracepoints.
    pub(super) fn decoder(&self) -> Decoder {
        let mut decoder = Decoder::new();
        for (tracepoint, format) in &self.tracepoints {
            // Every one of them was tried when the file was opened.
            let _ = decoder.learn(tracepoint, format);
        }
        decoder
    }
}

const HOW_TO: &str = "record with `perf record -a -e kmem:mm_page_alloc,kmem:mm_page_free`";

/// The sections of the file's description, and where they are.
struct Parts {
    sections: Vec<(usize, Section)>,
}

impl Parts {
    fn read(input: &Input, bits: &[u8], data: Section) -> Result<Parts, TraceError> {
        let damaged = |what: &str| TraceError::Damaged {
            file: input.label().to_owned(),
            row: None,
            what: what.to_owned(),
        };
        let there: Vec<usize> =
            (0..256).filter(|i| bits.get(i / 8).is_some_and(|b| b >> (i % 8) & 1 == 1)).collect();
        let table = input.read(data.at + data.len, there.len() * 16)?;
        let mut sections = Vec::new();
        for (i, part) in there.into_iter().enumerate() {
            // Sections that are not read here can be anything.
            if let Some(section) = Section::read(&table[i * 16..], input.size()) {
                sections.push((part, section));
            } else if [TRACING_DATA, OSRELEASE, ARCH, NRCPUS].contains(&part) {
                return Err(damaged(
                    "a part of its description would lie beyond the file's end: it is cut short",
                ));
            }
        }
        Ok(Parts { sections })
    }

    fn bytes(&self, input: &Input, part: usize, most: u64) -> Result<Option<Bytes>, TraceError> {
        let Some((_, section)) = self.sections.iter().find(|(p, _)| *p == part) else { return Ok(None) };
        if section.len > most {
            let what =
                format!("part {part} of its description has {} bytes, far more than any needs", section.len);
            return Err(TraceError::Damaged { file: input.label().to_owned(), row: None, what });
        }
        Ok(Some(input.read(section.at, section.len as usize)?))
    }

    /// Reads a text: its length, then the text, filled up with zeros.
    fn text(&self, input: &Input, part: usize) -> Result<Option<String>, TraceError> {
        let Some(bytes) = self.bytes(input, part, MAX_TEXT_BYTES)? else { return Ok(None) };
        let text = bytes.get(4..).unwrap_or_default().split(|&b| b == 0).next().unwrap_or_default();
        let text: String =
            String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).take(100).collect();
        Ok((!text.is_empty()).then_some(text))
    }
}
