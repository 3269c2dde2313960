//! Free memory seen the same way on every engine: the frames that are not held, merged by the buddy rule. Engines
//! differ in what their per-CPU lists hold at a given moment, and a block in such a list is on no free list. Counted
//! from the free lists alone, an engine with long lists would look fragmented. So fragmentation is computed from the
//! frames that are not held: what the free lists would show if every per-CPU list were drained first.

use crate::bitmap::{FrameSet, SharedFrameSet};
use crate::machine::Machine;
use pageyard::proctext::LINUX_ORDERS;
use pageyard::{Frames, Pfn};

/// Bits in a word of a set of frames.
const WORD: u64 = 64;
/// The order of a whole word.
const WORD_ORDER: usize = 6;
/// Words of a block of Linux's largest order, which is how far frames merge.
const WORDS: usize = 1 << (LINUX_ORDERS - 1 - WORD_ORDER);

/// The engine's frames that the replay holds.
pub trait HeldFrames {
    /// Returns the frames from `64 * i` on that are held, one bit each.
    fn word(&self, i: usize) -> u64;
}

impl HeldFrames for FrameSet {
    fn word(&self, i: usize) -> u64 {
        FrameSet::word(self, i)
    }
}

impl HeldFrames for SharedFrameSet {
    fn word(&self, i: usize) -> u64 {
        SharedFrameSet::word(self, i)
    }
}

/// Returns how many blocks of each order some free frames make: those of a block of the largest order, one bit each.
pub fn merged(free: &[u64; WORDS]) -> [u64; LINUX_ORDERS] {
    let mut count = [0; LINUX_ORDERS];
    merge(free, &mut count);
    count
}

/// The frames that an allocator manages, zone by zone.
pub struct FreeView {
    managed: FrameSet,
    zones: Vec<(Pfn, Pfn)>,
}

impl FreeView {
    /// Makes a view of a machine's managed frames.
    pub fn new(machine: &Machine) -> FreeView {
        let mut managed = FrameSet::new(machine.end());
        for region in machine.regions().iter().filter(|r| r.managed) {
            managed.insert(region.start, region.frames);
        }
        FreeView { managed, zones: machine.zones().collect() }
    }

    /// Makes a view of no frames.
    #[cfg(test)]
    pub fn of_nothing() -> FreeView {
        FreeView { managed: FrameSet::new(Pfn(0)), zones: Vec::new() }
    }

    /// Returns how many blocks of each order the frames that are not held make. A block does not cross a zone.
    pub fn blocks(&self, held: &dyn HeldFrames) -> [u64; LINUX_ORDERS] {
        let mut count = [0; LINUX_ORDERS];
        for (start, end) in &self.zones {
            let words = start.0 / WORD..end.0.div_ceil(WORD);
            let mut at = words.start / WORDS as u64 * WORDS as u64;
            while at < words.end {
                let free: [u64; WORDS] = std::array::from_fn(|i| {
                    let word = at + i as u64;
                    within(word, start.0, end.0)
                        & self.managed.word(word as usize)
                        & !held.word(word as usize)
                });
                merge(&free, &mut count);
                at += WORDS as u64;
            }
        }
        count
    }
}

/// Returns the bits of a word whose frames lie between `start` and `end`.
fn within(word: u64, start: u64, end: u64) -> u64 {
    let from = start.saturating_sub(word * WORD).min(WORD);
    let to = end.saturating_sub(word * WORD).min(WORD);
    let below = |n: u64| if n == WORD { u64::MAX } else { (1 << n) - 1 };
    below(to) & !below(from)
}

/// Counts the largest aligned blocks that the set bits make.
fn merge(free: &[u64; WORDS], count: &mut [u64; LINUX_ORDERS]) {
    let mut whole = 0u64;
    for (i, word) in free.iter().enumerate() {
        whole |= merge_word(*word, WORD_ORDER, 0, count) << i;
    }
    let top = merge_word(whole, LINUX_ORDERS - 1 - WORD_ORDER, WORD_ORDER, count);
    count[LINUX_ORDERS - 1] += top;
}

/// Merges pairs of bits `orders` times, counting what has no buddy from order `first` on; what is left merged is one bit
/// for each `2^orders` bits.
fn merge_word(mut starts: u64, orders: usize, first: usize, count: &mut [u64; LINUX_ORDERS]) -> u64 {
    for order in 0..orders {
        // A bit is the start of a block of `order`; two that are buddies become one.
        let merged = starts & (starts >> (1 << order)) & EVEN[order];
        count[first + order] += u64::from(starts.count_ones() - 2 * merged.count_ones());
        starts = merged;
    }
    starts
}

/// For each order, the places where a block of the next one may start.
const EVEN: [u64; WORD_ORDER] = [
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
    0x0000_0000_0000_0001,
];

/// Returns the frames in blocks by order.
pub fn frames_in(blocks: &[u64; LINUX_ORDERS]) -> Frames {
    Frames(blocks.iter().enumerate().map(|(order, n)| n << order).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::block;

    /// Counts by the definition: each run of free frames, cut into aligned blocks.
    fn slow(free: &dyn Fn(u64) -> bool, zones: &[(u64, u64)]) -> [u64; LINUX_ORDERS] {
        let mut count = [0; LINUX_ORDERS];
        for &(start, end) in zones {
            let mut at = start;
            while at < end {
                let run = (at..end).take_while(|f| free(*f)).count() as u64;
                for b in block::blocks(Pfn(at), Frames(run), pageyard::Order::of(10)) {
                    count[b.order.index()] += 1;
                }
                at += run.max(1);
            }
        }
        count
    }

    #[test]
    fn blocks_are_those_that_cutting_each_run_gives() {
        let mut rng = fastrand::Rng::with_seed(7);
        for round in 0..200 {
            let end = rng.u64(1..20_000);
            let cut = rng.u64(0..end);
            let zones = [(0, cut), (cut, end)];
            let mut managed = FrameSet::new(Pfn(end));
            let mut held = FrameSet::new(Pfn(end));
            managed.insert(Pfn(0), Frames(end));
            for _ in 0..round {
                let at = rng.u64(0..end);
                let frames = Frames(rng.u64(0..(end - at).min(600)));
                match rng.u8(0..4) {
                    0 => managed.remove(Pfn(at), frames),
                    1 => held.remove(Pfn(at), frames),
                    _ => _ = held.insert(Pfn(at), Frames(frames.0.min(3))),
                }
            }
            let free = |f: u64| managed.contains(Pfn(f)) && !held.contains(Pfn(f));
            let expected = slow(&free, &zones);
            let all = (0..end).filter(|f| free(*f)).count() as u64;
            let view = FreeView { managed, zones: zones.map(|(a, b)| (Pfn(a), Pfn(b))).to_vec() };
            assert_eq!(view.blocks(&held), expected, "round {round}");
            assert_eq!(frames_in(&expected), Frames(all));
        }
    }
}
