//! Reading a description from its beginning to its end.

use super::section::{half, long, word};

/// A description, and how much of it was read.
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    used: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes, used: 0 }
    }

    /// Returns how many bytes were read.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Returns what was not read.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads `n` bytes.
    pub(super) fn take(&mut self, n: u64) -> Result<&'a [u8], String> {
        let n = usize::try_from(n).ok().filter(|&n| n <= self.rest.len()).ok_or("is cut short")?;
        let (taken, rest) = self.rest.split_at(n);
        self.rest = rest;
        self.used += n as u64;
        Ok(taken)
    }

    /// Reads a text up to the zero that ends it.
    pub(super) fn text(&mut self) -> Result<&'a [u8], String> {
        let end = self.rest.iter().position(|&b| b == 0).ok_or("is cut short")?;
        let text = self.take(end as u64)?;
        self.take(1)?;
        Ok(text)
    }

    pub(super) fn half(&mut self) -> Result<u16, String> {
        Ok(half(self.take(2)?, 0).unwrap_or(0))
    }

    pub(super) fn word(&mut self) -> Result<u32, String> {
        Ok(word(self.take(4)?, 0).unwrap_or(0))
    }

    pub(super) fn long(&mut self) -> Result<u64, String> {
        Ok(long(self.take(8)?, 0).unwrap_or(0))
    }

    /// Skips a name that must be present, and its contents.
    pub(super) fn skip_named(&mut self, name: &[u8]) -> Result<(), String> {
        if self.text()? != name {
            return Err(format!("lacks its {}", String::from_utf8_lossy(name)));
        }
        let n = self.long()?;
        self.take(n).map(drop)
    }
}
