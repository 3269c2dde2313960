//! Whatever the bytes say is called, it returns a value, and no frame is lost.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pageyard_arena::hostile::engine(bytes));
