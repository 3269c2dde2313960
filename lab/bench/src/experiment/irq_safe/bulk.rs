//! Frames by the array against frames one by one, and a receive buffer of 256 KiB made of single frames.

use super::subjects::{AFTER, BEFORE, ENGINE, Machines, TRYLOCK};
use crate::experiment::machines::Batches;
use crate::experiment::{Rows, Run};
use crate::harness::sampler::Sample;

/// Frames of a receive buffer of 256 KiB.
const BUFFER: usize = 64;

pub(super) fn measure(machines: &Machines, run: &mut Run<'_>, rows: &mut Rows) {
    let sizes: &[usize] =
        if run.quick { &[1, 4, 64, 512] } else { &[1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512] };
    let mut subjects = machines.subjects();
    subjects.retain(|s| [BEFORE, AFTER, TRYLOCK, ENGINE].contains(&s.name()));
    for (done, size) in sizes.iter().enumerate() {
        run.at("bulk", done, sizes.len());
        let (single, many) = (Batches::one_by_one(*size, run.quick), Batches::bulk(*size, run.quick));
        let mut both: Vec<_> = subjects.iter().flat_map(|s| [(*s, false), (*s, true)]).collect();
        let series = run.sampler().run(&mut both, |(subject, bulk)| {
            let load = if *bulk { &many } else { &single };
            match load.sample(*subject, &machines.team) {
                Sample::Counts([_, _, ns]) => Sample::Counts([ns]),
                _ => Sample::Disturbed,
            }
        });
        rows.section("Bulk");
        for (i, (subject, bulk)) in both.iter().enumerate() {
            let column = subject.name();
            let ns = series[i][0].median();
            let metric = if *bulk { "bulk" } else { "one by one" };
            rows.add(format!("{metric}-{size}"), column, ns, "ns");
            if *bulk {
                let gained = series[i - 1][0].paired_gain(&series[i][0]);
                rows.add(format!("gain bulk-{size}"), column, gained, "%");
            }
            if *size == BUFFER {
                rows.add(format!("receive buffer of 256 KiB, {metric}"), column, ns * BUFFER as f64, "ns");
            }
        }
    }
}
