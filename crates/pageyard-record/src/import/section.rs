//! A place in the file, and the numbers in it.

/// A place in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub(super) at: u64,
    pub(super) len: u64,
}

impl Section {
    /// Reads a section's place from 16 bytes, and checks it against the file's size.
    pub(super) fn read(bytes: &[u8], file_len: u64) -> Option<Section> {
        let section = Section { at: long(bytes, 0)?, len: long(bytes, 8)? };
        section.at.checked_add(section.len).is_some_and(|end| end <= file_len).then_some(section)
    }
}

/// Reads eight bytes at `at`.
pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads four bytes at `at`.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads two bytes at `at`.
pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
