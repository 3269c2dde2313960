//! Where the instructions of this program's sequences are.

use iced_x86::{Decoder, DecoderOptions};
use std::fmt;

/// A descriptor, as the kernel reads it.
#[repr(C, align(32))]
struct Descriptor {
    version: u32,
    flags: u32,
    start: usize,
    length: usize,
    abort: usize,
}

unsafe extern "C" {
    // The linker defines both: where the section of descriptors begins and ends.
    #[link_name = "__start___rseq_cs"]
    static FIRST: Descriptor;
    #[link_name = "__stop___rseq_cs"]
    static END: Descriptor;
}

/// An instruction of a sequence, or the one after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its address.
    pub at: usize,
    /// The address of the sequence's first instruction.
    pub sequence: usize,
    /// Where the kernel sends a thread that is interrupted in it.
    pub abort: usize,
    /// The kind of instruction.
    pub mnemonic: u16,
    /// Whether it is after the sequence, whose last store has then happened.
    pub after: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.after { " (behind it)" } else { "" };
        write!(f, "sequence {:#x}, byte {}{what}", self.sequence, self.at - self.sequence)
    }
}

/// Returns every place of every sequence in this program.
pub fn places() -> Vec<Place> {
    let (first, end) = (&raw const FIRST, &raw const END);
    // SAFETY: between the two lie descriptors, one after the other, which are never written.
    let descriptors = unsafe { std::slice::from_raw_parts(first, end.offset_from_unsigned(first)) };
    let mut places = Vec::new();
    for d in descriptors {
        assert_eq!((d.version, d.flags), (0, 0));
        // SAFETY: 1. It is code of this program. 2. The signature stands before the abort handler.
        let (code, signature) = unsafe {
            let code = std::slice::from_raw_parts(d.start as *const u8, d.length);
            (code, ((d.abort - 4) as *const u32).read_unaligned())
        };
        assert_eq!(signature, 0x5305_3053);
        let mut decoder = Decoder::with_ip(64, code, d.start as u64, DecoderOptions::NONE);
        let place = |at, mnemonic, after| Place { at, sequence: d.start, abort: d.abort, mnemonic, after };
        while decoder.can_decode() {
            let instruction = decoder.decode();
            assert!(!instruction.is_invalid());
            places.push(place(instruction.ip() as usize, instruction.mnemonic() as u16, false));
        }
        places.push(place(d.start + d.length, 0, true));
    }
    places
}
