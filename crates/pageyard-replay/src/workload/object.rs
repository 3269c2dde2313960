//! A held block: what it is for, where it is, and what state it is in.

use pageyard::{Order, Pfn};

/// The kind of a held block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Role {
    /// A page of a file: movable, and given up when memory is short.
    Cache,
    /// A process's memory: movable. There is no swap, so it is never given up.
    Anon,
    /// Kernel objects: neither.
    Slab,
    /// Page tables: neither.
    PageTable,
    /// A block of the stress test: neither.
    Test,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 5] = [Role::Cache, Role::Anon, Role::Slab, Role::PageTable, Role::Test];

    /// Returns whether its frames can be moved at all.
    #[must_use]
    pub const fn is_movable(self) -> bool {
        matches!(self, Role::Cache | Role::Anon)
    }
}

/// No object, no frame.
pub(super) const NONE: u32 = u32::MAX;

/// States of an object.
pub(super) mod flag {
    /// A reference keeps it from moving.
    pub const PINNED: u8 = 1 << 0;
    /// It is being written to disk.
    pub const WRITEBACK: u8 = 1 << 1;
    /// It is on the active list.
    pub const ACTIVE: u8 = 1 << 2;
    /// Compaction has taken it out of use.
    pub const ISOLATED: u8 = 1 << 3;
    /// Its frame is no longer held, but its number is still in use.
    pub const GONE: u8 = 1 << 4;
    /// Only the table knows its number.
    pub const ORPHAN: u8 = 1 << 5;
    /// It outlives the load.
    pub const LASTING: u8 = 1 << 6;
    /// Its lock is held: asynchronous migration does not wait for it.
    pub const LOCKED: u8 = 1 << 7;
}

/// The neighbours of a page in its list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub older: u32,
    pub younger: u32,
}

impl Links {
    /// Of a page that is on no list.
    pub const APART: Links = Links { older: NONE, younger: NONE };
}

/// A held block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    pub pfn: u32,
    pub links: Links,
    /// When it was entered in its list: of two pages of different zones it says which is older, see [`super::lru`].
    pub age: u32,
    pub order: Order,
    pub role: Role,
    pub flags: u8,
    pub zone: u8,
}

impl Object {
    pub fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub fn pfn(&self) -> Pfn {
        Pfn(u64::from(self.pfn))
    }
}
