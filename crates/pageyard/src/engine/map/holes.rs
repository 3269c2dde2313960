//! The transitions of pageblocks without managed frames: how they are opened, accepted, taken offline and brought
//! online.

use super::descriptor::{BELOW_ALL, BlockState, FULL, HOLE, HUGE, ISOLATED, SEQUENCE_ONE, SKIP};

impl BlockState {
    /// Begins to make frames managed of a pageblock that was a hole from the start, unless another call does. Until the
    /// end, its bits and tags are this call's.
    pub(crate) const fn begin_opening(self) -> Option<BlockState> {
        if self.is_idle() { Some(BlockState::from_bits(self.bits() | ISOLATED)) } else { None }
    }

    /// Notes that the frames of a pageblock that was a hole from the start are memory to be accepted.
    pub(crate) const fn put_aside(self) -> Option<BlockState> {
        if self.is_idle() { Some(BlockState::from_bits(self.bits() | SKIP)) } else { None }
    }

    /// Returns whether it is a hole that is neither offline, nor waiting to be accepted, nor being opened.
    const fn is_idle(self) -> bool {
        self.bits() & (HOLE | HUGE | ISOLATED | SKIP) == HOLE
    }

    /// Returns whether its frames are memory to be accepted.
    pub(crate) const fn is_unaccepted(self) -> bool {
        self.bits() & (HOLE | HUGE | ISOLATED | SKIP) == HOLE | SKIP
    }

    /// Begins to accept its frames, unless another call does. Until the end it is as one that is being opened.
    pub(crate) const fn begin_accepting(self) -> Option<BlockState> {
        if self.is_unaccepted() { Some(BlockState::from_bits(self.bits() & !SKIP | ISOLATED)) } else { None }
    }

    /// Ends the accepting: the pageblock is free and movable, or, if it was refused, a hole that can be opened.
    pub(crate) const fn end_accepting(self, accepted: bool) -> Option<BlockState> {
        if !self.is_opening() {
            return None;
        }
        let next = BlockState::from_bits((self.bits() & !(SEQUENCE_ONE - 1)).wrapping_add(SEQUENCE_ONE));
        Some(if accepted { next } else { BlockState::from_bits(next.bits() | FULL | HOLE) })
    }

    /// Returns whether a call makes frames of it managed.
    pub(crate) const fn is_opening(self) -> bool {
        self.bits() & (HOLE | ISOLATED) == HOLE | ISOLATED
    }

    /// Ends that: it is allocated as a whole, or no bit of it says free.
    pub(crate) const fn end_opening(self, whole: bool) -> Option<BlockState> {
        if !self.is_opening() {
            return None;
        }
        let used = FULL | if whole { HUGE } else { BELOW_ALL };
        Some(BlockState::from_bits((self.bits() & !(SEQUENCE_ONE - 1)).wrapping_add(SEQUENCE_ONE) | used))
    }

    /// Takes a pageblock offline that the caller has isolated and claimed as a whole: it becomes a hole, and the rest
    /// of its state is cleared.
    pub(crate) const fn take_offline(self) -> Option<BlockState> {
        if !self.is_huge() || !self.is_isolated() {
            return None;
        }
        Some(BlockState::from_bits(self.bits() & !(SEQUENCE_ONE - 1) | FULL | HOLE | HUGE))
    }

    /// Makes an offline pageblock a free movable one.
    pub(crate) const fn bring_online(self) -> Option<BlockState> {
        if !self.is_hole() || !self.is_huge() {
            return None;
        }
        Some(BlockState::from_bits((self.bits() & !(SEQUENCE_ONE - 1)).wrapping_add(SEQUENCE_ONE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: BlockState = BlockState::from_bits(0);

    #[test]
    fn a_hole_is_opened_by_one_call_and_nothing_else_touches_it_meanwhile() {
        let hole = BlockState::partial(0);
        let opening = hole.begin_opening().unwrap();
        assert!(opening.is_opening() && !hole.is_opening());
        assert_eq!((opening.begin_opening(), opening.restore(), opening.isolate()), (None, None, None));
        assert_eq!((opening.bring_online(), opening.lease(3), opening.bin()), (None, None, None));
        assert_eq!((hole.end_opening(false), FRESH.begin_opening()), (None, None));
        let parts = opening.end_opening(false).unwrap();
        assert_eq!((parts.free(), parts.is_hole(), parts.is_huge(), parts.hint()), (0, false, false, 0));
        assert_eq!(parts.release(1, 0).fit(), Some(0));
        let whole = opening.end_opening(true).unwrap();
        assert!(whole.is_huge() && whole.release_whole(false).unwrap().is_whole());
        let offline = FRESH.isolate().unwrap().claim_whole_isolated().unwrap().take_offline().unwrap();
        assert_eq!(offline.begin_opening(), None, "what was taken offline comes back as a whole");
    }

    #[test]
    fn a_pageblock_is_accepted_by_one_call_and_is_a_hole_until_then() {
        let hole = BlockState::partial(0);
        let aside = hole.put_aside().unwrap();
        assert!(aside.is_unaccepted() && !hole.is_unaccepted() && !aside.is_opening());
        assert_eq!((aside.put_aside(), aside.begin_opening(), aside.isolate()), (None, None, None));
        assert_eq!((aside.lease(3), aside.claim_whole(), aside.bin()), (None, None, None));
        let accepting = aside.begin_accepting().unwrap();
        assert_eq!((accepting.begin_accepting(), hole.begin_accepting()), (None, None));
        assert_eq!((accepting.restore(), accepting.bring_online()), (None, None));
        assert!(accepting.end_accepting(true).unwrap().is_whole());
        let refused = accepting.end_accepting(false).unwrap();
        assert!(refused.is_hole() && !refused.is_unaccepted() && refused.begin_opening().is_some());
        assert_eq!((aside.end_accepting(true), FRESH.put_aside()), (None, None));
    }

    #[test]
    fn what_is_offline_serves_nothing_until_it_is_online() {
        let whole = FRESH.isolate().unwrap().claim_whole_isolated().unwrap();
        assert_eq!((FRESH.take_offline(), FRESH.claim_whole().unwrap().take_offline()), (None, None));
        let offline = whole.take_offline().unwrap();
        assert!(offline.is_hole() && !offline.is_isolated() && offline.bin().is_none());
        assert_eq!((offline.claim_any(1), offline.claim_whole(), offline.isolate()), (None, None, None));
        assert_eq!((offline.lease(1), offline.take_offline()), (None, None));
        assert!(offline.bring_online().unwrap().is_whole());
        assert_eq!((BlockState::partial(0).bring_online(), FRESH.bring_online()), (None, None));
    }
}
