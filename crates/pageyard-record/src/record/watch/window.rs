//! Rows of a fleet, counted while a watch runs.

use std::time::Duration;

use pageyard_trace::HostSample;
use pageyard_trace::fleet::{FleetNumber, FleetRow, FleetWindow};
use pageyard_trace::proctext::Zoneinfo;

use super::super::host;
use crate::host::Pageblocks;

/// Failures, fallbacks and lost events since a watch began.
pub(super) type ByEvents = [u64; 3];

/// A window that is being counted.
pub(super) struct Window {
    counted: FleetWindow,
    began_ns: u64,
    before: ByEvents,
}

impl Window {
    /// Begins one; `zoneinfo` says how many frames the host has.
    pub(super) fn new(kernel: &str, cpus: u64, zoneinfo: &str, before: ByEvents) -> Window {
        let zones = Zoneinfo::parse(zoneinfo).map_or_else(|_| Vec::new(), |info| info.zones);
        let (now, frames) = (host::now_ns(), zones.iter().map(|zone| zone.managed).sum());
        Window { counted: FleetWindow::new(kernel, cpus, frames, host::unix_s(now)), began_ns: now, before }
    }

    /// Counts a sample.
    pub(super) fn sample(&mut self, sample: &HostSample) {
        self.counted.sample(sample);
    }

    /// Ends it, and begins the next one.
    pub(super) fn end(&mut self, counts: ByEvents, blocks: Option<&Pageblocks>) -> FleetRow {
        let numbers = [FleetNumber::Failures, FleetNumber::Fallbacks, FleetNumber::LostEvents];
        for ((number, count), before) in numbers.into_iter().zip(counts).zip(self.before) {
            self.counted.add(number, count.saturating_sub(before));
        }
        blocks.into_iter().for_each(|blocks| self.counted.pageblocks(blocks));
        let now = host::now_ns();
        let row = self.counted.end(Duration::from_nanos(now - self.began_ns), host::unix_s(now));
        (self.began_ns, self.before) = (now, counts);
        row
    }
}
