//! Shortens a failing list of operations, and prints it as a test.

use crate::engine::Build;
use crate::op::{Op, Rust};
use crate::rerun::{Step, rerun};
use core::fmt::Write;
use pageyard::{CpuId, Frames, Pfn, Region, Request};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

/// The most times that a failing list is rerun to make it short.
pub const MOST_RUNS: u32 = 2000;
/// For how long that goes on.
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

/// A failing list and why it fails.
pub struct Failure {
    /// The operations.
    pub ops: Vec<Op>,
    /// The fault after the last operation.
    pub why: String,
    /// How often a list was run to make it short, [`MOST_RUNS`] at most.
    pub runs: u32,
}

/// Removes and simplifies operations as long as the list still fails: first ever smaller parts of it, then single
/// operations.
///
/// `why` is what was seen first, and is kept where the list does not fail a second time.
pub fn shrink<B: Build>(build: &B, regions: &[Region], cpus: u32, ops: &[Op], why: String) -> Failure {
    let mut shrinking =
        Shrinking { build, regions, cpus, steps: Step::number(ops), why, runs: 0, start: Instant::now() };
    let all = shrinking.steps.clone();
    if shrinking.fails(&all) {
        loop {
            let before = shrinking.ops();
            shrinking.remove();
            shrinking.simplify();
            if shrinking.ops() == before {
                break;
            }
        }
    }
    Failure { ops: shrinking.ops(), why: shrinking.why, runs: shrinking.runs }
}

/// A failing list that is made shorter.
struct Shrinking<'a, B> {
    build: &'a B,
    regions: &'a [Region],
    cpus: u32,
    /// The shortest list so far.
    steps: Vec<Step>,
    why: String,
    runs: u32,
    start: Instant,
}

impl<B: Build> Shrinking<'_, B> {
    fn ops(&self) -> Vec<Op> {
        self.steps.iter().map(|step| step.op).collect()
    }

    /// Runs a candidate and keeps it if it fails.
    fn fails(&mut self, candidate: &[Step]) -> bool {
        if self.runs >= MOST_RUNS || self.start.elapsed() > MOST_TIME {
            return false;
        }
        self.runs += 1;
        let outcome = rerun(self.build, self.regions, self.cpus, candidate);
        let Some(why) = outcome.fault else { return false };
        self.steps = outcome.ran;
        self.why = why;
        true
    }

    /// Removes ever smaller parts of the list, with what is about their blocks.
    fn remove(&mut self) {
        let mut size = self.steps.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < self.steps.len() {
                let end = (at + size).min(self.steps.len());
                let candidate = [&self.steps[..at], &self.steps[end..]].concat();
                if !self.fails(&candidate) {
                    at += size;
                }
            }
            size /= 2;
        }
    }

    /// Makes operations simpler: all of them at once where that is possible, or else one by one.
    fn simplify(&mut self) {
        let first =
            self.regions.iter().find(|r| r.managed && r.frames > Frames::ZERO).map_or(Pfn(0), |r| r.start);
        for simpler in SIMPLER {
            let with = |step: &Step| step.with(|op| simpler(op, first));
            let all: Vec<Step> = self.steps.iter().map(|step| with(step).unwrap_or(*step)).collect();
            if all == self.steps || self.fails(&all) {
                continue;
            }
            for at in 0..self.steps.len() {
                while let Some(step) = self.steps.get(at).and_then(with) {
                    let mut candidate = self.steps.clone();
                    candidate[at] = step;
                    if !self.fails(&candidate) {
                        break;
                    }
                }
            }
        }
    }
}

/// Simplifications of an operation, each in one respect; the frame is the first of the map.
const SIMPLER: [fn(&mut Op, Pfn); 6] = [
    |op, _| op.cpu_mut().into_iter().for_each(|cpu| *cpu = CpuId(0)),
    |op, _| op.held_mut().into_iter().for_each(|held| *held = 0),
    |op, _| op.request_mut().into_iter().for_each(|r| *r = Request::new(r.order, r.migratetype)),
    |op, _| op.request_mut().into_iter().for_each(|r| r.order = r.order.smaller().unwrap_or(r.order)),
    |op, first| op.pfn_mut().into_iter().for_each(|pfn| *pfn = first),
    |op, _| op.count_mut().into_iter().for_each(|count| *count /= 2),
];

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
