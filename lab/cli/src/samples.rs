//! `--samples`: how often each row is measured.

use clap::Args;
use pageyard_bench as bench;

/// How often each row is sampled.
#[derive(Args, Clone, Copy, Default)]
pub struct Samples {
    /// Take this many samples of each row, at least 3
    #[arg(long, value_name = "N", value_parser = samples)]
    pub samples: Option<usize>,
}

fn samples(text: &str) -> Result<usize, String> {
    const MOST: usize = 1000;
    let asked = text.parse().ok().filter(|n| (bench::FEWEST..=MOST).contains(n));
    asked.ok_or_else(|| format!("samples are a number from {} to {MOST}", bench::FEWEST))
}
