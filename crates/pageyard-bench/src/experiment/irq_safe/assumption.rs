//! The patch's assumption, that intensive allocation in interrupts is rare, tested on recorded traces.

use super::{AFTER, BEFORE, Machines, REGISTER, SOFT_IRQ, TRYLOCK, mix};
use crate::error::BenchError;
use crate::experiment::recordings::find;
use crate::experiment::{Rows, Run, Samples, gain};
use crate::harness::load::{Busy, Mix};
use crate::harness::sampler::Sample;
use crate::harness::subject::Subject;
use crate::harness::team::{OVERLAP, Span, overlap};

const TRACES: [&str; 4] = ["net-order0", "net", "build", "fork"];

/// Calls that a quick run makes of a recording at most.
pub(super) const QUICK_CALLS: usize = 60_000;

pub(super) fn measure(machines: &Machines, run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let most = if run.quick { QUICK_CALLS } else { 2_000_000 };
    for (done, trace) in TRACES.iter().enumerate() {
        run.at("traces", done, TRACES.len());
        let Some(path) = find(trace) else {
            run.note(format!("{trace} was not measured: data/traces/{trace}.trace is not below this folder"));
            continue;
        };
        let recorded = mix::load(&path, most)?;
        rows.section("The traces, order 0");
        rows.add(format!("{trace}: calls"), "trace", recorded.mix.calls.len() as f64, "");
        rows.add(format!("{trace}: calls in interrupts"), "trace", recorded.in_interrupts(), "%");
        rows.add(format!("{trace}: frees in interrupts"), "trace", recorded.frees_in_interrupts(), "%");
        for threads in [1, 2] {
            if threads > machines.team.len() {
                run.note("two threads were not measured: this process may use one CPU");
                break;
            }
            let dropped = cost(machines, &recorded.mix, trace, threads, run, rows);
            if dropped > 0 {
                run.note(format!(
                    "{dropped} samples of {trace} on two threads were dropped: the threads ran apart"
                ));
            }
        }
    }
    Ok(())
}

/// Measures a mix on one CPU, or on several at once, each with the whole mix; returns how many samples did not count.
fn cost(
    machines: &Machines,
    mix: &Mix,
    trace: &str,
    threads: usize,
    run: &mut Run<'_>,
    rows: &mut Rows,
) -> u64 {
    let subjects = machines.subjects();
    let locks = |i: usize| {
        machines.references.get(i).map_or((0, 0), |r| {
            let s = r.allocator().0.lock_stats();
            (s.taken, s.wait_ns)
        })
    };
    let before: Vec<_> = (0..subjects.len()).map(locks).collect();
    let mut passes = vec![0u64; subjects.len()];
    let mut dropped = 0;
    let mut numbered: Vec<(usize, &dyn Subject)> = subjects.iter().copied().enumerate().collect();
    let series = run.sampler().run(&mut numbered, |(i, subject)| {
        passes[*i] += 1;
        let Some(all) = subject.mix(&machines.team, threads, mix) else { return Sample::Impossible };
        if overlap(&all.iter().map(|b| Span { start: b.start, end: b.end }).collect::<Vec<_>>()) < OVERLAP {
            dropped += 1;
            return Sample::Disturbed;
        }
        let each =
            |busy: &Busy| (busy.missing == 0).then(|| busy.ns as f64 / mix.calls_a_sample().max(1) as f64);
        let sum = all.iter().try_fold(0.0, |sum, busy| Some(sum + each(busy)?));
        Sample::from(sum.map(|sum| [sum / threads as f64]))
    });
    let metric = format!("{trace}, {}", if threads == 1 { "1 thread" } else { "2 threads" });
    for (i, column) in subjects.iter().map(|s| s.name()).enumerate().filter(|(_, c)| *c != "again") {
        rows.section("Cost of a call");
        rows.add(&metric, column, series[i][0].median(), "ns");
        if i < machines.references.len() {
            let calls = (passes[i] * threads as u64 * mix.calls_a_sample()) as f64;
            let (taken, waited) = locks(i);
            rows.section("Zone lock");
            let thousand = (taken - before[i].0) as f64 / calls * 1000.0;
            rows.add(format!("{metric}: taken for 1000 calls"), column, thousand, "");
            rows.add(
                format!("{metric}: waited for a call"),
                column,
                (waited - before[i].1) as f64 / calls,
                "ns",
            );
        }
    }
    rows.section("Less than irqsave, on the traces");
    let place = |column: &str| subjects.iter().position(|s| s.name() == column).unwrap_or(0);
    for (before, name) in [(REGISTER, "gain over the flags register"), (BEFORE, "gain over a flag")] {
        for column in [AFTER, SOFT_IRQ, TRYLOCK] {
            let gained = gained(&series[place(before)][0], &series[place(column)][0]);
            rows.add(format!("{name}, {metric}"), column, gained, "%");
        }
    }
    let pair = gained(&series[0][0], &series[subjects.len() - 1][0]);
    rows.add(format!("A/A {metric}"), BEFORE, pair, "% apart");
    run.check_pair(&metric, pair);
    dropped
}

/// Returns by how many percent a variant is below another: turn by turn, or by medians where samples were dropped.
fn gained(before: &Samples, after: &Samples) -> f64 {
    let paired = before.paired_gain(after);
    if paired.is_nan() { gain(before.median(), after.median()) } else { paired }
}
