//! The head and the tail of a `perf.data` file: where the records are, and what describes them.

use bytes::Bytes;

use pageyard_trace::TraceError;
use pageyard_trace::source::Input;

use super::super::kernel::{Kernel, Recorder, plain};
use super::super::section::{Section, long, word};
use super::super::tracing;
use super::attributes::Attributes;

/// The size of the header of every perf since 3.0.
const HEADER_BYTES: u64 = 104;

/// The largest description of tracepoints that is read. Those of all of Linux have about 5 MiB.
const MAX_TRACING_BYTES: u64 = 64 << 20;

/// The longest text of the file's description that is read.
const MAX_TEXT_BYTES: u64 = 4 << 10;

// The parts of the description, by perf's numbers.
const TRACING_DATA: usize = 1;
const OSRELEASE: usize = 4;
const ARCH: usize = 6;
const NRCPUS: usize = 7;

/// The facts known of a file before its records are read.
#[derive(Debug)]
pub(in super::super) struct Container {
    pub(super) label: String,
    /// Where the records are.
    pub(super) data: (u64, u64),
    pub(super) attributes: Attributes,
    pub(in super::super) kernel: Kernel,
}

impl Container {
    /// Reads head and tail.
    pub(in super::super) fn open(input: &Input) -> Result<Container, TraceError> {
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
            .ok_or_else(|| damaged(format!("it describes no tracepoints: {}", Recorder::Perf.how_to())))?;
        let tracing = tracing::Tracing::parse(&described)
            .map_err(|what| damaged(format!("the description of its tracepoints {what}")))?;
        if !tracing.little_endian || tracing.long_bytes != 8 || tracing.page_size != 4096 {
            return Err(unsupported(
                "it was not recorded on a little-endian machine of 64 bits with frames of 4096 bytes",
            ));
        }
        let text = |part| parts.text(input, part);
        let kernel = Kernel::new(input.label(), Recorder::Perf, tracing.formats)?;
        let (release, machine) = (text(OSRELEASE)?, text(ARCH)?);
        let nr_cpus = parts.bytes(input, NRCPUS, MAX_TEXT_BYTES)?.and_then(|b| word(&b, 0)).unwrap_or(1);
        Ok(Container {
            label: input.label().to_owned(),
            data: (data.at, data.at + data.len),
            attributes,
            kernel: kernel.on(release.as_deref(), machine.as_deref(), nr_cpus),
        })
    }
}

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
        Ok(plain(bytes.get(4..).unwrap_or_default()))
    }
}
