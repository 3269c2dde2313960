//! When the host emptied the per-CPU lists of all CPUs: for a request that would otherwise fail, or for compaction.
//!
//! # Linux
//! `drain_all_pages`. Since 6.0 one CPU empties the lists of all, and the rows name that CPU. Until then each CPU
//! emptied its own, which looks like any spill.

use super::filler::is_listed;
use crate::by_number::ByNumber;
use pageyard::{Order, Pfn};
use pageyard_trace::{Event, EventKind, Move, MoveKind};

/// Blocks of other CPUs' lists that one CPU drains in a row before it is taken to empty them all: rows of different
/// CPUs can be a little out of order.
const FEW: u32 = 4;

/// Blocks that are drained within such a time of each other are drained together.
const TOGETHER_NS: u64 = 1_000_000;

/// CPUs are told apart up to this number; beyond it none is.
const NOBODY: u8 = u8::MAX;

/// Follows in whose list each block lies.
pub(super) struct Emptied {
    /// By frame: one more than the CPU in whose list its block was put last; 0 where no row says so.
    owner: Vec<u8>,
    /// By CPU.
    draining: ByNumber<Draining>,
    found: Vec<u64>,
    /// When requests had reclaimed something.
    reclaimed: Vec<u64>,
}

/// The host emptied the lists of all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emptying {
    /// When, in nanoseconds of the recording.
    pub at: u64,
    /// Whether for a request that had just reclaimed something, and not enough.
    pub after_reclaim: bool,
}

/// Blocks that a CPU has drained in a row.
#[derive(Clone, Debug, Default)]
struct Draining {
    /// Those of other CPUs' lists.
    of_others: u32,
    /// The time of the first of them.
    since_ns: u64,
}

impl Emptied {
    /// Begins before the first row of a trace whose frames end at `end`.
    pub fn new(end: Pfn) -> Emptied {
        Emptied {
            owner: vec![0; end.0 as usize],
            draining: ByNumber::default(),
            found: Vec::new(),
            reclaimed: Vec::new(),
        }
    }

    /// Takes in the next event, whose block, of this order, lies within the memory map.
    pub fn event(&mut self, event: &Event, order: Order) {
        let owner = &mut self.owner[event.pfn as usize];
        let cpu = u8::try_from(event.cpu).map_or(NOBODY, |cpu| cpu.saturating_add(1));
        if event.kind != EventKind::PcpuDrain {
            *self.draining.of(event.cpu) = Draining::default();
            if matches!(event.kind, EventKind::Free | EventKind::AllocZoneLocked) && is_listed(order) {
                *owner = cpu;
            }
            return;
        }
        let of = std::mem::take(owner);
        if of == 0 || of == cpu || of == NOBODY || cpu == NOBODY {
            return;
        }
        let draining = self.draining.of(event.cpu);
        if draining.of_others == 0 {
            draining.since_ns = event.time_ns;
        }
        draining.of_others += 1;
        if draining.of_others == FEW {
            self.found.push(draining.since_ns);
        }
    }

    /// Takes in the next row of what was moved and reclaimed.
    pub fn row(&mut self, row: &Move) {
        // The background reclaimer's rows say nothing of what it got.
        if row.kind == MoveKind::ReclaimEnd && row.done > 0 {
            self.reclaimed.push(row.time_ns);
        }
    }

    /// Returns the times, the first one first. `of_others` are those at which a CPU drained blocks that had lain in the
    /// lists of another since before the first row, in order.
    pub fn found(mut self, of_others: &[u64]) -> Vec<Emptying> {
        let together = |a: &u64, b: &u64| b - a < TOGETHER_NS;
        let bursts = of_others.chunk_by(together).filter(|burst| burst.len() >= FEW as usize);
        self.found.extend(bursts.map(|burst| burst[0]));
        self.found.sort_unstable();
        // Of both kinds of blocks some may lie in the same lists.
        self.found.dedup_by(|b, a| together(a, b));
        let after_reclaim = |at: u64| {
            let until = self.reclaimed.partition_point(|end| *end <= at);
            self.reclaimed[..until].last().is_some_and(|end| together(end, &at))
        };
        self.found.iter().map(|at| Emptying { at: *at, after_reclaim: after_reclaim(*at) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::Context;

    fn event(kind: EventKind, cpu: u32, pfn: u64, time_ns: u64) -> Event {
        let (order, gfp, migratetype) = (0, 0, 1);
        Event {
            time_ns,
            cpu,
            kind,
            pfn,
            order,
            gfp,
            migratetype,
            context: Context::Task,
            tid: 1,
            irqs_off: false,
        }
    }

    /// Returns when that was, where none had reclaimed.
    fn plain(found: Vec<Emptying>) -> Vec<u64> {
        assert!(found.iter().all(|emptying| !emptying.after_reclaim));
        found.into_iter().map(|emptying| emptying.at).collect()
    }

    /// Frees the first half of 64 frames on CPU 0 and the others on CPU 1, then has CPU 1 drain some.
    fn times(drained: std::ops::Range<u64>, between: Option<EventKind>) -> Vec<u64> {
        let mut emptied = Emptied::new(Pfn(64));
        let mut take = |kind, cpu, pfn, time| emptied.event(&event(kind, cpu, pfn, time), Order::ZERO);
        (0..64).for_each(|pfn| take(EventKind::Free, u32::from(pfn >= 32), pfn, pfn));
        for pfn in drained {
            take(EventKind::PcpuDrain, 1, pfn, 100 + pfn);
            if let Some(kind) = between {
                take(kind, 1, 63, 100 + pfn);
            }
        }
        plain(emptied.found(&[]))
    }

    #[test]
    fn what_follows_a_requests_reclaim_is_told_apart() {
        let ended = |time_ns, done| {
            let kind = MoveKind::ReclaimEnd;
            Move { time_ns, cpu: 1, tid: 1, kind, pfn: 0, to: 0, order: 0, scanned: 0, done, failed: 0 }
        };
        let found = |rows: &[Move]| {
            let mut emptied = Emptied::new(Pfn(1));
            rows.iter().for_each(|row| emptied.row(row));
            emptied.found(&[5_000_000; 4]).iter().map(|e| e.after_reclaim).collect::<Vec<bool>>()
        };
        assert_eq!(found(&[ended(4_500_000, 32)]), [true]);
        assert_eq!(found(&[ended(4_500_000, 0)]), [false], "the background reclaimer went to sleep");
        assert_eq!(found(&[ended(3_900_000, 32)]), [false], "long before");
        assert_eq!(found(&[ended(5_000_001, 32)]), [false], "later");
    }

    #[test]
    fn a_cpu_that_drains_the_lists_of_another_empties_all() {
        assert_eq!(times(0..32, None), [100]);
        assert_eq!(times(32..64, None), [0; 0], "a spill of its own");
        assert_eq!(times(29..64, None), [0; 0], "three blocks out of order");
        assert_eq!(times(28..64, None), [128]);
        assert_eq!(times(0..32, Some(EventKind::Alloc)), [0; 0], "not in a row");
    }

    #[test]
    fn blocks_that_lay_in_another_list_from_the_start_tell_the_same() {
        let ms = |times: &[u64]| times.iter().map(|t| t * 1_000_000 / 2).collect::<Vec<u64>>();
        let found = |times: &[u64]| plain(Emptied::new(Pfn(1)).found(&ms(times)));
        assert_eq!(found(&[1, 2, 3, 4, 5, 90, 91, 92, 93]), ms(&[1, 90]));
        assert_eq!(found(&[1, 2, 3, 10, 11, 12]), [0; 0], "three at a time");
    }

    #[test]
    fn a_block_is_in_the_list_that_it_was_put_into_last() {
        let mut emptied = Emptied::new(Pfn(8));
        let mut take = |kind, cpu, pfn, time| emptied.event(&event(kind, cpu, pfn, time), Order::ZERO);
        for pfn in 0..8 {
            take(EventKind::Free, 0, pfn, 1);
            take(EventKind::PcpuDrain, 0, pfn, 2);
            take(EventKind::AllocZoneLocked, 1, pfn, 3);
        }
        (0..8).for_each(|pfn| take(EventKind::PcpuDrain, 1, pfn, 4));
        // Nothing says in whose list they would lie.
        (0..8).for_each(|pfn| take(EventKind::PcpuDrain, 0, pfn, 5));
        assert_eq!(emptied.found(&[]), []);
    }
}
