//! Whatever the bytes, reading before.parquet and after.parquet ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pageyard_trace::hostile::snapshot(bytes));
