//! Arithmetic on words of free bits: aligned runs, the largest of them, the lowest few. Pure functions.

use super::geometry::{BLOCK_ORDER, WORD_MASK, WORD_ORDER};

/// Bits at the multiples of 2^k.
const STARTS: [u64; 7] = [
    u64::MAX,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
    1,
];

/// Returns the starts of the aligned runs of order `k + 1`, given those of order `k`.
#[inline(always)]
pub(crate) const fn double(starts: u64, k: u8) -> u64 {
    (starts & (starts >> (1u32 << k))) & STARTS[k as usize + 1]
}

/// Returns the first bits of the aligned runs of `2^order` set bits in `bits`. `order` is at most 6.
#[inline(always)]
pub(crate) const fn runs(bits: u64, order: u8) -> u64 {
    // Of runs that begin anywhere, those that are aligned are picked at the end. Constant shifts, where a loop's would
    // be computed.
    let mut starts = bits;
    if order > 0 {
        starts &= starts >> 1;
    }
    if order > 1 {
        starts &= starts >> 2;
    }
    if order > 2 {
        starts &= starts >> 4;
    }
    if order > 3 {
        starts &= starts >> 8;
    }
    if order > 4 {
        starts &= starts >> 16;
    }
    if order > 5 {
        starts &= starts >> 32;
    }
    starts & STARTS[order as usize]
}

/// Returns the aligned run of `2^order` bits that holds a bit of a word.
#[inline(always)]
pub(crate) const fn run_of(bit: u32, order: u8) -> u64 {
    let size = 1u32 << order;
    (u64::MAX >> (64 - size)) << (bit & !(size - 1))
}

/// Returns all bits of the runs of `2^order` that start at `starts`.
#[inline]
pub(crate) const fn spread(starts: u64, order: u8) -> u64 {
    let mut bits = starts;
    let mut k = 0;
    while k < order {
        bits |= bits << (1u32 << k);
        k += 1;
    }
    bits
}

/// Returns the order of the largest aligned run of set bits.
#[inline]
pub(crate) const fn largest(bits: u64) -> Option<u8> {
    if bits == 0 {
        return None;
    }
    if bits == u64::MAX {
        return Some(6);
    }
    // All six, whatever the first ones say: with random bits a processor mispredicts the end of a loop.
    Some(largest_of(bits, 6))
}

/// Returns the order, at most `most`, of the largest aligned run of set bits, of which there is at least one.
#[inline(always)]
pub(crate) const fn largest_of(bits: u64, most: u8) -> u8 {
    let mut starts = bits;
    let (mut k, mut largest) = (0, 0);
    while k < most {
        starts = double(starts, k);
        largest += (starts != 0) as u8;
        k += 1;
    }
    largest
}

/// Returns the `n` lowest set bits, or all where there are fewer.
#[inline]
pub(crate) const fn lowest(bits: u64, n: u32) -> u64 {
    let count = bits.count_ones();
    if count <= n {
        return bits;
    }
    // Remove from whichever end has less to remove.
    let mut rest = bits;
    if n > count / 2 {
        let mut i = n;
        while i < count {
            rest &= !(1 << (63 - rest.leading_zeros()));
            i += 1;
        }
        rest
    } else {
        let mut i = 0;
        while i < n {
            rest &= rest - 1;
            i += 1;
        }
        bits & !rest
    }
}

/// Returns up to `n` of the runs of `2^order` in `bits`, all their bits, preferring those that are not half of a
/// larger run.
#[inline]
pub(crate) const fn pick(bits: u64, order: u8, n: u32) -> u64 {
    let all = runs(bits, order);
    let single = if order < 6 {
        let pairs = runs(bits, order + 1);
        all & !(pairs | pairs << (1u32 << order))
    } else {
        all
    };
    let few = lowest(single, n);
    let more = lowest(all & !single, n - few.count_ones());
    spread(few | more, order)
}

/// Returns one of the runs of `2^order` in `bits`, all its bits, as [`pick`] prefers them; 0 if there is none.
#[inline(always)]
pub(crate) const fn pick_one(bits: u64, order: u8) -> u64 {
    pick_of(runs(bits, order), order)
}

/// Returns the same, given the starts of all the runs of `2^order`.
#[inline(always)]
pub(crate) const fn pick_of(all: u64, order: u8) -> u64 {
    let single = if order < 6 {
        let pairs = double(all, order);
        all & !(pairs | pairs << (1u32 << order))
    } else {
        all
    };
    let some = if single != 0 { single } else { all };
    let first = some & some.wrapping_neg();
    // As many bits from there on.
    first.wrapping_mul(u64::MAX >> (64 - (1u32 << order)))
}

/// Returns the order of the largest run that was broken in a word: zero if an equal run is left, a pageblock's if the
/// word was all free and so may be part of a larger run.
#[inline]
pub(crate) fn run_broken(free: u64, taken: u64) -> u8 {
    if free & WORD_MASK == WORD_MASK {
        return BLOCK_ORDER;
    }
    let before = largest(free & WORD_MASK);
    if before == largest(free & WORD_MASK & !taken) { 0 } else { before.unwrap_or(0) }
}

/// Returns the order of the largest run in a word, or 0 if none exceeds `hint`.
#[inline(always)]
pub(crate) fn run_above(free: u64, hint: u8) -> u8 {
    if hint < WORD_ORDER && runs(free, hint + 1) != 0 { largest(free).unwrap_or(0) } else { 0 }
}

/// Returns the largest run of a word's free bits that a block of `order` at `bit` is part of, or 0 if that does not
/// exceed `hint`. A run of other frames is told by the release that completed it.
#[inline(always)]
pub(crate) fn run_with(free: u64, bit: u32, order: u8, hint: u8) -> u8 {
    // A damaged hint wraps: every run is looked at.
    let (mut run, mut next) = if hint < order { (order, order + 1) } else { (0, hint.wrapping_add(1)) };
    while next < WORD_ORDER && free | !run_of(bit, next) == u64::MAX {
        (run, next) = (next, next + 1);
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_aligned() {
        assert_eq!(runs(0b0110, 1), 0, "two neighbours that no aligned pair holds");
        assert_eq!(runs(0b1111_1100, 1), 0b0101_0100);
        assert_eq!(runs(0b1111_1100, 2), 0b0001_0000);
        assert_eq!(runs(u64::MAX, 6), 1);
        assert_eq!(spread(runs(u64::MAX, 6), 6), u64::MAX);
    }

    #[test]
    fn a_bit_lies_in_one_run_of_each_order() {
        for (bit, order) in (0..64).flat_map(|bit| (0..=6).map(move |order| (bit, order))) {
            let run = run_of(bit, order);
            assert_eq!((run >> bit & 1, run.count_ones()), (1, 1 << order));
            assert_eq!(spread(runs(run, order), order), run);
        }
    }

    #[test]
    fn the_largest_run_is_found_by_trying_all() {
        let mut bits = 0x9e37_79b9_7f4a_7c15u64;
        for i in 0..2000 {
            bits = bits.rotate_left(7).wrapping_mul(0x2545_f491_4f6c_dd1d) | bits >> (i % 64);
            let by_trying = (0..=6).rev().find(|k| runs(bits, *k) != 0);
            assert_eq!(largest(bits), by_trying, "{bits:#x}");
        }
        assert_eq!(largest(0), None);
    }

    #[test]
    fn the_lowest_bits_are_the_lowest() {
        for n in 0..=64 {
            let few = lowest(u64::MAX, n);
            assert_eq!(few.count_ones(), n);
            assert!(n == 64 || few == (1 << n) - 1);
        }
        assert_eq!(lowest(0b1011_0100, 3), 0b0011_0100);
        assert_eq!(lowest(0b100, 3), 0b100);
    }

    #[test]
    fn picking_one_is_picking_of_one() {
        let mut bits = 0x9e37_79b9_7f4a_7c15u64;
        for i in 0..2000 {
            bits = bits.rotate_left(9).wrapping_mul(0x2545_f491_4f6c_dd1d) | bits >> (i % 64);
            for order in 0..=6 {
                assert_eq!(pick_one(bits, order), pick(bits, order, 1), "{bits:#x}");
            }
        }
        assert_eq!((pick_one(0, 3), pick_one(u64::MAX, 6)), (0, u64::MAX));
    }

    #[test]
    fn picking_spares_larger_runs() {
        assert_eq!(pick(0b1111_0100, 0, 1), 0b100);
        assert_eq!(pick(0b1111_0011, 1, 1), 0b11);
        assert_eq!(pick(0b1111_0011, 1, 2), 0b11_0011);
        assert_eq!(pick(0b1111_0011, 2, 5), 0b1111_0000);
        assert_eq!(pick(0, 0, 3), 0);
    }
}
