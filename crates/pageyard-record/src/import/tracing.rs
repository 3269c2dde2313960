//! The description of tracepoints that `perf record` puts into its files.

use crate::tracepoint::{Format, MAX_FORMAT_BYTES, Tracepoint};

use super::section::{long, word};

const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

/// Descriptions of the tracepoints that a trace is made of, and of the machine.
pub(super) struct Tracing {
    pub(super) little_endian: bool,
    pub(super) long_bytes: u8,
    pub(super) page_size: u32,
    pub(super) formats: Vec<(&'static Tracepoint, Result<Format, String>)>,
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: u64) -> Result<&'a [u8], String> {
        let n = usize::try_from(n).ok().filter(|&n| n <= self.rest.len()).ok_or("is cut short")?;
        let (taken, rest) = self.rest.split_at(n);
        self.rest = rest;
        Ok(taken)
    }

    fn text(&mut self) -> Result<&'a [u8], String> {
        let end = self.rest.iter().position(|&b| b == 0).ok_or("is cut short")?;
        let text = self.take(end as u64)?;
        self.take(1)?;
        Ok(text)
    }

    fn word(&mut self) -> Result<u32, String> {
        Ok(word(self.take(4)?, 0).unwrap_or(0))
    }

    fn long(&mut self) -> Result<u64, String> {
        Ok(long(self.take(8)?, 0).unwrap_or(0))
    }

    /// Skips a name that must be present, and its contents.
    fn skip_named(&mut self, name: &[u8]) -> Result<(), String> {
        if self.text()? != name {
            return Err(format!("lacks its {}", String::from_utf8_lossy(name)));
        }
        let n = self.long()?;
        self.take(n).map(drop)
    }
}

impl Tracing {
    /// Reads a description. Its counts are checked against its bytes, which bound the work.
    pub(super) fn parse(bytes: &[u8]) -> Result<Tracing, String> {
        let mut cursor = Cursor { rest: bytes };
        if cursor.take(MAGIC.len() as u64)? != MAGIC {
            return Err("does not begin as perf's do".to_owned());
        }
        let version = cursor.text()?;
        if version != b"0.5" && version != b"0.6" {
            return Err(format!(
                "is of version {}, and 0.5 and 0.6 are known",
                pageyard_trace::text::quoted(version)
            ));
        }
        let machine = cursor.take(2)?;
        let (little_endian, long_bytes) = (machine[0] == 0, machine[1]);
        let page_size = cursor.word()?;
        let mut tracing = Tracing { little_endian, long_bytes, page_size, formats: Vec::new() };
        if !little_endian {
            return Ok(tracing);
        }
        cursor.skip_named(b"header_page")?;
        cursor.skip_named(b"header_event")?;
        for _ in 0..cursor.word()? {
            let n = cursor.long()?;
            cursor.take(n)?;
        }
        for _ in 0..cursor.word()? {
            let system = cursor.text()?;
            for _ in 0..cursor.word()? {
                let n = cursor.long()?;
                let text = cursor.take(n)?;
                tracing.add(system, text);
            }
        }
        Ok(tracing)
    }

    /// Keeps a description if a trace is made of such events.
    fn add(&mut self, system: &[u8], text: &[u8]) {
        let (Ok(system), Ok(text)) = (std::str::from_utf8(system), std::str::from_utf8(text)) else { return };
        let name = text.lines().next().and_then(|l| l.strip_prefix("name:")).map(str::trim);
        let Some(tracepoint) = name.and_then(|name| Tracepoint::find(system, name)) else { return };
        let again = self.formats.iter().any(|(t, _)| t.known == tracepoint.known);
        if !again && text.len() <= MAX_FORMAT_BYTES {
            self.formats.push((tracepoint, Format::parse(text)));
        }
    }
}
