//! Whatever the bytes, reading the kernel's description of a tracepoint ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pageyard_record::hostile::format(bytes));
