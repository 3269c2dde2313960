//! Whatever the bytes, reading a trace of LLFree ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pageyard_record::hostile::imported(bytes));
