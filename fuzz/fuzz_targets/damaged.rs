//! Whatever the bytes say is called, on metadata whose bits are flipped meanwhile, it ends with a value.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    pageyard_arena::hostile::damaged(bytes);
});
