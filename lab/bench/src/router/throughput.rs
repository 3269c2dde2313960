//! The highest rate that a host forwards without loss, found as RFC 2544 (section 26.1) finds it, and what happens
//! around that rate.
//!
//! A ring hides an overload until it is full: a host that is offered one per cent too much fills 458,752 descriptors
//! in two seconds. So a trial fails not only where packets are dropped, but also where fewer are sent than come in.
//!
//! A host may also have two states at one rate: while queues are short its packets are in the cache, and once they are
//! long each packet costs more, which keeps them long. So each limit is searched twice: from an idle host, and after a
//! surge that filled the rings.

use super::report::RouterFigures;
use super::run::{Effort, route};
use super::settings::RouterSettings;
use crate::error::BenchError;
use serde::Serialize;

/// A trial loses nothing if it drops no more than this share of the packets offered, in percent.
pub(crate) const NONE_PCT: f64 = 0.01;

/// A trial keeps up if it sends at least this share of the packets that come in.
const KEEPS_UP: f64 = 0.99;

/// Rates around the limit that are looked at, in percent of it.
const AROUND: [u64; 5] = [50, 90, 100, 110, 125];

/// The surge before a trial of the second search: twice the rate for 50 ms, enough to fill 4096 descriptors of 56
/// queues from 50 Gbit/s on.
const SURGE: [(&str, &str); 2] = [("surge-pct", "100"), ("surge-us", "50000")];

/// Trials that both searches and the rates around take in most cases.
const USUAL: u64 = 25;

/// How long a trial is, and how fine the search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trials {
    /// Simulated microseconds before packets are counted.
    pub warm_up_us: u64,
    /// Microseconds that are counted.
    pub run_us: u64,
    /// The search ends when the limit is known within this many percent.
    pub within_pct: f64,
}

impl Trials {
    /// Trials of a full run.
    pub const FULL: Trials = Trials { warm_up_us: 80_000, run_us: 40_000, within_pct: 1.0 };
    /// Trials of a quick one: too short for large rings to show what they do under overload.
    pub const QUICK: Trials = Trials { warm_up_us: 10_000, run_us: 10_000, within_pct: 5.0 };

    /// Sets a trial's times; a surge comes on top of the warm-up.
    pub fn timed(self, settings: &RouterSettings) -> RouterSettings {
        let warm_up_us = self.warm_up_us + settings.surge_us;
        RouterSettings { warm_up_us, run_us: self.run_us, ..settings.clone() }
    }
}

/// Runs a setting.
pub(crate) type RunSetting<'a> = &'a mut dyn FnMut(&RouterSettings) -> Result<RouterFigures, BenchError>;

/// A rate near the limit, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Around {
    /// The rate offered, percent of the limit.
    pub of_limit_pct: u64,
    /// The figures at that rate, without those of each CPU.
    #[serde(flatten)]
    pub figures: RouterFigures,
}

/// The highest rate without loss, and the behaviour around it.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Throughput {
    /// The highest rate without loss of a host that was idle before, Gbit/s of frame bits; left out where it loses
    /// packets at every rate that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossless_gbit: Option<f64>,
    /// The highest rate without loss after a surge that filled the rings; left out likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_surge_gbit: Option<f64>,
    /// The rate that the wires carry, Gbit/s of frame bits.
    pub wires_gbit: f64,
    /// The limits are known within this many percent.
    pub within_pct: f64,
    /// Settings that were simulated.
    pub trials: u64,
    /// Rates below, at and above the limit; empty where there is none.
    pub around: Vec<Around>,
    /// The effort of the simulations.
    #[serde(skip)]
    pub effort: Effort,
}

/// Searches both limits of a setting, and runs it at rates around the first. `progress` is told how many trials are
/// done, of about how many.
///
/// # Errors
/// As [`route`].
pub fn throughput(
    settings: &RouterSettings,
    quick: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Throughput, BenchError> {
    let trials = if quick { Trials::QUICK } else { Trials::FULL };
    let mut found = Throughput {
        wires_gbit: settings.wires_gbit(),
        within_pct: trials.within_pct,
        ..Throughput::default()
    };
    let mut run = |setting: &RouterSettings| {
        let routed = route(setting)?;
        found.effort.add(routed.effort);
        found.trials += 1;
        progress(found.trials, found.trials.max(USUAL));
        Ok(routed.figures)
    };
    let lossless = limit(settings, trials, &mut run)?;
    let after_surge = limit_after_surge(settings, trials, &mut run)?;
    let mut around = Vec::new();
    for of_limit_pct in AROUND {
        let Some(rate) = lossless else { break };
        let setting = settings.at_rate(rate * of_limit_pct as f64 / 100.0);
        let figures = RouterFigures { cpu_pct: Vec::new(), ..run(&trials.timed(&setting))? };
        around.push(Around { of_limit_pct, figures });
    }
    (found.lossless_gbit, found.after_surge_gbit, found.around) = (lossless, after_surge, around);
    Ok(found)
}

/// Returns the limit of a setting after a surge.
pub(crate) fn limit_after_surge(
    settings: &RouterSettings,
    trials: Trials,
    run: RunSetting<'_>,
) -> Result<Option<f64>, BenchError> {
    limit(&settings.with(&SURGE), trials, run)
}

/// Searches the highest rate that a setting forwards without loss, Gbit/s; `None` where it loses packets at a
/// thousandth of what its wires carry. As RFC 2544 does, it takes for granted that a host which loses packets at a
/// rate loses some at every higher one.
pub(crate) fn limit(
    settings: &RouterSettings,
    trials: Trials,
    run: RunSetting<'_>,
) -> Result<Option<f64>, BenchError> {
    let top = settings.wires_gbit();
    let mut keeps = |rate: f64| -> Result<bool, BenchError> {
        Ok(is_lossless(&run(&trials.timed(&settings.at_rate(rate)))?))
    };
    if keeps(top)? {
        return Ok(Some(top));
    }
    let (mut low, mut high) = (top / 2.0, top);
    while !keeps(low)? {
        (low, high) = (low / 2.0, low);
        if low < top / 1000.0 {
            return Ok(None);
        }
    }
    while high - low > high * trials.within_pct / 100.0 {
        let middle = f64::midpoint(low, high);
        match keeps(middle)? {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(Some(low))
}

/// Returns whether a trial lost nothing and kept up.
fn is_lossless(figures: &RouterFigures) -> bool {
    figures.dropped_pct <= NONE_PCT && figures.out_pps >= KEEPS_UP * figures.in_pps
}

impl RouterSettings {
    /// Returns the frame bits that all wires carry one way, Gbit/s.
    pub(crate) fn wires_gbit(&self) -> f64 {
        self.ports as f64 * self.wire_gbit * self.mix.wire_share()
    }

    /// Returns these settings with another rate offered.
    pub(crate) fn at_rate(&self, offered_gbit: f64) -> RouterSettings {
        RouterSettings { offered_gbit, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test::small;
    use super::*;

    /// Short trials: these hosts have small rings.
    const SHORT: Trials = Trials { warm_up_us: 3_000, run_us: 3_000, within_pct: 1.0 };

    fn limit_of(set: &[(&str, &str)]) -> Option<f64> {
        limit(&small(set), SHORT, &mut |setting| Ok(route(setting)?.figures)).unwrap()
    }

    #[track_caller]
    fn is(set: &[(&str, &str)], gbit: f64) {
        let found = limit_of(set).expect("it forwards something");
        assert!((found / gbit - 1.0).abs() < 0.1, "{set:?}: {found} Gbit/s, by hand {gbit}");
    }

    const BITS: f64 = 700.0 * 8.0;

    #[test]
    fn limits_are_those_of_the_scarcest_part_by_hand() {
        // A wire: 700 of 720 bytes of a packet are its frame.
        is(&[], 100.0 * 700.0 / 720.0);
        // A CPU at 1 us a packet; four of them, each with a quarter of the packets.
        let cost = [("rx-ns", "400"), ("stack-ns", "400"), ("completion-ns", "200")];
        is(&cost, BITS / 1000.0);
        is(
            &[&cost[..], &[("cpus", "4"), ("arrivals", "poisson"), ("rx-ring", "4096")]].concat(),
            4.0 * BITS / 1000.0,
        );
        // A bus: the packet, a line for its descriptor, and 26 bytes for each of four pieces.
        is(&[("pcie-gbit", "10")], 10.0 * 700.0 / 868.0);
        // Memory without a cache for cards: 704 bytes written, 704 read, and 128 of header.
        is(&[("memory-gbyte", "1"), ("ddio-pct", "0")], 8.0 * 700.0 / (704.0 + 704.0 + 128.0));
        // The zone lock: one section for each frame freed, and a refill's for each three taken, which is the batch of
        // a zone of 64 MiB.
        let lock = [
            ("cpus", "4"),
            ("lock-hold-ns", "800"),
            ("lock-batch-ns", "300"),
            ("allocator", "reference:buddy"),
        ];
        is(&lock, BITS / (800.0 + 300.0 / 3.0));
    }

    #[test]
    fn a_ring_that_an_interrupt_leaves_alone_too_long_is_the_limit() {
        // D/D/1 with vacations: 64 descriptors, and an interrupt 100 us after the first packet behind a poll. In that
        // time 64 packets may come, so the limit is 64 in 100 us; a CPU that costs nothing empties the ring at once.
        let wait = [
            ("rx-ring", "64"),
            ("rx-usecs", "100"),
            ("rx-frames", "0"),
            ("tx-usecs", "100000"),
            ("tx-frames", "0"),
        ];
        is(&wait, 64.0 * BITS / 100_000.0);
        is(&[&wait[..], &[("rx-ring", "256")]].concat(), 256.0 * BITS / 100_000.0);
    }

    #[test]
    fn a_ring_does_not_hide_an_overload() {
        // 8192 descriptors take 9 ms to fill with 20 % too much; a trial that only looks at drops would find that
        // rate.
        let cost = [("stack-ns", "5600"), ("rx-ring", "8192")];
        is(&cost, 1.0);
    }

    #[test]
    fn a_surge_leaves_a_host_in_its_slow_state_and_small_rings_have_none() {
        // 704 of 832 bytes of a cold packet's traffic are not there while it is warm: a cache that holds 500 packets,
        // a ring of 4096. Cold, memory carries 0.5 GB/s / 1536 bytes; warm, only what is pushed out: 704 bytes.
        let set = |ring| {
            let llc = (500 * 704 / 1024).to_string();
            small(&[
                ("memory-gbyte", "0.5"),
                ("llc-kib", &llc),
                ("ddio-pct", "100"),
                ("rx-ring", ring),
                ("arrivals", "poisson"),
                ("nic-buffer-kib", "100000"),
            ])
        };
        let long = Trials { warm_up_us: 30_000, run_us: 20_000, ..SHORT };
        let mut run = |setting: &RouterSettings| Ok(route(setting)?.figures);
        let mut both = |ring| {
            let settings = set(ring);
            let before = limit(&settings, long, &mut run).unwrap().unwrap();
            (before, limit_after_surge(&settings, long, &mut run).unwrap().unwrap())
        };
        let (large, small) = (both("4096"), both("128"));
        assert!(large.1 < 0.8 * large.0, "{large:?}");
        assert!(small.1 > 0.95 * small.0, "{small:?}");
    }

    #[test]
    fn a_host_that_loses_at_every_rate_has_no_limit_and_figures_lie_around_one_that_has() {
        // No poll reaches the ring of 64 within a trial.
        let never = [("rx-ring", "64"), ("rx-usecs", "1000000"), ("rx-frames", "0")];
        assert_eq!(limit_of(&never), None);
        let mut told = 0;
        let found =
            throughput(&small(&[("stack-ns", "5600"), ("wire-gbit", "4")]), true, &mut |n, _| told = n)
                .unwrap();
        let limit = found.lossless_gbit.unwrap();
        assert!((limit - 1.0).abs() < 0.06 && told == found.trials, "{limit}");
        let dropped: Vec<bool> = found.around.iter().map(|a| a.figures.dropped_pct > 1.0).collect();
        assert_eq!(dropped, [false, false, false, true, true]);
    }
}
