//! Columns of names, read as small numbers.

use std::sync::{Arc, Mutex, PoisonError};

use crate::text::quoted;

/// Unknown names that are kept for a message. More than one already means a damaged file.
pub(crate) const MAX_UNKNOWN: usize = 16;

/// Turns the names of one column into their numbers.
///
/// The dictionary of a chunk is translated once, so that no row costs a comparison of text.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    known: &'static [&'static str],
    unknown: Arc<Mutex<Vec<String>>>,
}

impl Names {
    /// Makes a translation to the indexes of `known`.
    pub(crate) fn new(known: &'static [&'static str]) -> Names {
        Names { known, unknown: Arc::default() }
    }

    /// Returns the number of `name`: an index of the known names, or a larger one.
    ///
    /// An unknown name is an error only where a row uses it, and only the row's reader knows which row that is.
    fn number(&self, name: &[u8]) -> i32 {
        if let Some(i) = self.known.iter().position(|k| k.as_bytes() == name) {
            return i as i32;
        }
        let name = quoted(name);
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        let index = unknown.iter().position(|u| *u == name).unwrap_or_else(|| {
            if unknown.len() < MAX_UNKNOWN {
                unknown.push(name);
            }
            unknown.len() - 1
        });
        (self.known.len() + index) as i32
    }

    /// Returns the name for a number that is not an index of the known names.
    pub(crate) fn unknown(&self, number: i32) -> String {
        let unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        let index = usize::try_from(number).unwrap_or(usize::MAX).wrapping_sub(self.known.len());
        unknown.get(index).cloned().unwrap_or_default()
    }

    /// Rewrites `values` length-prefixed names as 32-bit numbers, or returns `None` where the bytes end too early.
    pub(crate) fn translate(&self, mut bytes: &[u8], values: u64) -> Option<Vec<u8>> {
        // A name takes four bytes at least, so a false count cannot reserve more than the page's own size.
        if values > bytes.len() as u64 / 4 {
            return None;
        }
        let mut out = Vec::with_capacity(values as usize * 4);
        for _ in 0..values {
            let (len, rest) = bytes.split_first_chunk::<4>()?;
            let len = u32::from_le_bytes(*len) as usize;
            let name = rest.get(..len)?;
            out.extend_from_slice(&self.number(name).to_le_bytes());
            bytes = &rest[len..];
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_become_indexes_and_others_larger_numbers() {
        let names = Names::new(&["a", "bc"]);
        let bytes = b"\x02\0\0\0bc\x01\0\0\0a\x01\0\0\0z\x00\0\0\0";
        let numbers: Vec<i32> = names.translate(bytes, 4).unwrap().chunks(4).map(|c| c[0] as i32).collect();
        assert_eq!(numbers, [1, 0, 2, 3]);
        assert_eq!(names.unknown(2), "z");
        assert_eq!(names.unknown(3), "");
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let names = Names::new(&[]);
        assert_eq!(names.translate(b"\xff\xff\xff\xffabc", 1), None);
        assert_eq!(names.translate(b"\x01\0\0\0a", u64::MAX), None);
        assert_eq!(names.translate(b"\x01\0\0", 1), None);
    }
}
