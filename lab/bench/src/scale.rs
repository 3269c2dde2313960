//! `bench scale`: whether the cost of a block depends on how much memory there is, and how full it is.
//!
//! The per-CPU lists are bypassed, so that every call searches its zone.

use crate::harness::clock::now_ns;
use crate::harness::engines::{map_of, one_zone};
use crate::harness::machine::Machine;
use crate::harness::sampler::{SAMPLES, Sample, Sampler};
use crate::refused::{RefusedRow, refused};
use pageyard::engine::Internals;
use pageyard::{
    Config, CpuId, Cx, Migratetype, Order, OwnedPageyard, PageAllocator, Pageyard, Pfn, Request,
    RequestFlags, TryLock,
};
use pageyard_trace::Document;
use serde::Serialize;

/// Blocks held at a time while measuring.
const BATCH: usize = 64;

/// Pairs of calls in a sample.
const PAIRS: usize = 1 << 12;

/// The settings to measure.
#[derive(Clone, Debug)]
pub struct ScaleOptions {
    /// Sizes of memory, in frames.
    pub frames: Vec<u64>,
    /// Shares of memory in use, in percent.
    pub full_pct: Vec<f64>,
    /// Orders.
    pub orders: Vec<Order>,
}

impl ScaleOptions {
    /// From 1 GiB to 1 TiB.
    #[must_use]
    pub fn full() -> ScaleOptions {
        ScaleOptions {
            frames: vec![1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28],
            full_pct: vec![0.0, 50.0, 99.9],
            orders: [0, 3, 6, 7, 9].map(Order::of).to_vec(),
        }
    }

    /// 16 GiB and 1 TiB.
    #[must_use]
    pub fn quick() -> ScaleOptions {
        ScaleOptions {
            frames: vec![1 << 22, 1 << 28],
            orders: [0, 9].map(Order::of).to_vec(),
            ..Self::full()
        }
    }
}

/// One row.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScaleRow {
    /// The allocator.
    pub allocator: &'static str,
    /// Frames of memory.
    pub frames: u64,
    /// Share in use, in percent.
    pub full_pct: f64,
    /// Order of the blocks.
    pub order: u8,
    /// The most steps that a search took; left out where they are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps_max: Option<u64>,
    /// Nanoseconds for taking a block and giving it back, the median.
    pub total_ns_median: f64,
    /// The median as a multiple of that of 16 GiB at the same order and filling; left out where that was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_16_gib: Option<f64>,
}

/// The size that ratios are to: 16 GiB, in frames.
const BASE_FRAMES: u64 = 1 << 22;

/// Searches in memory of all sizes, per-CPU lists bypassed, and requests that are refused.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scale {
    /// Where it was measured.
    pub machine: Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// Blocks taken and given back.
    pub rows: Vec<ScaleRow>,
    /// Requests that are refused.
    pub refused: Vec<RefusedRow>,
}

impl Document for Scale {
    const SCHEMA: &'static str = "pageyard.bench-scale/2";
}

/// Measures. `progress` is told how many of how many fillings are done.
#[must_use]
pub fn scale(options: &ScaleOptions, progress: &mut dyn FnMut(u64, u64)) -> Scale {
    let all = (options.frames.len() * options.full_pct.len()) as u64;
    let mut rows = Vec::new();
    let mut done = 0;
    for frames in &options.frames {
        for full_pct in &options.full_pct {
            let yard = filled(*frames, *full_pct);
            for order in &options.orders {
                rows.extend(measure(&yard, *frames, *full_pct, *order));
            }
            done += 1;
            progress(done, all);
        }
    }
    add_ratios(&mut rows);
    Scale { machine: Machine::measured(), quick: false, rows, refused: refused(&options.frames) }
}

fn add_ratios(rows: &mut [ScaleRow]) {
    let setting = |row: &ScaleRow| (row.order, row.full_pct, row.total_ns_median);
    let bases: Vec<_> = rows.iter().filter(|row| row.frames == BASE_FRAMES).map(setting).collect();
    for row in rows {
        let base = bases.iter().find(|base| (base.0, base.1) == (row.order, row.full_pct));
        row.x_16_gib = base.map(|base| row.total_ns_median / base.2);
    }
}

const CX: Cx = Cx::on(CpuId(0));

/// Makes memory with a share in use: whole pageblocks at random, and in one of sixteen of them every other frame at
/// random, so that searches for single frames meet pageblocks that are neither full nor empty.
fn filled(frames: u64, full_pct: f64) -> OwnedPageyard<TryLock> {
    let regions = one_zone(frames);
    let mut config = Config { pcp: false, ..Config::new(1) };
    config.watermark.min_free_kbytes = Some(0);
    let yard = Pageyard::owned(&map_of(&regions), config, TryLock).expect("the map is small enough");
    let mut random = fastrand::Rng::with_seed(frames);
    let mut blocks: Vec<u64> = (0..frames / 512).collect();
    random.shuffle(&mut blocks);
    let used = (blocks.len() as f64 * full_pct / 100.0) as usize;
    for (i, block) in blocks[..used].iter().enumerate() {
        let pfn = Pfn(block * 512);
        let claimed = yard.claim_exact(&Cx::on(CpuId(0)), pfn, Order::of(9), Migratetype::Movable).is_ok();
        if claimed && i % 16 == 0 && yard.split(&Cx::on(CpuId(0)), pfn, Order::of(9), Order::ZERO).is_ok() {
            for frame in (pfn.0..pfn.0 + 512).filter(|_| random.bool()) {
                let _ = yard.free(&CX, Pfn(frame), Order::ZERO);
            }
        }
    }
    yard
}

fn measure(yard: &OwnedPageyard<TryLock>, frames: u64, full_pct: f64, order: Order) -> Option<ScaleRow> {
    let request = Request::new(order, Migratetype::Movable).with(RequestFlags::MEMALLOC);
    let mut held = [Pfn(0); BATCH];
    let mut pass = || {
        for _ in 0..PAIRS / BATCH {
            for slot in &mut held {
                *slot = yard.alloc(&CX, &request).ok()?;
            }
            for pfn in held {
                yard.free(&CX, pfn, order).ok()?;
            }
        }
        Some(())
    };
    pass()?;
    yard.take_search_steps(CX.cpu);
    let mut served = true;
    let series = Sampler::new(SAMPLES).warmed().run(&mut [()], |()| {
        let start = now_ns();
        served &= pass().is_some();
        match served {
            true => Sample::Counts([(now_ns() - start) as f64 / PAIRS as f64]),
            false => Sample::Impossible,
        }
    });
    if !served {
        return None;
    }
    Some(ScaleRow {
        allocator: "pageyard-trylock",
        frames,
        full_pct,
        order: order.get(),
        steps_max: yard.take_search_steps(CX.cpu),
        total_ns_median: series[0][0].median(),
        x_16_gib: None,
    })
}
