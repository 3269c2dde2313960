//! How an instance is set up.

use pageyard_core::memmap::NR_ZONE_KINDS;
use pageyard_core::range::FrameRange;
use pageyard_core::watermark::{ReserveRule, WatermarkKnobs};

/// How an instance is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// CPUs, each with lists of its own: at least 1, at most [`MAX_CPUS`](pageyard_core::MAX_CPUS).
    pub cpus: u32,
    /// Watermarks and reserves.
    pub watermark: WatermarkKnobs,
    /// Which requests may go below a watermark, and how far.
    pub reserve_rule: ReserveRule,
    /// `vm.percpu_pagelist_high_fraction`: the share of a zone that all CPUs' lists may hold; 0 computes it.
    pub percpu_pagelist_high_fraction: u64,
    /// Whether there are per-CPU lists at all.
    pub pcp: bool,
    /// Whether requests that may wait, and the background, compact at all.
    pub compaction: bool,
    /// How much is compacted ahead of need, 0 to 100.
    ///
    /// # Linux
    /// `vm.compaction_proactiveness`, which is 20 there.
    pub compaction_proactiveness: u8,
    /// `init_on_alloc`: every block is zeros when it is handed out, and only what the engine itself cleared is not
    /// cleared again. Needs something that [clears](crate::Pageyard::with_clearer).
    pub init_on_alloc: bool,
    /// `init_on_free`: every block is cleared when it is freed. Needs something that clears.
    pub init_on_free: bool,
    /// Accepts memory that was [added unaccepted](crate::Pageyard::add_unaccepted).
    pub accept: Option<Accept>,
}

/// Accepts a range of frames from the platform, and says whether that succeeded: they may be touched then.
///
/// It runs in the context of an allocation request, or of [`add_unaccepted`](crate::Pageyard::add_unaccepted). Several
/// CPUs may call it at the same time, for different frames.
#[derive(Clone, Copy, Debug)]
pub struct Accept(pub fn(FrameRange) -> bool);

impl PartialEq for Accept {
    fn eq(&self, other: &Accept) -> bool {
        core::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Accept {}

impl Config {
    /// Makes a configuration for a kernel without reclaim: nothing is kept back from any request that may use a zone.
    /// The lists of all CPUs may hold an eighth of a zone, however small it is; a request that may wait drains them
    /// before it is refused.
    #[must_use]
    pub fn kernel(cpus: u32) -> Config {
        let watermark = WatermarkKnobs {
            min_free_kbytes: Some(0),
            watermark_scale_factor: 0,
            watermark_boost_factor: 0,
            lowmem_reserve_ratio: [0; NR_ZONE_KINDS],
            ..WatermarkKnobs::default()
        };
        Config { watermark, percpu_pagelist_high_fraction: 8, ..Config::new(cpus) }
    }

    /// Makes a configuration for a pool of buffers: that of [`Config::kernel`] without compaction: buffers stay
    /// where they are.
    #[must_use]
    pub fn pool(cpus: u32) -> Config {
        Config { compaction: false, ..Config::kernel(cpus) }
    }

    /// Makes a configuration with Linux's defaults.
    #[must_use]
    pub fn new(cpus: u32) -> Config {
        Config {
            cpus,
            watermark: WatermarkKnobs::default(),
            reserve_rule: ReserveRule::MinReserve,
            percpu_pagelist_high_fraction: 0,
            pcp: true,
            compaction: true,
            compaction_proactiveness: 0,
            init_on_alloc: false,
            init_on_free: false,
            accept: None,
        }
    }
}
