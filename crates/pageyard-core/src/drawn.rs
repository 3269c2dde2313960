//! Random values for property tests: numbers of every size, and how many of them are tried.

use crate::units::{Order, Pfn};
use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// Numbers below `2^bits`: each length in bits is as likely as any other.
pub(crate) fn sized(bits: u32) -> impl Strategy<Value = u64> {
    (0..=bits, any::<u64>()).prop_map(|(length, bits)| bits.checked_shr(64 - length).unwrap_or(0))
}

/// Frame numbers of every size and every alignment, near the largest as often as near zero.
pub(crate) fn pfn() -> impl Strategy<Value = Pfn> {
    (sized(64), any::<bool>(), 0..64).prop_map(|(near, top, bits)| {
        let number = if top { u64::MAX - near } else { near };
        Pfn(number >> bits << bits)
    })
}

/// Every order.
pub(crate) fn order() -> impl Strategy<Value = Order> {
    (0..=Order::MAX.get()).prop_map(Order::of)
}

/// Calls with `cases` values, and reports the smallest value found that makes it panic.
///
/// The values are the same on every run; `PROPTEST_RNG_SEED` draws others, and `PROPTEST_CASES` more.
#[track_caller]
pub(crate) fn each<S: Strategy>(cases: u32, values: &S, property: impl Fn(S::Value)) {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    config.cases = config.cases.max(cases);
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(7);
    }
    let ran = TestRunner::new(config).run(values, |value| {
        property(value);
        Ok(())
    });
    if let Err(why) = ran {
        panic!("{why}");
    }
}
