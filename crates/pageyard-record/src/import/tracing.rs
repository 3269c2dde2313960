//! The descriptions of tracepoints that `perf record` and `trace-cmd` put into their files.

use crate::tracepoint::{Format, MAX_FORMAT_BYTES, Tracepoint};

use super::cursor::Cursor;
use super::kernel::Formats;

pub(super) const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

/// Descriptions of the tracepoints that a trace is made of, and of the machine.
pub(super) struct Tracing {
    pub(super) little_endian: bool,
    pub(super) long_bytes: u8,
    pub(super) page_size: u32,
    pub(super) formats: Formats,
}

impl Tracing {
    /// Reads a description. Its counts are checked against its bytes, which bound the work.
    pub(super) fn parse(bytes: &[u8]) -> Result<Tracing, String> {
        let mut cursor = Cursor::new(bytes);
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
        tracing.formats = after_machine(&mut cursor)?;
        Ok(tracing)
    }
}

/// Reads what follows the description of the machine, up to that of the last tracepoint.
pub(super) fn after_machine(cursor: &mut Cursor<'_>) -> Result<Formats, String> {
    cursor.skip_named(b"header_page")?;
    cursor.skip_named(b"header_event")?;
    for _ in 0..cursor.word()? {
        let n = cursor.long()?;
        cursor.take(n)?;
    }
    tracepoints(cursor)
}

/// Reads the descriptions of tracepoints, system by system, and keeps those that a trace is made of.
pub(super) fn tracepoints(cursor: &mut Cursor<'_>) -> Result<Formats, String> {
    let mut formats = Formats::new();
    for _ in 0..cursor.word()? {
        let system = cursor.text()?;
        for _ in 0..cursor.word()? {
            let n = cursor.long()?;
            let text = cursor.take(n)?;
            let Some((tracepoint, text)) = find(system, text) else { continue };
            let again = formats.iter().any(|(t, _)| t.known == tracepoint.known);
            if !again && text.len() <= MAX_FORMAT_BYTES {
                formats.push((tracepoint, Format::parse(text)));
            }
        }
    }
    Ok(formats)
}

fn find<'a>(system: &[u8], text: &'a [u8]) -> Option<(&'static Tracepoint, &'a str)> {
    let (system, text) = (std::str::from_utf8(system).ok()?, std::str::from_utf8(text).ok()?);
    let name = text.lines().next()?.strip_prefix("name:")?.trim();
    Some((Tracepoint::find(system, name)?, text))
}
