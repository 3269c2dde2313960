//! `page-frag`: frames of packets freed as fragments, to the zone or to the per-CPU list.
//!
//! * `work`: a router's other work for a packet; `notes`: what a pass notes;
//! * `buffers`: pools, fragments, and what becomes of a packet's page; `forward`: a host with one or two CPUs;
//!   `columns`: the hosts that are compared;
//! * `contention`: packets a second; `profile`: time by function; `reuse`, `counts`: what each packet costs, and why
//!   lists gain;
//! * `router`: what the thread said of its router, by the router model; `verdict`: the result.

mod buffers;
mod columns;
mod contention;
mod counts;
mod forward;
mod notes;
mod profile;
mod reuse;
mod router;
mod subjects;
mod verdict;
mod work;

use super::machines::protection;
use super::{Claim, Experiment, Published, Rows, Run};
use crate::error::BenchError;
use crate::harness::team::{Team, cpus};
use subjects::{BUDDY, DRIFT, ENGINE, MODEL, PCP, POINT, PRESET, PROFILE, SHARE};

/// The experiment.
pub struct PageFrag;

impl Experiment for PageFrag {
    fn name(&self) -> &'static str {
        "page-frag"
    }

    fn about(&self) -> &'static str {
        "packet frames freed through the per-CPU lists (A. Lu, 2018)"
    }

    fn quick_cannot_show(&self) -> &'static str {
        "samples of 16,384 packets, where the full run has 131,072, and a tenth of the samples of CPU time, of one division of \
         labour: it shows what freeing to the lists gains, and judges neither how long CPUs wait nor their time by function; and the \
         router model's own settings, simulated for a shorter time, with no parameter moved"
    }

    fn columns(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (PROFILE, "the document's profile of a router, and its microbenchmark"),
            (
                BUDDY,
                "Linux 4.10 before the patch: a packet's frame goes back to the zone, under the zone lock",
            ),
            (PCP, "after the patch: it goes to the list of the CPU that frees it"),
            (ENGINE, "the lock-free engine, which has no zone lock; its lists are the CPU's own"),
            (
                MODEL,
                "a simulated router: its highest rates, and the settings for which a claim of the thread holds",
            ),
        ]
    }

    fn engines(&self) -> &'static [&'static str] {
        &[PRESET, ENGINE]
    }

    fn varies(&self, knob: &str) -> bool {
        knob == POINT
    }

    fn measure(&self, run: &mut Run<'_>) -> Result<Rows, BenchError> {
        let mut rows = Rows::default();
        let (world, team) = (forward::World::new(), Team::new(&cpus()));
        run.note(protection(&run.settings));
        contention::measure(run, &world, &team, &mut rows)?;
        profile::measure(run, &world, &team, &mut rows)?;
        counts::measure(run, &world, &team, &mut rows)?;
        router::measure(run, &mut rows)?;
        run.note(
            "the reference is linux-4.10 with the frames of fragments going to the zone or to the list; pools ask it for one page \
             at a time, as in 2018, and the engine for 64",
        );
        let drifted = world.drifted();
        if drifted.abs() > DRIFT {
            run.note(format!(
                "disturbed: the other work for a packet changed by {drifted:+.0} % from first to last, so its stated time is \
                 not its time throughout"
            ));
        }
        if team.len() < 2 {
            run.note("two CPUs were not measured: this process may use one");
        }
        run.note("the router model has machines of its own: knobs that are set do not reach it");
        Ok(rows)
    }

    fn published(&self, tables: &Published) -> Rows {
        let mut rows = Rows::default();
        for line in tables.lines("page_frag") {
            let (metric, value) = (line.text("metric"), line.number("value"));
            rows.section("Contention");
            match metric {
                "queued_spin_lock_slowpath" => {
                    rows.add(SHARE, PROFILE, value, "% of samples");
                    rows.section("Time by function");
                    rows.add(metric, PROFILE, value, "% of samples");
                }
                "microbenchmark gain of freeing through pcp" => {
                    rows.add(contention::GAIN, PROFILE, value, "%")
                }
                _ => {
                    let (section, unit) = match line.text("unit") {
                        "% of samples" => ("Time by function", "% of samples"),
                        "%" => ("Published rates", "%"),
                        _ => ("Published rates", "Gbit/s"),
                    };
                    rows.section(section);
                    rows.add(metric, PROFILE, value, unit);
                }
            }
        }
        rows
    }

    fn claims(&self, rows: &Rows) -> Vec<Claim> {
        verdict::claims(rows)
    }
}
