//! Which rows can be, after which others.

use pageyard::ZoneKind;

use crate::event::MAX_ORDER;
use crate::snapshot::MAX_FRAMES;

use super::{COUNTER, FREE_BLOCKS, KINDS, LIST, MAX_ROWS, Row, ZONES, counters};

/// The state against which a file's rows are checked.
#[derive(Debug, Default)]
pub(crate) struct Check {
    /// The zones that the host has by the text of its `buddyinfo`; any if there is none.
    pub(crate) zones: Option<Vec<(u8, String)>>,
    /// The host's CPUs.
    pub(crate) cpus: u32,
    last: Option<Row>,
    rows: usize,
}

impl Check {
    /// Makes a check for the rows of a host with these zones and CPUs.
    pub(crate) fn new(zones: Option<Vec<(u8, String)>>, cpus: u32) -> Check {
        Check { zones, cpus, last: None, rows: 0 }
    }

    /// Says what is wrong with the next row, if something is.
    pub(crate) fn next(&mut self, row: &Row) -> Result<(), String> {
        let last = self.last.filter(|last| last.time_ns == row.time_ns);
        if let Some(before) = self.last
            && row.time_ns < before.time_ns
        {
            return Err(format!("time goes backwards, from {} ns to {} ns", before.time_ns, row.time_ns));
        }
        self.alone(row)?;
        // Ascending rows cannot repeat: a sample counts everything once.
        if last.is_some_and(|last| place(&last) >= place(row)) {
            return Err(format!("{} is counted again, or out of order, in the same sample", name(row)));
        }
        let same_zone = |last: &Row| (last.kind, last.node, last.zone) == (row.kind, row.node, row.zone);
        let due = last.filter(same_zone).map_or(0, |last| last.order + 1);
        if row.kind == FREE_BLOCKS && row.order != due {
            return Err(format!("{} comes where order {due} is due", name(row)));
        }
        self.rows = if last.is_some() { self.rows + 1 } else { 1 };
        if self.rows > MAX_ROWS {
            return Err(format!("a sample has more than {MAX_ROWS} rows, which no host needs"));
        }
        self.last = Some(*row);
        Ok(())
    }

    /// Says what is wrong with a row whatever comes before it.
    fn alone(&self, row: &Row) -> Result<(), String> {
        let Row { kind, node, zone, cpu, order, counter, value, high, .. } = *row;
        let kind_name = KINDS[usize::from(kind)];
        for (there, may, column) in [
            (node > 0, kind != COUNTER, "node"),
            (zone > 0, kind != COUNTER, "zone"),
            (cpu > 0, kind == LIST, "cpu"),
            (order > 0, kind == FREE_BLOCKS, "order"),
            (counter > 0, kind == COUNTER, "counter"),
            (high > 0, kind == LIST, "high"),
        ] {
            if there && !may {
                return Err(format!(
                    "a `{kind_name}` row has nothing in column `{column}`, and this one does"
                ));
            }
        }
        if kind == COUNTER {
            return if counter > 0 { Ok(()) } else { Err("a `counter` row names no counter".to_owned()) };
        }
        if zone == 0 {
            return Err(format!("a `{kind_name}` row names no zone"));
        }
        let zone_name = ZONES[usize::from(zone)];
        if let Some(zones) = &self.zones
            && !zones.iter().any(|(n, z)| *n == node && z == zone_name)
        {
            return Err(format!(
                "zone {zone_name} of node {node} is not one of those that the host's buddyinfo names"
            ));
        }
        if order > MAX_ORDER {
            return Err(format!("order {order} is above {MAX_ORDER}, the largest that Linux serves"));
        }
        if value > MAX_FRAMES >> order || high > MAX_FRAMES {
            return Err(format!("{} counts {}, more than any machine has", name(row), value.max(high)));
        }
        if kind == LIST && cpu >= self.cpus {
            return Err(format!(
                "CPU {cpu} is not one of the {} that meta.json says the host had",
                self.cpus
            ));
        }
        Ok(())
    }
}

/// Returns a row's place in its sample.
fn place(row: &Row) -> (u8, u8, u8, u32, u8, u16) {
    (row.kind, row.node, row.zone, row.cpu, row.order, row.counter)
}

/// Names what a row counts.
fn name(row: &Row) -> String {
    let zone = || format!("zone {} of node {}", ZONES[usize::from(row.zone)], row.node);
    match row.kind {
        FREE_BLOCKS => format!("order {} of {}", row.order, zone()),
        LIST => format!("CPU {}'s lists of {}", row.cpu, zone()),
        _ => format!("counter `{}`", counters::NAMES[usize::from(row.counter)]),
    }
}

/// Returns the zone of an index of [`ZONES`] above 0.
pub(crate) fn zone_of(index: u8) -> Option<ZoneKind> {
    ZoneKind::ALL.get(usize::from(index).checked_sub(1)?).copied()
}
