//! Whatever the bytes, reading names of threads ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pageyard_trace::hostile::thread_names(bytes));
