//! Free memory seen the same way on every engine: the frames that are not held, merged by the buddy rule. Engines
//! differ in what their per-CPU lists hold at a given moment, and a block in such a list is on no free list. Counted
//! from the free lists alone, an engine with long lists would look fragmented. So fragmentation is computed from the
//! frames that are not held: what the free lists would show if every per-CPU list were drained first.

use super::merged::{WORDS, merged};
use crate::bitmap::{FrameSet, SharedFrameSet};
use crate::machine::Machine;
use pageyard::proctext::LINUX_ORDERS;
use pageyard::{Frames, Pfn};

/// Bits in a word of a set of frames.
const WORD: u64 = 64;
/// The largest order, to which two whole pageblocks merge.
const LARGEST: usize = LINUX_ORDERS - 1;

/// The engine's frames that the replay holds.
pub trait HeldFrames {
    /// Returns the frames of the pageblock that begins with word `i` that are held, one bit each.
    fn pageblock(&self, i: usize) -> Pageblock;
}

/// The frames of a pageblock, one bit each.
type Pageblock = [u64; WORDS];

impl HeldFrames for FrameSet {
    fn pageblock(&self, i: usize) -> Pageblock {
        self.words_at(i)
    }
}

impl HeldFrames for SharedFrameSet {
    fn pageblock(&self, i: usize) -> Pageblock {
        std::array::from_fn(|n| self.word(i + n))
    }
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
            let pair = 2 * WORDS as u64;
            let mut at = words.start / pair * pair;
            while at < words.end {
                let free = |first: u64| {
                    let held = held.pageblock(first as usize);
                    let mut free = self.managed.pageblock(first as usize);
                    for ((free, held), word) in free.iter_mut().zip(held).zip(first..) {
                        *free &= !held;
                        if word * WORD < start.0 || (word + 1) * WORD > end.0 {
                            *free &= within(word, start.0, end.0);
                        }
                    }
                    free
                };
                let [lower, upper] = [merged(&free(at)), merged(&free(at + WORDS as u64))];
                let whole = u64::from(lower[LARGEST - 1] & upper[LARGEST - 1]);
                for ((count, lower), upper) in count.iter_mut().zip(lower).zip(upper) {
                    *count += u64::from(lower + upper);
                }
                count[LARGEST - 1] -= 2 * whole;
                count[LARGEST] += whole;
                at += pair;
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
