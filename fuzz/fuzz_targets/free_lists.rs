//! Whatever the bytes, reading free_lists.parquet ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pageyard_trace::hostile::free_lists(bytes));
