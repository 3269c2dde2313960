//! `pageyard-lab router` as a document.

use crate::harness::machine::Machine;
use crate::router::{
    Effort, PARAMETERS, RingRule, Routed, RouterFigures, RouterSettings, RouterSweep, Smallest, SweepRow,
};
use pageyard_trace::Document;
use serde::Serialize;
use std::collections::BTreeMap;

/// A simulated router: one setting, or a sweep of rings and coalescing around it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouterDocument<'a> {
    /// Where it was simulated.
    pub machine: &'a Machine,
    /// Whether less time was simulated than asked for by default, or a sweep left sizes out.
    pub quick: bool,
    /// Every parameter, as it was set.
    pub settings: BTreeMap<&'static str, String>,
    /// Parameters that are not at their defaults.
    pub changed: Vec<&'static str>,
    /// The effort of the simulation.
    pub effort: EffortDocument,
    /// The figures of the setting; left out where it was swept around.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<&'a RouterFigures>,
    /// The sweep; left out where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<RouterSweepDocument<'a>>,
}

impl Document for RouterDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-router/1";
}

/// A sweep of rings and coalescing.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouterSweepDocument<'a> {
    /// The best rate of all settings, packets a second sent.
    pub best_pps: f64,
    /// The share of the best rate that a setting must send to count as keeping it, in percent.
    pub keeps_pct: f64,
    /// The smallest rings that keep it: of all settings, then at each coalescing where some do.
    pub smallest: &'a [Smallest],
    /// The rule "optimal ring = packet rate / interrupt rate", at each coalescing.
    pub rule: &'a [RingRule],
    /// Every setting.
    pub rows: &'a [SweepRow],
}

/// The effort of a simulation on the machine that it ran on.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EffortDocument {
    /// Packets simulated, those of warm-ups included.
    pub packets: u64,
    /// Milliseconds that passed while they were.
    pub wall_ms: f64,
    /// Milliseconds that making hosts, filling their rings, and checking every frame at the end took.
    pub around_ms: f64,
    /// Packets simulated in a second that passed.
    pub packets_per_wall_s: f64,
    /// Packets simulated in a second of processor time.
    pub packets_per_cpu_s: f64,
}

impl From<Effort> for EffortDocument {
    fn from(effort: Effort) -> EffortDocument {
        let rate = |ns: u64| effort.packets as f64 * 1e9 / ns.max(1) as f64;
        EffortDocument {
            packets: effort.packets,
            wall_ms: effort.wall_ns as f64 / 1e6,
            around_ms: effort.around_ns as f64 / 1e6,
            packets_per_wall_s: rate(effort.wall_ns),
            packets_per_cpu_s: rate(effort.cpu_ns),
        }
    }
}

impl<'a> RouterDocument<'a> {
    fn of(machine: &'a Machine, settings: &RouterSettings, effort: Effort) -> RouterDocument<'a> {
        let default = RouterSettings::default();
        let changed = PARAMETERS.iter().filter(|p| p.get(settings) != p.get(&default)).map(|p| p.name);
        RouterDocument {
            machine,
            quick: false,
            settings: PARAMETERS.iter().map(|p| (p.name, p.get(settings))).collect(),
            changed: changed.collect(),
            effort: effort.into(),
            figures: None,
            sweep: None,
        }
    }

    /// Describes one setting.
    #[must_use]
    pub fn of_one(machine: &'a Machine, routed: &'a Routed) -> RouterDocument<'a> {
        let document = RouterDocument::of(machine, &routed.settings, routed.effort);
        RouterDocument { figures: Some(&routed.figures), ..document }
    }

    /// Describes a sweep around a setting.
    #[must_use]
    pub fn of_sweep(
        machine: &'a Machine,
        settings: &RouterSettings,
        sweep: &'a RouterSweep,
    ) -> RouterDocument<'a> {
        let document = RouterDocument::of(machine, settings, sweep.effort);
        let swept = RouterSweepDocument {
            best_pps: sweep.best_pps,
            keeps_pct: 100.0 * crate::router::KEEPS,
            smallest: &sweep.smallest,
            rule: &sweep.rule,
            rows: &sweep.rows,
        };
        RouterDocument { sweep: Some(swept), ..document }
    }
}
