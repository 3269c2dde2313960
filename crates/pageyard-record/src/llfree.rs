//! The traces that LLFree's replay reads (`eval/src/bin/replay.rs` of llfree-rs, as of June 2026), byte by byte.
//!
//! A file is a sequence of pages. The first is the header: three words, the rest zero. Each other page has the number
//! of a CPU in its first word, and from byte 16 on records of that CPU, 16 bytes each, up to the first whose frame is
//! 0. All numbers are little-endian.

use pageyard_trace::MAX_ORDER;

/// Bytes of a page of the file.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 16;

/// Where the records of a page begin.
pub(crate) const FIRST_RECORD: usize = 16;

/// Records in a page.
pub(crate) const RECORDS: usize = (PAGE_BYTES - FIRST_RECORD) / RECORD_BYTES;

/// The first frame number that a record cannot hold: 64 GiB.
pub(crate) const FRAMES_END: u64 = 1 << PFN_BITS;

/// The first time that a record cannot hold, in microseconds: about 76 hours.
const TIMES_END: u64 = 1 << TIME_BITS;

// Where the fields of a record begin, and how long they are, in bits from the lowest.
const TIME_BITS: u32 = 38;
const PFN_AT: u32 = 38;
const PFN_BITS: u32 = 24;
const ALLOC_AT: u32 = 62;
const ORDER_AT: u32 = 63;
const ORDER_BITS: u32 = 4;
const GFP_AT: u32 = 67;
const GFP_BITS: u32 = 29;
const PID_AT: u32 = 96;

/// The gfp flags by the bits that LLFree gives them: Linux 6.1's, and one of its own for the page cache.
pub(crate) const FLAGS: [(&str, u8); 25] = [
    ("__GFP_DMA", 0),
    ("__GFP_HIGHMEM", 1),
    ("__GFP_DMA32", 2),
    ("__GFP_MOVABLE", 3),
    ("__GFP_RECLAIMABLE", 4),
    ("__GFP_HIGH", 5),
    ("__GFP_IO", 6),
    ("__GFP_FS", 7),
    ("__GFP_ZERO", 8),
    ("__GFP_ATOMIC", 9),
    ("__GFP_DIRECT_RECLAIM", 10),
    ("__GFP_KSWAPD_RECLAIM", 11),
    ("__GFP_WRITE", 12),
    ("__GFP_NOWARN", 13),
    ("__GFP_RETRY_MAYFAIL", 14),
    ("__GFP_NOFAIL", 15),
    ("__GFP_NORETRY", 16),
    ("__GFP_MEMALLOC", 17),
    ("__GFP_COMP", 18),
    ("__GFP_NOMEMALLOC", 19),
    ("__GFP_HARDWALL", 20),
    ("__GFP_THISNODE", 21),
    ("__GFP_ACCOUNT", 22),
    ("__GFP_ZEROTAGS", 23),
    (PAGE_CACHE, 28),
];

/// The flag that Linux does not have.
const PAGE_CACHE: &str = "__GFP_PAGE_CACHE";

/// The first page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Pages of records. LLFree goes by the file's size instead.
    pub(crate) pages: u32,
    /// CPUs.
    pub(crate) cores: u32,
    /// The last frame of memory.
    pub(crate) max_pfn: u32,
}

impl Header {
    /// Bytes that are read to recognise a file.
    pub(crate) const START: usize = 16;

    /// Reads the start of a file.
    pub(crate) fn from_start(bytes: &[u8; Header::START]) -> Header {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Header { pages: word(0), cores: word(4), max_pfn: word(8) }
    }

    /// Returns the start of a file; the rest of its page is zero.
    pub(crate) fn to_start(self) -> [u8; Header::START] {
        let mut out = [0; Header::START];
        for (at, word) in [(0, self.pages), (4, self.cores), (8, self.max_pfn)] {
            out[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        out
    }
}

/// One allocation or free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Microseconds, below 2^38.
    pub(crate) time_us: u64,
    /// The first frame of the block, below [`FRAMES_END`] and not 0.
    pub(crate) pfn: u64,
    /// Whether the block was allocated; otherwise it was freed.
    pub(crate) is_alloc: bool,
    /// The order of the block.
    pub(crate) order: u8,
    /// The gfp flags, at the bits of [`FLAGS`].
    pub(crate) gfp: u32,
    /// The process.
    pub(crate) pid: u32,
}

impl Record {
    /// Reads a record; `None` where it ends its page.
    pub(crate) fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Record> {
        let word = u128::from_le_bytes(*bytes);
        let field = |at: u32, bits: u32| (word >> at & ((1 << bits) - 1)) as u64;
        let pfn = field(PFN_AT, PFN_BITS);
        (pfn != 0).then(|| Record {
            time_us: field(0, TIME_BITS),
            pfn,
            is_alloc: field(ALLOC_AT, 1) == 1,
            order: field(ORDER_AT, ORDER_BITS) as u8,
            gfp: field(GFP_AT, GFP_BITS) as u32,
            pid: field(PID_AT, u32::BITS) as u32,
        })
    }

    /// Returns the record as bytes; `None` where a number does not fit, or frame 0 would end its page.
    pub(crate) fn to_bytes(self) -> Option<[u8; RECORD_BYTES]> {
        let fits = self.time_us < TIMES_END
            && (1..FRAMES_END).contains(&self.pfn)
            && self.order <= MAX_ORDER
            && self.gfp >> GFP_BITS == 0;
        let word = u128::from(self.time_us)
            | u128::from(self.pfn) << PFN_AT
            | u128::from(self.is_alloc) << ALLOC_AT
            | u128::from(self.order) << ORDER_AT
            | u128::from(self.gfp) << GFP_AT
            | u128::from(self.pid) << PID_AT;
        fits.then(|| word.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Record =
        Record { time_us: 1, pfn: 2, is_alloc: true, order: 9, gfp: 1 << 28 | 8, pid: u32::MAX };

    /// Worked out by hand from the lengths of the fields.
    #[test]
    fn each_field_has_its_bits() {
        let mut expected = [0u8; 16];
        // The time in byte 0; the frame, 2 at bit 38, in byte 4; bit 62 in byte 7, where the order's lowest bit is too.
        (expected[0], expected[4], expected[7]) = (1, 1 << 7, 1 << 6 | 1 << 7);
        // The other bits of order 9 from bit 64 on; the flags at bit 67: bits 3 and 28 there are 70 and 95.
        (expected[8], expected[11]) = (0b100 | 1 << 6, 1 << 7);
        expected[12..].fill(0xff);
        assert_eq!(FULL.to_bytes(), Some(expected));
        assert_eq!(Record::from_bytes(&expected), Some(FULL));
        assert_eq!(RECORDS, 255);
    }

    #[test]
    fn the_largest_numbers_fit_and_no_larger_ones() {
        let largest = Record {
            time_us: TIMES_END - 1,
            pfn: FRAMES_END - 1,
            is_alloc: false,
            order: 10,
            gfp: (1 << GFP_BITS) - 1,
            pid: u32::MAX,
        };
        assert_eq!(largest.to_bytes().and_then(|bytes| Record::from_bytes(&bytes)), Some(largest));
        for too_large in [
            Record { time_us: TIMES_END, ..largest },
            Record { pfn: FRAMES_END, ..largest },
            Record { pfn: 0, ..largest },
            Record { order: 11, ..largest },
            Record { gfp: 1 << GFP_BITS, ..largest },
        ] {
            assert_eq!(too_large.to_bytes(), None, "{too_large:?}");
        }
        assert_eq!(Record::from_bytes(&[0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
