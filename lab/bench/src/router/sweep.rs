//! Every receive ring with every transmit ring and every way of coalescing: which are the smallest rings that keep the
//! rate, and what a reviewer's rule would have said.

use super::parameters::RINGS;
use super::report::RouterFigures;
use super::run::{Effort, Routed, route};
use super::settings::{Coalescing, RouterSettings};
use crate::error::BenchError;
use serde::Serialize;

/// Rings that carry at least this share of the best rate keep it.
pub(crate) const KEEPS: f64 = 0.99;

/// A setting of a sweep, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepRow {
    /// Receive descriptors of each queue.
    pub rx_ring: u64,
    /// Transmit descriptors of each queue.
    pub tx_ring: u64,
    /// How receive interrupts wait: `adaptive`, or microseconds as in `64 us`.
    pub coalescing: String,
    /// Whether it carries at least 99 % of what the best setting does.
    pub keeps: bool,
    /// The setting's figures.
    #[serde(flatten)]
    pub figures: RouterFigures,
}

impl SweepRow {
    /// Makes a row of a setting that stands alone, and so keeps its own rate.
    #[must_use]
    pub fn of(routed: &Routed) -> SweepRow {
        let settings = &routed.settings;
        let wait = match settings.rx.kind {
            Coalescing::Fixed => Wait::Fixed(settings.rx.usecs),
            Coalescing::Adaptive => Wait::Adaptive,
        };
        SweepRow {
            rx_ring: settings.rx_ring,
            tx_ring: settings.tx_ring,
            coalescing: wait.name(),
            keeps: true,
            figures: RouterFigures { cpu_pct: Vec::new(), ..routed.figures.clone() },
        }
    }
}

/// The smallest rings that keep the rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Smallest {
    /// With this coalescing.
    pub coalescing: String,
    /// Receive descriptors.
    pub rx_ring: u64,
    /// Transmit descriptors.
    pub tx_ring: u64,
    /// Packets a second sent.
    pub out_pps: f64,
    /// Frames in flight at most.
    pub in_flight_max: u64,
}

/// The rule "the optimal ring is the packet rate over the interrupt rate" at one coalescing, with the largest rings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RingRule {
    /// With this coalescing.
    pub coalescing: String,
    /// Packets a second of a queue.
    pub queue_pps: f64,
    /// Interrupts a second of a queue.
    pub queue_interrupts_per_s: f64,
    /// The rule's size: one over the other.
    pub predicted: f64,
    /// The next ring that there is: a power of two from 64 to 8192.
    pub predicted_ring: u64,
    /// The smallest receive ring that kept the rate; left out where none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smallest_ring: Option<u64>,
    /// Whether the two are the same.
    pub holds: bool,
}

/// A sweep of rings and coalescing.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouterSweep {
    /// The best rate of all settings, packets a second sent.
    pub best_pps: f64,
    /// The share of the best rate that a setting must send to count as keeping it, in percent.
    pub keeps_pct: f64,
    /// The smallest rings that keep it: of all settings, then at each coalescing where some do.
    pub smallest: Vec<Smallest>,
    /// The rule "optimal ring = packet rate / interrupt rate", at each coalescing.
    pub rule: Vec<RingRule>,
    /// Every setting.
    pub rows: Vec<SweepRow>,
    /// The effort of the simulations.
    #[serde(skip)]
    pub effort: Effort,
}

/// Ways of coalescing: values of `rx-usecs`, and the adaptive one.
#[derive(Clone, Copy)]
enum Wait {
    Fixed(u64),
    Adaptive,
}

impl Wait {
    fn name(self) -> String {
        match self {
            Wait::Fixed(usecs) => format!("{usecs} us"),
            Wait::Adaptive => "adaptive".to_owned(),
        }
    }

    fn on(self, settings: &RouterSettings) -> RouterSettings {
        match self {
            Wait::Fixed(usecs) => {
                settings.with(&[("rx-coalescing", "fixed"), ("rx-usecs", &usecs.to_string())])
            }
            Wait::Adaptive => settings.with(&[("rx-coalescing", "adaptive")]),
        }
    }
}

/// Sweeps rings and coalescing around a setting; a quick one takes every other size. `progress` is told how many of how
/// many settings are done.
///
/// # Errors
/// As [`route`].
pub fn sweep(
    settings: &RouterSettings,
    quick: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RouterSweep, BenchError> {
    let waits: &[Wait] = match quick {
        true => &[Wait::Fixed(16), Wait::Fixed(64), Wait::Adaptive],
        false => &[
            Wait::Fixed(8),
            Wait::Fixed(16),
            Wait::Fixed(25),
            Wait::Fixed(64),
            Wait::Fixed(256),
            Wait::Adaptive,
        ],
    };
    let rx: Vec<u64> = RINGS.into_iter().step_by(if quick { 2 } else { 1 }).collect();
    let tx: &[u64] = if quick { &[128, 1024] } else { &[64, 128, 256, 1024, 4096] };
    let all = (waits.len() * rx.len() * tx.len()) as u64;
    let mut found = RouterSweep { keeps_pct: 100.0 * KEEPS, ..RouterSweep::default() };
    for wait in waits {
        for rx_ring in &rx {
            for tx_ring in tx {
                let setting = RouterSettings { rx_ring: *rx_ring, tx_ring: *tx_ring, ..wait.on(settings) };
                let routed = route(&setting)?;
                found.effort.add(routed.effort);
                let figures = RouterFigures { cpu_pct: Vec::new(), ..routed.figures };
                let (rx_ring, tx_ring) = (*rx_ring, *tx_ring);
                found.rows.push(SweepRow {
                    rx_ring,
                    tx_ring,
                    coalescing: wait.name(),
                    keeps: false,
                    figures,
                });
                progress(found.rows.len() as u64, all);
            }
        }
    }
    let names: Vec<String> = waits.iter().map(|w| w.name()).collect();
    found.conclude(&names, settings.queues());
    Ok(found)
}

impl RouterSweep {
    fn conclude(&mut self, waits: &[String], queues: u64) {
        self.best_pps = self.rows.iter().map(|r| r.figures.out_pps).fold(0.0, f64::max);
        for row in &mut self.rows {
            row.keeps = row.figures.out_pps >= KEEPS * self.best_pps;
        }
        let of = |name: &String| self.rows.iter().filter(|r| r.coalescing == *name).collect::<Vec<_>>();
        let all = smallest(&self.rows.iter().collect::<Vec<_>>());
        let each = waits.iter().filter_map(|name| smallest(&of(name)));
        let found: Vec<Smallest> = all.into_iter().chain(each).collect();
        let rule = waits.iter().filter_map(|name| rule(&of(name), queues)).collect();
        (self.smallest, self.rule) = (found, rule);
    }
}

/// Finds the rings with the fewest descriptors that keep the rate; of equals the one that sends more.
fn smallest(rows: &[&SweepRow]) -> Option<Smallest> {
    let order = |a: &&&SweepRow, b: &&&SweepRow| {
        let size = |r: &SweepRow| r.rx_ring + r.tx_ring;
        size(a).cmp(&size(b)).then(b.figures.out_pps.total_cmp(&a.figures.out_pps))
    };
    rows.iter().filter(|r| r.keeps).min_by(order).map(|r| Smallest {
        coalescing: r.coalescing.clone(),
        rx_ring: r.rx_ring,
        tx_ring: r.tx_ring,
        out_pps: r.figures.out_pps,
        in_flight_max: r.figures.in_flight_max,
    })
}

/// Applies the rule to the setting with the largest rings, and compares it with the smallest receive ring that kept the
/// rate.
fn rule(rows: &[&SweepRow], queues: u64) -> Option<RingRule> {
    let largest = rows.iter().max_by_key(|r| (r.rx_ring, r.tx_ring))?;
    let queue = |rate: f64| rate / queues as f64;
    let (queue_pps, interrupts) = (queue(largest.figures.in_pps), queue(largest.figures.interrupts_per_s));
    // A host that never stops polling has no interrupt rate, and the rule asks for a ring without end.
    let predicted = queue_pps / interrupts.max(1.0);
    let predicted_ring = ring_for(predicted);
    let smallest_ring = rows.iter().filter(|r| r.keeps).map(|r| r.rx_ring).min();
    Some(RingRule {
        coalescing: largest.coalescing.clone(),
        queue_pps,
        queue_interrupts_per_s: interrupts,
        predicted,
        predicted_ring,
        smallest_ring,
        holds: Some(predicted_ring) == smallest_ring,
    })
}

/// Returns the smallest ring there is that holds so many packets; the largest where none does.
pub(crate) fn ring_for(packets: f64) -> u64 {
    RINGS.into_iter().find(|ring| *ring as f64 >= packets).unwrap_or(RINGS[RINGS.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::super::test::small;
    use super::*;

    fn row(rx_ring: u64, tx_ring: u64, out_pps: f64, interrupts_per_s: f64) -> SweepRow {
        let figures = route(&small(&[("run-us", "10"), ("warm-up-us", "0")])).unwrap().figures;
        let figures = RouterFigures { in_pps: 1000.0, out_pps, interrupts_per_s, ..figures };
        SweepRow { rx_ring, tx_ring, coalescing: "8 us".into(), keeps: false, figures }
    }

    #[test]
    fn the_smallest_rings_are_those_with_the_fewest_descriptors_that_keep_the_rate() {
        let rows = vec![row(64, 64, 900.0, 5.0), row(256, 64, 991.0, 5.0), row(64, 512, 1000.0, 5.0)];
        let mut sweep = RouterSweep { rows, ..RouterSweep::default() };
        sweep.conclude(&["8 us".to_owned()], 1);
        let smallest = &sweep.smallest[0];
        assert_eq!((smallest.rx_ring, smallest.tx_ring, sweep.best_pps), (256, 64, 1000.0));
        assert_eq!(sweep.rows.iter().map(|r| r.keeps).collect::<Vec<_>>(), [false, true, true]);
        // 1000 packets a second and 5 interrupts: 200 descriptors, so 256; but 64 kept the rate, with TX 512.
        let rule = &sweep.rule[0];
        assert_eq!(
            (rule.predicted, rule.predicted_ring, rule.smallest_ring, rule.holds),
            (200.0, 256, Some(64), false)
        );
        assert_eq!([0.0, 64.0, 65.0, 9000.0].map(ring_for), [64, 64, 128, 8192]);
    }

    #[test]
    fn a_sweep_has_a_row_for_each_setting_and_a_rule_for_each_coalescing() {
        let settings = small(&[("run-us", "200"), ("warm-up-us", "0")]);
        let mut last = (0, 0);
        let found = sweep(&settings, true, &mut |done, all| last = (done, all)).unwrap();
        assert_eq!((found.rows.len(), found.rule.len(), last), (24, 3, (24, 24)));
        assert!(found.effort.packets > 0 && found.rows.iter().any(|r| r.keeps));
    }
}
