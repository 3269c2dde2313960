//! The two engines that are compared, with the same watermarks.

use pageyard::watermark::WatermarkKnobs;
use pageyard::{MapError, MemoryMap, Order, OwnedPageyard, Pageyard, TryLock};
use pageyard_linux::{Config, LinuxAllocator, MAX_PAGE_ORDER};
use pageyard_testkit::Build;

/// A boost depends on where blocks lie.
const WATERMARK: WatermarkKnobs = WatermarkKnobs { watermark_boost_factor: 0, ..WatermarkKnobs::defaults() };

/// Returns whether a preset's free blocks may stay on the reserve's lists.
pub fn strands_reserved_blocks(preset: &str) -> bool {
    ["linux-4.6", "linux-4.10", "linux-5.10", "linux-6.1"].contains(&preset)
}

/// The reference as one of its presets.
pub struct Linux(pub &'static str);

impl Build for Linux {
    type Engine = LinuxAllocator;

    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<LinuxAllocator, MapError> {
        let preset = Config::preset(self.0).expect("a preset's name");
        let config = Config { cpus, watermark: WATERMARK, privileged_take_any_node: false, ..preset };
        LinuxAllocator::new(map, &config)
    }

    fn largest_order(&self) -> Order {
        MAX_PAGE_ORDER
    }

    fn strands_reserved_blocks(&self) -> bool {
        strands_reserved_blocks(self.0)
    }
}

/// `pageyard`, with per-CPU lists or without.
pub struct Ours {
    pub pcp: bool,
}

impl Build for Ours {
    type Engine = OwnedPageyard<TryLock>;

    fn name(&self) -> String {
        if self.pcp { "pageyard" } else { "pageyard without lists" }.to_owned()
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<Self::Engine, MapError> {
        let config = pageyard::Config { watermark: WATERMARK, pcp: self.pcp, ..pageyard::Config::new(cpus) };
        Pageyard::owned(map, config, TryLock)
    }

    fn largest_order(&self) -> Order {
        Order::MAX
    }
}
