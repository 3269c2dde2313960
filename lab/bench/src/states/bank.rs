//! The states. Each says what it imitates: how its memory was used, by a sketch of what was allocated and given back.

use super::degree::Degree;
use super::memory::Content;
use crate::error::BenchError;
use pageyard::Order;
use pageyard_trace::FrameKind;
use std::ops::RangeInclusive;

/// Which of a state's degrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A third of free memory is in pieces.
    Low,
    /// More than half of it is.
    Middle,
    /// Nearly all of it is.
    High,
}

impl Level {
    /// Every level, the lowest first.
    pub const ALL: [Level; 3] = [Level::Low, Level::Middle, Level::High];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Level::Low => "low",
            Level::Middle => "middle",
            Level::High => "high",
        }
    }
}

/// A state of the bank: pageblocks that are free, that are worn, and that are full, at random places.
#[derive(Debug)]
pub struct State {
    /// Its name.
    pub name: &'static str,
    /// The use of memory that it imitates.
    pub imitates: &'static str,
    /// The share of memory that is free.
    pub(super) free: f64,
    /// The share of pageblocks with frames that cannot be moved, by level.
    pub(super) unmovable_share: [f64; 3],
    /// The content of full pageblocks, and of what is held in worn ones.
    pub(super) filled_with: FrameKind,
    /// The part of worn pageblocks that was given back.
    pub(super) worn: Worn,
    /// The frames that cannot be moved.
    pub(super) unmovable: Unmovable,
}

/// The part of a worn pageblock that was given back.
#[derive(Debug)]
pub(super) enum Worn {
    /// Each aligned block of an order, with this chance.
    Blocks(Order, f64),
    /// Everything but this many single frames.
    AllBut(RangeInclusive<u64>),
    /// This many runs of this many frames.
    Runs(RangeInclusive<u64>, RangeInclusive<u64>),
}

/// The frames that cannot be moved, in those pageblocks that have some.
#[derive(Debug)]
pub(super) struct Unmovable {
    pub what: Content,
    /// They come in aligned blocks of this order.
    pub order: Order,
    /// So many blocks in a pageblock, or all that are held there.
    pub blocks: RangeInclusive<u64>,
    /// Whether worn pageblocks get some first: they are worn because of them.
    pub worn_first: bool,
}

/// The unusable index of order 9 that is asked for, by level, of every state.
const UNUSABLE_INDEX: [f64; 3] = [0.3, 0.6, 0.9];

/// A few frames of slab, wherever they fell.
const STRAY_SLAB: Unmovable =
    Unmovable { what: Content::of(FrameKind::Slab), order: Order::ZERO, blocks: 1..=4, worn_first: false };

/// All states.
pub const BANK: [State; 7] = [
    State {
        name: "cache-evicted",
        imitates: "page cache that was read once and half evicted: every second frame is a movable hole, at random",
        free: 0.4,
        unmovable_share: [0.05, 0.1, 0.2],
        filled_with: FrameKind::File,
        worn: Worn::Blocks(Order::ZERO, 0.5),
        unmovable: STRAY_SLAB,
    },
    State {
        name: "cache-full",
        imitates: "a host full of page cache: 2 % are free, in single frames where reclaim took one here and there",
        free: 0.02,
        unmovable_share: [0.05, 0.1, 0.2],
        filled_with: FrameKind::File,
        worn: Worn::Blocks(Order::ZERO, 1.0 / 16.0),
        unmovable: STRAY_SLAB,
    },
    State {
        name: "slab-scatter",
        imitates: "slab that fell among memory since given back: pageblocks free but for one to eight frames of it",
        free: 0.3,
        unmovable_share: [0.1, 0.3, 0.6],
        filled_with: FrameKind::Anon,
        worn: Worn::AllBut(1..=8),
        unmovable: Unmovable { blocks: 1..=8, worn_first: true, ..STRAY_SLAB },
    },
    State {
        name: "slab-clustered",
        imitates: "slab that grouping by mobility kept together: pageblocks of it, every second one of order 2 freed",
        free: 0.1,
        unmovable_share: [0.1, 0.2, 0.3],
        filled_with: FrameKind::Anon,
        worn: Worn::Blocks(Order::of(2), 0.5),
        unmovable: Unmovable { order: Order::of(2), blocks: 128..=128, worn_first: true, ..STRAY_SLAB },
    },
    State {
        name: "network-rings",
        imitates: "long-lived buffers of order 3, as rings of network cards hold: every second one was given back",
        free: 0.2,
        unmovable_share: [0.15, 0.3, 0.6],
        filled_with: FrameKind::Anon,
        worn: Worn::Blocks(Order::of(3), 0.5),
        unmovable: Unmovable {
            what: Content::of(FrameKind::Other),
            order: Order::of(3),
            blocks: 64..=64,
            worn_first: true,
        },
    },
    State {
        name: "thp-partly-returned",
        imitates: "transparent huge pages of which programs gave parts back: two to six runs of 64 KiB to 512 KiB",
        free: 0.3,
        unmovable_share: [0.05, 0.1, 0.2],
        filled_with: FrameKind::Anon,
        worn: Worn::Runs(2..=6, 16..=128),
        unmovable: STRAY_SLAB,
    },
    State {
        name: "pinned",
        imitates: "memory of programs that ended but for 1 to 32 frames a pageblock, movable by type, pinned by RDMA",
        free: 0.25,
        unmovable_share: [0.1, 0.3, 0.6],
        filled_with: FrameKind::Anon,
        worn: Worn::AllBut(1..=32),
        unmovable: Unmovable {
            what: Content { kind: FrameKind::Anon, locked: true },
            order: Order::ZERO,
            blocks: 1..=32,
            worn_first: true,
        },
    },
];

impl State {
    /// Returns the state of this name.
    ///
    /// # Errors
    /// [`BenchError::State`] where there is none.
    pub fn find(name: &str) -> Result<&'static State, BenchError> {
        BANK.iter().find(|state| state.name == name).ok_or_else(|| {
            let known: Vec<&str> = BANK.iter().map(|state| state.name).collect();
            let name = pageyard_trace::shown(name);
            BenchError::State { why: format!("there is no state `{name}`; there are {}", known.join(", ")) }
        })
    }

    /// Returns what is asked of it at a level.
    #[must_use]
    pub fn asked(&self, level: Level) -> Degree {
        Degree {
            free_share: self.free,
            unusable_index: UNUSABLE_INDEX[level as usize],
            unmovable_pageblock_share: self.unmovable_share[level as usize],
        }
    }
}
