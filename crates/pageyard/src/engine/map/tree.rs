//! Hierarchical bitmaps: which of many children have a property, found in one step a level.

use crate::engine::geometry::{FAN, FAN_ORDER, LINE_WORDS};
use pageyard_sync::{A64, Carver, Relaxed, SeqCst, store_load_fence};

use core::ops::Range;

/// Levels below the root word: enough for the pageblocks of the largest zone.
const LEVELS: usize = if cfg!(pageyard_loom) { 3 } else { 4 };

/// Times that a search follows a bit that turned out to be stale, before it gives up.
const STALE_TRIES: usize = 64;

/// Index words that a search has looked at, and descriptors that it found there: what a bounded search bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SearchEffort {
    /// The count.
    pub(crate) steps: u32,
}

impl SearchEffort {
    /// Counts one step.
    #[inline(always)]
    pub(crate) fn step(&mut self) {
        self.steps += 1;
    }
}

/// How a bitmap is laid out: its levels, lowest first, each starting at a cache line.
#[derive(Clone, Copy)]
struct Shape {
    levels: usize,
    offset: [usize; LEVELS],
    /// Words of the lowest level.
    leaves: usize,
    words: usize,
}

/// Words of a cache line, by power of two.
const LINE_ORDER: u8 = LINE_WORDS.trailing_zeros() as u8;
/// Words from one to the next above the lowest level, by power of two.
const UPPER_APART: u8 = if cfg!(pageyard_loom) { 0 } else { LINE_ORDER };

/// Returns the words from one of a level to the next, by power of two.
#[inline(always)]
const fn apart(level: usize) -> u8 {
    if level == 0 { 0 } else { UPPER_APART }
}

impl Shape {
    /// Lays out a bitmap. Words above the lowest level lie a cache line apart: CPUs that use different parts of a zone
    /// then write different lines.
    fn of(bits: usize) -> Shape {
        let mut shape = Shape { levels: 0, offset: [0; LEVELS], leaves: 0, words: 0 };
        let mut children = bits.max(1);
        loop {
            children = children.div_ceil(FAN);
            let level = shape.levels;
            shape.offset[level] = shape.words;
            if level == 0 {
                shape.leaves = children;
            }
            shape.levels += 1;
            let words = children << apart(level);
            shape.words += if cfg!(pageyard_loom) { words } else { words.next_multiple_of(LINE_WORDS) };
            if children == 1 {
                return shape;
            }
        }
    }

    /// Returns the place of a word.
    #[inline(always)]
    fn place(&self, level: usize, at: usize) -> usize {
        self.offset[level] + (at << apart(level))
    }

    /// Returns how many words a level has.
    fn words_of(&self, level: usize) -> usize {
        (0..level).fold(self.leaves, |words, _| words.div_ceil(FAN))
    }
}

/// Bitmaps of one shape, and above them a root word for each group of bitmaps, which says which are not empty.
///
/// # Concurrency
/// A bit follows a fact: a child's state, or whether the word below has a bit. A thread that changes the fact settles
/// the bit afterwards, and a thread that writes the bit then reads the fact again and starts over if it changed. So a
/// late write is undone by the thread that made it, and when all have ended every bit is right. In between a bit can be
/// wrong: what a search finds is a hint.
///
/// A thread that stops on its way up hides nothing that others set. A thread that sets a bit, or finds it set, looks at
/// the bit above its word, at the one above that, and so on to the root, and settles the first that is clear:
///
/// * *A setter stopped* after it set the first bit of a word: the next setter in that word finds the bit above clear.
/// * *A clearer stopped* before it clears the bit above a word that became empty: that bit is set, as the next setter
///   needs it, and a search that follows it for nothing clears it. Stopped after that: the next setter finds it clear.
///
/// So a thread can hide what another set only by clearing a bit *after* that one looked at it, on a reading from
/// before, and stopping (or being killed) before its second reading, one step later. The next setter of any bit in that
/// word ends that.
pub(crate) struct Forest<'m> {
    words: &'m [A64],
    roots: &'m [A64],
    shape: Shape,
    group: usize,
}

impl<'m> Forest<'m> {
    /// Returns the words of all bitmaps, and the roots.
    pub(super) fn words(&self) -> (&'m [A64], &'m [A64]) {
        (self.words, self.roots)
    }

    /// Carves `groups` groups of `group` bitmaps of `bits` bits.
    pub(crate) fn carve(carver: &mut Carver<'m>, groups: usize, group: usize, bits: usize) -> Forest<'m> {
        let shape = Shape::of(bits);
        Forest {
            words: carver.zeroed(groups * group * shape.words),
            roots: carver.zeroed(groups),
            shape,
            group,
        }
    }

    #[inline(always)]
    fn word(&self, tree: usize, level: usize, at: usize) -> &A64 {
        &self.words[tree * self.shape.words + self.shape.place(level, at)]
    }

    /// Returns how many words the lowest level has.
    pub(crate) fn leaf_words(&self) -> usize {
        self.shape.leaves
    }

    /// Returns the words of a bitmap's lowest level.
    pub(crate) fn leaves(&self, tree: usize) -> &'m [A64] {
        &self.words[tree * self.shape.words..][..self.shape.leaves]
    }

    /// Returns a word of the lowest level.
    #[inline]
    pub(crate) fn leaf(&self, tree: usize, at: usize) -> u64 {
        // ORDER: SeqCst: see `settle`.
        self.word(tree, 0, at).load(SeqCst)
    }

    /// Returns whether a bit is set.
    #[inline]
    pub(crate) fn has(&self, tree: usize, bit: usize) -> bool {
        self.leaf(tree, bit >> FAN_ORDER) >> (bit & (FAN - 1)) & 1 != 0
    }

    /// Returns the root word of a group: one bit for each of its bitmaps that is not empty.
    #[inline]
    pub(crate) fn root(&self, group: usize) -> u64 {
        // ORDER: SeqCst: see `settle`.
        self.roots[group].load(SeqCst)
    }

    /// Makes a bit follow `fact`, which this thread has just changed or has found the bit to contradict.
    #[inline]
    pub(crate) fn settle(&self, tree: usize, bit: usize, fact: impl Fn() -> bool) {
        let word = self.word(tree, 0, bit >> FAN_ORDER);
        follow(word, bit & (FAN - 1), fact, |has| self.tell_above(tree, 0, bit >> FAN_ORDER, has));
    }

    /// Returns whether a bit is set, and every bit above it, so that a search finds it. Where it is not, the thread
    /// that set it, or brought about its fact, may have stopped on its way up, and the caller has to settle it.
    #[inline]
    pub(crate) fn leads_to(&self, tree: usize, bit: usize) -> bool {
        self.has(tree, bit) && self.leads_to_word(tree, 0, bit >> FAN_ORDER)
    }

    /// Returns whether the bits above a word are set.
    #[inline(always)]
    fn leads_to_word(&self, tree: usize, level: usize, mut at: usize) -> bool {
        let first = tree * self.shape.words;
        for above in level + 1..self.shape.levels {
            store_load_fence();
            let place = self.shape.offset[above] + ((at >> FAN_ORDER) << UPPER_APART);
            // ORDER: SeqCst: after the bit below was set, or was read as set. A thread that clears this one later than
            // that reads the word below after it has, and finds the bit: see `follow`.
            if self.words[first + place].load(SeqCst) >> (at & (FAN - 1)) & 1 == 0 {
                return false;
            }
            at >>= FAN_ORDER;
        }
        store_load_fence();
        self.in_root(tree)
    }

    /// Makes the bits `mask` of a word of the lowest level follow `facts`, one bit each, all of which this thread has
    /// just changed or found contradicted. Why that is enough: as for one bit, in `follow`.
    pub(crate) fn settle_word(&self, tree: usize, at: usize, mask: u64, facts: impl Fn() -> u64) {
        let word = self.word(tree, 0, at);
        loop {
            let want = facts() & mask;
            store_load_fence();
            // ORDER: SeqCst, here and below: as in `follow`.
            let mut now = word.load(SeqCst);
            if want & !now != 0 {
                now = word.fetch_or(want, SeqCst) | want;
            }
            let mut emptied = false;
            if mask & !want & now != 0 {
                now = word.fetch_and(!(mask & !want), SeqCst) & !(mask & !want);
                emptied = now == 0;
            }
            if want != 0 || emptied {
                self.tell_above(tree, 0, at, want != 0);
            }
            store_load_fence();
            if facts() & mask == want {
                return;
            }
        }
    }

    /// Sets all bits of a word of the lowest level at once, before the bitmap is published.
    pub(crate) fn fill(&self, tree: usize, at: usize, bits: u64) {
        if bits != 0 {
            // ORDER: Relaxed: published with the allocator.
            self.word(tree, 0, at).fetch_or(bits, Relaxed);
            self.settle_above(tree, 0, at);
        }
    }

    /// Makes every bitmap empty, while nothing else runs.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn clear(&self) {
        // ORDER: Relaxed: published with the allocator.
        self.words.iter().chain(self.roots).for_each(|word| word.store(0, Relaxed));
    }

    /// Makes the bit above a word follow whether the word has a bit, and carries on above that one.
    #[inline(never)]
    fn settle_above(&self, tree: usize, level: usize, at: usize) {
        let below = self.word(tree, level, at);
        // ORDER: SeqCst: as in `follow`.
        let fact = || below.load(SeqCst) != 0;
        if level + 1 == self.shape.levels {
            follow(&self.roots[tree / self.group], tree % self.group, fact, |_| ());
        } else {
            let (word, next) = (self.word(tree, level + 1, at >> FAN_ORDER), at >> FAN_ORDER);
            follow(word, at & (FAN - 1), fact, |has| self.tell_above(tree, level + 1, next, has));
        }
    }

    /// Carries on above a word that has a bit, or that became empty. In the first case the thread that set the word's
    /// first bit may not have come this far, and one that saw the word empty may have cleared the bit above.
    #[inline(never)]
    fn tell_above(&self, tree: usize, level: usize, at: usize, has: bool) {
        if !has || !self.leads_to_word(tree, level, at) {
            self.settle_above(tree, level, at);
        }
    }

    /// Finds a set bit of a bitmap, at or after `start` where one is near.
    pub(crate) fn find(&self, tree: usize, start: usize, effort: &mut SearchEffort) -> Option<usize> {
        for _ in 0..STALE_TRIES {
            match self.descend(tree, start, effort) {
                Ok(bit) => return Some(bit),
                Err(Some((level, at))) => self.settle_above(tree, level, at),
                Err(None) => return None,
            }
        }
        None
    }

    /// Follows set bits down from the top; an error is the word that was empty below a set bit.
    #[inline]
    fn descend(
        &self,
        tree: usize,
        start: usize,
        effort: &mut SearchEffort,
    ) -> Result<usize, Option<(usize, usize)>> {
        let mut at = 0;
        let mut on_path = true;
        for level in (0..self.shape.levels).rev() {
            // ORDER: SeqCst: see `follow`.
            let word = self.word(tree, level, at).load(SeqCst);
            effort.step();
            if word == 0 {
                let top = level + 1 == self.shape.levels;
                return Err(if top && !self.in_root(tree) { None } else { Some((level, at)) });
            }
            let from = if on_path { start >> (usize::from(FAN_ORDER) * level) & (FAN - 1) } else { 0 };
            let after = word & (u64::MAX << from);
            let bit = if after != 0 { after.trailing_zeros() } else { word.trailing_zeros() } as usize;
            on_path &= bit == from;
            at = at << FAN_ORDER | bit;
        }
        Ok(at)
    }

    /// Finds the first set bit of a bitmap in a range, if the levels above it are right: where they are stale it finds
    /// none, and leaves their correction to [`Forest::find`].
    pub(crate) fn find_within(
        &self,
        tree: usize,
        range: &Range<usize>,
        effort: &mut SearchEffort,
    ) -> Option<usize> {
        let mut at = range.start;
        for level in 0..self.shape.levels {
            if at << (usize::from(FAN_ORDER) * level) >= range.end {
                return None;
            }
            // ORDER: SeqCst, here and below: see `follow`.
            let word = self.word(tree, level, at >> FAN_ORDER).load(SeqCst) & (u64::MAX << (at & (FAN - 1)));
            effort.step();
            if word != 0 {
                let mut bit = at & !(FAN - 1) | word.trailing_zeros() as usize;
                for below in (0..level).rev() {
                    let word = self.word(tree, below, bit).load(SeqCst);
                    effort.step();
                    bit = bit << FAN_ORDER | word.trailing_zeros() as usize & (FAN - 1);
                    if word == 0 {
                        return None;
                    }
                }
                return range.contains(&bit).then_some(bit);
            }
            at = (at >> FAN_ORDER) + 1;
            if at >= self.shape.words_of(level) {
                return None;
            }
        }
        None
    }

    fn in_root(&self, tree: usize) -> bool {
        self.root(tree / self.group) >> (tree % self.group) & 1 != 0
    }

    /// Checks every bitmap: `wrong(tree, bit, is)` is asked about each bit of the lowest level, and each bit above
    /// must say whether the word below has one. Returns the number of the first bitmap that is wrong.
    pub(crate) fn check(&self, trees: usize, right: impl Fn(usize, usize, u64) -> bool) -> Result<(), usize> {
        for tree in 0..trees {
            for at in 0..self.leaf_words() {
                if !right(tree, at, self.leaf(tree, at)) {
                    return Err(tree);
                }
            }
            for level in 0..self.shape.levels {
                let last = level + 1 == self.shape.levels;
                for at in 0..self.shape.words_of(level) {
                    // ORDER: Relaxed: nothing else runs during a check.
                    let has = self.word(tree, level, at).load(Relaxed) != 0;
                    let above = if last {
                        self.in_root(tree)
                    } else {
                        // ORDER: Relaxed, as above.
                        let word = self.word(tree, level + 1, at >> FAN_ORDER).load(Relaxed);
                        word >> (at & (FAN - 1)) & 1 != 0
                    };
                    if has != above {
                        return Err(tree);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Writes a bit of a word until it agrees with `fact`. `above` runs where the word has it, and where it became empty
/// without it.
#[inline]
pub(crate) fn follow(word: &A64, bit: usize, fact: impl Fn() -> bool, above: impl Fn(bool)) {
    let mask = 1 << bit;
    loop {
        let want = fact();
        store_load_fence();
        // ORDER: SeqCst, here and for every update of a fact. Let A write the bit after B changed the fact. If A
        // read the fact before B changed it, A's second reading below comes after B's change in the one order
        // that all agree on, or else B's reading of the bit comes after A's write: one of them corrects it.
        let mut now = word.load(SeqCst);
        if want != (now & mask != 0) {
            now = if want { word.fetch_or(mask, SeqCst) } else { word.fetch_and(!mask, SeqCst) };
        }
        if want || now == mask {
            above(want);
        }
        store_load_fence();
        if fact() == want {
            return;
        }
    }
}

#[cfg(all(test, not(pageyard_loom)))]
mod tests {
    use super::*;

    fn with_forest(bits: usize, test: impl FnOnce(&Forest<'_>)) {
        let mut memory = [0u8; 256 * 1024];
        let mut carver = Carver::of(&mut memory);
        let forest = Forest::carve(&mut carver, 2, 3, bits);
        assert!(carver.fits());
        test(&forest);
    }

    #[test]
    fn bits_are_found_from_the_start_on_and_vanish_when_cleared() {
        with_forest(10_000, |f| {
            let mut effort = SearchEffort::default();
            assert_eq!(f.find(4, 0, &mut effort), None);
            for bit in [3, 70, 9_999] {
                f.settle(4, bit, || true);
            }
            assert_eq!(f.root(1), 0b10);
            assert_eq!(f.find(4, 0, &mut effort), Some(3));
            assert_eq!(f.find(4, 4, &mut effort), Some(3), "wraps within a word");
            assert_eq!(f.find(4, 64, &mut effort), Some(70));
            assert_eq!(f.find(4, 5_000, &mut effort), Some(9_999));
            assert_eq!(f.find(1, 0, &mut effort), None, "other bitmaps are others");
            for bit in [3, 70, 9_999] {
                f.settle(4, bit, || false);
            }
            assert_eq!((f.root(1), f.find(4, 0, &mut effort)), (0, None));
            f.check(6, |_, _, word| word == 0).unwrap();
        });
    }

    #[test]
    fn a_search_in_a_range_finds_the_first_of_it_or_none() {
        with_forest(64 * 64 * 2, |f| {
            let set = [3, 70, 4095, 4096, 8_000];
            set.iter().for_each(|bit| f.settle(1, *bit, || true));
            for start in [0, 3, 4, 63, 64, 70, 71, 4095, 4096, 4097, 8_000, 8_001] {
                for end in [0, 3, 4, 64, 71, 4095, 4096, 4097, 8_000, 8_001, 64 * 64 * 2] {
                    let first = set.into_iter().find(|bit| (start..end).contains(bit));
                    assert_eq!(
                        f.find_within(1, &(start..end), &mut SearchEffort::default()),
                        first,
                        "{start}..{end}"
                    );
                }
            }
            assert_eq!(f.find_within(2, &(0..8_000), &mut SearchEffort::default()), None);
        });
    }

    #[test]
    fn a_search_takes_one_step_a_level() {
        with_forest(64 * 64 * 2, |f| {
            f.settle(0, 8_000, || true);
            let mut effort = SearchEffort::default();
            assert_eq!(f.find(0, 17, &mut effort), Some(8_000));
            assert_eq!(effort.steps, 3);
        });
    }

    #[test]
    fn bits_of_one_word_follow_their_facts_together() {
        with_forest(10_000, |f| {
            f.settle(2, 64 * 9, || true);
            f.settle_word(2, 9, 0b1111, || 0b1010);
            assert_eq!((f.leaf(2, 9), f.root(0)), (0b1010, 0b100));
            f.settle_word(2, 9, 0b1110, || 0);
            assert_eq!((f.leaf(2, 9), f.root(0)), (0, 0));
            let calls = core::cell::Cell::new(0);
            f.settle_word(2, 9, 0b11, || if calls.replace(calls.get() + 1) == 0 { 0b01 } else { 0b10 });
            assert_eq!(
                (f.leaf(2, 9), f.root(0)),
                (0b10, 0b100),
                "facts that change meanwhile are written again"
            );
            f.check(6, |t, at, word| word == if (t, at) == (2, 9) { 0b10 } else { 0 }).unwrap();
        });
    }

    /// Sets the bits on the way to `bit` up to a level, as a thread has that stopped before the next one.
    fn stop_on_the_way_up(f: &Forest<'_>, tree: usize, bit: usize, levels: usize) {
        for level in 0..levels {
            let at = bit >> (usize::from(FAN_ORDER) * level);
            f.word(tree, level, at >> FAN_ORDER).fetch_or(1 << (at & (FAN - 1)), SeqCst);
        }
    }

    #[test]
    fn a_setter_beside_one_that_stopped_on_its_way_up_settles_every_level() {
        let ways: [fn(&Forest<'_>); 4] = [
            |f| f.settle(4, 8_001, || true),
            |f| f.settle(4, 8_000, || true),
            |f| f.settle_word(4, 125, 0b11, || 0b10),
            |f| {
                f.word(4, 0, 125).fetch_or(2, SeqCst);
                assert!(!f.leads_to(4, 8_001));
                f.settle(4, 8_001, || true);
            },
        ];
        for (n, settle) in ways.iter().enumerate() {
            for levels in 1..=3 {
                with_forest(64 * 64 * 2, |f| {
                    // A bit elsewhere, so that only some of the levels miss one.
                    f.settle(4, 9 * 64, || n % 2 == 0);
                    stop_on_the_way_up(f, 4, 8_000, levels);
                    settle(f);
                    let found = f.find(4, 8_000, &mut SearchEffort::default());
                    assert!(matches!(found, Some(8_000 | 8_001)), "way {n}, level {levels}: {found:?}");
                    assert_eq!(f.root(1), 0b10);
                    assert!(f.has(4, 8_000) || n == 2, "way {n}, level {levels}");
                });
            }
        }
    }

    #[test]
    fn a_setter_beside_a_clearer_that_stopped_on_its_way_up_settles_every_level() {
        for levels in 1..=3 {
            with_forest(64 * 64 * 2, |f| {
                f.settle(4, 8_000, || true);
                // The clearer has cleared this many levels: what is above says that there is something.
                for level in 0..levels {
                    f.word(4, level, 8_000 >> (usize::from(FAN_ORDER) * (level + 1))).store(0, SeqCst);
                }
                f.settle(4, 8_001, || true);
                assert_eq!(f.find(4, 0, &mut SearchEffort::default()), Some(8_001), "level {levels}");
                f.check(6, |t, at, word| word == if (t, at) == (4, 125) { 0b10 } else { 0 }).unwrap();
            });
        }
    }

    #[test]
    fn a_bit_whose_fact_changes_meanwhile_is_written_again() {
        with_forest(100, |f| {
            let calls = core::cell::Cell::new(0);
            // True at first, false from the second reading on.
            f.settle(0, 5, || calls.replace(calls.get() + 1) == 0);
            assert!(!f.has(0, 5));
            assert_eq!(f.root(0), 0);
        });
    }
}
