//! One event, small and of fixed size, on its way to the trace.

use pageyard::Context;

use pageyard_trace::{Event, EventKind};

use super::known::Known;

/// Bytes of an entry in a file of entries.
pub(crate) const BYTES: usize = 48;

/// An event before it is in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Nanoseconds of the recorder's clock.
    pub(crate) time: u64,
    /// The frame; the start of a range; a virtual address.
    pub(crate) pfn: u64,
    /// The end of a range; the frame that a mapping names.
    pub(crate) to: u64,
    /// The gfp bits; frames scanned, or moved.
    pub(crate) a: u32,
    /// Frames taken, or not moved.
    pub(crate) b: u32,
    pub(crate) cpu: u32,
    pub(crate) tid: u32,
    pub(crate) known: Known,
    pub(crate) order: u8,
    pub(crate) migratetype: i8,
    /// The context in the lower bits, [`Entry::IRQS_OFF`] above.
    pub(crate) flags: u8,
}

const KNOWN: [Known; 17] = [
    Known::Alloc,
    Known::Free,
    Known::AllocExtfrag,
    Known::PcpuDrain,
    Known::AllocZoneLocked,
    Known::IsolateMigrate,
    Known::IsolateFree,
    Known::Migrated,
    Known::CompactBegin,
    Known::CompactEnd,
    Known::ReclaimBegin,
    Known::ReclaimEnd,
    Known::SetMigrationPte,
    Known::RemoveMigrationPte,
    Known::SetMigrationPmd,
    Known::RemoveMigrationPmd,
    Known::Moved,
];

impl Entry {
    /// Interrupts were off.
    pub(crate) const IRQS_OFF: u8 = 1 << 7;

    /// Returns whether this is about a mapping of a frame that is being moved.
    pub(crate) fn names_mapping(&self) -> bool {
        self.known as u8 >= Known::SetMigrationPte as u8 && self.known != Known::Moved
    }

    /// Returns the row of `events.parquet` that this is, if it is one. `start` is the time of the trace's beginning.
    #[inline]
    pub(crate) fn event(&self, start: u64) -> Option<Event> {
        let kind = *EventKind::ALL.get(self.known as usize)?;
        Some(Event {
            time_ns: self.time.saturating_sub(start),
            pfn: self.pfn,
            gfp: self.a,
            tid: self.tid,
            cpu: self.cpu,
            kind,
            order: self.order,
            migratetype: self.migratetype,
            context: Context::ALL[usize::from(self.flags & 3)],
            irqs_off: self.flags & Entry::IRQS_OFF != 0,
        })
    }

    /// Writes the entry as bytes.
    pub(crate) fn to_bytes(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        for (at, word) in [(0, self.time), (8, self.pfn), (16, self.to)] {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        for (at, word) in [(24, self.a), (28, self.b), (32, self.cpu), (36, self.tid)] {
            out[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        out[40..44].copy_from_slice(&[self.known as u8, self.order, self.migratetype as u8, self.flags]);
        out
    }

    /// Reads what [`Entry::to_bytes`] wrote.
    pub(crate) fn from_bytes(bytes: &[u8; BYTES]) -> Entry {
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Entry {
            time: long(0),
            pfn: long(8),
            to: long(16),
            a: word(24),
            b: word(28),
            cpu: word(32),
            tid: word(36),
            known: KNOWN[usize::from(bytes[40]).min(KNOWN.len() - 1)],
            order: bytes[41],
            migratetype: bytes[42] as i8,
            flags: bytes[43],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        for (i, known) in KNOWN.into_iter().enumerate() {
            assert_eq!(known as usize, i);
            let entry = Entry {
                time: 1 << 60,
                pfn: u64::MAX,
                to: 3,
                a: 4,
                b: 5,
                cpu: 6,
                tid: 7,
                known,
                order: 8,
                migratetype: -1,
                flags: Entry::IRQS_OFF | 2,
            };
            assert_eq!(Entry::from_bytes(&entry.to_bytes()), entry);
            assert_eq!(entry.event(0).map(|e| e.kind.index()), (i < 5).then_some(i));
        }
    }
}
