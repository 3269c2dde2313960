//! One bit a frame.

use pageyard::{Frames, Pfn};
use std::sync::atomic::{AtomicU64, Ordering};

/// A set of frames below a limit. Zeroed memory is an empty set, so a large sparse one costs little.
#[derive(Clone)]
pub struct FrameSet {
    words: Vec<u64>,
}

impl FrameSet {
    /// Makes an empty set of frames below `end`.
    pub fn new(end: Pfn) -> FrameSet {
        FrameSet { words: vec![0; (end.0 as usize).div_ceil(64)] }
    }

    /// Calls `each` with every word that the block touches and the block's bits in it.
    fn words(pfn: Pfn, frames: Frames) -> impl Iterator<Item = (usize, u64)> {
        let (mut at, end) = (pfn.0, pfn.0 + frames.0);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (word, bit) = (at / 64, at % 64);
            let n = (64 - bit).min(end - at);
            at += n;
            let mask = if n == 64 { u64::MAX } else { ((1 << n) - 1) << bit };
            Some((word as usize, mask))
        })
    }

    /// Returns the one word that has all of these frames, and their bits in it; `None` if there are several, or none.
    /// Most blocks are single frames.
    #[inline]
    fn one_word(pfn: Pfn, frames: Frames) -> Option<(usize, u64)> {
        let bit = pfn.0 % 64;
        let fits = frames.0.wrapping_sub(1) < 64 - bit;
        fits.then(|| ((pfn.0 / 64) as usize, u64::MAX >> (64 - frames.0) << bit))
    }

    /// Adds frames; returns how many were in the set already.
    #[inline]
    pub fn insert(&mut self, pfn: Pfn, frames: Frames) -> u64 {
        let Some((word, mask)) = Self::one_word(pfn, frames) else { return self.insert_many(pfn, frames) };
        let already = self.words[word] & mask;
        self.words[word] |= mask;
        if already == 0 { 0 } else { u64::from(already.count_ones()) }
    }

    fn insert_many(&mut self, pfn: Pfn, frames: Frames) -> u64 {
        let mut already = 0;
        for (word, mask) in Self::words(pfn, frames) {
            already += u64::from((self.words[word] & mask).count_ones());
            self.words[word] |= mask;
        }
        already
    }

    /// Removes frames.
    #[inline]
    pub fn remove(&mut self, pfn: Pfn, frames: Frames) {
        match Self::one_word(pfn, frames) {
            Some((word, mask)) => self.words[word] &= !mask,
            None => Self::words(pfn, frames).for_each(|(word, mask)| self.words[word] &= !mask),
        }
    }

    /// Returns how many of these frames are in the set.
    pub fn count(&self, pfn: Pfn, frames: Frames) -> u64 {
        Self::words(pfn, frames).map(|(w, mask)| u64::from((self.words[w] & mask).count_ones())).sum()
    }

    /// Returns the frames from `64 * i` on, one bit each; none beyond the limit.
    pub fn word(&self, i: usize) -> u64 {
        self.words.get(i).copied().unwrap_or(0)
    }

    /// Returns the words that [`FrameSet::word`] would return, from the `i`th on.
    #[inline]
    pub fn words_at<const N: usize>(&self, i: usize) -> [u64; N] {
        match self.words.get(i..).and_then(|words| words.first_chunk()) {
            Some(words) => *words,
            None => std::array::from_fn(|n| self.word(i + n)),
        }
    }

    /// Returns whether the frame is in the set.
    #[inline]
    pub fn contains(&self, pfn: Pfn) -> bool {
        self.words.get(pfn.0 as usize / 64).is_some_and(|w| w & (1 << (pfn.0 % 64)) != 0)
    }
}

/// A set of frames that several threads change at once.
pub struct SharedFrameSet {
    words: Vec<AtomicU64>,
}

impl SharedFrameSet {
    /// Makes an empty set of frames below `end`.
    pub fn new(end: Pfn) -> SharedFrameSet {
        let words = std::iter::repeat_with(|| AtomicU64::new(0)).take((end.0 as usize).div_ceil(64));
        SharedFrameSet { words: words.collect() }
    }

    /// Adds frames; returns how many were in the set already.
    pub fn insert(&self, pfn: Pfn, frames: Frames) -> u64 {
        // ORDER: AcqRel pairs with `remove`: the thread that gets a frame sees that its last holder gave it up.
        let add = |(word, mask): (usize, u64)| self.words[word].fetch_or(mask, Ordering::AcqRel) & mask;
        FrameSet::words(pfn, frames).map(|part| u64::from(add(part).count_ones())).sum()
    }

    /// Removes frames.
    pub fn remove(&self, pfn: Pfn, frames: Frames) {
        for (word, mask) in FrameSet::words(pfn, frames) {
            // ORDER: AcqRel pairs with `insert`.
            self.words[word].fetch_and(!mask, Ordering::AcqRel);
        }
    }

    /// Returns the frames from `64 * i` on, one bit each; none beyond the limit.
    pub fn word(&self, i: usize) -> u64 {
        // ORDER: Relaxed: a sample taken while others allocate is an estimate.
        self.words.get(i).map_or(0, |w| w.load(Ordering::Relaxed))
    }

    /// Returns how many frames are in the set.
    pub fn len(&self) -> u64 {
        // ORDER: Relaxed: called when the threads have ended.
        self.words.iter().map(|w| u64::from(w.load(Ordering::Relaxed).count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_at_the_end_are_none_beyond_it() {
        let mut set = FrameSet::new(Pfn(200));
        set.insert(Pfn(0), Frames(200));
        assert_eq!(set.words_at(0), [u64::MAX, u64::MAX, u64::MAX, 0xff]);
        assert_eq!(set.words_at(2), [u64::MAX, 0xff, 0]);
        assert_eq!(set.words_at(9), [0, 0]);
    }

    #[test]
    fn ranges_across_words_are_counted_once() {
        let mut set = FrameSet::new(Pfn(1000));
        assert_eq!(set.insert(Pfn(60), Frames(200)), 0);
        assert_eq!(set.insert(Pfn(0), Frames(64)), 4);
        assert_eq!(set.count(Pfn(0), Frames(1000)), 260);
        set.remove(Pfn(64), Frames(64));
        assert_eq!(set.count(Pfn(0), Frames(1000)), 196);
        assert!(set.contains(Pfn(63)) && !set.contains(Pfn(64)) && !set.contains(Pfn(5000)));
    }
}
