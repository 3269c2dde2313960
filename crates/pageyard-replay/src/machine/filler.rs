//! Frames in per-CPU lists that no event names: which of the unknown frames they can be, and in which lists.
//!
//! A list that was filled from its zone during the recording was empty by then, so at the start it held only what the
//! events take out of it. The frames that make up the recorded count lie in the other lists.

use super::parts::Cached;
use super::{Machine, Start, ZoneRecord};
use crate::by_number::ByNumber;
use pageyard::{CpuId, Migratetype, Order, PAGEBLOCK_ORDER, Pfn, block};

/// By CPU, the lists that were filled during the recording, a bit each.
#[derive(Default)]
pub(super) struct Refilled(ByNumber<u128>);

impl Refilled {
    /// Notes that a CPU took a block of this order and type from its zone.
    pub fn note(&mut self, cpu: u32, order: Order, m: Migratetype) {
        *self.0.of(cpu) |= bit(order, m);
    }

    fn contains(&self, cpu: CpuId, order: Order, m: Migratetype) -> bool {
        let has = |m| self.0.get(cpu.0).is_some_and(|lists| lists & bit(order, m) != 0);
        match (order == PAGEBLOCK_ORDER, m) {
            // Unmovable and reclaimable huge pages share a list.
            (true, Migratetype::Unmovable | Migratetype::Reclaimable) => {
                has(Migratetype::Unmovable) || has(Migratetype::Reclaimable)
            }
            _ => has(m),
        }
    }
}

/// Returns the bit of a CPU's list.
fn bit(order: Order, m: Migratetype) -> u128 {
    1 << (usize::from(order.get()) * Migratetype::ALL.len() + m.index())
}

/// Orders that have per-CPU lists, largest first.
const LISTED: [Order; 5] = [PAGEBLOCK_ORDER, Order::of(3), Order::of(2), Order::of(1), Order::ZERO];

/// Returns whether a block of this order lies in per-CPU lists at all.
pub(super) fn is_listed(order: Order) -> bool {
    LISTED.contains(&order)
}

/// The unknown frames of one zone, as blocks, lowest first.
pub(super) struct Filler {
    blocks: Vec<(Pfn, Order, Migratetype)>,
}

impl Filler {
    /// Finds the unknown frames of a zone that no event names, as the largest blocks that have lists.
    pub fn new(machine: &Machine, zone: &ZoneRecord, types: &[Option<Migratetype>]) -> Filler {
        let mut blocks = Vec::new();
        for (start, frames, held) in machine.runs(zone.start, zone.end, |s| s == Start::Held) {
            if !held {
                continue;
            }
            for b in block::blocks(start, frames, PAGEBLOCK_ORDER) {
                if !machine.all_unknown(b.pfn, b.order.frames()) {
                    continue;
                }
                let m = types[b.pfn.pageblock().index()].filter(|m| m.is_requested());
                let order = LISTED.into_iter().find(|o| *o <= b.order).unwrap_or_default();
                for part in block::blocks(b.pfn, b.order.frames(), order) {
                    blocks.push((part.pfn, part.order, m.unwrap_or(Migratetype::Movable)));
                }
            }
        }
        Filler { blocks }
    }

    /// Takes blocks for one CPU until they add up to `frames`, each for a list that was not filled in the recording.
    pub fn take(&mut self, cpu: CpuId, frames: u64, refilled: &Refilled, out: &mut Vec<Cached>) {
        let mut left = frames;
        self.blocks.retain(|&(pfn, order, m)| {
            let smaller = LISTED.into_iter().filter(|o| *o <= order && o.frames().0 <= left);
            let mut lists = smaller.flat_map(|o| {
                let others = Migratetype::REQUESTED.into_iter().filter(move |other| *other != m);
                std::iter::once(m).chain(others).map(move |m| (o, m))
            });
            let Some((part, m)) = lists.find(|(o, m)| !refilled.contains(cpu, *o, *m)) else {
                return true;
            };
            for b in block::blocks(pfn, order.frames(), part).take((left >> part.get()) as usize) {
                out.push(Cached { cpu, pfn: b.pfn, order: part, migratetype: m });
                left -= part.frames().0;
            }
            false
        });
    }
}
