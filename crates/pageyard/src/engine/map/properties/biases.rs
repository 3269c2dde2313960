//! What holds of every bias.

use super::super::bias::{Bias, BiasState};
use pageyard_core::units::CpuId;

/// The first number that no CPU has.
pub(super) const CPUS: u32 = 1 << 29;
/// How many generations there are.
pub(super) const GENERATIONS: u64 = 1 << 24;

/// A bias goes round by its diagram: shared, arming, biased, revoking, shared. Each change bumps the generation, and
/// none forgets a stranger.
pub(super) fn goes_round(cpu: CpuId, generation: u64, strangers: u8) {
    let word = |state: u64| Bias::from_bits(state | generation << 32 | u64::from(strangers) << 56);
    let of = |mark: u32| word(1 << mark | u64::from(cpu.0));
    let (shared, arming, biased, revoking) = (word(0), of(30), of(31), of(29));
    // Who may go where; nothing else is granted.
    let next = |bias: Bias| [bias.settle(), bias.cancel(), bias.revoke(), bias.share()].map(state);
    let (is, none) = (Some, None);
    assert_eq!(next(shared), [none; 4]);
    assert_eq!(next(arming), [is(BiasState::Biased(cpu)), is(BiasState::Shared), none, none]);
    assert_eq!(next(biased), [none, none, is(BiasState::Revoking(cpu)), none]);
    assert_eq!(next(revoking), [none, none, none, is(BiasState::Shared)]);
    // A bias begins where it is shared and no stranger wins tags.
    let armed = (strangers == 0).then_some(BiasState::Arming(cpu));
    assert_eq!(state(shared.arm(cpu)), armed);
    // A stranger is admitted where it is shared, and to no more than there is room for.
    let admitted = shared.admit().map(|bias| bias.bits() >> 56);
    assert_eq!(admitted, (strangers < u8::MAX).then_some(u64::from(strangers) + 1));
    for other in [arming, biased, revoking] {
        assert_eq!((state(other.arm(cpu)), state(other.admit())), (None, None));
        for changed in [other.settle(), other.cancel(), other.revoke(), other.share()] {
            let Some(changed) = changed else { continue };
            let expected = (generation + 1) % GENERATIONS;
            assert_eq!(changed.bits() >> 32 & (GENERATIONS - 1), expected, "a change is noticed");
            assert_eq!(changed.bits() >> 56, u64::from(strangers), "strangers are not forgotten");
        }
    }
}

fn state(bias: Option<Bias>) -> Option<BiasState> {
    bias.map(Bias::state)
}
