//! Whatever the bytes, reading samples.parquet ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pageyard_trace::hostile::samples(bytes));
