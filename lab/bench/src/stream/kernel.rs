//! The four kernels, each over the part of the arrays that one thread has.

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

/// What Scale and Triad multiply by.
pub(super) const SCALAR: f64 = 3.0;

/// Bytes of an element: an `f64`.
pub const ELEMENT_BYTES: u64 = size_of::<f64>() as u64;

impl Kernel {
    /// Every one, in the order of a repetition.
    pub const ALL: [Kernel; 4] = [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad];

    /// Returns its name, as documents and published tables have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::Copy => "Copy",
            Kernel::Scale => "Scale",
            Kernel::Add => "Add",
            Kernel::Triad => "Triad",
        }
    }

    /// Returns the bytes that count for an element: those that the operation reads and writes.
    ///
    /// A store that goes through the caches first fetches the line that it writes to. The original does not count that
    /// traffic, and neither does this.
    #[must_use]
    pub const fn bytes_per_element(self) -> u64 {
        match self {
            Kernel::Copy | Kernel::Scale => 2 * ELEMENT_BYTES,
            Kernel::Add | Kernel::Triad => 3 * ELEMENT_BYTES,
        }
    }

    /// Does the operation on slices of one length.
    pub(super) fn run(self, a: &mut [f64], b: &mut [f64], c: &mut [f64]) {
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
/// A plain loop would become a call of `memcpy`, which in some C libraries writes past the caches once it is large: the
/// only kernel with other stores than the rest. The exclusive or with a zero that the compiler does not know prevents
/// that; it costs an instruction on registers, which waits for memory anyway.
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
        let start = || ([1.0, -2.5], [10.0, 0.5], [100.0, f64::MIN_POSITIVE]);
        for (kernel, expected) in [
            (Kernel::Copy, ([1.0, -2.5], [10.0, 0.5], [1.0, -2.5])),
            (Kernel::Scale, ([1.0, -2.5], [300.0, 3.0 * f64::MIN_POSITIVE], [100.0, f64::MIN_POSITIVE])),
            (Kernel::Add, ([1.0, -2.5], [10.0, 0.5], [11.0, -2.0])),
            (Kernel::Triad, ([310.0, 0.5], [10.0, 0.5], [100.0, f64::MIN_POSITIVE])),
        ] {
            let (mut a, mut b, mut c) = start();
            kernel.run(&mut a, &mut b, &mut c);
            assert_eq!((a, b, c), expected, "{}", kernel.name());
        }
    }

    #[test]
    fn bytes_are_those_of_the_original_and_names_those_of_documents() {
        assert_eq!(Kernel::ALL.map(Kernel::bytes_per_element), [16, 16, 24, 24]);
        for kernel in Kernel::ALL {
            assert_eq!(serde_json::to_value(kernel).unwrap(), kernel.name());
        }
    }
}
