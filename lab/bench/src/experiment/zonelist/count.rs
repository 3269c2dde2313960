//! Instructions of an allocation and its free: a number that does not depend on the machine's other work.
//!
//! The command runs itself under callgrind twice, with different numbers of rounds: the difference is the rounds'
//! alone.

use super::subjects::{CALLED, ENGINE, INLINED, ONE_ZONE, POINT, PRESET};
use super::tasks::{Confined, Confinement};
use crate::experiment::machines::{MEMORY, on, reference, regions, regions_of, single};
use crate::experiment::{Rows, Run, Settings};
use crate::harness::engines::one_zone;
use pageyard::{CpuId, Cx, Order, PageAllocator};
use pageyard_replay::engine::{AnyEngine, Engine, Variant, Visit};
use std::hint::black_box;
use std::process::Command;

/// The counted calls: name, column, row.
const COUNTED: [(&str, &str, &str); 12] = [
    ("called", CALLED, "no cpuset"),
    ("inlined", INLINED, "no cpuset"),
    ("called-all", CALLED, "cpuset of all nodes"),
    ("inlined-all", INLINED, "cpuset of all nodes"),
    ("called-some", CALLED, "cpuset of some nodes"),
    ("inlined-some", INLINED, "cpuset of some nodes"),
    ("called-slow", CALLED, "on the slow path, no cpuset"),
    ("inlined-slow", INLINED, "on the slow path, no cpuset"),
    ("called-slow-some", CALLED, "on the slow path, cpuset of some nodes"),
    ("inlined-slow-some", INLINED, "on the slow path, cpuset of some nodes"),
    ("engine", ENGINE, "no cpuset"),
    ("engine-one-zone", ONE_ZONE, "no cpuset"),
];

/// Frames of the machine of the slow path, which has to be filled first: 512 MiB.
const SMALL: u64 = 1 << 17;

/// Takes a frame and gives it back, so many times.
#[inline(never)]
fn pairs<A: PageAllocator>(a: &A, cx: Cx, rounds: u64) {
    let request = single();
    for _ in 0..rounds {
        if let Ok(pfn) = black_box(a).alloc(&cx, black_box(&request)) {
            let _ = black_box(a).free(&cx, pfn, Order::ZERO);
        }
    }
}

/// The same on any engine.
struct Pairs(u64);

impl Visit for Pairs {
    type Output = ();

    fn visit<E: AnyEngine>(self, engine: E) {
        pairs(&engine, Cx::on(CpuId(0)), self.0);
    }
}

/// Takes one frame and gives it back, `rounds` times, on two nodes of three zones, with these knobs set; on the slow
/// path the machine is filled first. Says whether `what` is known.
#[must_use]
pub fn rounds(what: &str, rounds: u64, settings: &Settings) -> bool {
    match what.split_once('-').unwrap_or((what, "")) {
        (form @ ("called" | "inlined"), state) => {
            let (slow, cpuset) = match state.strip_prefix("slow") {
                Some(rest) => (true, rest.trim_start_matches('-')),
                None => (false, state),
            };
            let how = match cpuset {
                "" => Confinement::None,
                "all" => Confinement::All,
                "some" => Confinement::Some,
                _ => return false,
            };
            let memory = if slow { SMALL } else { MEMORY };
            let Ok(config) = settings.linux(PRESET, &[(POINT, form)]) else { return false };
            let Ok(made) = reference(&regions_of(memory, 2), &config) else { return false };
            let Ok(tasks) = Confined::new(made, 2, how) else { return false };
            if slow {
                tasks.fill();
            }
            pairs(&tasks.reference, tasks.cx(0), rounds);
        }
        ("engine", zone) => {
            // The try-lock on every host: what restartable sequences do depends on where they run.
            let engine = Engine::Yard(Variant::TryLock, Box::new(settings.yard()));
            let regions = if zone.is_empty() { regions(2) } else { one_zone(MEMORY).to_vec() };
            return on(&engine, &regions, Pairs(rounds)).is_ok();
        }
        _ => return false,
    }
    true
}

pub(super) fn measure(run: &mut Run<'_>, rows: &mut Rows) {
    let skip = |run: &mut Run<'_>, why: &str| run.note(format!("instructions were not counted: {why}"));
    let Some(program) = run.program.clone() else { return skip(run, "this is not the command") };
    for (done, (what, column, metric)) in COUNTED.iter().enumerate() {
        run.at("instructions", done, COUNTED.len());
        let few = instructions(&program, what, 1_000, &run.settings);
        let many = few.as_ref().ok().map(|_| instructions(&program, what, 3_000, &run.settings));
        match (few, many) {
            (Ok(few), Some(Ok(many))) => {
                rows.section("Instructions");
                let each = (many - few) / 2_000.0;
                rows.add(format!("instructions of alloc and free, {metric}"), *column, each, "");
            }
            (Err(why), _) | (_, Some(Err(why))) => return skip(run, &why),
            _ => return,
        }
    }
}

/// Counts the instructions of a run of this program.
fn instructions(
    program: &std::path::Path,
    what: &str,
    rounds: u64,
    settings: &Settings,
) -> Result<f64, String> {
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["count-zonelist", what, &rounds.to_string()])
        .args(settings.given().iter().map(|(knob, value)| format!("--set={knob}={value}")))
        .output()
        .map_err(|_| "valgrind is not installed".to_owned())?;
    let said = String::from_utf8_lossy(&out.stderr);
    let count = said.lines().find_map(|l| l.split_once("Collected :")?.1.trim().parse().ok());
    match (out.status.success(), count) {
        (true, Some(count)) => Ok(count),
        _ => Err(format!("valgrind ended with {}", out.status)),
    }
}
