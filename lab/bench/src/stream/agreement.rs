//! What the arrays must hold after so many repetitions, and how far they differ from it.

use super::kernel::SCALAR;
use serde::Serialize;

/// One element of each array, in the order `a`, `b`, `c`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Values(pub [f64; 3]);

impl Values {
    /// What each array holds before the first repetition: the original fills them with 1, 2 and 0, and then doubles
    /// `a`.
    pub const FIRST: Values = Values([2.0, 2.0, 0.0]);

    /// The arrays' names.
    const NAMES: [&'static str; 3] = ["a", "b", "c"];

    /// Returns what every element holds after this many repetitions: the operations, once more, on one element.
    pub fn after(repetitions: usize) -> Values {
        let Values([mut a, mut b, mut c]) = Values::FIRST;
        for _ in 0..repetitions {
            c = a;
            b = SCALAR * c;
            c = a + b;
            a = b + SCALAR * c;
        }
        Values([a, b, c])
    }
}

/// The largest relative error that counts as none: the original's, for elements of eight bytes.
pub const TOLERANCE: f64 = 1e-13;

/// How far an array is from what it must hold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Agreement {
    /// The array: `a`, `b` or `c`.
    pub array: &'static str,
    /// What each of its elements must be.
    pub expected: f64,
    /// The mean distance of an element from that, as a share of it.
    pub average_relative_error: f64,
    /// Elements that are further away than the tolerance.
    pub wrong_elements: u64,
}

impl Agreement {
    /// Returns whether the array holds what it must: the original's rule for the average, and no element that is wrong
    /// by itself, which the average of ten million can hide.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.average_relative_error < TOLERANCE && self.wrong_elements == 0
    }
}

/// The distances of some elements of the three arrays from what they must be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Distances([Distance; 3]);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Distance {
    /// The sum over the elements.
    sum: f64,
    /// Elements that are too far away.
    wrong: u64,
}

impl Distances {
    /// Measures these parts of the arrays `a`, `b` and `c`.
    pub fn of(parts: [&[f64]; 3], expected: Values) -> Distances {
        let mut distances = Distances::default();
        for ((distance, part), expected) in distances.0.iter_mut().zip(parts).zip(expected.0) {
            for element in part {
                let apart = (element - expected).abs();
                distance.sum += apart;
                // What is not a number is below nothing, and so it is wrong.
                let is_near = apart < TOLERANCE * expected.abs();
                distance.wrong += u64::from(!is_near);
            }
        }
        distances
    }

    /// Adds those of other elements.
    pub fn and(mut self, others: Distances) -> Distances {
        for (all, other) in self.0.iter_mut().zip(others.0) {
            all.sum += other.sum;
            all.wrong += other.wrong;
        }
        self
    }

    /// Says how far arrays of so many elements are from what they must hold.
    pub fn agreements(&self, expected: Values, elements: usize) -> [Agreement; 3] {
        std::array::from_fn(|n| Agreement {
            array: Values::NAMES[n],
            expected: expected.0[n],
            average_relative_error: self.0[n].sum / elements as f64 / expected.0[n].abs(),
            wrong_elements: self.0[n].wrong,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::MOST_SAMPLES;
    use super::*;

    #[test]
    fn values_are_those_of_the_operations() {
        // By hand: c = 2, b = 6, c = 8, a = 6 + 24.
        assert_eq!(Values::after(1), Values([30.0, 6.0, 8.0]));
        assert_eq!(Values::after(2), Values([450.0, 90.0, 120.0]));
        let largest = Values::after(MOST_SAMPLES + 1);
        assert!(largest.0.iter().all(|v| v.is_finite()), "{largest:?}");
    }

    #[test]
    fn one_wrong_element_is_found_whatever_the_others_are() {
        let expected = Values::after(10);
        let [a, b, c] = expected.0.map(|v| vec![v; 100_000]);
        let right = Distances::of([&a, &b, &c], expected).agreements(expected, a.len());
        assert!(right.iter().all(|r| r.is_valid() && r.average_relative_error == 0.0), "{right:?}");
        for wrong in [expected.0[1] * (1.0 + 1e-12), 0.0, f64::NAN, f64::INFINITY, -expected.0[1]] {
            let mut b = b.clone();
            b[77_777] = wrong;
            let [a, b, c] = Distances::of([&a, &b, &c], expected).agreements(expected, b.len());
            assert!(a.is_valid() && !b.is_valid() && c.is_valid(), "{wrong}: {b:?}");
            assert_eq!((b.array, b.wrong_elements), ("b", 1), "{wrong}");
        }
    }

    #[test]
    fn parts_add_up() {
        let expected = Values::after(3);
        let part = |a: f64| Distances::of([&[a], &[expected.0[1]], &[expected.0[2]]], expected);
        let both = part(expected.0[0]).and(part(3.0 * expected.0[0]));
        let [a, b, c] = both.agreements(expected, 2);
        assert_eq!((a.average_relative_error, a.wrong_elements), (1.0, 1));
        assert!(b.is_valid() && c.is_valid());
    }
}
