//! `pageyard-lab router` as text.

use super::{figure, quick_text};
use crate::document::RouterDocument;
use crate::router::{Effort, RouterFigures, RouterSweep, Throughput};
use pageyard_replay::text::{bytes, count};
use pageyard_trace::text::Grid;
use std::fmt::Write;

fn whole(value: f64) -> String {
    count(value.round_ties_even() as u64)
}

impl RouterDocument<'_> {
    /// Writes what a setting came to, or the table of a sweep with the smallest rings first.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(self.quick, "more simulated time, and every ring size in a sweep");
        let _ = writeln!(text, "A simulated router with real frames, on {}", self.machine);
        let set: Vec<String> =
            self.changed.iter().map(|name| format!("{name}={}", self.settings[name])).collect();
        let set = if set.is_empty() { "all parameters are the defaults".to_owned() } else { set.join(" ") };
        let _ = writeln!(text, "Set: {set}. `pageyard-lab router --help` lists the parameters.");
        effort_text(&mut text, self.effort);
        if let Some(figures) = self.figures {
            figures_text(&mut text, figures);
        }
        if let Some(sweep) = self.sweep {
            sweep_text(&mut text, sweep);
        }
        if let Some(throughput) = self.throughput {
            throughput_text(&mut text, throughput);
        }
        text
    }
}

fn effort_text(text: &mut String, effort: Effort) {
    let _ = writeln!(
        text,
        "{} packets simulated in {:.0} ms: {:.2} million a second that passed, {:.2} million of processor time; \
         {:.0} ms more to fill rings and to check every frame.",
        count(effort.packets),
        effort.wall_ns as f64 / 1e6,
        effort.packets_per_wall_s() / 1e6,
        effort.packets_per_cpu_s() / 1e6,
        effort.around_ns as f64 / 1e6
    );
}

fn figures_text(text: &mut String, f: &RouterFigures) {
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<24} {value}");
    };
    let each = |rate: f64, packets: Option<f64>, decimals: usize| match packets {
        Some(packets) => format!("{:>12} a second, {packets:.decimals$} packets each", whole(rate)),
        None => "none".to_owned(),
    };
    let rate = |pps: f64, gbit: f64| format!("{:>12} packets/s  {gbit:>7.2} Gbit/s", whole(pps));
    line("offered", rate(f.offered_pps, f.offered_gbit));
    line("in", rate(f.in_pps, f.in_gbit));
    line("out", rate(f.out_pps, f.out_gbit));
    line("dropped", format!("{:.3} %", f.dropped_pct));
    for (place, drops) in f.drops_per_s.iter().filter(|(_, drops)| **drops > 0.0) {
        line(&format!("  at {place}"), format!("{:>12} packets/s", whole(*drops)));
    }
    line("interrupts", each(f.interrupts_per_s, f.packets_per_interrupt, 1));
    line("polls", each(f.polls_per_s, f.packets_per_poll, 1));
    line("doorbells", each(f.doorbells_per_s, f.packets_per_doorbell, 2));
    line("receive interrupts wait", format!("{:.1} us", f.rx_wait_us));
    line("CPUs busy", format!("{:.1} %, the busiest {:.1} %", f.cpu_pct_mean, f.cpu_pct_max));
    let each: Vec<String> = f.cpu_pct.iter().map(|pct| format!("{pct:.0}")).collect();
    line("  each, %", each.join(" "));
    line("time in the host", format!("{} us", figure(f.sojourn_us, 1)));
    line(
        "frames in flight",
        format!(
            "{:.0}, {} at most: {}",
            f.in_flight_mean,
            count(f.in_flight_max),
            bytes(f.in_flight_max_bytes as u64)
        ),
    );
    line(
        "frames held",
        format!(
            "{:.0}, {} at most: {}, {:.2} times the last-level cache",
            f.held_mean,
            count(f.held_max),
            bytes(f.held_max_bytes as u64),
            f.held_max_x_llc
        ),
    );
    line(
        "frames recycled",
        format!("{} %; {} requests a second refused", figure(f.recycled_pct, 1), whole(f.refused_per_s)),
    );
    line("headers not in cache", format!("{} %", figure(f.cold_headers_pct, 2)));
    line(
        "memory",
        format!(
            "{:.2} GB/s read, {:.2} GB/s written, {} bytes a packet: {:.1} % of what it carries",
            f.memory_read_gbyte,
            f.memory_written_gbyte,
            figure(f.memory_bytes_per_packet, 0),
            f.memory_pct
        ),
    );
    line("waits for memory", format!("{:.2} % of CPU time", f.memory_wait_pct));
    line(
        "zone lock",
        format!(
            "{:>12} a second, waits {:.2} % of busy time",
            whole(f.zone_locks_per_s),
            f.zone_lock_wait_pct
        ),
    );
}

fn throughput_text(text: &mut String, found: &Throughput) {
    let rate = |gbit: Option<f64>| match gbit {
        Some(gbit) if gbit >= found.wires_gbit => {
            format!("{gbit:.1} Gbit/s, which is all that the wires carry")
        }
        Some(gbit) => format!("{gbit:.1} Gbit/s"),
        None => "none: it loses packets at every rate".to_owned(),
    };
    let _ = writeln!(
        text,
        "\nHighest rate without loss, within {:.0} %, of {:.1} Gbit/s that the wires carry:",
        found.within_pct, found.wires_gbit
    );
    let _ = writeln!(text, "  from an idle host        {}", rate(found.lossless_gbit));
    let _ = writeln!(text, "  after a surge            {}", rate(found.after_surge_gbit));
    if found.around.is_empty() {
        return;
    }
    let mut grid = Grid::new([
        "of the limit",
        "offered",
        "Gbit/s sent",
        "dropped %",
        "CPU %",
        "in flight",
        "cold headers %",
        "mem %",
        "us inside",
    ]);
    for around in &found.around {
        let f = &around.figures;
        grid.row([
            format!("{} %", around.of_limit_pct),
            figure(f.offered_gbit, 1),
            figure(f.out_gbit, 1),
            figure(f.dropped_pct, 3),
            figure(f.cpu_pct_mean, 1),
            count(f.in_flight_max),
            figure(f.cold_headers_pct, 1),
            figure(f.memory_pct, 1),
            figure(f.sojourn_us, 1),
        ]);
    }
    let _ = write!(text, "\n{grid}");
}

fn sweep_text(text: &mut String, sweep: &RouterSweep) {
    let _ = writeln!(text, "\nThe best rate is {} packets a second.", whole(sweep.best_pps));
    let _ = writeln!(
        text,
        "The smallest rings that keep {:.0} % of it, of all and with each coalescing:",
        sweep.keeps_pct
    );
    for (n, s) in sweep.smallest.iter().enumerate() {
        let _ = writeln!(
            text,
            "  {:<4} {:<10} RX {:<5} TX {:<5} {:>11} packets/s, {} frames in flight at most",
            if n == 0 { "all:" } else { "" },
            s.coalescing,
            s.rx_ring,
            s.tx_ring,
            whole(s.out_pps),
            count(s.in_flight_max)
        );
    }
    text.push_str("\nThe rule: the optimal ring is the packet rate over the interrupt rate, of a queue, with the largest rings.\n");
    for r in &sweep.rule {
        let found = match (r.holds, r.smallest_ring) {
            (_, None) => "no ring kept the rate".to_owned(),
            (true, Some(ring)) => format!("and {ring} was the smallest that kept the rate"),
            (false, Some(ring)) => format!("but {ring} was the smallest that kept the rate"),
        };
        let _ = writeln!(
            text,
            "  {:<10} {} / {} = {:.1}, so {}; {found}",
            r.coalescing,
            whole(r.queue_pps),
            whole(r.queue_interrupts_per_s),
            r.predicted,
            r.predicted_ring
        );
    }
    let mut grid = Grid::new([
        "RX waits",
        "RX",
        "TX",
        "keep",
        "Gbit/s",
        "dropped %",
        "interrupts/s",
        "CPU %",
        "in flight",
        "mem %",
        "us inside",
    ]);
    for r in &sweep.rows {
        let f = &r.figures;
        grid.row([
            r.coalescing.clone(),
            r.rx_ring.to_string(),
            r.tx_ring.to_string(),
            if r.keeps { "yes".to_owned() } else { String::new() },
            figure(f.out_gbit, 2),
            figure(f.dropped_pct, 3),
            whole(f.interrupts_per_s),
            figure(f.cpu_pct_mean, 1),
            count(f.in_flight_max),
            figure(f.memory_pct, 1),
            figure(f.sojourn_us, 1),
        ]);
    }
    let _ = write!(text, "\n{grid}");
}
