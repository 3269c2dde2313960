//! The documents of the benchmarks as text for people; here the head and the foot that the tables share.

mod bulk;
mod cross;
mod primitives;
mod scale;
mod sweep;

use crate::Skipped;
use crate::document::DisturbanceDocument;
use crate::environment::{Machine, Taken};
use std::fmt::Write;

fn machine_text(m: &Machine) -> String {
    let cpus = if m.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", m.cpus) };
    format!("{}, {cpus}, Linux {}\n", m.cpu, m.kernel)
}

fn skipped_text(text: &mut String, skipped: &[Skipped]) {
    if !skipped.is_empty() {
        text.push('\n');
    }
    for s in skipped {
        let _ = writeln!(text, "skipped: {}: {}", s.allocator, s.why);
    }
}

fn disturbance_text(disturbance: &DisturbanceDocument) -> String {
    let DisturbanceDocument { settings, disturbed, pair_apart_pct_max, taken } = disturbance;
    let Taken { steal_ms, waited_ms, elapsed_ms } = taken;
    if *disturbed == 0 {
        return format!(
            "Undisturbed: in all {settings} settings a pair of the same code agreed within 5 %, and others took little time.\n"
        );
    }
    format!(
        "DISTURBED: {disturbed} of {settings} settings are doubtful (!): a pair of the same code disagreed, by \
         {pair_apart_pct_max:.0} % at most, or others took time ({waited_ms:.0} ms of waiting and {steal_ms:.0} ms stolen, of \
         {elapsed_ms:.0} ms).\n"
    )
}
