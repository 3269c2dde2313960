//! Frames by the array against frames one by one, and a receive buffer of 256 KiB made of single frames.

use super::{AFTER, BEFORE, ENGINE, Machines, TRYLOCK};
use crate::experiment::samples::in_turn;
use crate::experiment::subject::{Subject, frames_a_sample, single};
use crate::experiment::{Rows, Run};
use pageyard::Pfn;

/// Frames of a receive buffer of 256 KiB.
const BUFFER: usize = 64;

pub(super) fn measure(machines: &Machines, run: &mut Run<'_>, rows: &mut Rows) {
    let sizes: &[usize] =
        if run.quick { &[1, 4, 64, 512] } else { &[1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512] };
    let mut subjects: Vec<(&str, &dyn Subject)> = machines
        .references
        .iter()
        .filter(|(name, _)| [BEFORE, AFTER, TRYLOCK].contains(name))
        .map(|(name, r)| (*name, r as &dyn Subject))
        .collect();
    subjects.push((ENGINE, machines.engine.subject()));
    for (done, size) in sizes.iter().enumerate() {
        run.at("bulk", done, sizes.len());
        let mut held = vec![Pfn(0); *size];
        let rounds = (frames_a_sample(run.quick) / size).max(1);
        let mut both: Vec<_> = subjects.iter().flat_map(|s| [(*s, false), (*s, true)]).collect();
        let series = in_turn(&mut both, |((_, subject), bulk)| match bulk {
            true => subject.bulk(0, &single(), &mut held, rounds).map(|ns| [ns]),
            false => subject.sweep(0, &single(), &mut held, rounds).map(|[_, _, ns]| [ns]),
        });
        rows.section("Bulk");
        for (i, ((column, _), bulk)) in both.iter().enumerate() {
            let ns = series[i][0].median();
            let metric = if *bulk { "bulk" } else { "one by one" };
            rows.add(format!("{metric}-{size}"), *column, ns, "ns");
            if *bulk {
                let gained = series[i - 1][0].paired_gain(&series[i][0]);
                rows.add(format!("gain bulk-{size}"), *column, gained, "%");
            }
            if *size == BUFFER {
                rows.add(format!("receive buffer of 256 KiB, {metric}"), *column, ns * BUFFER as f64, "ns");
            }
        }
    }
}
