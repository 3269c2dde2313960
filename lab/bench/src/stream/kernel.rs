//! The four operations, each on the part of the arrays that one thread has.

use serde::Serialize;
use std::hint::black_box;

/// One of STREAM's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Kernel {
    /// `c = a`
    Copy,
    /// `b = 3 c`
    Scale,
    /// `c = a + b`
    Add,
    /// `a = b + 3 c`
    Triad,
}

/// The factor of Scale and Triad.
const SCALAR: f64 = 3.0;

impl Kernel {
    /// All operations, in the order of a repetition.
    pub const ALL: [Kernel; 4] = [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad];

    /// Returns the bytes counted for an element: those that the operation reads and writes.
    ///
    /// A store that goes through the caches first fetches the line that it writes to. STREAM does not count that
    /// traffic.
    #[must_use]
    pub const fn bytes_per_element(self) -> u64 {
        match self {
            Kernel::Copy | Kernel::Scale => 16,
            Kernel::Add | Kernel::Triad => 24,
        }
    }

    /// Runs the operation on slices of one length.
    pub(super) fn run(self, [a, b, c]: [&mut [f64]; 3]) {
        match self {
            Kernel::Copy => copy(c, a),
            Kernel::Scale => scale(b, c),
            Kernel::Add => add(c, a, b),
            Kernel::Triad => triad(a, b, c),
        }
    }
}

/// Copies with the loop's own stores.
///
/// A plain loop would become a call of `memcpy`, which in some C libraries writes past the caches. The exclusive or
/// with a zero that the compiler does not know prevents that, and costs nothing while memory is the limit.
#[inline(never)]
fn copy(to: &mut [f64], from: &[f64]) {
    let zero = black_box(0_u64);
    for (to, from) in to.iter_mut().zip(from) {
        *to = f64::from_bits(from.to_bits() ^ zero);
    }
}

#[inline(never)]
fn scale(to: &mut [f64], from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = SCALAR * from;
    }
}

#[inline(never)]
fn add(to: &mut [f64], left: &[f64], right: &[f64]) {
    for (to, (left, right)) in to.iter_mut().zip(left.iter().zip(right)) {
        *to = left + right;
    }
}

#[inline(never)]
fn triad(to: &mut [f64], left: &[f64], right: &[f64]) {
    for (to, (left, right)) in to.iter_mut().zip(left.iter().zip(right)) {
        *to = left + SCALAR * right;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_writes_its_array_and_no_other() {
        for (kernel, expected) in [
            (Kernel::Copy, [[1.0, -2.5], [10.0, 0.5], [1.0, -2.5]]),
            (Kernel::Scale, [[1.0, -2.5], [300.0, 12.0], [100.0, 4.0]]),
            (Kernel::Add, [[1.0, -2.5], [10.0, 0.5], [11.0, -2.0]]),
            (Kernel::Triad, [[310.0, 12.5], [10.0, 0.5], [100.0, 4.0]]),
        ] {
            let mut arrays = [[1.0, -2.5], [10.0, 0.5], [100.0, 4.0]];
            kernel.run(arrays.each_mut().map(|a| &mut a[..]));
            assert_eq!(arrays, expected, "{kernel:?}");
        }
    }
}
