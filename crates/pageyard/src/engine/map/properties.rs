//! What holds of the packed words, for every value that they can have.
//!
//! Each property is a function of a word and the arguments of a transition. Descriptors are tried exhaustively in all
//! that a pageblock can be (2,229,120 words, without their sequence), tags in all 256 bytes, biases in every state with
//! the first, a middle and the last CPU, generation and count of strangers. `docs/design/frame-map.md` names them.

use super::bias::{Bias, BiasState};
use super::descriptor::{BlockState, FITS, WHOLE};
use super::tag::Tag;
use super::type_code::TypeCode;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{CpuId, Order};

/// The parts of a descriptor, read from its bits by the table at [`BlockState`] and not by its methods.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Parts {
    ty: u64,
    isolated: bool,
    used: u64,
    huge: bool,
    hole: bool,
    below: u64,
    some_zero: bool,
    all_zero: bool,
    skip: bool,
    current: bool,
    owner: u64,
    sequence: u64,
}

impl Parts {
    fn of(state: BlockState) -> Parts {
        let bits = state.bits();
        let bit = |at: u32| bits >> at & 1 != 0;
        Parts {
            ty: bits & 7,
            isolated: bit(3),
            used: bits >> 4 & 0x3ff,
            huge: bit(14),
            hole: bit(15),
            below: bits >> 16 & 15,
            some_zero: bit(20),
            all_zero: bit(21),
            skip: bit(22),
            current: bit(23),
            owner: bits >> 24 & 0xff,
            sequence: bits >> 32,
        }
    }

    fn state(self) -> BlockState {
        BlockState::from_bits(
            self.ty
                | u64::from(self.isolated) << 3
                | self.used << 4
                | u64::from(self.huge) << 14
                | u64::from(self.hole) << 15
                | self.below << 16
                | u64::from(self.some_zero) << 20
                | u64::from(self.all_zero) << 21
                | u64::from(self.skip) << 22
                | u64::from(self.current) << 23
                | self.owner << 24
                | self.sequence << 32,
        )
    }

    /// What a pageblock can be: no more frames are used than it has, and one that is huge or a hole has none to give.
    fn is_legal(self) -> bool {
        self.used <= 512 && self.below <= 8 && (self.used == 512 || !(self.huge || self.hole))
    }

    fn bumped(self) -> Parts {
        Parts { sequence: self.sequence.wrapping_add(1) & 0xffff_ffff, ..self }
    }
}

/// The types that a pageblock can have.
const TYPES: [Migratetype; 5] = [
    Migratetype::Unmovable,
    Migratetype::Movable,
    Migratetype::Reclaimable,
    Migratetype::HighAtomic,
    Migratetype::Cma,
];

/// Calls with everything that a pageblock can be.
fn each_descriptor(mut call: impl FnMut(Parts)) -> u64 {
    let mut n = 0;
    let kinds = (0..=512).map(|used| (used, false, false));
    let kinds = kinds.chain([(512, true, false), (512, false, true), (512, true, true)]);
    for (used, huge, hole) in kinds {
        for ty in TYPES.map(|m| TypeCode::of(m).bits()) {
            for below in 0..=8 {
                for (owner, flags) in
                    [0, 1, 255].into_iter().flat_map(|owner| (0..32).map(move |f| (owner, f)))
                {
                    let bit = |at: u32| flags >> at & 1 != 0;
                    let (isolated, some_zero, all_zero, skip, current) =
                        (bit(0), bit(1), bit(2), bit(3), bit(4));
                    call(Parts {
                        ty,
                        isolated,
                        used,
                        huge,
                        hole,
                        below,
                        some_zero,
                        all_zero,
                        skip,
                        current,
                        owner,
                        sequence: 0xffff_ffff,
                    });
                    n += 1;
                }
            }
        }
    }
    n
}

/// Counts to claim or to release.
const COUNTS: [u32; 11] = [1, 2, 3, 4, 8, 63, 64, 65, 256, 511, 512];

/// A claim lowers the count of free frames by what it reserves, and changes nothing else. It is refused by another
/// type, by what is out of allocation, and by a smaller count.
fn claims(parts: Parts) {
    let state = parts.state();
    let closed = parts.isolated || parts.huge || parts.hole;
    for n in COUNTS {
        let fits = parts.used + u64::from(n) <= 512;
        let claimed = Parts { used: parts.used + u64::from(n), ..parts };
        for m in [Migratetype::Movable, Migratetype::Unmovable, state.migratetype()] {
            let granted = !closed && fits && parts.ty == TypeCode::of(m).bits();
            assert_eq!(state.claim(n, m).map(Parts::of), granted.then_some(claimed), "{parts:?}, {n}, {m:?}");
        }
        let any = (!closed && fits).then_some(claimed);
        assert_eq!(state.claim_any(n).map(Parts::of), any, "{parts:?}, {n}");
        let isolated = (parts.isolated && !parts.huge && !parts.hole && fits).then_some(claimed);
        assert_eq!(state.claim_isolated(n).map(Parts::of), isolated, "{parts:?}, {n}");
    }
}

/// A claim in place is a claim of one block, in a pageblock that some CPU works on and whose contents nobody needs to
/// know.
fn claims_in_place(parts: Parts) {
    let (state, m) = (parts.state(), parts.state().migratetype());
    for order in Order::ZERO.up_to(Order::of(8)) {
        for partly in [false, true] {
            let Some(next) = state.claim_in_place(order, m, partly) else { continue };
            assert!(parts.current && !parts.some_zero && !parts.all_zero, "{parts:?}");
            assert!(!partly || parts.used > 0, "{parts:?}");
            assert_eq!(Some(next), state.claim(1 << order.get(), m), "{parts:?}, {order}");
            assert!(order.get() <= state.hint(), "{parts:?}, {order}");
        }
    }
}

/// A steal is a claim that changes the type, and the pageblock is no CPU's current one under the old type.
fn converts(parts: Parts) {
    let (state, from) = (parts.state(), parts.state().migratetype());
    for to in TYPES {
        let stolen = state.convert(64, from, to).map(Parts::of);
        let ty = TypeCode::of(to).bits();
        let expected = state.claim(64, from).map(Parts::of).map(|claimed| Parts {
            ty,
            current: claimed.current && claimed.ty == ty,
            ..claimed
        });
        assert_eq!(stolen, expected, "{parts:?}, {to:?}");
    }
}

/// A release undoes a claim, and bumps the sequence: a thread that slept since it read the word notices. The hint never
/// falls, and is at least the run that the release left.
fn releases(parts: Parts) {
    let state = parts.state();
    if parts.huge || parts.hole {
        return;
    }
    for n in COUNTS.into_iter().filter(|n| u64::from(*n) <= parts.used) {
        for run in 0..=8 {
            let got = Parts::of(state.release(n, run));
            let below = parts.below.min(8 - u64::from(run));
            let expected = Parts { used: parts.used - u64::from(n), below, skip: false, ..parts }.bumped();
            assert_eq!(got, expected, "{parts:?}, {n}, {run}");
        }
    }
}

/// A whole claim is granted where every frame is free and none keeps it from being one block, and comes back whole.
fn wholes(parts: Parts) {
    let state = parts.state();
    let is_free = parts.used == 0 && !parts.huge && !parts.hole;
    let claimed = Parts {
        used: 512,
        huge: true,
        some_zero: false,
        all_zero: false,
        skip: false,
        current: false,
        ..parts
    };
    let granted = is_free && !parts.isolated && parts.owner == 0;
    assert_eq!(state.claim_whole().map(Parts::of), granted.then_some(claimed), "{parts:?}");
    let isolated = is_free && parts.isolated;
    assert_eq!(state.claim_whole_isolated().map(Parts::of), isolated.then_some(claimed), "{parts:?}");
    for zero in [false, true] {
        let back = Parts { used: 0, huge: false, below: 0, skip: false, ..parts };
        let back = Parts { all_zero: parts.all_zero || zero, ..back.bumped() };
        assert_eq!(state.release_whole(zero).map(Parts::of), parts.huge.then_some(back), "{parts:?}");
    }
    let parted = Parts { huge: false, below: 8, ..parts };
    assert_eq!(state.shatter().map(Parts::of), parts.huge.then_some(parted), "{parts:?}");
}

/// Isolation and leases are exclusive, and what ends them undoes them.
fn isolations_and_leases(parts: Parts) {
    let state = parts.state();
    let isolated = (!parts.isolated && !parts.hole).then_some(Parts { isolated: true, ..parts });
    assert_eq!(state.isolate().map(Parts::of), isolated, "{parts:?}");
    assert_eq!(state.isolate().and_then(BlockState::restore), isolated.map(|_| state), "{parts:?}");
    assert_eq!(state.counted(), if parts.isolated { 0 } else { state.free() });
    for by in [0, 7, 254] {
        let leased = (parts.owner == 0 && !parts.hole).then_some(Parts { owner: u64::from(by) + 1, ..parts });
        assert_eq!(state.lease(by).map(Parts::of), leased, "{parts:?}");
        assert_eq!(state.lease(by).map(BlockState::unlease), leased.map(|_| state), "{parts:?}");
    }
    assert_eq!(state.lease(u8::MAX), None, "its number plus one has no room");
}

/// A pageblock is in a bin if and only if something can be claimed from it and no CPU works on it; the bin says no more
/// than fits, and those that are free as a whole are in one of their own.
fn bins(parts: Parts) {
    let state = parts.state();
    let open = !(parts.isolated || parts.huge || parts.hole);
    let bin = state.bin();
    assert_eq!(bin.is_some(), open && !parts.current && parts.used < 512, "{parts:?}");
    let whole = open && parts.used == 0 && parts.owner == 0 && !parts.current;
    assert_eq!(bin.is_some_and(super::descriptor::Bin::is_whole), whole, "{parts:?}");
    assert_eq!(state.is_binned_whole(state.migratetype()), whole, "{parts:?}");
    if let Some(bin) = bin {
        assert_eq!(bin.ty, state.migratetype());
        let fit = bin.class % FITS;
        assert!(bin.class <= WHOLE && Some(fit) == state.fit() && 1 << fit <= state.free(), "{parts:?}");
        assert!(state.serves(Order::of(fit)) && (fit == 9 || !state.serves(Order::of(fit + 1))), "{parts:?}");
    }
}

/// No transition leaves what a pageblock can be. The block of a whole pageblock is given back or parted by who has won
/// its tag, and a pageblock is rebuilt that has frames: never a hole.
fn stays_legal(parts: Parts) {
    let state = parts.state();
    let of_frames = [
        state.release_whole(true),
        state.shatter(),
        Some(state.rebuilt(17, Some(3), true, false)),
        Some(state.rebuilt(0, None, false, false)),
        Some(state.rebuilt(512, None, false, true)),
    ];
    let of_any = [
        state.claim_any(64),
        state.claim_isolated(64),
        state.claim_whole(),
        state.claim_whole_isolated(),
        state.isolate(),
        state.restore(),
        state.lease(7),
        Some(state.unlease()),
        Some(state.with_current(!parts.current)),
        Some(state.noting_zero()),
        Some(state.known_zero()),
        state.dirtied(),
    ];
    let of_frames = of_frames.into_iter().filter(|_| !parts.hole);
    for next in of_frames.chain(of_any).flatten().map(Parts::of) {
        assert!(next.is_legal(), "{parts:?} becomes {next:?}");
    }
}

#[test]
fn descriptors_in_all_that_a_pageblock_can_be() {
    let tried = each_descriptor(|parts| {
        assert!(parts.is_legal());
        assert_eq!(Parts::of(parts.state()), parts, "the table says where each part is");
        claims(parts);
        claims_in_place(parts);
        converts(parts);
        releases(parts);
        wholes(parts);
        isolations_and_leases(parts);
        bins(parts);
        stays_legal(parts);
    });
    assert_eq!(tried, 516 * 5 * 9 * 3 * 32);
}

#[test]
fn every_byte_is_a_tag_and_a_live_one_keeps_its_order_and_what_was_known() {
    for byte in 0..=u8::MAX {
        let tag = Tag::from_byte(byte);
        // A tag is written as it was read; bytes that are not written are holes.
        assert!(tag.byte() == byte || tag == Tag::Hole, "{byte:#x}");
        assert_eq!(tag.allocated().is_some(), byte & 0x80 != 0 && byte & 0x3f <= 18, "{byte:#x}");
        if !matches!(tag, Tag::Free | Tag::FreeZero) {
            continue;
        }
        for order in Order::ZERO.up_to(Order::MAX) {
            let live = Tag::from_byte(Tag::allocate(byte, order));
            assert_eq!(live.allocated(), Some(order), "{byte:#x}, {order}");
            assert_eq!(Tag::holds_zeros(live.byte()), Tag::holds_zeros(byte), "{byte:#x}, {order}");
        }
    }
}

#[test]
fn a_bias_goes_round_by_its_diagram_and_no_generation_stays() {
    const CPUS: [u32; 3] = [0, 1 << 14, (1 << 29) - 1];
    for cpu in CPUS.map(CpuId) {
        for generation in [0, 1 << 23, (1 << 24) - 1] {
            for strangers in [0, 7, 255] {
                let word = |state: u64| Bias::from_bits(state | generation << 32 | strangers << 56);
                let of = |mark: u32| word(1 << mark | u64::from(cpu.0));
                let (shared, arming, biased, revoking) = (word(0), of(30), of(31), of(29));
                // Who may go where; nothing else is granted.
                let next =
                    |bias: Bias| [bias.settle(), bias.cancel(), bias.revoke(), bias.share()].map(state);
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
                assert_eq!(admitted, (strangers < 255).then_some(strangers + 1));
                for other in [arming, biased, revoking] {
                    assert_eq!((state(other.arm(cpu)), state(other.admit())), (None, None));
                    for changed in [other.settle(), other.cancel(), other.revoke(), other.share()] {
                        let Some(changed) = changed else { continue };
                        let expected = (generation + 1) & 0xff_ffff;
                        assert_eq!(changed.bits() >> 32 & 0xff_ffff, expected, "a change is noticed");
                        assert_eq!(changed.bits() >> 56, strangers, "strangers are not forgotten");
                    }
                }
            }
        }
    }
}

fn state(bias: Option<Bias>) -> Option<BiasState> {
    bias.map(Bias::state)
}
