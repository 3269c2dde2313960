//! `zonelist`: the step from one zone to the next, called or inlined.
//!
//! * `tasks`: who asks; `sweep`: the document's microbenchmark, and the same with cpusets and more nodes; `count`:
//!   instructions, which no noise hides; `verdict`: the result.

pub mod count;
mod subjects;
mod sweep;
mod tasks;
mod verdict;

use super::machines::batches;
use super::{Claim, Experiment, Plot, Published, Rows, Run, Series};
use crate::error::BenchError;
use subjects::{CALLED, ENGINE, INLINED, ONE_ZONE, OPTITER, POINT, PRESET, STATINLINE};

/// The experiment.
pub struct Zonelist;

impl Experiment for Zonelist {
    fn name(&self) -> &'static str {
        "zonelist"
    }

    fn about(&self) -> &'static str {
        "the fast path of the zonelist iterator, inlined (M. Gorman, 2016)"
    }

    fn quick_cannot_show(&self) -> &'static str {
        "4 of its 15 batch sizes, with half as many frames a sample: it does not judge the sweep, which is of every batch"
    }

    fn columns(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (STATINLINE, "the document's kernel before the patch, in cycles of its machine"),
            (OPTITER, "the document's kernel with the patch"),
            (CALLED, "Linux 4.6 before the patch: each step from zone to zone is a call"),
            (
                INLINED,
                "after the patch: a step without a node mask is part of the caller, and without a cpuset there is no mask",
            ),
            (ENGINE, "the lock-free engine, on machines of three zones a node"),
            (ONE_ZONE, "the engine on a machine of one zone, which needs no walk"),
        ]
    }

    fn engines(&self) -> &'static [&'static str] {
        &[PRESET, ENGINE]
    }

    fn varies(&self, knob: &str) -> bool {
        knob == POINT
    }

    /// More than elsewhere: the effect is a few percent.
    fn samples(&self) -> Option<usize> {
        Some(45)
    }

    fn measure(&self, run: &mut Run<'_>) -> Result<Rows, BenchError> {
        let mut rows = Rows::default();
        sweep::document(run, &mut rows)?;
        sweep::cpusets(run, &mut rows)?;
        sweep::engine(run, &mut rows)?;
        count::measure(run, &mut rows);
        run.note("the reference is linux-4.6 with the iterator in both forms, each compiled on its own");
        Ok(rows)
    }

    fn published(&self, tables: &Published) -> Rows {
        let mut rows = Rows::default();
        for line in tables.lines("zonelist_iterator") {
            let metric = format!("Min alloc-odr0-{}", line.text("batch"));
            rows.section(sweep::SECTION);
            rows.add(&metric, STATINLINE, line.number("alloc_min_statinline"), "cycles");
            rows.add(&metric, OPTITER, line.number("alloc_min_optiter"), "cycles");
            rows.section(sweep::GAINS);
            rows.add(format!("gain {metric}"), OPTITER, line.number("gain_pct"), "%");
        }
        rows
    }

    fn claims(&self, rows: &Rows) -> Vec<Claim> {
        verdict::claims(rows)
    }

    fn plots(&self, rows: &Rows) -> Vec<Plot> {
        let line = |prefix: &str, column: &str| Series {
            name: column.to_owned(),
            points: batches(false)
                .into_iter()
                .filter_map(|n| Some((n as f64, rows.get(&format!("{prefix} alloc-odr0-{n}"), column)?)))
                .collect(),
        };
        let mut plots = vec![
            Plot {
                title: "One frame taken, by form of the iterator".into(),
                x: "frames in a batch",
                y: "ns, least",
                series: vec![line("Min", CALLED), line("Min", INLINED)],
            },
            Plot {
                title: "What inlining saves".into(),
                x: "frames in a batch",
                y: "% less",
                series: vec![line("gain Min", OPTITER), line("gain Min", INLINED)],
            },
        ];
        plots.iter_mut().for_each(|p| p.series.retain(|s| !s.points.is_empty()));
        plots
    }
}
