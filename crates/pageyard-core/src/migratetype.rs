//! Migratetypes: how movable the contents of a pageblock are.

use core::fmt;

/// The mobility of a pageblock's contents, or of a request's.
///
/// # Linux
/// `enum migratetype`, with `MIGRATE_CMA` always present so that numbers do not depend on a configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Migratetype {
    /// Contents that stay where they are: kernel data, page tables, pinned buffers.
    Unmovable = 0,
    /// Contents that can be copied elsewhere: user pages, most page cache.
    Movable = 1,
    /// Contents that can be dropped on demand: inode and dentry caches.
    Reclaimable = 2,
    /// Kept back for high-order requests that cannot wait.
    HighAtomic = 3,
    /// A contiguous area lent to movable requests until its owner wants it.
    Cma = 4,
    /// Taken out of allocation.
    Isolate = 5,
}

impl Migratetype {
    /// How many there are.
    pub const COUNT: usize = 6;

    /// The types that requests ask for and per-CPU lists hold.
    ///
    /// # Linux
    /// `MIGRATE_PCPTYPES`.
    pub const REQUESTED: [Migratetype; 3] =
        [Migratetype::Unmovable, Migratetype::Movable, Migratetype::Reclaimable];

    /// Every type, in the order of their numbers.
    pub const ALL: [Migratetype; Migratetype::COUNT] = [
        Migratetype::Unmovable,
        Migratetype::Movable,
        Migratetype::Reclaimable,
        Migratetype::HighAtomic,
        Migratetype::Cma,
        Migratetype::Isolate,
    ];

    /// Makes a type from its number.
    #[must_use]
    #[inline]
    pub const fn from_index(index: u8) -> Option<Migratetype> {
        if (index as usize) < Migratetype::COUNT { Some(Migratetype::ALL[index as usize]) } else { None }
    }

    /// Returns the number as an index.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns whether requests ask for this type (the others are states of pageblocks only).
    #[must_use]
    #[inline]
    pub const fn is_requested(self) -> bool {
        (self as u8) < 3
    }

    /// Returns whether free blocks of this type may merge with those of other such types across a pageblock's border.
    ///
    /// # Linux
    /// `migratetype_is_mergeable`.
    #[must_use]
    #[inline]
    pub const fn is_mergeable(self) -> bool {
        self.is_requested()
    }

    /// Returns the types to fall back to, best first, when this one has no free block that fits.
    ///
    /// # Linux
    /// The `fallbacks` table.
    #[must_use]
    pub const fn fallbacks(self) -> &'static [Migratetype] {
        match self {
            Migratetype::Unmovable => &[Migratetype::Reclaimable, Migratetype::Movable],
            Migratetype::Movable => &[Migratetype::Reclaimable, Migratetype::Unmovable],
            Migratetype::Reclaimable => &[Migratetype::Unmovable, Migratetype::Movable],
            _ => &[],
        }
    }

    /// Returns the name that `/proc/pagetypeinfo` uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Migratetype::Unmovable => "Unmovable",
            Migratetype::Movable => "Movable",
            Migratetype::Reclaimable => "Reclaimable",
            Migratetype::HighAtomic => "HighAtomic",
            Migratetype::Cma => "CMA",
            Migratetype::Isolate => "Isolate",
        }
    }

    /// Finds a type by the name that `/proc/pagetypeinfo` uses.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Migratetype> {
        Migratetype::ALL.into_iter().find(|m| m.name() == name)
    }
}

impl fmt::Display for Migratetype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_round() {
        for m in Migratetype::ALL {
            assert_eq!(Migratetype::from_index(m as u8), Some(m));
            assert_eq!(Migratetype::from_name(m.name()), Some(m));
        }
        assert_eq!(Migratetype::from_index(6), None);
    }

    #[test]
    fn a_type_never_falls_back_to_itself_or_to_a_reserve() {
        for m in Migratetype::ALL {
            assert!(m.fallbacks().iter().all(|f| *f != m && f.is_requested()));
        }
    }
}
