//! `bench primitives`: what the paths of an allocator are made of, one operation at a time.
//!
//! First the thirteen of document 000, under its names, each as user space has it; then those that the engine relies
//! on. A loop's own cost is a separate row, as there, and is not subtracted from the others.
#![allow(unsafe_code, reason = "the time-stamp counter has no safe name")]

mod engine;
mod kernel;
mod primitive;

use super::{Noise, Skipped};
use crate::harness::clock::now_ns;
use crate::harness::costs::laps;
use crate::harness::machine::{InterferenceWatch, Machine};
use crate::harness::noise::Disturbance;
use crate::harness::sampler::{SAMPLES, Sample, Sampler};
use crate::harness::samples::Samples;
use crate::harness::team::{Team, cpus};
use crate::published::Published;
pub(crate) use kernel::{PREEMPT, SAVE, SAVE_MASK, SAVE_REGISTER, document_000};
use pageyard_trace::Document;
use primitive::Primitive;
use serde::Serialize;

/// One row.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrimitiveRow {
    /// The operation, by document 000's name where it has one.
    pub primitive: &'static str,
    /// The operation as performed here.
    pub how: &'static str,
    /// Nanoseconds for one, the median.
    pub ns_median: f64,
    /// The fastest sample.
    pub ns_min: f64,
    /// Cycles of the time-stamp counter; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles_tsc: Option<f64>,
    /// The cycles that document 000 prints; left out where it has no such row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_cycles_tsc: Option<f64>,
    /// The nanoseconds that document 000 prints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_ns: Option<f64>,
}

impl PrimitiveRow {
    /// Makes a row of nanoseconds, the median and the least, beside what document 000 prints.
    fn new(
        primitive: &'static str,
        how: &'static str,
        [ns_median, ns_min]: [f64; 2],
        ghz: Option<f64>,
    ) -> Self {
        let published = published(primitive);
        PrimitiveRow {
            primitive,
            how,
            ns_median,
            ns_min,
            cycles_tsc: ghz.map(|ghz| ns_median * ghz),
            published_cycles_tsc: published.map(|(cycles, _)| cycles),
            published_ns: published.map(|(_, ns)| ns),
        }
    }
}

/// Returns what document 000 prints for an operation: cycles and nanoseconds.
fn published(primitive: &str) -> Option<(f64, f64)> {
    let lines = Published::carried().lines("time_bench");
    let line = lines.iter().find(|l| l.text("primitive") == primitive)?;
    let both = (line.number("cycles_tsc"), line.number("ns"));
    (both.0.is_finite() && both.1.is_finite()).then_some(both)
}

/// The costs of the operations that allocator paths are made of.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Primitives {
    /// Where it was measured.
    pub machine: Machine,
    /// The disturbance seen during the run. The empty loop, first and last of each turn, is the pair that must agree.
    pub disturbance: Disturbance,
    /// The rows: first those of document 000, in its order.
    pub rows: Vec<PrimitiveRow>,
    /// The measurements that were skipped, each with the reason.
    pub skipped: Vec<Skipped>,
}

impl Document for Primitives {
    const SCHEMA: &'static str = "pageyard.bench-primitives/1";
}

/// Measures. `progress` is told how many of how many samples are done.
#[must_use]
pub fn primitives(progress: &mut dyn FnMut(u64, u64)) -> Primitives {
    let mut result = Primitives { machine: Machine::measured(), ..Primitives::default() };
    let cpus = cpus();
    let team = Team::new(&cpus);
    let mut all = kernel::document_000();
    all.extend(engine::engine(&mut result.skipped));
    all.push(Primitive::new("for_loop", "the pair", || {}));
    let watch = InterferenceWatch::start();
    let mut tell = |done: usize| progress(done as u64, SAMPLES as u64);
    let series = Sampler::new(SAMPLES).telling(&mut tell).run(&mut all, |p| Sample::Counts([p.sample()]));
    let ghz = tsc_ghz();
    let row = |(p, [samples]): (&Primitive, &[Samples; 1])| {
        PrimitiveRow::new(p.name, p.how, [samples.median(), samples.min()], ghz)
    };
    let mut rows: Vec<PrimitiveRow> = all.iter().zip(&series).map(row).collect();
    let pair = [rows[0].ns_median, rows.pop().map_or(0.0, |r| r.ns_median)];
    match handover(&team) {
        Some(ns) => rows.push(PrimitiveRow::new(
            "cache_line_handover",
            "a line written on one CPU, seen and written on the other: one way",
            ns,
            ghz,
        )),
        None => result.skipped.push(Skipped {
            allocator: "cache_line_handover",
            why: "it needs two CPUs, and this process may use one".into(),
        }),
    }
    result.rows = rows;
    result.disturbance.add(&Noise::of(pair, &watch));
    result
}

/// Nanoseconds for a cache line to go from one CPU to another, the median and the least of samples.
fn handover(team: &Team) -> Option<[f64; 2]> {
    let series = Sampler::new(SAMPLES)
        .warmed()
        .run(&mut [()], |()| laps(team, 1 << 14).map_or(Sample::Impossible, |ns| Sample::Counts([ns])));
    let samples = &series[0][0];
    (!samples.is_empty()).then(|| [samples.median(), samples.min()])
}

/// Measures how fast the time-stamp counter runs, in cycles a nanosecond, where there is one.
fn tsc_ghz() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has it, and it only reads.
        let read = || unsafe { std::arch::x86_64::_rdtsc() };
        let (start, cycles) = (now_ns(), read());
        while now_ns() - start < 5_000_000 {
            std::hint::spin_loop();
        }
        Some((read() - cycles) as f64 / (now_ns() - start) as f64)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}
