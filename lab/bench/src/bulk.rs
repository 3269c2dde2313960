//! `bench bulk`: many frames with one call against the same frames one by one, and the receive buffer of a network
//! card.
//!
//! *In the cache*, a call's frames are given back before the next call, so the CPU's list never runs dry. *Across*,
//! 16,384 frames are held before the first goes back: more than a list holds, so frames come from their zone and return
//! to it.

use super::sweep::Pattern;
use super::{SAMPLES, Skipped};
use crate::contestants::{CPUS, Outside, Subjects};
use crate::harness::cell::{Cell, Measured};
use crate::harness::load::{Load, Taken};
use crate::harness::machine::Machine;
use crate::harness::moves::Moves;
use crate::harness::noise::Disturbance;
use crate::harness::subject::Subject;
use crate::harness::team::{Team, cpus};
use pageyard::Order;
use pageyard_trace::Document;
use serde::Serialize;

/// Where a call's frames come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// From the CPU's own list.
    InCache,
    /// From the zone through that list, and back.
    Across,
}

impl Where {
    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Where::InCache => "in-cache",
            Where::Across => "across",
        }
    }

    /// Returns how many blocks of `call` frames' size each are held at a time.
    fn batch(self, call: usize, held: usize) -> usize {
        match self {
            Where::InCache => call,
            Where::Across => held / call * call,
        }
    }
}

/// Frames held at a time where a row goes across.
const HELD: usize = 16_384;

/// A receive buffer of 256 KiB is an order-6 block, or this many frames.
pub const BUFFER_FRAMES: usize = 64;
const BUFFER_ORDER: u8 = 6;

/// The settings to measure.
#[derive(Clone, Debug)]
pub struct BulkOptions {
    /// Frames in a call.
    pub calls: Vec<usize>,
    /// Samples of each row.
    pub samples: usize,
    /// Peers beside those of this process.
    pub outside: Outside,
}

impl BulkOptions {
    /// 1, 2, 3, 4, 8 and so on to 512.
    #[must_use]
    pub fn full() -> BulkOptions {
        let calls = vec![1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512];
        BulkOptions { calls, samples: SAMPLES, outside: Outside::default() }
    }

    /// Four of them.
    #[must_use]
    pub fn quick() -> BulkOptions {
        BulkOptions { calls: vec![1, 8, 64, 512], ..BulkOptions::full() }
    }
}

/// One row: nanoseconds a frame.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BulkRow {
    /// The allocator.
    pub allocator: &'static str,
    /// Frames in a call.
    pub bulk: usize,
    /// Threads.
    pub threads: u8,
    /// The order of the blocks.
    pub order: u8,
    /// The order of the frees.
    pub pattern: Pattern,
    /// Where they come from.
    #[serde(rename = "where")]
    pub at: Where,
    /// Taking.
    pub alloc_ns: f64,
    /// Giving back.
    pub free_ns: f64,
    /// Both, the fastest sample.
    pub total_ns_min: f64,
    /// Both, the median.
    pub total_ns_median: f64,
    /// The same frames one by one, the median.
    pub one_by_one_ns_median: f64,
    /// By how much of the time one by one a call is faster.
    pub gain_pct: f64,
    /// The floor's name; left out where it has no row in the setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<&'static str>,
    /// The median as a multiple of the floor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_floor: Option<f64>,
    /// Refills and spills; left out where they cannot be seen.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub moves: Option<Moves>,
    /// Whether the row is doubtful.
    pub disturbed: bool,
}

/// One receive buffer: nanoseconds for allocating and freeing 256 KiB.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BufferRow {
    /// The allocator.
    pub allocator: &'static str,
    /// Where it comes from.
    #[serde(rename = "where")]
    pub at: Where,
    /// Frames of a buffer.
    pub frames: usize,
    /// Bytes of a buffer.
    pub bytes: u64,
    /// 64 frames with one call.
    pub bulk_ns: f64,
    /// 64 frames one by one.
    pub one_by_one_ns: f64,
    /// One block of order 6; left out where it could not be allocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_6_ns: Option<f64>,
}

/// Many frames with one call, beside the same frames one by one.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bulk {
    /// Where it was measured.
    pub machine: Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// The disturbance seen during the run.
    pub disturbance: Disturbance,
    /// Samples of each row.
    pub samples: usize,
    /// The rows: nanoseconds a frame.
    pub rows: Vec<BulkRow>,
    /// The receive buffer.
    pub receive_buffer: Vec<BufferRow>,
    /// The measurements that were skipped, each with the reason.
    pub skipped: Vec<Skipped>,
}

impl Document for Bulk {
    const SCHEMA: &'static str = "pageyard.bench-bulk/2";
}

/// The floor of calls for many frames.
const FLOOR: &str = "floor-array";

/// A subject that is asked for one block at a time, whatever the load says.
struct OneByOne<'a>(&'a dyn Subject);

impl Subject for OneByOne<'_> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn sample(&self, team: &Team, threads: usize, load: &Load) -> Option<Vec<Taken>> {
        self.0.sample(team, threads, &Load { bulk: false, call: 1, ..load.clone() })
    }

    fn moves(&self) -> Option<(u64, u64)> {
        self.0.moves()
    }

    fn can(&self, threads: usize, _: usize) -> bool {
        self.0.can(threads, 1)
    }
}

/// Measures. `progress` is told how many of how many settings are done.
#[must_use]
pub fn bulk(options: &BulkOptions, progress: &mut dyn FnMut(u64, u64)) -> Bulk {
    let mut result = Bulk { machine: Machine::measured(), samples: options.samples, ..Bulk::default() };
    let cpus = cpus();
    let team = Team::new(&[]);
    let mut calls = options.calls.clone();
    if !calls.contains(&BUFFER_FRAMES) {
        calls.push(BUFFER_FRAMES);
    }
    let all = (calls.len() + 1) as u64 * 2;
    let mut done = 0;
    let subjects =
        Subjects::inside(Order::ZERO, CPUS).with_outside(Order::ZERO, CPUS, &options.outside, &cpus);
    let bulky: Vec<&dyn Subject> = subjects.all.iter().map(|s| &**s).filter(|s| s.can(1, 2)).collect();
    result.skipped = subjects.skipped;
    for s in subjects.all.iter().filter(|s| !s.can(1, 2)) {
        result.skipped.push(Skipped { allocator: s.name(), why: "it has no call for many frames".into() });
    }
    for call in calls {
        for at in [Where::InCache, Where::Across] {
            result.measure(&team, &bulky, call, at);
            done += 1;
            progress(done, all);
        }
    }
    drop(bulky);
    let large = Subjects::inside(Order::of(BUFFER_ORDER), CPUS);
    for at in [Where::InCache, Where::Across] {
        result.buffers(&team, &large.all, at);
        done += 1;
        progress(done, all);
    }
    result
}

impl Bulk {
    fn measure(&mut self, team: &Team, subjects: &[&dyn Subject], call: usize, at: Where) {
        let single: Vec<OneByOne<'_>> = subjects.iter().map(|s| OneByOne(*s)).collect();
        let both: Vec<&dyn Subject> =
            subjects.iter().zip(&single).flat_map(|(s, one)| [*s, one as &dyn Subject]).collect();
        let order = Pattern::Fifo.order(at.batch(call, HELD)).into();
        let outcome = Cell { order, call, threads: 1, samples: self.samples }.measure(team, &both);
        self.disturbance.add(&outcome.noise);
        let floor = outcome.measured.iter().zip(&both).step_by(2).find(|(_, s)| s.name() == FLOOR);
        let floor = floor.and_then(|(m, _)| m.as_ref()).map(|m| m.total_ns_median);
        for (pair, subject) in outcome.measured.chunks(2).zip(subjects) {
            let (Some(many), Some(single)) = (&pair[0], &pair[1]) else {
                let why = format!("it ran out of frames at {call} a call");
                self.skipped.push(Skipped { allocator: subject.name(), why });
                continue;
            };
            self.rows.push(BulkRow {
                allocator: subject.name(),
                bulk: call,
                threads: 1,
                order: 0,
                pattern: Pattern::Fifo,
                at,
                alloc_ns: many.alloc_ns,
                free_ns: many.free_ns,
                total_ns_min: many.total_ns_min,
                total_ns_median: many.total_ns_median,
                one_by_one_ns_median: single.total_ns_median,
                gain_pct: 100.0 * (1.0 - many.total_ns_median / single.total_ns_median.max(0.01)),
                floor: floor.map(|_| FLOOR),
                x_floor: floor.map(|f| many.total_ns_median / f.max(0.01)),
                moves: many.moves,
                disturbed: outcome.noise.disturbs(),
            });
        }
    }

    fn buffers(&mut self, team: &Team, large: &[Box<dyn Subject>], at: Where) {
        let large: Vec<&dyn Subject> = large.iter().map(|s| &**s).filter(|s| s.can(1, 2)).collect();
        let order = Pattern::Fifo.order(at.batch(1, HELD / BUFFER_FRAMES)).into();
        let outcome = Cell { order, call: 1, threads: 1, samples: self.samples }.measure(team, &large);
        self.disturbance.add(&outcome.noise);
        let frames = BUFFER_FRAMES as f64;
        for row in self.rows.iter().filter(|r| r.bulk == BUFFER_FRAMES && r.at == at) {
            let block: Option<&Measured> = outcome
                .measured
                .iter()
                .zip(&large)
                .find(|(_, s)| s.name() == row.allocator && !s.name().starts_with("floor"))
                .and_then(|(m, _)| m.as_ref());
            self.receive_buffer.push(BufferRow {
                allocator: row.allocator,
                at,
                frames: BUFFER_FRAMES,
                bytes: BUFFER_FRAMES as u64 * pageyard::PAGE_SIZE,
                bulk_ns: row.total_ns_median * frames,
                one_by_one_ns: row.one_by_one_ns_median * frames,
                order_6_ns: block.map(|m| m.total_ns_median),
            });
        }
    }
}
