//! Whatever the bytes, reading meta.json ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pageyard_trace::hostile::meta(bytes));
