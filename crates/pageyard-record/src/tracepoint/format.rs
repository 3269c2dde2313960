//! The kernel's description of a tracepoint: where each field is.

use pageyard_trace::text::quoted;

/// The longest description that is read. The longest of Linux, with all gfp flags in it, has about 8 KiB.
pub(crate) const MAX_FORMAT_BYTES: usize = 256 << 10;

/// More fields than any tracepoint has.
const MAX_FIELDS: usize = 256;

/// One field of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) slot: Slot,
}

/// Where a number is in the bytes of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    offset: u16,
    /// 1, 2, 4 or 8; 0 where there is no such field.
    size: u8,
    signed: bool,
}

impl Slot {
    /// Returns whether there is such a field.
    pub(crate) fn exists(self) -> bool {
        self.size != 0
    }

    /// Reads the number; `None` where the bytes end before it, and 0 where there is no such field.
    #[inline]
    pub(crate) fn get(self, raw: &[u8]) -> Option<u64> {
        let at = usize::from(self.offset);
        Some(match self.size {
            0 => 0,
            1 => {
                let byte = *raw.get(at)?;
                if self.signed { byte as i8 as u64 } else { byte.into() }
            }
            2 => {
                let word = u16::from_le_bytes(raw.get(at..at + 2)?.try_into().ok()?);
                if self.signed { word as i16 as u64 } else { word.into() }
            }
            4 => {
                let word = u32::from_le_bytes(raw.get(at..at + 4)?.try_into().ok()?);
                if self.signed { word as i32 as u64 } else { word.into() }
            }
            _ => u64::from_le_bytes(raw.get(at..at + 8)?.try_into().ok()?),
        })
    }
}

/// A tracepoint as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) name: String,
    /// The kernel's number for it in the events' bytes.
    pub(crate) id: u16,
    pub(crate) fields: Vec<Field>,
    /// How the kernel prints it, in C.
    pub(crate) print: String,
}

impl Format {
    /// Reads the text of a `format` file.
    ///
    /// # Errors
    /// The fault in it, without its name.
    pub(crate) fn parse(text: &str) -> Result<Format, String> {
        if text.len() > MAX_FORMAT_BYTES {
            return Err(format!("its description has {} bytes, far more than any event needs", text.len()));
        }
        let mut format = Format { name: String::new(), id: 0, fields: Vec::new(), print: String::new() };
        let mut has_id = false;
        for line in text.lines() {
            let line = line.trim_start();
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_owned();
            } else if let Some(id) = line.strip_prefix("ID:") {
                let id = id.trim();
                format.id = id
                    .parse()
                    .map_err(|_| format!("its number `{}` is not a number", quoted(id.as_bytes())))?;
                has_id = true;
            } else if let Some(field) = line.strip_prefix("field:") {
                if format.fields.len() == MAX_FIELDS {
                    return Err(format!("its description has more than {MAX_FIELDS} fields"));
                }
                format.fields.extend(parse_field(field)?);
            } else if let Some(print) = line.strip_prefix("print fmt:") {
                format.print = print.trim().to_owned();
            }
        }
        if format.name.is_empty() || !has_id {
            return Err("its description has no name or no number: it is cut short".to_owned());
        }
        Ok(format)
    }

    /// Finds a field; a slot that does not exist where there is none.
    pub(crate) fn slot(&self, name: &str) -> Slot {
        self.fields.iter().find(|f| f.name == name).map_or(Slot::default(), |f| f.slot)
    }

    /// Returns whether there is a field called `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|f| f.name == name)
    }
}

/// Reads `unsigned long pfn; offset:8; size:8; signed:0;`. A field that is not a number has no slot.
fn parse_field(text: &str) -> Result<Option<Field>, String> {
    let cut = || format!("the description of field `{}` cannot be read", quoted(text.as_bytes()));
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next().ok_or_else(cut)?;
    let mut number = |key: &str| -> Result<u64, String> {
        let part = parts.next().and_then(|p| p.strip_prefix(key)).ok_or_else(cut)?;
        part.parse().map_err(|_| cut())
    };
    let offset = number("offset:")?;
    let size = number("size:")?;
    let signed = number("signed:").unwrap_or(0) != 0;
    let name = declaration.split_whitespace().last().ok_or_else(cut)?.trim_start_matches('*');
    let name = name.split('[').next().unwrap_or_default();
    let offset = u16::try_from(offset).map_err(|_| cut())?;
    let size = match size {
        1 | 2 | 4 | 8 => size as u8,
        // An array or a string: nothing that is needed here.
        _ => 0,
    };
    Ok(Some(Field { name: name.to_owned(), slot: Slot { offset, size, signed } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: &str = "name: mm_page_free\nID: 655\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:16;\tsize:16;\tsigned:0;\n\nprint fmt: \"pfn=0x%lx\", REC->pfn\n";

    #[test]
    fn fields_are_found_by_name() {
        let format = Format::parse(FREE).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("mm_page_free", 655));
        assert_eq!(format.print, "\"pfn=0x%lx\", REC->pfn");
        assert!(format.slot("pfn").exists() && !format.slot("order").exists());
        assert!(format.has("comm") && !format.slot("comm").exists());
        let raw = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 2, 0, 0, 0, 0, 0, 0];
        assert_eq!(format.slot("pfn").get(&raw), Some(0x201));
        assert_eq!(format.slot("common_pid").get(&raw), Some(u64::MAX));
        assert_eq!(format.slot("pfn").get(&raw[..15]), None);
        assert_eq!(format.slot("order").get(&raw), Some(0));
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        assert!(Format::parse("").unwrap_err().contains("cut short"));
        assert!(Format::parse("name: a\n").unwrap_err().contains("cut short"));
        assert!(Format::parse("name: a\nID: 70000\n").unwrap_err().contains("70000"));
        assert!(Format::parse("name: a\nID: 1\nfield:int x;\toffset:").unwrap_err().contains("field"));
        assert!(Format::parse(&"x".repeat(MAX_FORMAT_BYTES + 1)).unwrap_err().contains("bytes"));
        assert!(
            Format::parse(&"field:int x;offset:1;size:4;signed:1;\n".repeat(300))
                .unwrap_err()
                .contains("256")
        );
    }
}
