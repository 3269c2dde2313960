//! Rows: eight neighbouring frames whose tags share one word, upwards or downwards.

use pageyard_core::units::Pfn;
use pageyard_sync::eight::{AT_ONCE, EIGHT};

/// A number of a row: of a frame, or of a frame in its zone.
pub(crate) trait Number: Copy + PartialEq {
    /// Returns the number after `i` steps of a row that begins with it.
    fn after(self, i: u8) -> Self;
}

impl Number for u32 {
    #[inline(always)]
    fn after(self, i: u8) -> u32 {
        self ^ u32::from(i)
    }
}

impl Number for Pfn {
    #[inline(always)]
    fn after(self, i: u8) -> Pfn {
        Pfn(self.0 ^ u64::from(i))
    }
}

/// Returns eight neighbours whose tags share one word, of which `first` is the lowest or the highest. In either
/// direction the number after `i` steps is the first, exclusive or `i`.
#[inline(always)]
pub(crate) fn row_from<T: Number>(first: T) -> [T; EIGHT] {
    let mut row = [first; EIGHT];
    for (number, i) in row.iter_mut().zip(0..) {
        *number = first.after(i);
    }
    row
}

/// Returns whether eight numbers, the first of which [`begins_eight`], are such a row.
#[inline(always)]
pub(crate) fn is_row<T: Number>(numbers: &[T; EIGHT]) -> bool {
    same(numbers, &row_from(numbers[0]))
}

#[inline(always)]
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
fn same<T: Number>(numbers: &[T; EIGHT], row: &[T; EIGHT]) -> bool {
    numbers == row
}

/// Compares 16 bytes at a time, which the compiler would not: it looks for the first difference.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
fn same<T: Number>(numbers: &[T; EIGHT], row: &[T; EIGHT]) -> bool {
    use core::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_setzero_si128,
        _mm_xor_si128,
    };
    // SAFETY: 1. The target has these instructions. 2. Each load is within its array, whose integers have no padding.
    unsafe {
        let load = |of: &[T; EIGHT], at| _mm_loadu_si128(of.as_ptr().cast::<__m128i>().add(at));
        let mut wrong = _mm_setzero_si128();
        for at in 0..size_of::<[T; EIGHT]>() / size_of::<__m128i>() {
            wrong = _mm_or_si128(wrong, _mm_xor_si128(load(numbers, at), load(row, at)));
        }
        _mm_movemask_epi8(_mm_cmpeq_epi8(wrong, _mm_setzero_si128())) == 0xffff
    }
}

/// Returns the lowest number of such a row.
#[inline(always)]
pub(crate) const fn lowest_of_row(first: u64) -> u64 {
    first & !(EIGHT as u64 - 1)
}

/// Returns whether a frame can be at either end of such a run: three frames of four are neither the first nor the last
/// of a word.
#[inline(always)]
pub(crate) fn begins_eight(frame: u64) -> bool {
    AT_ONCE && frame.wrapping_add(1) & 6 == 0
}

#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_seen_in_both_directions_and_nothing_else_is_taken_for_them() {
        let row = |first: u64, step: u64| -> [Pfn; EIGHT] {
            core::array::from_fn(|i| Pfn(first.wrapping_add(step.wrapping_mul(i as u64))))
        };
        let down = u64::MAX;
        let lowest = |row: [Pfn; EIGHT]| {
            let found = begins_eight(row[0].0) && is_row(&row);
            assert_eq!(found, begins_eight(row[0].0) && is_row(&row.map(|pfn| pfn.0 as u32)));
            found.then_some(lowest_of_row(row[0].0))
        };
        if AT_ONCE {
            assert_eq!(lowest(row(16, 1)), Some(16));
            assert_eq!(lowest(row(23, down)), Some(16));
        }
        assert_eq!(lowest(row(17, 1)), None, "in two words");
        assert_eq!(lowest(row(22, down)), None, "in two words");
        assert_eq!(lowest(row(16, 0)), None);
        assert_eq!(lowest(row(16, down)), None);
        for (i, wrong) in (0..EIGHT).flat_map(|i| [(i, 16 + (i as u64 ^ 1)), (i, u64::MAX >> 1)]) {
            let mut eight = row(16, 1);
            eight[i] = Pfn(wrong);
            assert_eq!(lowest(eight), None, "{eight:?}");
        }
    }
}
