//! Shortens a failing list of operations, and prints it as a test.

use crate::engine::Build;
use crate::op::{Op, Rust};
use crate::session::Session;
use core::fmt::Write;
use pageyard::{CpuId, Frames, Pfn, Region, Request};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

/// The most times that a failing list is rerun, and for how long.
const MOST_RUNS: u32 = 2000;
const MOST_TIME: Duration = Duration::from_secs(20);

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; a panic becomes a value and prints nothing.
///
/// # Errors
/// The panic's message.
pub fn quietly<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(f));
    QUIET.set(before);
    outcome.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
    })
}

/// Runs operations on a new engine; returns the first fault and the number of operations before it.
fn fault<B: Build>(build: &B, regions: &[Region], cpus: u32, ops: &[Op]) -> Option<(usize, String)> {
    let mut done = 0;
    let outcome = quietly(|| {
        let mut session = Session::new(build, regions, cpus);
        for op in ops {
            done += 1;
            session.apply(*op)?;
        }
        session.finish()
    });
    let fault = outcome.map_err(|panic| format!("a panic: {panic}")).and_then(|verdict| verdict);
    fault.err().map(|why| (done, why))
}

/// A failing list and why it fails.
pub struct Failure {
    /// The operations.
    pub ops: Vec<Op>,
    /// What is wrong after the last.
    pub why: String,
    /// How often the list was run to make it short.
    pub runs: u32,
}

/// Removes and simplifies operations as long as the list still fails.
///
/// `why` is what was seen first, and is kept where the list does not fail a second time.
pub fn shrink<B: Build>(build: &B, regions: &[Region], cpus: u32, ops: &[Op], why: String) -> Failure {
    let start = Instant::now();
    let mut best = Failure { ops: ops.to_vec(), why, runs: 0 };
    let keep_if_failing = |best: &mut Failure, candidate: &[Op]| {
        if best.runs >= MOST_RUNS || start.elapsed() > MOST_TIME {
            return false;
        }
        best.runs += 1;
        let found = fault(build, regions, cpus, candidate);
        if let Some((done, why)) = found {
            best.ops = candidate[..done].to_vec();
            best.why = why;
            return true;
        }
        false
    };
    let all = best.ops.clone();
    keep_if_failing(&mut best, &all);
    loop {
        let before = best.ops.clone();
        remove(&mut best, &keep_if_failing);
        let first = regions.iter().find(|r| r.managed && r.frames > Frames::ZERO).map_or(Pfn(0), |r| r.start);
        for at in 0..best.ops.len() {
            for simpler in simpler(best.ops.get(at).copied(), first) {
                if at < best.ops.len() {
                    let mut candidate = best.ops.clone();
                    candidate[at] = simpler;
                    keep_if_failing(&mut best, &candidate);
                }
            }
        }
        if best.ops == before {
            return best;
        }
    }
}

/// Removes ever smaller parts of the list.
fn remove(best: &mut Failure, keep_if_failing: &impl Fn(&mut Failure, &[Op]) -> bool) {
    let mut size = best.ops.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        let mut removed = false;
        while at < best.ops.len() {
            let end = (at + size).min(best.ops.len());
            let candidate = [&best.ops[..at], &best.ops[end..]].concat();
            if keep_if_failing(best, &candidate) {
                removed = true;
            } else {
                at += size;
            }
        }
        size = if size == 1 && removed { 1 } else { size / 2 };
    }
}

/// Returns simpler operations that differ from this one in one respect each.
fn simpler(op: Option<Op>, first: Pfn) -> impl Iterator<Item = Op> {
    let change = |simpler: &dyn Fn(&mut Op)| {
        op.map(|mut op| {
            simpler(&mut op);
            op
        })
    };
    let candidates = [
        change(&|op| op.cpu_mut().into_iter().for_each(|cpu| *cpu = CpuId(0))),
        change(&|op| op.held_mut().into_iter().for_each(|held| *held = 0)),
        change(&|op| op.request_mut().into_iter().for_each(|r| *r = Request::new(r.order, r.migratetype))),
        change(&|op| {
            op.request_mut().into_iter().for_each(|r| r.order = r.order.smaller().unwrap_or(r.order))
        }),
        change(&|op| op.pfn_mut().into_iter().for_each(|pfn| *pfn = first)),
        change(&|op| op.count_mut().into_iter().for_each(|count| *count /= 2)),
    ];
    candidates.into_iter().flatten().filter(move |s| Some(*s) != op)
}

/// Prints operations as a test that replays them.
#[must_use]
pub fn as_test(expression: &str, regions: &[Region], cpus: u32, ops: &[Op]) -> String {
    const NAMES: [&str; 11] = [
        "CpuId",
        "Frames",
        "Migratetype",
        "NodeId",
        "NodeMask",
        "Order",
        "Pfn",
        "Region",
        "Request",
        "RequestFlags",
        "ZoneKind",
    ];
    let mut body = String::new();
    let list = |body: &mut String, name: &str, lines: &mut dyn Iterator<Item = String>| {
        let _ = writeln!(body, "    let {name} = [");
        lines.for_each(|line| {
            let _ = writeln!(body, "        {line},");
        });
        body.push_str("    ];\n");
    };
    list(&mut body, "regions", &mut regions.iter().map(|r| format!("{:?}", Rust(*r))));
    list(&mut body, "ops", &mut ops.iter().map(|op| format!("{op:?}")));
    let _ = writeln!(body, "    replay(&{expression}, &regions, {cpus}, &ops);");

    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let used = |name: &&&str| body.split(|c| !is_name(c)).any(|word| word == **name);
    let names: Vec<&str> = NAMES.iter().filter(used).copied().collect();
    let op = if ops.is_empty() { "" } else { "Op, " };
    format!(
        "#[test]\nfn a_random_run_found_this() {{\n    use pageyard::{{{}}};\n    use pageyard_testkit::{{{op}replay}};\n{body}}}\n",
        names.join(", ")
    )
}
