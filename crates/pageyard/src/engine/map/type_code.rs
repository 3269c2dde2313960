//! The codes under which descriptors and per-CPU lists keep migratetypes.

use pageyard_core::migratetype::Migratetype;

/// The number that a descriptor stores for a migratetype: 0 is movable, so that zeroed metadata is a fresh zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TypeCode(u8);

impl TypeCode {
    /// Returns the code of a migratetype.
    #[inline(always)]
    pub(crate) const fn of(m: Migratetype) -> TypeCode {
        TypeCode(m as u8 ^ Migratetype::Movable as u8)
    }

    /// Reads a code from the low bits of a descriptor.
    #[inline(always)]
    pub(super) const fn from_bits(bits: u64) -> TypeCode {
        TypeCode(bits as u8)
    }

    /// Returns the code as a descriptor has it.
    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// Returns the code as an index.
    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A bit for the code of each type that requests ask for.
pub(super) const REQUESTED: u8 = {
    let (mut bits, mut n) = (0, 0);
    while n < Migratetype::REQUESTED.len() {
        bits |= 1 << TypeCode::of(Migratetype::REQUESTED[n]).0;
        n += 1;
    }
    bits
};

/// The migratetype of each code that a descriptor can store. `Isolate` is none of them; a damaged descriptor that has
/// its code, or one that is nobody's, counts as movable.
pub(super) const BY_CODE: [Migratetype; 8] = {
    let mut types = [Migratetype::Movable; 8];
    let mut n = 0;
    while n < Migratetype::COUNT {
        let m = Migratetype::ALL[n];
        if !matches!(m, Migratetype::Isolate) {
            types[TypeCode::of(m).index()] = m;
        }
        n += 1;
    }
    types
};
