//! How many locked instructions a pair takes, stepped through in a process of its own: a sequence that is stepped
//! through must not be registered with the kernel, and this process's are.

use super::engines::{MEMORY, map_of, on, one_zone};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use super::variants::{pretending_biased_on_one_thread, pretending_on_one_thread};
use pageyard::{Config, Cx, Migratetype, Order, PageAllocator, Pfn, Request};
use pageyard_replay::engine::{AnyEngine, Engine, Variant, Visit};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Blocks of the largest batch that is stepped through: each instruction takes some microseconds.
const MOST: usize = 64;

/// The counts of one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockedPair {
    /// The row.
    allocator: String,
    /// Order of the blocks.
    order: u8,
    /// Blocks that are taken, then given back, first in first out.
    batch: usize,
    /// Locked instructions of one block, both calls: with the prefix, exchanges with memory, and fences.
    locked: f64,
}

/// The counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockedPairs(Vec<LockedPair>);

impl LockedPairs {
    /// Has a process count for these settings; nothing where it cannot.
    pub fn ask(command: Option<&Path>, settings: impl Iterator<Item = (Order, usize)>) -> LockedPairs {
        let settings = settings.filter(|(_, batch)| *batch <= MOST);
        let settings: Vec<String> = settings.map(|(order, batch)| format!("{order}:{batch}")).collect();
        let Some(command) = command.filter(|_| !settings.is_empty()) else { return LockedPairs::default() };
        let output = std::process::Command::new(command).args(["bench", "locked"]).args(settings).output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        LockedPairs(serde_json::from_slice(&text).unwrap_or_default())
    }

    /// Returns what is known of a row.
    pub fn of(&self, allocator: &str, order: Order, batch: usize) -> Option<f64> {
        let is = |p: &&LockedPair| (&*p.allocator, p.order, p.batch) == (allocator, order.get(), batch);
        self.0.iter().find(is).map(|pair| pair.locked)
    }
}

/// Counts for settings, `ORDER:BATCH` each, on the variants of the lock-free engine. This process must have no
/// registered sequence.
///
/// # Errors
/// Says which setting is none.
pub fn count(settings: &[String]) -> Result<Vec<LockedPair>, String> {
    let mut pairs = Vec::new();
    for setting in settings {
        let parsed = setting.split_once(':').and_then(|(order, batch)| {
            let order = Order::new(order.parse().ok()?).filter(|order| *order <= Order::of(9))?;
            Some((order, batch.parse().ok().filter(|n| (1..=MOST).contains(n))?))
        });
        let (order, batch) = parsed.ok_or_else(|| format!("not ORDER:BATCH, up to 9:{MOST}: {setting}"))?;
        count_setting(order, batch, &mut pairs);
    }
    Ok(pairs)
}

fn count_setting(order: Order, batch: usize, pairs: &mut Vec<LockedPair>) {
    let regions = one_zone(MEMORY);
    let map = map_of(&regions);
    let own = Config::new(1);
    let mut add = |allocator: &str, locked: Option<f64>| {
        let add = |locked| LockedPair { allocator: allocator.to_owned(), order: order.get(), batch, locked };
        pairs.extend(locked.map(add));
    };
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    for (name, config) in [("pageyard", own), ("pageyard:pcp=false", Config { pcp: false, ..own })] {
        add(name, pretending_on_one_thread(&map, config).ok().and_then(|e| pair(&e, order, batch)));
    }
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    add(
        "pageyard-biased",
        pretending_biased_on_one_thread(&map, own).ok().and_then(|e| pair(&e, order, batch)),
    );
    for variant in [Variant::Exclusive, Variant::Alone, Variant::TryLock] {
        let engine = Engine::Yard(variant, Box::new(own));
        add(variant.name(), on(&engine, &map, Pass { order, batch }).ok().flatten());
    }
}

/// One pass of a batch.
struct Pass {
    order: Order,
    batch: usize,
}

impl Visit for Pass {
    type Output = Option<f64>;

    fn visit<E: AnyEngine>(self, engine: E) -> Option<f64> {
        pair(&engine, self.order, self.batch)
    }
}

/// Counts one pass of a batch, after two that are not counted.
fn pair(engine: &impl PageAllocator, order: Order, batch: usize) -> Option<f64> {
    let (cx, request) = (Cx::on(pageyard::CpuId(0)), Request::new(order, Migratetype::Movable));
    let mut held = vec![Pfn(0); batch];
    let mut refused = false;
    let mut pass = || {
        for slot in &mut held {
            match engine.alloc(&cx, &request) {
                Ok(pfn) => *slot = pfn,
                Err(_) => refused = true,
            }
        }
        for pfn in &held {
            refused |= engine.free(&cx, *pfn, order).is_err();
        }
    };
    pass();
    pass();
    let locked = stepped(&mut pass)?;
    (!refused).then(|| locked as f64 / batch as f64)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn stepped(pass: &mut dyn FnMut()) -> Option<u64> {
    pageyard_arena::rseq::locked_instructions(pass).ok()
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn stepped(_: &mut dyn FnMut()) -> Option<u64> {
    None
}
