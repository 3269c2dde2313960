//! `/proc/kcore`: a kernel's memory by its own addresses, and its description of itself.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The name of the note in which a kernel describes itself for tools that read dumps.
const NOTE: &[u8] = b"VMCOREINFO\0";

/// The types of program headers that are looked at: memory, and notes.
const LOAD: u32 = 1;
const NOTES: u32 = 4;

/// The most that is read of notes.
const NOTE_BYTES: u64 = 1 << 20;

/// A part of the kernel's memory.
struct Part {
    start: u64,
    /// Where it is in physical memory; all ones where it is no part of that.
    physical: u64,
    bytes: u64,
    offset: u64,
}

/// A kernel's memory.
pub struct Kcore {
    file: File,
    parts: Vec<Part>,
    /// The description: `SYMBOL(x)` in hexadecimal, all else in decimal.
    about: HashMap<String, String>,
}

impl Kcore {
    /// Opens it and reads its headers: an ELF file of 64 bits, little-endian.
    ///
    /// # Errors
    /// It cannot be opened, or says nothing of itself.
    pub fn open(path: &Path) -> Result<Kcore, String> {
        let fail = |e: std::io::Error| format!("{}: {e}", path.display());
        let file = File::open(path).map_err(fail)?;
        let mut head = [0; 64];
        file.read_exact_at(&mut head, 0).map_err(fail)?;
        if &head[..6] != b"\x7fELF\x02\x01" {
            return Err(format!("{} is no dump of a kernel of 64 bits", path.display()));
        }
        let (first, size, all) = (word(&head, 32), half(&head, 54), half(&head, 56));
        let mut kcore = Kcore { file, parts: Vec::new(), about: HashMap::new() };
        for n in 0..u64::from(all) {
            let mut header = [0; 56];
            kcore.file.read_exact_at(&mut header, first + n * u64::from(size)).map_err(fail)?;
            let part = Part {
                start: word(&header, 16),
                physical: word(&header, 24),
                bytes: word(&header, 32),
                offset: word(&header, 8),
            };
            match word(&header, 0) as u32 {
                LOAD => kcore.parts.push(part),
                NOTES => {
                    let mut notes = vec![0; part.bytes.min(NOTE_BYTES) as usize];
                    kcore.file.read_exact_at(&mut notes, part.offset).map_err(fail)?;
                    kcore.about.extend(description(&notes));
                }
                _ => {}
            }
        }
        match kcore.about.is_empty() {
            true => Err("its kernel does not describe itself in /proc/kcore".into()),
            false => Ok(kcore),
        }
    }

    /// Returns the address of a variable.
    pub fn symbol(&self, name: &str) -> Result<u64, String> {
        let value = self.about.get(&format!("SYMBOL({name})"));
        let address = value.and_then(|value| u64::from_str_radix(value, 16).ok());
        address.ok_or_else(|| format!("its kernel does not say where {name} is"))
    }

    /// Returns a size, an offset or a number, such as `SIZE(page)`.
    pub fn number(&self, name: &str) -> Result<u64, String> {
        let value = self.about.get(name).and_then(|value| value.parse().ok());
        value.ok_or_else(|| format!("its kernel does not say {name}"))
    }

    /// Reads a word at an address.
    pub fn word(&self, at: u64) -> Result<u64, String> {
        let part = self.parts.iter().find(|p| at.checked_sub(p.start).is_some_and(|into| into < p.bytes));
        let part = part.ok_or_else(|| format!("/proc/kcore does not show the address {at:x}"))?;
        let mut bytes = [0; 8];
        let read = self.file.read_exact_at(&mut bytes, part.offset + (at - part.start));
        read.map_err(|e| format!("/proc/kcore: {e}"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads physical memory; `false` where it is not shown.
    pub fn physical(&self, at: u64, buffer: &mut [u8]) -> bool {
        let fits = |part: &&Part| {
            let into = at.checked_sub(part.physical);
            part.physical != u64::MAX && into.is_some_and(|into| into + buffer.len() as u64 <= part.bytes)
        };
        let Some(part) = self.parts.iter().find(fits) else { return false };
        self.file.read_exact_at(buffer, part.offset + (at - part.physical)).is_ok()
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    let half = bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
    half.map_or(0, u16::from_le_bytes)
}

/// Finds the kernel's description among notes: lines of `NAME=VALUE`.
fn description(mut notes: &[u8]) -> HashMap<String, String> {
    let padded = |bytes: u64| (bytes as usize).next_multiple_of(4);
    while notes.len() >= 12 {
        let (name, bytes) = (word(notes, 0) & 0xffff_ffff, word(notes, 0) >> 32);
        let start = 12 + padded(name);
        let Some(text) = notes.get(start..start + bytes as usize) else { break };
        if notes[12..].starts_with(NOTE) {
            let text = String::from_utf8_lossy(text);
            let lines = text.lines().filter_map(|line| line.split_once('='));
            return lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        }
        notes = notes.get(start + padded(bytes)..).unwrap_or_default();
    }
    HashMap::new()
}

/// Writes such a file, in which addresses are offsets into `memory`.
#[cfg(test)]
pub fn written(about: &str, memory: &[u8]) -> tempfile::NamedTempFile {
    use std::io::Write;
    let mut note = Vec::new();
    [NOTE.len() as u32, about.len() as u32, 0].iter().for_each(|n| note.extend(n.to_le_bytes()));
    note.extend(NOTE);
    note.resize(note.len().next_multiple_of(4), 0);
    note.extend(about.as_bytes());
    let start = 64 + 2 * 56;
    let header = |kind: u32, offset: u64, bytes: u64| {
        let words = [u64::from(kind), offset, 0, 0, bytes, bytes, 0];
        words.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>()
    };
    let mut head = vec![0; 64];
    head[..6].copy_from_slice(b"\x7fELF\x02\x01");
    head[32..40].copy_from_slice(&64_u64.to_le_bytes());
    head[54..56].copy_from_slice(&56_u16.to_le_bytes());
    head[56..58].copy_from_slice(&2_u16.to_le_bytes());
    let notes = header(NOTES, start, note.len() as u64);
    let load = header(LOAD, start + note.len() as u64, memory.len() as u64);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[&head, &notes, &load, &note, memory].concat()).unwrap();
    file
}
