//! The patch's assumption, that intensive allocation in interrupts is rare, tested on recorded traces.

use super::mix;
use super::subjects::{AFTER, BEFORE, Machines, REGISTER, SOFT_IRQ, SOFT_OFF, TRYLOCK};
use crate::error::BenchError;
use crate::experiment::recordings::find;
use crate::experiment::{Rows, Run, Samples, gain};
use crate::harness::divided::{Divided, together};
use crate::harness::load::Mix;
use crate::harness::sampler::Sample;
use crate::harness::subject::Subject;
use crate::harness::team::Team;
use std::sync::Arc;

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
        let divided = &recorded.divided;
        rows.section("The traces, order 0");
        let across = divided.across as f64 / recorded.frees.iter().sum::<u64>().max(1) as f64 * 100.0;
        rows.add(format!("{trace}: frees on another CPU than the allocation"), "trace", across, "%");
        let late = divided.late as f64 / divided.across.max(1) as f64 * 100.0;
        rows.add(format!("{trace}: of those, made late, up to 1024 calls"), "trace", late, "%");
        measured(machines, Calls::OneCpu(&recorded.mix), trace, run, rows);
        if divided.cpus() > machines.team.len() {
            run.note(format!(
                "{trace} was not measured on its CPUs: it names {}, and this process may use {}",
                divided.cpus(),
                machines.team.len()
            ));
            continue;
        }
        measured(machines, Calls::ItsCpus(divided), trace, run, rows);
    }
    Ok(())
}

/// Which calls are made where.
enum Calls<'a> {
    /// All of them by one thread.
    OneCpu(&'a Mix),
    /// Each by the thread of the CPU that the recording names.
    ItsCpus(&'a Arc<Divided>),
}

impl Calls<'_> {
    /// Returns the end of the rows' names.
    fn name(&self) -> &'static str {
        match self {
            Calls::OneCpu(_) => ONE_CPU,
            Calls::ItsCpus(_) => ITS_CPUS,
        }
    }

    /// Returns how many calls a sample makes.
    fn in_a_sample(&self) -> u64 {
        match self {
            Calls::OneCpu(mix) => mix.calls_a_sample(),
            Calls::ItsCpus(mix) => mix.calls_a_sample(),
        }
    }

    /// Takes a sample: nanoseconds a call, and the share of the time in which all CPUs were in calls.
    fn sample(&self, subject: &dyn Subject, team: &Team) -> Sample<2> {
        let (all, together) = match self {
            Calls::OneCpu(mix) => match subject.mix(team, 1, mix) {
                Some(busy) => (busy, 1.0),
                None => return Sample::Impossible,
            },
            Calls::ItsCpus(mix) => match subject.divided(team, mix) {
                Some(shares) => (shares.iter().map(|s| s.busy).collect(), together(&shares)),
                None => return Sample::Impossible,
            },
        };
        let sum = all.iter().try_fold(0, |sum, busy| (busy.missing == 0).then_some(sum + busy.ns));
        Sample::from(sum.map(|ns| [ns as f64 / self.in_a_sample().max(1) as f64, together * 100.0]))
    }
}

/// The rate of one thread.
pub(super) const ONE_CPU: &str = "one CPU";

/// The rate of each CPU's own thread.
pub(super) const ITS_CPUS: &str = "its CPUs";

/// Measures what the calls cost each subject.
fn measured(machines: &Machines, calls: Calls<'_>, trace: &str, run: &mut Run<'_>, rows: &mut Rows) {
    let subjects = machines.subjects();
    let locks = |i: usize| {
        machines.references.get(i).map_or((0, 0), |r| {
            let s = r.allocator().inner().lock_stats();
            (s.taken, s.wait_ns)
        })
    };
    let before: Vec<_> = (0..subjects.len()).map(locks).collect();
    let mut passes = vec![0u64; subjects.len()];
    let mut numbered: Vec<(usize, &dyn Subject)> = subjects.iter().copied().enumerate().collect();
    let series = run.sampler().run(&mut numbered, |(i, subject)| {
        passes[*i] += 1;
        calls.sample(*subject, &machines.team)
    });
    let metric = format!("{trace}, {}", calls.name());
    for (i, column) in subjects.iter().map(|s| s.name()).enumerate().filter(|(_, c)| *c != "again") {
        rows.section("Cost of a call");
        rows.add(&metric, column, series[i][0].median(), "ns");
        if matches!(calls, Calls::ItsCpus(_)) {
            rows.add(
                format!("{metric}: all of them in calls"),
                column,
                series[i][1].median(),
                "% of the time",
            );
        }
        if i < machines.references.len() {
            let made = (passes[i] * calls.in_a_sample()) as f64;
            let (taken, waited) = locks(i);
            rows.section("Zone lock");
            let thousand = (taken - before[i].0) as f64 / made * 1000.0;
            rows.add(format!("{metric}: taken for 1000 calls"), column, thousand, "");
            rows.add(
                format!("{metric}: waited for a call"),
                column,
                (waited - before[i].1) as f64 / made,
                "ns",
            );
        }
    }
    rows.section("Less than irqsave, on the traces");
    let place = |column: &str| subjects.iter().position(|s| s.name() == column).unwrap_or(0);
    for (before, name) in [(REGISTER, "gain over the flags register"), (BEFORE, "gain over a flag")] {
        for column in [AFTER, SOFT_OFF, SOFT_IRQ, TRYLOCK] {
            let gained = gained(&series[place(before)][0], &series[place(column)][0]);
            rows.add(format!("{name}, {metric}"), column, gained, "%");
        }
    }
    let pair = gained(&series[0][0], &series[subjects.len() - 1][0]);
    rows.add(format!("A/A {metric}"), BEFORE, pair, "% apart");
    run.check_pair(&metric, pair);
}

/// Returns by how many percent a variant is below another: turn by turn, or by medians where samples were dropped.
fn gained(before: &Samples, after: &Samples) -> f64 {
    let paired = before.paired_gain(after);
    if paired.is_nan() { gain(before.median(), after.median()) } else { paired }
}
