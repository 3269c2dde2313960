//! `direct-compaction`, document 002: less latency, and more success, for direct asynchronous compaction.
//!
//! * `candidate`: the columns, and many runs at once; `table`: the document's own table; `changes`: how each of its
//!   rows changes from patch to patch; `tenths`: success against fragmentation;
//! * `questions`: what the thread left open; `longterm`: fragmentation over many phases; `fragmented`: a state in which
//!   as little succeeds as in the document; `contention`: what makes asynchronous compaction give way;
//! * `background`: whole zones, two compactors, one huge frame; `sensitivity`: what depends on the workload;
//! * `verdict`, `objections`: what was reproduced of the document and of the thread below it; `targets`: what the
//!   engine was to reach.

mod background;
mod candidate;
mod changes;
mod contention;
mod extent;
mod fragmented;
mod longterm;
mod objections;
mod questions;
mod sensitivity;
mod table;
mod targets;
mod tenths;
mod verdict;

use super::recordings::find;
use super::{Claim, Experiment, Plot, Published, Rows, Run};
use crate::error::BenchError;
use candidate::{Candidate, Job, run_all};
use extent::{Extent, SEEDS, setting};
use hdrhistogram::Histogram;
use pageyard_replay::workload::stress::{Phases, Report, Turns};
use pageyard_replay::workload::{LoadTrace, Role, Shape};
use pageyard_trace::Trace;
use table::SECTION;

/// The section of the latency table.
const LATENCY: &str = "One direct compaction";

/// The experiment.
pub struct DirectCompaction;

impl Experiment for DirectCompaction {
    fn name(&self) -> &'static str {
        "direct-compaction"
    }

    fn about(&self) -> &'static str {
        "direct compaction that skips on failure and takes free pages directly (V. Babka, 2016)"
    }

    fn quick_cannot_show(&self) -> &'static str {
        "another machine, 512 MiB with 2 jobs instead of 4 GiB with 8, where memory ends before requests meet fragmentation: it \
         shows that everything runs, and neither confirms nor denies the study's result"
    }

    fn columns(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "patch2",
                "Linux 4.6 as the document found it: compaction empties per-CPU lists only after a block that was isolated",
            ),
            (
                "patch3",
                "patch 2, and direct asynchronous compaction gives a block up once a frame of it cannot be isolated (skip on failure)",
            ),
            (
                "patch4",
                "patch 3, and it takes the free frames to move to straight from the free lists (direct free pages)",
            ),
            ("patch2-again", "patch 2 once more: how far two runs of the same lie apart"),
            ("pageyard", "the lock-free engine with its own defaults"),
        ]
    }

    fn engines(&self) -> &'static [&'static str] {
        &[candidate::PRESET, candidate::ENGINE]
    }

    fn varies(&self, knob: &str) -> bool {
        Candidate::patched(knob)
            || questions::asks_for(knob)
            || background::asks_for(knob)
            || contention::asks_for(knob)
    }

    fn samples(&self) -> Option<usize> {
        None
    }

    fn measure(&self, run: &mut Run<'_>) -> Result<Rows, BenchError> {
        let extent = Extent::new(run.quick);
        let trace = match (&run.trace, find("build")) {
            (Some(trace), _) => trace.clone(),
            (None, Some(path)) => Trace::open(&path)?,
            (None, None) => return Err(BenchError::NoRecording { name: "build".into() }),
        };
        let load = LoadTrace::read(&trace, &extent.settings.shape)?;
        say(&extent, &load, run);

        let whole = Shape { large_blocks: true, ..extent.asked.shape };
        let large = LoadTrace::read(&trace, &whole)?;
        let mut rows = main_table(&load, &extent, run)?;
        rows.append(questions::measure(&load, &extent.asked, extent.seeds, run)?);
        rows.append(fragmented::measure(&load, &extent.small, extent.other_seeds, run)?);
        rows.append(contention::measure(&load, &large, &extent.asked, extent.seeds, run)?);
        if extent.phases > 0 {
            rows.append(longterm::measure(&load, &extent.small, extent.phases, extent.seeds, run)?);
        } else {
            run.note("long-term fragmentation was not measured: leave out --quick");
        }
        rows.append(background::measure(extent.background, SEEDS[0], run)?);
        if extent.sensitivity {
            let other = find("pressure")
                .map(|p| LoadTrace::read(&Trace::open(&p)?, &extent.small.shape))
                .transpose()?;
            let mut loads =
                vec![("build".to_owned(), &load), ("large blocks asked for whole".to_owned(), &large)];
            match &other {
                Some(pressure) => loads.push(("the recording pressure as load".to_owned(), pressure)),
                None => run.note(
                    "the load pressure was not run: data/traces/pressure.trace is not below this folder",
                ),
            }
            rows.append(sensitivity::measure(&loads, &extent.small, &extent.seeds[..1], run)?);
        } else {
            run.note("sensitivity to the workload's parameters was not measured: leave out --quick");
        }
        Ok(rows)
    }

    fn published(&self, tables: &Published) -> Rows {
        let mut rows = table::published(tables);
        rows.append(changes::published(tables));
        rows
    }

    fn claims(&self, rows: &Rows) -> Vec<Claim> {
        verdict::claims(rows)
    }

    fn plots(&self, rows: &Rows) -> Vec<Plot> {
        longterm::plots(rows)
    }
}

/// Runs the document's test on every column.
fn main_table(load: &LoadTrace, extent: &Extent, run: &mut Run<'_>) -> Result<Rows, BenchError> {
    let again = Candidate::patch(2).again();
    let candidates: Vec<Candidate> = Candidate::all().into_iter().chain([again]).collect();
    let job = |candidate, seed: &u64| Job {
        candidate,
        trace: load,
        settings: extent.settings,
        phases: Phases::Three,
        seed: *seed,
    };
    // Seed by seed, so that what disturbs the machine for a while disturbs every column.
    let jobs: Vec<Job<'_>> =
        extent.table_seeds.iter().flat_map(|seed| candidates.iter().map(move |c| job(c, seed))).collect();
    let reports = run_all("stress-highalloc", &jobs, run)?;
    let mut rows = Rows::default();
    rows.setting(setting(&extent.settings, load, extent.table_seeds));
    let of = |column: &str| -> Vec<&Report> {
        jobs.iter().zip(&reports).filter(|(j, _)| j.candidate.column == column).map(|(_, r)| r).collect()
    };
    rows.section(SECTION);
    for candidate in &candidates {
        let reports = of(&candidate.column);
        table::add(&mut rows, &candidate.column, &reports);
        for r in reports.iter().filter(|r| r.audit.is_err() || r.leaked != 0) {
            run.note(format!(
                "{}: the audit says {:?}, {} frames leaked",
                candidate.column, r.audit, r.leaked
            ));
        }
    }
    rows.section(changes::SECTION);
    for (step, [before, after]) in changes::STEPS {
        changes::add(
            &mut rows,
            step,
            &of(&format!("reference:{before}")),
            &of(&format!("reference:{after}")),
        );
    }
    changes::add(&mut rows, changes::AGAIN, &of(table::P[0]), &of(table::AGAIN));
    rows.section(tenths::SECTION);
    for candidate in &candidates {
        tenths::add(&mut rows, &candidate.column, &of(&candidate.column), &extent.settings);
    }
    rows.section(LATENCY);
    for candidate in &candidates {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits are valid");
        of(&candidate.column).iter().for_each(|r| histogram.add(&r.stalls_ns).expect("it grows"));
        if histogram.is_empty() {
            continue;
        }
        let us = |q| histogram.value_at_quantile(q) as f64 / 1000.0;
        let column = candidate.column.as_str();
        rows.add("order 4 under load, without reclaim: median", column, us(0.5), "µs");
        rows.add("order 4 under load, without reclaim: p99", column, us(0.99), "µs");
        rows.add("order 4 under load, without reclaim: max", column, histogram.max() as f64 / 1000.0, "µs");
        rows.add("requests that compacted", column, histogram.len() as f64, "");
    }
    Ok(rows)
}

/// Says every parameter of the workload.
fn say(extent: &Extent, load: &LoadTrace, run: &mut Run<'_>) {
    let (s, small) = (&extent.settings, &extent.small);
    run.note(format!(
        "machine: {} MiB, three quarters in zone DMA32 and the rest in Normal, 2 CPUs; load: {} jobs repeat {} ({:.1} s a \
         round; {} frames of page cache, {} anonymous), movable blocks frame by frame; test: {} blocks of order {} a \
         phase ({:.0} % of memory), a phase lasts {} round, and {} round passes between the first shortage and phase 1",
        s.memory >> 20,
        s.shape.jobs,
        load.name(),
        load.duration_ns() as f64 / 1e9,
        load.allocates()[Role::Cache as usize],
        load.allocates()[Role::Anon as usize],
        s.attempts(),
        s.order.get(),
        s.share * 100.0,
        s.rounds,
        s.settle,
    ));
    run.note(format!(
        "of memory, {:.0} % slab (half of it reclaimable by type) and {:.0} % page tables that outlive the load; of movable \
         frames {:.3} % pinned; of page cache {:.1} % being written and {:.0} % used again; {:.0} % of asynchronous \
         migrations of page cache find it locked; background reclaim every ms of the load's time, background compaction \
         every {} ms; seeds {:?}",
        s.slab * 100.0,
        s.tables * 100.0,
        s.shares.pins * 100.0,
        s.shares.writeback * 100.0,
        s.shares.reused * 100.0,
        s.shares.locked * 100.0,
        s.shape.compactor_ns / 1_000_000,
        extent.table_seeds,
    ));
    run.note(format!(
        "the tables of phases and sensitivity: {} MiB with {} jobs, seeds {:?}, sensitivity the first; the questions: {} jobs, the same \
         seeds; those of named states: {} GiB",
        small.memory >> 20,
        small.shape.jobs,
        extent.seeds,
        extent.asked.shape.jobs,
        extent.background >> 30
    ));
    run.note(format!(
        "page cache lies on an active and an inactive list a zone, {:.0} % of it active from the start; there is no swap, and \
         where memory ends the job that holds the most is killed and comes back with its next round",
        s.shares.reused * 100.0
    ));
    if let Turns::Beside(pace) = s.turns {
        run.note(format!(
            "the document's table: requests on a thread beside the load's; while one is served, the recording goes on by {pace} \
             times its processor time; its counts differ from run to run (patch2-again). The other tables: one thread, every count repeats"
        ));
    }
    run.note(
        "User is what the load costs outside the engine, System what the engine costs (the load's own calls are sampled; time in \
         requests is by the clock); frames are not copied. The document's times are of real builds: they do not compare",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A whole run takes a minute at least. Metrics repeat from table to table, so each table needs a unique name, and
    /// so does each column of a table.
    #[test]
    fn no_table_has_the_name_of_another_and_no_question_a_column_twice() {
        let questions = questions::QUESTIONS.map(|(section, _)| section);
        let others = [
            SECTION,
            changes::SECTION,
            tenths::SECTION,
            LATENCY,
            longterm::SECTION,
            fragmented::SECTION,
            contention::SECTION,
            background::SECTION,
            background::OWNERSHIP,
            sensitivity::SECTION,
        ];
        let sections: BTreeSet<&str> = questions.into_iter().chain(others).collect();
        assert_eq!(sections.len(), questions.len() + others.len());
        for (section, variants) in questions::QUESTIONS {
            let columns: BTreeSet<String> = variants
                .iter()
                .map(|(patch, knobs)| Candidate::patch(*patch).variant(knobs).column)
                .collect();
            assert_eq!(columns.len(), variants.len(), "{section}");
        }
    }

    #[test]
    fn every_candidate_names_knobs_that_exist_and_no_user_can_set_those() {
        let own = super::super::Settings::default();
        for (_, variants) in questions::QUESTIONS {
            for (patch, knobs) in variants {
                let engine = Candidate::patch(*patch).variant(knobs).engine(&own);
                assert!(engine.is_ok(), "{knobs:?}: {:?}", engine.err());
                let all = |(knob, _): &(&str, &str)| DirectCompaction.varies(&format!("compaction.{knob}"));
                assert!(knobs.iter().all(all), "{knobs:?}");
            }
        }
        assert!(DirectCompaction.varies("compaction.leases") && !DirectCompaction.varies("pcp_policy"));
    }
}
