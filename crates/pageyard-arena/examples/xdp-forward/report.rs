//! The report of some runs, as tables or as one document.

use crate::clock::Clock;
use crate::frames::Kind;
use crate::options::Options;
use crate::outcome::{ForwardReport, Timed};
use crate::run::Completion;
use serde_json::{Value, json};

/// One run.
pub struct Row {
    /// The allocator.
    pub kind: Kind,
    /// Who took completions.
    pub completion: Completion,
    /// Whether lines were counted, so that times say nothing.
    pub counted: bool,
    /// Its results.
    pub outcome: ForwardReport,
}

/// All runs.
pub struct Report {
    options: Options,
    clock: Clock,
    /// In the order in which they ran.
    pub rows: Vec<Row>,
}

/// The middle value; of two in the middle, the upper one. 0 if there is none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

impl Report {
    /// Begins with no runs.
    pub fn new(options: &Options, clock: Clock) -> Report {
        Report { options: options.clone(), clock, rows: Vec::new() }
    }

    /// Returns whether every frame is accounted for in every run.
    pub fn is_sound(&self) -> bool {
        self.rows.iter().all(|row| row.outcome.is_sound())
    }

    /// Returns what is printed: one document, or tables.
    pub fn text(&self, json: bool) -> String {
        if json { format!("{:#}\n", self.document()) } else { self.tables() + &self.accounts() }
    }

    fn of(&self, kind: Kind, completion: Completion, counted: bool) -> impl Iterator<Item = &ForwardReport> {
        let rows = self.rows.iter();
        rows.filter(move |row| (row.kind, row.completion, row.counted) == (kind, completion, counted))
            .map(|row| &row.outcome)
    }

    /// Returns each allocator with each split, in the order of the options.
    fn settings(&self) -> impl Iterator<Item = (Kind, Completion)> {
        let kinds = &self.options.allocators;
        self.options
            .completions
            .iter()
            .flat_map(move |completion| kinds.iter().map(|kind| (*kind, *completion)))
    }

    fn document(&self) -> Value {
        let sizes = self.options.sizes;
        let results: Vec<Value> =
            self.settings().map(|(kind, completion)| self.result(kind, completion)).collect();
        json!({
            "queues": sizes.queues,
            "ring_entries": sizes.entries,
            "frames": sizes.frames,
            "packet_bytes": sizes.packet,
            "window": sizes.window,
            "mode": sizes.mode.name(),
            "packets": self.options.packets,
            "rounds": self.options.rounds,
            "killed_each_run": self.options.kills,
            "seed": self.options.seed,
            "ticks_per_ns": self.clock.ticks_per_ns,
            "clock_ticks": self.clock.cost,
            "frames_conserved": self.is_sound(),
            "results": results,
        })
    }

    fn result(&self, kind: Kind, completion: Completion) -> Value {
        let runs = || self.of(kind, completion, false);
        let cost = self.cost(kind, completion);
        json!({
            "allocator": kind.name(),
            "completion": completion.name(),
            "get_ticks": cost.get,
            "put_ticks": cost.put,
            "get_ns": cost.get / self.clock.ticks_per_ns,
            "put_ns": cost.put / self.clock.ticks_per_ns,
            "packets_per_second": cost.rate,
            "worker_ns_per_packet": cost.cpu,
            "allocators_share": cost.share(&self.clock),
            "lines_per_packet": cost.lines,
            "runs": runs().map(|run| one(run, &self.clock)).collect::<Vec<_>>(),
        })
    }

    fn cost(&self, kind: Kind, completion: Completion) -> Cost {
        let runs = || self.of(kind, completion, false);
        Cost {
            get: median(runs().map(|run| run.get.per_frame())),
            put: median(runs().map(|run| run.put.per_frame())),
            rate: median(runs().map(rate)),
            cpu: median(runs().map(|run| run.cpu.as_nanos() as f64 / run.packets.routed.max(1) as f64)),
            lines: self
                .of(kind, completion, true)
                .find_map(|run| run.lines.map(|lines| lines as f64 / run.packets.routed.max(1) as f64)),
        }
    }

    fn tables(&self) -> String {
        let sizes = self.options.sizes;
        let mut text = format!(
            "{} queues, rings of {}, {} frames, packets of {} bytes, XDP in {} mode; medians of {} runs; {:.2} ticks a ns\n\n\
             the allocator's share, in ticks of the processor's clock for each packet\n\
             completion  allocator         get     put    both  both, ns worker, ns    share      lines   packets/s\n",
            sizes.queues,
            sizes.entries,
            sizes.frames,
            sizes.packet,
            sizes.mode.name(),
            self.options.rounds,
            self.clock.ticks_per_ns
        );
        for (kind, completion) in self.settings() {
            let cost = self.cost(kind, completion);
            let both = cost.get + cost.put;
            text += &format!(
                "{:<11} {:<13} {:>7.1} {:>7.1} {:>7.1} {:>9.2} {:>10.0} {:>6.2} % {:>10} {:>11.0}\n",
                completion.name(),
                kind.name(),
                cost.get,
                cost.put,
                both,
                both / self.clock.ticks_per_ns,
                cost.cpu,
                100.0 * cost.share(&self.clock),
                cost.lines.map_or("-".to_owned(), |lines| format!("{lines:.3}")),
                cost.rate
            );
        }
        text
    }

    fn accounts(&self) -> String {
        let mut text = "\npackets and frames, over all runs\n".to_owned();
        for (kind, completion) in self.settings() {
            let runs: Vec<&ForwardReport> =
                [false, true].into_iter().flat_map(|counted| self.of(kind, completion, counted)).collect();
            text += &format!(
                "{}, completions by {} worker: {}\n",
                kind.name(),
                completion.article(),
                account(&runs)
            );
        }
        let verdict =
            if self.is_sound() { "every frame is accounted for" } else { "FRAMES ARE NOT CONSERVED" };
        text + &format!("\n{verdict}\n")
    }
}

/// An allocator's costs with one split.
struct Cost {
    get: f64,
    put: f64,
    rate: f64,
    /// Nanoseconds of processor time of the workers for each packet.
    cpu: f64,
    lines: Option<f64>,
}

impl Cost {
    /// Returns the share that the allocator has in the workers' time.
    fn share(&self, clock: &Clock) -> f64 {
        (self.get + self.put) / clock.ticks_per_ns / self.cpu.max(1.0)
    }
}

fn rate(run: &ForwardReport) -> f64 {
    run.packets.arrived as f64 / run.took.as_secs_f64()
}

/// Says where packets and frames ended.
fn account(runs: &[&ForwardReport]) -> String {
    let sum = |of: &dyn Fn(&ForwardReport) -> u64| runs.iter().map(|run| of(run)).sum::<u64>();
    let unexplained: i64 = runs.iter().map(|run| run.packets.unexplained).sum();
    let mut text = format!(
        "{} sent, {} arrived; dropped: {} by the source's device, {} without a frame or room, {} by the outgoing device, {} at the \
         sink, {} unexplained; {} damaged, {} out of order",
        sum(&|run| run.packets.sent),
        sum(&|run| run.packets.arrived),
        sum(&|run| run.packets.at_source),
        sum(&|run| run.packets.at_rx),
        sum(&|run| run.packets.at_output),
        sum(&|run| run.packets.at_sink),
        unexplained,
        sum(&|run| run.packets.damaged),
        sum(&|run| run.packets.disordered),
    );
    if let Some(last) = runs.last() {
        let p = last.places;
        text += &format!(
            "\n  frames at the end: {} in the allocator, {} on fill rings, {} on RX, {} on TX, {} on completion rings, {} in the \
             kernel; lost in all runs: {}, owned twice: {}",
            last.balance.in_allocator,
            p.fill,
            p.rx,
            p.tx,
            p.completion,
            p.kernel,
            sum(&|run| u64::from(run.balance.missing)),
            sum(&|run| u64::from(run.balance.doubly_owned + run.doubly_owned + run.places.twice)),
        );
    }
    let killed = || runs.iter().flat_map(|run| &run.killed);
    if killed().count() > 0 {
        text += &format!(
            "\n  killed: {} workers, {} of them in an allocator's call; frames they had: {} in all, {} at most; all recovered, in {:.1} \
             ms at most",
            killed().count(),
            killed().filter(|k| k.in_call).count(),
            killed().map(|k| k.stranded).sum::<u32>(),
            killed().map(|k| k.stranded).max().unwrap_or(0),
            killed().map(|k| k.recovery.as_secs_f64() * 1e3).fold(0.0, f64::max),
        );
    }
    text
}

fn one(run: &ForwardReport, clock: &Clock) -> Value {
    let (p, f) = (run.packets, run.places);
    let timed = |calls: &Timed| {
        json!({
            "frames": calls.frames,
            "ticks": calls.per_frame(),
            "ns": calls.per_frame() / clock.ticks_per_ns,
            "disturbed_calls": calls.disturbed,
            "disturbed_frames": calls.disturbed_frames,
        })
    };
    json!({
        "seconds": run.took.as_secs_f64(),
        "packets": {
            "sent": p.sent, "arrived": p.arrived, "routed": p.routed, "foreign": p.foreign,
            "dropped_at_source": p.at_source, "dropped_at_rx": p.at_rx,
            "dropped_at_output": p.at_output, "dropped_at_sink": p.at_sink,
            "damaged": p.damaged, "disordered": p.disordered,
            "unexplained": p.unexplained,
        },
        "frames": {
            "allocator": run.balance.in_allocator, "fill": f.fill, "rx": f.rx, "tx": f.tx,
            "completion": f.completion, "kernel": f.kernel, "lost": run.balance.missing,
            "owned_twice": run.balance.doubly_owned + run.doubly_owned + f.twice, "strange": f.strange,
        },
        "through_ring": run.through_ring,
        "out_of_frames": run.empty,
        "killed": run.killed.iter().map(|killed| json!({
            "in_call": killed.in_call,
            "stranded": killed.stranded,
            "recovery_ms": killed.recovery.as_secs_f64() * 1e3,
        })).collect::<Vec<_>>(),
        "get": timed(&run.get),
        "put": timed(&run.put),
    })
}
