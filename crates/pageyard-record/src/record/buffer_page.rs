//! The pages of the kernel's trace buffer.

/// Bytes before a page's events: the time of the first one, and how many bytes of events follow.
const HEADER: usize = 16;

/// The bits of the second number that count bytes; above them are flags for events that were overwritten.
const BYTES: u64 = (1 << 30) - 1;

/// The bits of a time that an absolute time stamp leaves out.
const HIGH: u64 = 0xf8 << 56;

/// Kinds of entries, by the lowest five bits of their first word. Lower values are events, by their size in words.
const LONG: u32 = 0;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Hands over the time and the bytes of each event of a page. Returns `false` when the page ends in the middle of
/// something: what came before was handed over.
///
/// # Linux
/// `ring_buffer_read_page`, whose pages `trace_pipe_raw` returns. The layout is described by `events/header_page` and
/// `events/header_event`, and is the same on all 64-bit kernels.
pub(super) fn events(page: &[u8], mut out: impl FnMut(u64, &[u8])) -> bool {
    let (Some(mut time), Some(committed)) = (long(page, 0), long(page, 8)) else { return page.is_empty() };
    let Some(mut rest) = page.get(HEADER..) else { return false };
    let bytes = (committed & BYTES) as usize;
    let whole = bytes <= rest.len();
    rest = &rest[..bytes.min(rest.len())];
    while !rest.is_empty() {
        let Some(first) = word(rest, 0) else { return false };
        let (kind, delta) = (first & 31, u64::from(first >> 5));
        let second = word(rest, 4);
        let size = match (kind, second) {
            // The page has no more.
            (PADDING, _) if delta == 0 => return whole,
            (TIME_EXTEND | TIME_STAMP, Some(second)) => {
                let long = u64::from(second) << 27 | delta;
                time = if kind == TIME_EXTEND { time.wrapping_add(long) } else { time & HIGH | long };
                8
            }
            (LONG | PADDING, Some(second)) => {
                let size = 4 + second as usize;
                time = time.wrapping_add(delta);
                if kind == LONG {
                    let Some(raw) = rest.get(8..size) else { return false };
                    out(time, raw);
                }
                size
            }
            (LONG | PADDING | TIME_EXTEND | TIME_STAMP, None) => return false,
            (words, _) => {
                let size = 4 + 4 * words as usize;
                time = time.wrapping_add(delta);
                let Some(raw) = rest.get(4..size) else { return false };
                out(time, raw);
                size
            }
        };
        let Some(next) = rest.get(size..) else { return false };
        rest = next;
    }
    whole
}

/// Returns the part of a page that has events: the rest of one that was read early is nothing.
pub(super) fn used(page: &[u8]) -> &[u8] {
    let committed = long(page, 8).map_or(0, |bytes| (bytes & BYTES) as usize);
    &page[..(HEADER + committed).min(page.len())]
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|b| u64::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a page that begins at `time`, of entries that are each a kind, a time, and bytes.
    fn page(time: u64, entries: &[(u32, u32, &[u8])]) -> Vec<u8> {
        let data: Vec<u8> = entries
            .iter()
            .flat_map(|(kind, delta, bytes)| [&(kind | delta << 5).to_le_bytes()[..], bytes].concat())
            .collect();
        let mut page = [time.to_le_bytes(), (data.len() as u64).to_le_bytes()].concat();
        page.extend(data);
        page
    }

    fn read(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, bool) {
        let mut found = Vec::new();
        let whole = events(page, |time, raw| found.push((time, raw.to_vec())));
        (found, whole)
    }

    #[test]
    fn each_kind_of_entry_is_understood() {
        let extend = 3u32.to_le_bytes();
        let stamp = ((5u64 << 56 | 77) >> 27) as u32;
        let page = page(
            0x10 << 56 | 1000,
            &[
                (2, 0, b"12345678"),
                (1, 5, b"abcd"),
                (TIME_EXTEND, 1, &extend),
                (1, 2, b"efgh"),
                (LONG, 4, b"\x0a\0\0\0longer"),
                (PADDING, 9, b"\x08\0\0\0none"),
                (TIME_STAMP, 77, &stamp.to_le_bytes()),
                (1, 1, b"ijkl"),
                (PADDING, 0, b"whatever follows is nothing"),
            ],
        );
        let (found, whole) = read(&page);
        let base = 0x10 << 56 | 1000;
        let extended = base + 5 + (3 << 27) + 1;
        let expected: Vec<(u64, Vec<u8>)> = vec![
            (base, b"12345678".to_vec()),
            (base + 5, b"abcd".to_vec()),
            (extended + 2, b"efgh".to_vec()),
            (extended + 6, b"longer".to_vec()),
            ((0x10 << 56 | 5 << 56 | 77) + 1, b"ijkl".to_vec()),
        ];
        assert_eq!((found, whole), (expected, true));
    }

    #[test]
    fn what_was_overwritten_is_flagged_above_the_size() {
        let mut page = page(7, &[(1, 0, b"abcd")]);
        page[11] |= 0x80;
        assert_eq!(read(&page), (vec![(7, b"abcd".to_vec())], true));
    }

    #[test]
    fn a_page_that_ends_early_says_so_and_keeps_what_came_before() {
        let whole = page(7, &[(1, 0, b"abcd"), (LONG, 1, b"\x08\0\0\0wxyz"), (TIME_EXTEND, 0, &[0; 4])]);
        assert!(read(&whole).1);
        assert_eq!(read(&[]), (Vec::new(), true));
        for end in 1..whole.len() {
            let (found, complete) = read(&whole[..end]);
            assert!(!complete, "{end}");
            assert!(found.len() <= 2 && found.first().is_none_or(|f| f.1 == b"abcd"), "{end}");
        }
        // Sizes that lead out of the page.
        for entry in [
            (28, 0, &b"abcd"[..]),
            (LONG, 0, b"\xff\xff\xff\xff"),
            (LONG, 0, b"\0\0\0\0"),
            (PADDING, 1, b"\xff\xff\0\0"),
        ] {
            assert!(!read(&page(0, &[entry])).1, "{entry:?}");
        }
    }
}
