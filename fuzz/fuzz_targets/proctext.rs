//! Whatever the bytes, reading the texts of /proc ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pageyard_trace::hostile::proctext(bytes));
