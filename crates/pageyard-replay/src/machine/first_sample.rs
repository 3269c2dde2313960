//! The contents of each CPU's lists when the recording began, from the host's first sample.
//!
//! The text of `zoneinfo` is read before the snapshot, and the snapshot takes a while: the lists have changed by the
//! first row. The first sample is taken right after the recording has begun. Less what the rows before it put into a
//! list and took out of it, it says what the list held before the first row.

use super::filler::is_listed;
use super::{Machine, ZoneRecord};
use crate::by_number::ByNumber;
use crate::error::ReplayError;
use pageyard::{Order, Pfn};
use pageyard_trace::{CpuLists, Event, EventKind};

/// A first sample that was taken later than this, in nanoseconds, is not one of the beginning.
const BEGINNING_NS: u64 = 100_000_000;

/// The first sample, and what the rows before it did to the lists.
pub(super) struct FirstSample {
    time_ns: u64,
    lists: Vec<CpuLists>,
    /// Each zone's frames, in the order of the machine's zones.
    zones: Vec<(Pfn, Pfn)>,
    /// By zone and CPU, frames that rows put into the lists, less those that they took out.
    flow: Vec<ByNumber<i64>>,
}

impl FirstSample {
    /// Reads the first sample of a machine's trace; `None` where there is none of the beginning.
    ///
    /// # Errors
    /// [`ReplayError::Trace`] where it cannot be read.
    pub fn read(machine: &Machine) -> Result<Option<FirstSample>, ReplayError> {
        let Some(mut reader) = machine.trace.samples()? else { return Ok(None) };
        let sample = reader.next_sample()?.filter(|sample| sample.time_ns <= BEGINNING_NS);
        Ok(sample.map(|sample| FirstSample {
            time_ns: sample.time_ns,
            lists: sample.lists,
            flow: machine.zones().map(|_| ByNumber::default()).collect(),
            zones: machine.zones().collect(),
        }))
    }

    /// Counts what a row put into a list or took out of it, if it came before the sample.
    ///
    /// # Linux
    /// A refill (`rmqueue_bulk`) has a row for each block, and so has a spill (`free_pcppages_bulk`). A block that goes
    /// past the lists comes from the zone and is handed out at once: its two rows make nothing together.
    pub fn event(&mut self, event: &Event) {
        if event.time_ns >= self.time_ns {
            return;
        }
        let Some(order) = Order::new(event.order).filter(|order| is_listed(*order)) else { return };
        let frames = order.frames().0 as i64;
        let put = match event.kind {
            EventKind::Free | EventKind::AllocZoneLocked => frames,
            EventKind::Alloc | EventKind::PcpuDrain => -frames,
            EventKind::AllocExtfrag => return,
        };
        let in_zone = |(start, end): &(Pfn, Pfn)| (*start..*end).contains(&Pfn(event.pfn));
        if let Some(zone) = self.zones.iter().position(in_zone) {
            *self.flow[zone].of(event.cpu) += put;
        }
    }

    /// Returns what a CPU's lists of a zone, the machine's `index`th, held before the first row: frames, and their
    /// limit.
    pub fn lists(&self, index: usize, zone: &ZoneRecord, cpu: u32) -> Option<(u64, u64)> {
        let of = |l: &&CpuLists| (l.node, l.zone, l.cpu) == (zone.node.0, zone.kind, cpu);
        let sampled = self.lists.iter().find(of)?;
        let flow = self.flow[index].get(cpu).copied().unwrap_or(0);
        Some((sampled.frames.saturating_add_signed(-flow), sampled.high))
    }
}
