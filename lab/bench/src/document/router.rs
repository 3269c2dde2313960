//! `pageyard-lab router` as a document.

use crate::harness::machine::Machine;
use crate::router::{Effort, PARAMETERS, Routed, RouterFigures, RouterSettings, RouterSweep, Throughput};
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
    pub effort: Effort,
    /// The figures of the setting; left out where it was swept around.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<&'a RouterFigures>,
    /// The sweep; left out where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<&'a RouterSweep>,
    /// The highest rate without loss; left out where it was not searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<&'a Throughput>,
}

impl Document for RouterDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-router/2";
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
            effort,
            figures: None,
            sweep: None,
            throughput: None,
        }
    }

    /// Describes one setting.
    #[must_use]
    pub fn of_one(machine: &'a Machine, routed: &'a Routed) -> RouterDocument<'a> {
        let document = RouterDocument::of(machine, &routed.settings, routed.effort);
        RouterDocument { figures: Some(&routed.figures), ..document }
    }

    /// Describes a search for the highest rate of a setting.
    #[must_use]
    pub fn of_throughput(
        machine: &'a Machine,
        settings: &RouterSettings,
        throughput: &'a Throughput,
    ) -> RouterDocument<'a> {
        let document = RouterDocument::of(machine, settings, throughput.effort);
        RouterDocument { throughput: Some(throughput), ..document }
    }

    /// Describes a sweep around a setting.
    #[must_use]
    pub fn of_sweep(
        machine: &'a Machine,
        settings: &RouterSettings,
        sweep: &'a RouterSweep,
    ) -> RouterDocument<'a> {
        let document = RouterDocument::of(machine, settings, sweep.effort);
        RouterDocument { sweep: Some(sweep), ..document }
    }
}
