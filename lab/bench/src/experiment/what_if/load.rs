//! The loads: what runs while a setting is tried, how much of it, from what state, and what is compared.

use super::work::Work;
use pageyard_replay::what_if::Figure;
use std::path::Path;

/// A load, and what is compared under it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Its name.
    pub name: &'static str,
    /// Its work.
    pub about: &'static str,
    /// Four figures, fixed beforehand.
    pub figures: [Figure; 4],
    /// How much of it on a host and in a guest, in the load's own unit; 0 where it is not run.
    size: [u64; 2],
    /// The settings that it is run under; all where there is none.
    only: &'static [&'static str],
    /// The state of memory when it begins, on a host.
    pub state: State,
}

/// The state of memory when a load begins on a host.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// MiB that are held, half of them given back here and there.
    pub aged_mib: u64,
    /// Whether every free pageblock is then set aside, as huge pages, so that only pieces are free.
    pub pieces_only: bool,
}

/// MiB that are held in a guest of which only pieces are to be free, half of them given back here and there.
pub(super) const GUEST_PIECES_MIB: u64 = 200;

const LIGHT: State = State { aged_mib: 512, pieces_only: false };

/// The loads, each on the host and in a guest; the last one on a host only where it is asked for.
pub const LOADS: [Load; 6] = [
    Load {
        name: "fork",
        about: "short processes, four at a time, each touching up to 8 MiB",
        figures: [Figure::Drained, Figure::Listed, Figure::Fallbacks, Figure::FreeHuge],
        size: [300, 60],
        only: &[],
        state: LIGHT,
    },
    Load {
        name: "files",
        about: "files read through once and thrown away, small ones written in between",
        figures: [Figure::Drained, Figure::Listed, Figure::Wakes, Figure::FreeHuge],
        size: [2048, 384],
        only: &[],
        state: LIGHT,
    },
    Load {
        name: "net",
        about: "bursts through 16 TCP connections over the loopback device, read when the buffers are full",
        figures: [Figure::Drained, Figure::Listed, Figure::Fallbacks, Figure::FreeHuge],
        size: [1536, 192],
        only: &[],
        state: LIGHT,
    },
    Load {
        name: "huge",
        about: "mappings of 2 to 16 MiB that ask for huge pages, beside files read through once",
        figures: [Figure::Failures, Figure::Stalls, Figure::Fallbacks, Figure::FreeHuge],
        size: [1024, 160],
        only: &[],
        state: LIGHT,
    },
    Load {
        name: "atomic",
        about: "bursts of datagrams that packet sockets keep copies of, allocated without waiting",
        figures: [Figure::Failures, Figure::Wakes, Figure::Fallbacks, Figure::Drained],
        size: [60_000, 12_000],
        only: &[],
        state: LIGHT,
    },
    Load {
        name: "pieces",
        about: "the same while only pieces of pageblocks are free",
        figures: [Figure::Failures, Figure::Wakes, Figure::Fallbacks, Figure::Drained],
        size: [100_000, 7_000],
        only: &["defrag_mode=1", "min_free_kbytes*4", "watermark_boost_factor=0"],
        state: State { aged_mib: 4096, pieces_only: true },
    },
];

/// The load under which a reserve for atomic requests grows, in a guest; `what-if` does not run it.
pub(crate) const RESERVE: Load = Load {
    name: "reserve",
    about: "long echo requests whose answers nobody reads, kept in blocks of 8 frames that are asked for without waiting, \
        then mappings that ask for huge pages",
    figures: [Figure::SetAside, Figure::Failures, Figure::Fallbacks, Figure::HugeRefused],
    size: [0, 160],
    only: &[],
    state: LIGHT,
};

impl Load {
    /// Finds a load.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Load> {
        LOADS.iter().find(|load| load.name == name)
    }

    /// Returns whether it is run on a host or in a guest.
    #[must_use]
    pub fn is_run(&self, in_guest: bool) -> bool {
        self.size[usize::from(in_guest)] > 0
    }

    /// Returns whether it is run under a setting of this name.
    #[must_use]
    pub fn is_run_under(&self, setting: &str) -> bool {
        self.only.is_empty() || self.only.contains(&setting)
    }

    /// Describes the work on a host or in a guest.
    #[must_use]
    pub fn work(&self, in_guest: bool, seed: u64, cache: &Path) -> Work {
        Work {
            load: self.name.to_owned(),
            size: self.size[usize::from(in_guest)],
            seed,
            cache: cache.to_owned(),
        }
    }
}
