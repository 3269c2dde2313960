//! Three threads that change places where the bytes say: each atomic step of the engine is one of the model's rules, and
//! no frame is lost.
#![no_main]

#[path = "../../crates/pageyard/tests/model/choices.rs"]
#[allow(dead_code)]
mod choices;
#[path = "../../crates/pageyard/tests/model/recorded.rs"]
#[allow(dead_code)]
mod recorded;
#[path = "../../crates/pageyard/tests/model/rules.rs"]
#[allow(dead_code)]
mod rules;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let input = choices::Input { seed: u64::from(*first), bytes: rest.to_vec() };
    assert_eq!(recorded::record::<true>([input]).failed, None);
});
