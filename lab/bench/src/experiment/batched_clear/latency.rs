//! How long clearing goes on without asking whether to stop, by what is cleared in between.

use super::extent::{DOCUMENTS, Extent, column, size};
use crate::clear::{Mode, Region, Way};
use crate::error::BenchError;
use crate::experiment::{Rows, Run};
use crate::harness::clock::{now_ns, thread_ns};
use crate::harness::sampler::Sample;
use crate::harness::samples::Samples;
use hdrhistogram::Histogram;
use pageyard_arena::clear::{Extent as Memory, clear_in};

const SECTION: &str = "Stretches between two questions whether to stop";

/// The metrics, by extent.
pub(super) fn p99(extent: usize) -> String {
    format!("p99 stretch, {}", size(extent))
}

pub(super) fn most(extent: usize) -> String {
    format!("longest stretch, {}", size(extent))
}

pub(super) fn rate(extent: usize) -> String {
    format!("{} cold, asked in between", size(extent))
}

/// Clears the largest extent in each unit, with a question after each, which reads the thread's clock: stretches are of
/// its own processor time.
pub(super) fn measure(extent: &Extent, run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let bytes = extent.largest();
    let mut region = Region::new(bytes)
        .map_err(|why| BenchError::Experiment { why: format!("there is no memory to clear: {why}") })?;
    let mut ways: Vec<(Way, Histogram<u64>)> = Vec::new();
    for primitive in [Some(DOCUMENTS), None] {
        for mode in [Mode::Page, Mode::Batch, Mode::Extent] {
            let histogram = Histogram::new(3).expect("three digits are allowed");
            ways.push((Way { primitive, mode }, histogram));
        }
    }
    run.at("stretches", 0, 1);
    let series = run.sampler().run(&mut ways, |(way, stretches)| {
        let memory = region.bytes();
        Sample::Counts([clear(*way, bytes, memory, stretches)])
    });
    rows.section(SECTION);
    for ((way, stretches), [gbps]) in ways.iter().zip(&series) {
        let ms = |ns: u64| ns as f64 / 1e6;
        rows.add(p99(bytes), column(*way), ms(stretches.value_at_quantile(0.99)), "ms");
        rows.add(most(bytes), column(*way), ms(stretches.max()), "ms");
        rows.add(rate(bytes), column(*way), Samples::median(gbps), "GB/s");
    }
    Ok(())
}

/// Clears once, and notes every stretch; returns gigabytes a second.
fn clear(
    way: Way,
    bytes: usize,
    memory: &mut [std::mem::MaybeUninit<u8>],
    stretches: &mut Histogram<u64>,
) -> f64 {
    let extent = Memory::new(&mut memory[..bytes]).expect("frames of a mapping");
    let (start, mut last) = (now_ns(), thread_ns());
    let mut ask = || {
        let now = thread_ns();
        // It grows as far as it has to.
        let _ = stretches.record(now - last);
        last = now;
    };
    clear_in(way.primitive_for(bytes, true), extent, way.mode.unit(), &mut ask);
    ask();
    bytes as f64 / (now_ns() - start) as f64
}
