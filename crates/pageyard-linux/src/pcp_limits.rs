//! How large a CPU's lists can grow, and how many frames move at a time, from the size of the zone. Layer: parts of a
//! zone.

use crate::config::{Config, FreeHigh, PcpPolicy};
use pageyard_core::{Frames, PAGE_SIZE};

/// The largest batch that `percpu_pagelist_fraction` of 4.x leads to: eight times `PAGE_SHIFT`.
const CLASSIC_BATCH_MAX: u64 = 96;

/// The share of a zone that all lists together may grow to under [`PcpPolicy::Auto`].
const MIN_PERCPU_PAGELIST_HIGH_FRACTION: u64 = 8;

/// The limits of one CPU's lists of one zone, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The least that the lists can hold before they spill.
    pub high_min: u64,
    /// The most that they can hold.
    pub high_max: u64,
    /// How many frames move between a list and its zone at a time.
    pub batch: u64,
}

/// Returns how many frames move between a list and its zone at a time.
///
/// # Linux
/// `zone_batchsize`: a thousandth of the zone within 512 KiB (until 4.18) or 1 MiB, a quarter of that, and half as much
/// again, rounded to one less than a power of two.
fn batch_size(config: &Config, managed: Frames) -> u64 {
    let most = config.pcp_batch_from * 1024 / PAGE_SIZE;
    let batch = ((managed.0 / 1024).min(most) / 4).max(1);
    (1 << (batch + batch / 2).ilog2()) - 1
}

impl Limits {
    /// Computes the limits for a zone with `managed` frames and the low watermark `low`.
    ///
    /// # Linux
    /// `zone_set_pageset_high_and_batch`, `zone_highsize`.
    pub fn new(config: &Config, managed: Frames, low: Frames, cpus: u64) -> Limits {
        let size = batch_size(config, managed);
        // A list that can hold nothing still moves one frame at a time.
        let mut batch = size.max(1);
        let share = |frames: u64| (frames / cpus.max(1)).max(batch * 4);
        let fixed = match config.percpu_pagelist_high_fraction {
            0 => share(low.0),
            fraction => share(managed.0 / fraction),
        };
        let (high_min, high_max) = match config.pcp_policy {
            PcpPolicy::Classic if config.percpu_pagelist_high_fraction > 0 => {
                // Each CPU's lists may hold that share, and their batch follows.
                let high = managed.0 / config.percpu_pagelist_high_fraction;
                batch = (high / 4).clamp(1, CLASSIC_BATCH_MAX);
                (high, high)
            }
            PcpPolicy::Classic => (size * 6, size * 6),
            PcpPolicy::FreeFactor => (fixed, fixed),
            PcpPolicy::Auto if config.percpu_pagelist_high_fraction > 0 => (fixed, fixed),
            // Where the low watermark is more than an eighth of the zone, the larger bound is the lower one, as in
            // Linux.
            PcpPolicy::Auto => (fixed, share(managed.0 / MIN_PERCPU_PAGELIST_HIGH_FRACTION)),
        };
        Limits { high_min, high_max, batch }
    }

    /// Returns how many frames freed in a row let a block of order 1 to 3 empty the lists.
    pub fn many(&self, config: &Config) -> u64 {
        match config.pcp_free_high {
            FreeHigh::Batch => self.batch,
            FreeHigh::BatchAndHalf => self.batch + self.high_min / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_sizes_of_recorded_and_tiny_zones() {
        for config in [Config::linux_5_10(), Config::linux_6_1(), Config::linux_6_18()] {
            assert_eq!(batch_size(&config, Frames(5_394_266)), 63);
            assert_eq!(batch_size(&config, Frames(772_917)), 63);
            assert_eq!(batch_size(&config, Frames(3840)), 0);
            assert_eq!(batch_size(&config, Frames(1)), 0);
        }
        assert_eq!(batch_size(&Config::linux_4_6(), Frames(5_394_266)), 31);
    }

    #[test]
    fn classic_high_is_six_batches() {
        let limits = Limits::new(&Config::linux_4_6(), Frames(1 << 20), Frames(5000), 2);
        assert_eq!((limits.batch, limits.high_max), (31, 186));
        let limits = Limits::new(&Config::linux_5_10(), Frames(3840), Frames(5000), 2);
        assert_eq!(
            (limits.batch, limits.high_max),
            (1, 0),
            "each free of a small zone goes through its list alone"
        );
    }

    #[test]
    fn a_fraction_fixes_high() {
        let mut c = Config::linux_6_18();
        c.set("percpu_pagelist_high_fraction", "8").unwrap();
        let limits = Limits::new(&c, Frames(1 << 20), Frames(5000), 2);
        assert_eq!((limits.high_min, limits.high_max), (65_536, 65_536));
    }
}
