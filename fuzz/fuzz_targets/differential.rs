//! Whatever the bytes say is asked of the reference and of `pageyard`, they agree wherever the interface leaves no
//! choice.
#![no_main]

#[path = "../../crates/pageyard-linux/tests/reference/differential/engines.rs"]
mod engines;

use engines::{Linux, Ours};
use pageyard_testkit::differential::from_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    _ = from_bytes(&Linux("linux-7.3"), &Ours { pcp: bytes.first().is_some_and(|first| first & 0x80 == 0) }, bytes);
});
