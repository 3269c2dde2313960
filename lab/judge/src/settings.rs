//! Sets of settings: values that a kernel is given below `/proc/sys/vm`, and the preset of the reference with the same
//! ones.

use crate::stream::Shape;
use pageyard_core::knob::Version;
use pageyard_linux::Config;

/// Frames of the guest that streams fill to a share, roughly: what the kernel leaves free of [`crate::guest::SMALL`].
const FRAMES: u64 = 130_000;

/// Names and values.
pub type Settings = Vec<(String, String)>;

/// Values of `min_free_kbytes`.
pub const MIN_FREE_KBYTES: [u64; 6] = [1024, 2048, 3064, 4096, 8192, 16384];
/// Values of `watermark_scale_factor`.
pub const SCALE_FACTORS: [u64; 4] = [10, 10, 50, 200];
/// Values of `watermark_boost_factor`. An operation carries a tenth of it, so each is a multiple of ten.
pub const BOOST_FACTORS: [u64; 4] = [15_000, 15_000, 0, 5000];

/// Makes the settings of a set: a choice of each of five.
#[must_use]
pub fn settings(set: u64) -> Settings {
    let mut rng = fastrand::Rng::with_seed(set ^ 0x5e77);
    let mut pick = |of: &[u64]| of[rng.usize(0..of.len())].to_string();
    let chosen = [
        ("min_free_kbytes", pick(&MIN_FREE_KBYTES)),
        ("watermark_scale_factor", pick(&SCALE_FACTORS)),
        ("watermark_boost_factor", pick(&BOOST_FACTORS)),
        ("percpu_pagelist_high_fraction", pick(&[0, 0, 8, 64])),
        // Written again although it is the default, because a kernel computes it before all its memory is there.
        ("lowmem_reserve_ratio", "256 256 32 0".to_owned()),
    ];
    chosen.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// Makes the shape of a set's stream: every second one uses both CPUs, two of three have bulk requests if the kernel
/// has any (`linux`: since 5.13). Where requests compact there are more of these, so that memory is full of single
/// frames that can be moved.
#[must_use]
pub fn shape(set: u64, operations: u32, linux: &Config, compacts: bool) -> Shape {
    let is_old = linux.release() < Some(Version(5, 13));
    let bulk = match (set.is_multiple_of(3), compacts) {
        _ if is_old => 0,
        (true, false) => 0,
        (false, false) => 20,
        (true, true) => 60,
        (false, true) => 180,
    };
    Shape {
        seed: set,
        operations,
        frames: FRAMES,
        both_cpus: set % 2 == 1,
        bulk,
        exact: 15,
        pins: compacts,
        compound_pairs: !is_old,
    }
}

/// Gives the reference the same settings; `compacts`: whether the judge's kernel compacts.
///
/// # Errors
/// Says which setting is unknown, or has a value that it cannot have.
pub fn apply(preset: &Config, settings: &Settings, compacts: bool) -> Result<Config, String> {
    let mut config = preset.clone();
    config.compaction.enabled = compacts;
    // The judge is a thread of the kernel, and those capture nothing (`task_capc`).
    config.compaction.capture = false;
    for (name, value) in settings {
        if name == "lowmem_reserve_ratio" {
            let ratios = value.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
            let ratios = ratios.map_err(|_| format!("`{name}` takes four numbers, not `{value}`"))?;
            for (ratio, n) in config.watermark.lowmem_reserve_ratio.iter_mut().zip(ratios) {
                *ratio = n;
            }
        } else {
            config.set(name, value).map_err(|e| e.to_string())?;
        }
    }
    Ok(config)
}
