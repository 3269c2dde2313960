//! The patch's assumption, that intensive allocation in interrupts is rare, tested on recorded traces.

use super::{AFTER, BEFORE, ENGINE, Machines, REGISTER, SOFT_IRQ, TRYLOCK, mix};
use crate::error::BenchError;
use crate::experiment::samples::{OVERLAP, in_turn, together};
use crate::experiment::subject::{Mix, Subject};
use crate::experiment::{Rows, Run, Samples, gain};

const TRACES: [&str; 4] = ["net-order0", "net", "build", "fork"];

pub(super) fn measure(machines: &Machines, run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let most = if run.quick { 60_000 } else { 2_000_000 };
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    for (done, trace) in TRACES.iter().enumerate() {
        run.at("traces", done, TRACES.len());
        let Some(path) = mix::find(trace) else {
            run.note(format!("{trace} was not measured: data/traces/{trace}.trace is not below this folder"));
            continue;
        };
        let recorded = mix::load(&path, most)?;
        rows.section("The traces, order 0");
        rows.add(format!("{trace}: calls"), "trace", recorded.mix.calls.len() as f64, "");
        rows.add(format!("{trace}: calls in interrupts"), "trace", recorded.in_interrupts(), "%");
        rows.add(format!("{trace}: frees in interrupts"), "trace", recorded.frees_in_interrupts(), "%");
        for threads in [1, 2] {
            if threads > cores.len() {
                run.note("two threads were not measured: this process may use one CPU");
                break;
            }
            let dropped = cost(machines, &recorded.mix, trace, &cores[..threads], run, rows);
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
    cores: &[core_affinity::CoreId],
    run: &mut Run<'_>,
    rows: &mut Rows,
) -> u64 {
    let mut subjects: Vec<(&str, &dyn Subject)> =
        machines.references.iter().map(|(name, r)| (*name, r as &dyn Subject)).collect();
    subjects.push((ENGINE, machines.engine.subject()));
    subjects.push(("again", &machines.again));
    let locks = |i: usize| {
        machines.references.get(i).map_or((0, 0), |(_, r)| {
            let s = r.lock_stats();
            (s.taken, s.wait_ns)
        })
    };
    let before: Vec<_> = (0..subjects.len()).map(locks).collect();
    let mut passes = vec![0u64; subjects.len()];
    let mut dropped = 0;
    let mut numbered: Vec<(usize, &dyn Subject)> = subjects.iter().map(|s| s.1).enumerate().collect();
    let series = in_turn(&mut numbered, |(i, subject)| {
        passes[*i] += 1;
        if cores.len() == 1 {
            return subject.mix(0, mix).map(|ns| [ns]);
        }
        let both = together(cores, |cpu| subject.mix(cpu, mix));
        if both.overlap < OVERLAP {
            dropped += 1;
            return None;
        }
        let sum = both.threads.iter().try_fold(0.0, |sum, (ns, _)| Some(sum + (*ns)?))?;
        Some([sum / cores.len() as f64])
    });
    let threads = if cores.len() == 1 { "1 thread" } else { "2 threads" };
    let metric = format!("{trace}, {threads}");
    for (i, (column, _)) in subjects.iter().enumerate().filter(|(_, (c, _))| *c != "again") {
        rows.section("Cost of a call");
        rows.add(&metric, *column, series[i][0].median(), "ns");
        if i < machines.references.len() {
            let calls = (passes[i] as usize * cores.len() * mix.calls.len() * mix.repeat) as f64;
            let (taken, waited) = locks(i);
            rows.section("Zone lock");
            let thousand = (taken - before[i].0) as f64 / calls * 1000.0;
            rows.add(format!("{metric}: taken for 1000 calls"), *column, thousand, "");
            rows.add(
                format!("{metric}: waited for a call"),
                *column,
                (waited - before[i].1) as f64 / calls,
                "ns",
            );
        }
    }
    rows.section("Less than irqsave, on the traces");
    let place = |column: &str| subjects.iter().position(|(c, _)| *c == column).unwrap_or(0);
    for (before, name) in [(REGISTER, "gain over the flags register"), (BEFORE, "gain over a flag")] {
        for column in [AFTER, SOFT_IRQ, TRYLOCK] {
            let gained = gained(&series[place(before)][0], &series[place(column)][0]);
            rows.add(format!("{name}, {metric}"), column, gained, "%");
        }
    }
    run.check_pair(&metric, gained(&series[0][0], &series[subjects.len() - 1][0]));
    dropped
}

/// Returns by how many percent a variant is below another: turn by turn, or by medians where samples were dropped.
fn gained(before: &Samples, after: &Samples) -> f64 {
    let paired = before.paired_gain(after);
    if paired.is_nan() { gain(before.median(), after.median()) } else { paired }
}
