//! What holds of every descriptor.

use super::super::descriptor::{BlockState, FITS, WHOLE};
use super::super::type_code::TypeCode;
use super::parts::Parts;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::Order;

/// The parts lie where the table says.
pub(super) fn lies_by_its_table(parts: Parts) {
    assert_eq!(Parts::of(parts.state()), parts);
}

/// A claim lowers the count of free frames by what it reserves, and changes nothing else. It is refused by another
/// type, by what is out of allocation, and by a smaller count.
pub(super) fn claims(parts: Parts, n: u32, m: Migratetype) {
    let granted = !parts.isolated && has_free(parts, n) && parts.ty == TypeCode::of(m).bits();
    let claimed = Parts { used: parts.used + u64::from(n), ..parts };
    let expected = granted.then_some(claimed.state());
    assert_eq!(parts.state().claim(n, m), expected, "{parts:?}, {n}, {m:?}");
}

/// A claim that ignores the type is no different otherwise, and an isolated pageblock grants claims only to the call
/// that has isolated it.
pub(super) fn claims_whatever_the_type(parts: Parts, n: u32) {
    let (state, fits) = (parts.state(), has_free(parts, n));
    let claimed = Parts { used: parts.used + u64::from(n), ..parts }.state();
    assert_eq!(state.claim_any(n), (fits && !parts.isolated).then_some(claimed), "{parts:?}, {n}");
    assert_eq!(state.claim_isolated(n), (fits && parts.isolated).then_some(claimed), "{parts:?}, {n}");
}

fn has_free(parts: Parts, n: u32) -> bool {
    !parts.huge && !parts.hole && parts.used + u64::from(n) <= 512
}

/// A claim in place is a claim of one block. It is refused where a claim is, and in a pageblock that no CPU works on,
/// some of which is known to be zeros, whose hint says that it has no such block, or, where that is asked, that is all
/// free.
pub(super) fn claims_in_place(parts: Parts, order: Order, m: Migratetype, partly: bool) {
    let state = parts.state();
    let allowed = parts.current && !parts.some_zero && !parts.all_zero && (!partly || parts.used > 0);
    let expected = state.claim(1 << order.get(), m).filter(|_| allowed && order.get() <= state.hint());
    assert_eq!(state.claim_in_place(order, m, partly), expected, "{parts:?}, {order}, {m:?}, {partly}");
}

/// A steal is a claim that changes the type, and the pageblock is no CPU's current one under the old type.
pub(super) fn converts(parts: Parts, n: u32, to: Migratetype) {
    let (state, from) = (parts.state(), parts.state().migratetype());
    let ty = TypeCode::of(to).bits();
    let stolen = state.convert(n, from, to).map(Parts::of);
    let expected = state.claim(n, from).map(Parts::of).map(|claimed| Parts {
        ty,
        current: claimed.current && claimed.ty == ty,
        ..claimed
    });
    assert_eq!(stolen, expected, "{parts:?}, {to:?}");
}

/// A release of frames that are used undoes a claim, and bumps the sequence: a thread that slept since it read the word
/// notices. The hint never falls, and is at least the run that the release left.
pub(super) fn releases(parts: Parts, n: u32, run: u8) {
    if parts.huge || parts.hole || u64::from(n) > parts.used {
        return;
    }
    let below = parts.below.min(8 - u64::from(run));
    let expected = Parts { used: parts.used - u64::from(n), below, skip: false, ..parts }.bumped();
    assert_eq!(parts.state().release(n, run), expected.state(), "{parts:?}, {n}, {run}");
}

/// A whole claim is granted where every frame is free and none keeps it from being one block, and comes back whole.
pub(super) fn wholes(parts: Parts, zero: bool) {
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
    let back = Parts { used: 0, huge: false, below: 0, skip: false, ..parts };
    let back = Parts { all_zero: parts.all_zero || zero, ..back.bumped() };
    assert_eq!(state.release_whole(zero).map(Parts::of), parts.huge.then_some(back), "{parts:?}");
    let parted = Parts { huge: false, below: 8, ..parts };
    assert_eq!(state.shatter().map(Parts::of), parts.huge.then_some(parted), "{parts:?}");
}

/// Isolation is exclusive, and what ends it undoes it.
pub(super) fn isolates(parts: Parts) {
    let state = parts.state();
    let isolated = (!parts.isolated && !parts.hole).then_some(Parts { isolated: true, ..parts });
    assert_eq!(state.isolate().map(Parts::of), isolated, "{parts:?}");
    assert_eq!(state.isolate().and_then(BlockState::restore), isolated.map(|_| state), "{parts:?}");
    assert_eq!(state.counted(), if parts.isolated { 0 } else { state.free() });
}

/// Leases are exclusive, and what ends one undoes it.
pub(super) fn leases(parts: Parts, by: u8) {
    let state = parts.state();
    // The number plus one has to have room.
    let granted = parts.owner == 0 && !parts.hole && by < u8::MAX;
    let leased = granted.then_some(Parts { owner: u64::from(by) + 1, ..parts });
    assert_eq!(state.lease(by).map(Parts::of), leased, "{parts:?}, {by}");
    assert_eq!(state.lease(by).map(BlockState::unlease), leased.map(|_| state), "{parts:?}, {by}");
}

/// A pageblock is in a bin if and only if something can be claimed from it and no CPU works on it; the bin says no more
/// than fits, and those that are free as a whole are in one of their own.
pub(super) fn bins(parts: Parts) {
    let state = parts.state();
    let open = !(parts.isolated || parts.huge || parts.hole);
    let bin = state.bin();
    assert_eq!(bin.is_some(), open && !parts.current && parts.used < 512, "{parts:?}");
    let whole = open && parts.used == 0 && parts.owner == 0 && !parts.current;
    assert_eq!(bin.is_some_and(super::super::descriptor::Bin::is_whole), whole, "{parts:?}");
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
pub(super) fn stays_legal(parts: Parts, n: u32, run: Option<u8>) {
    let state = parts.state();
    let of_frames = [
        state.release_whole(true),
        state.shatter(),
        Some(state.rebuilt(n, run, true, false)),
        Some(state.rebuilt(n, run, false, true)),
    ];
    let of_any = [
        state.claim_any(n),
        state.claim_isolated(n),
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
