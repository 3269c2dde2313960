//! `page-frag`: frames of packets freed as fragments, to the zone or to the per-CPU list.
//!
//! * `contention`: a receive and a transmit-completion CPU; `work`: their other work for a packet; `verdict`: the
//!   result.

mod contention;
mod verdict;
mod work;

use super::{Experiment, Plot, Published, Rows, Run, Series};
use crate::error::BenchError;

/// The experiment.
pub struct PageFrag;

const BUDDY: &str = "reference:buddy";
const PCP: &str = "reference:pcp";
const ENGINE: &str = "pageyard";
const PROFILE: &str = "published:profile";

const ONE: &str = "packets per second, 1 CPU";
const TWO: &str = "packets per second, 2 CPUs";
const SHARE: &str = "zone lock wait share";

impl Experiment for PageFrag {
    fn name(&self) -> &'static str {
        "page-frag"
    }

    fn about(&self) -> &'static str {
        "packet frames freed through the per-CPU lists (A. Lu, 2018)"
    }

    fn measure(&self, run: &mut Run<'_>) -> Result<Rows, BenchError> {
        let mut rows = Rows::default();
        contention::measure(run, &mut rows)?;
        run.note("the reference is linux-4.10 with the frames of fragments going to the zone or to the list");
        run.note(
            "the model of a whole router (rings, coalescing, queues) and STREAM are not part of this table",
        );
        Ok(rows)
    }

    fn published(&self, tables: &Published) -> Rows {
        let mut rows = Rows::default();
        for line in tables.lines("page_frag") {
            let (metric, value) = (line.text("metric"), line.number("value"));
            rows.section("Contention");
            match metric {
                "queued_spin_lock_slowpath" => rows.add(SHARE, PROFILE, value, "% of samples"),
                "microbenchmark gain of freeing through pcp" => {
                    rows.add(contention::GAIN, PROFILE, value, "%")
                }
                _ => {
                    rows.section("Published profile and rate");
                    let unit = if metric.contains("rate") { "Gbit/s" } else { "% of samples" };
                    rows.add(metric, PROFILE, value, unit);
                }
            }
        }
        rows
    }

    fn verdict(&self, rows: &Rows) -> String {
        verdict::verdict(rows)
    }

    fn plots(&self, rows: &Rows) -> Vec<Plot> {
        let bars = |metric: &str, title: &str, y: &'static str, scale: f64| Plot {
            title: title.to_owned(),
            x: "",
            y,
            series: [BUDDY, PCP, ENGINE]
                .iter()
                .filter_map(|c| {
                    Some(Series { name: (*c).to_owned(), points: vec![(0.0, rows.get(metric, c)? * scale)] })
                })
                .collect(),
        };
        vec![
            bars(TWO, "Packets forwarded by two CPUs", "million packets a second", 1e-6),
            bars(SHARE, "Time spent waiting for the zone lock", "% of both CPUs", 1.0),
        ]
    }
}
