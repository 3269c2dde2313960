//! Frames merged by the buddy rule, a pageblock at a time.

use pageyard::PAGEBLOCK_ORDER;

/// Words of a pageblock, a bit a frame.
pub const WORDS: usize = (PAGEBLOCK_ORDER.frames().0 / 64) as usize;

/// Orders of the blocks in a pageblock.
const ORDERS: usize = PAGEBLOCK_ORDER.get() as usize + 1;

/// Returns how many blocks of each order up to its own the free frames of a pageblock make.
///
/// A bit stands for the first frame of a block; two that are buddies become one. What merges leaves the bits between
/// the first frames of blocks unused, so that words are put into one another on the way: from order 3 on one word has
/// the blocks of all, those of word `i` at bits `8 * n + i`.
pub fn merged(free: &[u64; WORDS]) -> [u16; ORDERS] {
    // Most pageblocks are free as a whole, or not at all.
    if free.iter().all(|word| *word == u64::MAX) {
        let mut whole = [0; ORDERS];
        whole[ORDERS - 1] = 1;
        return whole;
    }
    if free.iter().all(|word| *word == 0) {
        return [0; ORDERS];
    }
    let mut starts = [0; ORDERS + 1];
    starts[0] = ones(free);
    let two: [u64; WORDS / 2] = paired(free, 1, 0x5555_5555_5555_5555);
    starts[1] = ones(&two);
    let four: [u64; WORDS / 4] = paired(&two, 2, 0x3333_3333_3333_3333);
    starts[2] = ones(&four);
    let [mut all] = paired(&four, 4, 0x0f0f_0f0f_0f0f_0f0f);
    for order in 3..ORDERS {
        starts[order] = all.count_ones() as u16;
        let (apart, buddies) = BUDDIES[order - 3];
        all = all & all >> apart & buddies;
    }
    for order in 0..ORDERS {
        starts[order] -= 2 * starts[order + 1];
    }
    let [blocks @ .., _] = starts;
    blocks
}

/// For the orders from 3 on: how many bits away a buddy is, and where blocks of the next order may start.
const BUDDIES: [(u32, u64); ORDERS - 3] = [
    (8, 0x00ff_00ff_00ff_00ff),
    (16, 0x0000_00ff_0000_00ff),
    (32, 0x0000_0000_0000_00ff),
    // From here on the buddy is in another word.
    (1, 0x55),
    (2, 0x11),
    (4, 0x01),
    // The whole has none.
    (0, 0),
];

// Plain loops: adapters of iterators and arrays were calls here, each dearer than what it does.

#[inline]
fn ones(words: &[u64]) -> u16 {
    let mut ones = 0;
    for word in words {
        ones += word.count_ones() as u16;
    }
    ones
}

/// Merges buddies that are `apart` bits apart, and puts every second word into the one before it.
#[inline]
fn paired<const N: usize>(words: &[u64], apart: u32, buddies: u64) -> [u64; N] {
    let mut put = [0; N];
    for i in 0..N {
        let (lower, upper) = (words[2 * i], words[2 * i + 1]);
        put[i] = lower & lower >> apart & buddies | (upper & upper >> apart & buddies) << apart;
    }
    put
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::{Frames, Pfn, block};

    /// Counts by the definition: each run of free frames, cut into aligned blocks.
    fn slow(free: &[u64; WORDS]) -> [u16; ORDERS] {
        let is_free = |f: usize| free[f / 64] >> (f % 64) & 1 == 1;
        let (mut count, mut at) = ([0; ORDERS], 0);
        while at < 64 * WORDS {
            let run = (at..64 * WORDS).take_while(|f| is_free(*f)).count();
            for b in block::blocks(Pfn(at as u64), Frames(run as u64), PAGEBLOCK_ORDER) {
                count[b.order.index()] += 1;
            }
            at += run.max(1);
        }
        count
    }

    #[test]
    fn blocks_are_those_that_cutting_each_run_gives() {
        let mut rng = fastrand::Rng::with_seed(5);
        for order in 0..ORDERS {
            // Each block of an order alone, and all but one.
            for at in (0..64 * WORDS).step_by(1 << order) {
                let mut one = [0u64; WORDS];
                (at..at + (1 << order)).for_each(|f| one[f / 64] |= 1 << (f % 64));
                let others = one.map(|word| !word);
                assert_eq!((merged(&one), merged(&others)), (slow(&one), slow(&others)), "{order}, {at}");
                assert_eq!(merged(&one)[order], 1);
            }
        }
        for round in 0..20_000 {
            let mut free = [[0, u64::MAX, 0][round % 3]; WORDS];
            for _ in 0..rng.u32(0..40) {
                let order = rng.u32(0..8);
                let at = rng.usize(0..64 * WORDS) >> order << order;
                (at..(at + (1 << order))).for_each(|f| free[f / 64] ^= 1 << (f % 64));
            }
            assert_eq!(merged(&free), slow(&free), "{free:x?}");
        }
    }
}
