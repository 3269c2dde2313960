//! A descriptor taken apart by the table that documents it.

use super::super::descriptor::BlockState;
use super::super::type_code::TypeCode;
use pageyard_core::migratetype::Migratetype;

/// The parts of a descriptor, read from its bits by the table at [`BlockState`] and not by its methods.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parts {
    pub(super) ty: u64,
    pub(super) isolated: bool,
    pub(super) used: u64,
    pub(super) huge: bool,
    pub(super) hole: bool,
    pub(super) below: u64,
    pub(super) some_zero: bool,
    pub(super) all_zero: bool,
    pub(super) skip: bool,
    pub(super) current: bool,
    pub(super) owner: u64,
    pub(super) sequence: u64,
}

impl Parts {
    pub(super) fn of(state: BlockState) -> Parts {
        let bits = state.bits();
        let bit = |at: u32| bits >> at & 1 != 0;
        Parts {
            ty: bits & 7,
            isolated: bit(3),
            used: bits >> 4 & 0x3ff,
            huge: bit(14),
            hole: bit(15),
            below: bits >> 16 & 15,
            some_zero: bit(20),
            all_zero: bit(21),
            skip: bit(22),
            current: bit(23),
            owner: bits >> 24 & 0xff,
            sequence: bits >> 32,
        }
    }

    pub(super) fn state(self) -> BlockState {
        BlockState::from_bits(
            self.ty
                | u64::from(self.isolated) << 3
                | self.used << 4
                | u64::from(self.huge) << 14
                | u64::from(self.hole) << 15
                | self.below << 16
                | u64::from(self.some_zero) << 20
                | u64::from(self.all_zero) << 21
                | u64::from(self.skip) << 22
                | u64::from(self.current) << 23
                | self.owner << 24
                | self.sequence << 32,
        )
    }

    /// Returns whether a pageblock can be so: it has one of the types, uses no more frames than it has, and has none to
    /// give where it is huge or a hole.
    pub(super) fn is_legal(self) -> bool {
        let has_type = TYPES.iter().any(|m| TypeCode::of(*m).bits() == self.ty);
        has_type && self.used <= 512 && self.below <= 8 && (self.used == 512 || !(self.huge || self.hole))
    }

    pub(super) fn bumped(self) -> Parts {
        Parts { sequence: self.sequence.wrapping_add(1) & 0xffff_ffff, ..self }
    }
}

/// The types that a pageblock can have.
pub(super) const TYPES: [Migratetype; 5] = [
    Migratetype::Unmovable,
    Migratetype::Movable,
    Migratetype::Reclaimable,
    Migratetype::HighAtomic,
    Migratetype::Cma,
];
