//! Whatever the bytes, reading a log of the kernel ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pageyard_trace::hostile::kernel_log(bytes));
