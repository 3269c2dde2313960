//! Checksums of a trace's files. Parquet's own checksums, one a page, are not written by the library and do not cover
//! the footers; so `meta.json` keeps one for each file. XXH64 finds accidental damage and is faster than a disk; it
//! does not protect against deliberate changes.

use std::hash::Hasher;

use twox_hash::XxHash64;

use crate::error::TraceError;
use crate::source::Input;

/// The prefix of a checksum of this kind.
const KIND: &str = "xxh64:";

/// Bytes read at a time.
const CHUNK: u64 = 1 << 20;

/// Computes a file's checksum in the form that `meta.json` uses.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn of(input: &Input) -> Result<String, TraceError> {
    let mut hasher = XxHash64::with_seed(0);
    let mut at = 0;
    while at < input.size() {
        let len = (input.size() - at).min(CHUNK);
        hasher.write(&input.read(at, len as usize)?);
        at += len;
    }
    Ok(format!("{KIND}{:016x}", hasher.finish()))
}

/// Checks a file against what `meta.json` has. An unknown kind, from a newer writer, is not checked.
///
/// # Errors
/// [`TraceError::Damaged`] when the file is not the one that was written.
pub(crate) fn check(input: &Input, expected: &str) -> Result<(), TraceError> {
    if !expected.starts_with(KIND) || of(input)?.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    Err(TraceError::Damaged {
        file: input.label().to_owned(),
        row: None,
        what:
            "it is not as it was written: its checksum differs from that in meta.json; copy the trace again"
                .to_owned(),
    })
}

/// Says what is wrong with a checksum in `meta.json`, if anything is.
pub(crate) fn fault(text: &str) -> Option<&'static str> {
    let digits = text.strip_prefix(KIND)?;
    let fits = digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    (!fits).then_some("a checksum has 16 hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_algorithm_is_xxh64() {
        // The published values of the empty input and of "abc", with seed 0.
        assert_eq!(of(&Input::memory("m", Vec::new())).unwrap(), "xxh64:ef46db3751d8e999");
        assert_eq!(of(&Input::memory("m", b"abc".to_vec())).unwrap(), "xxh64:44bc2cf5ad770999");
    }

    #[test]
    fn long_files_are_read_in_pieces() {
        let mut bytes = vec![7; 3 * CHUNK as usize + 5];
        let sum = of(&Input::memory("m", bytes.clone())).unwrap();
        assert_eq!(sum, format!("{KIND}{:016x}", XxHash64::oneshot(0, &bytes)));
        check(&Input::memory("m", bytes.clone()), &sum).unwrap();
        bytes[2 * CHUNK as usize] ^= 1;
        assert!(check(&Input::memory("m", bytes.clone()), &sum).is_err());
        check(&Input::memory("m", bytes), "blake9:00").unwrap();
    }

    #[test]
    fn what_is_no_checksum_is_refused() {
        assert!(fault("xxh64:44bc2cf5ad770999").is_none() && fault("blake9:x").is_none());
        assert!(fault("xxh64:44bc2cf5ad77099").is_some() && fault("xxh64:44bc2cf5ad77099g").is_some());
    }
}
