//! Which frames are free at a moment of a trace: the opening snapshot plus the events since.

use crate::event::{Event, EventKind};
use crate::moves::{Move, MoveKind};
use crate::snapshot::{FrameKind, Snapshot};

use crate::failures::ORDERS;

/// The most frames that are followed: 4 TiB, which take 128 MiB. For larger hosts, the summary does not say what was
/// free.
const MAX_FRAMES: u64 = 1 << 30;

/// One bit a frame.
///
/// Frames in per-CPU lists count as free from the moment that they are freed, which the kernel's own lists do not show;
/// so this is what could be free at most.
pub(super) struct FreeFrames {
    words: Vec<u64>,
}

impl FreeFrames {
    /// Starts with a snapshot; `None` where memory is too large to be followed.
    pub(super) fn new(before: &Snapshot) -> Option<FreeFrames> {
        if before.end() > MAX_FRAMES {
            return None;
        }
        let mut free = FreeFrames { words: vec![0; before.end().div_ceil(64) as usize] };
        for run in before.runs.iter().filter(|r| r.kind == FrameKind::Free) {
            free.set(run.pfn, run.frames, true);
        }
        Some(free)
    }

    pub(super) fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Alloc if !event.failed() => self.set(event.pfn, 1 << event.order, false),
            EventKind::Free => self.set(event.pfn, 1 << event.order, true),
            _ => {}
        }
    }

    /// Takes the frames that something was moved to; the old ones are freed with an event.
    pub(super) fn moved(&mut self, row: &Move) {
        if row.kind == MoveKind::Move {
            self.set(row.to, 1 << row.order, false);
        }
    }

    fn set(&mut self, pfn: u64, frames: u64, free: bool) {
        let mut at = pfn;
        let end = pfn.saturating_add(frames).min(self.words.len() as u64 * 64);
        while at < end {
            let stop = end.min((at / 64 + 1) * 64);
            let mask = mask(at % 64, stop - at);
            let word = &mut self.words[(at / 64) as usize];
            *word = if free { *word | mask } else { *word & !mask };
            at = stop;
        }
    }

    /// Counts the free blocks between two frames by order, each as large as its alignment allows.
    pub(super) fn blocks(&self, start: u64, end: u64) -> [u64; ORDERS] {
        let end = end.min(self.words.len() as u64 * 64);
        // Blocks of each order that are wholly free, those inside larger ones included.
        let mut whole = [0u64; ORDERS];
        let mut group = start / 1024 * 1024;
        while group < end {
            let mut full = 0u64;
            for i in 0..16 {
                let word = self.word(group + i * 64, start, end);
                full |= u64::from(word == u64::MAX) << i;
                halve(word, &mut whole[..7]);
            }
            // A word is a block of order 6, so pairs of words begin at order 7.
            let mut orders = [0; 5];
            halve(full, &mut orders);
            for (sum, n) in whole[7..].iter_mut().zip(&orders[1..]) {
                *sum += n;
            }
            group += 1024;
        }
        std::array::from_fn(|o| whole[o] - whole.get(o + 1).map_or(0, |larger| 2 * larger))
    }

    /// Returns the bits of the 64 frames from `pfn`, without those outside `start..end`.
    fn word(&self, pfn: u64, start: u64, end: u64) -> u64 {
        let (from, to) = (pfn.max(start), (pfn + 64).min(end));
        if from >= to {
            return 0;
        }
        self.words[(pfn / 64) as usize] & mask(from - pfn, to - from)
    }
}

/// Adds up the aligned runs of set bits: of 1 bit in the first place, of 2 in the second, and so on.
fn halve(mut bits: u64, counts: &mut [u64]) {
    const EVEN: [u64; 6] = [
        0x5555_5555_5555_5555,
        0x1111_1111_1111_1111,
        0x0101_0101_0101_0101,
        0x0001_0001_0001_0001,
        0x0000_0001_0000_0001,
        0x0000_0000_0000_0001,
    ];
    for (order, count) in counts.iter_mut().enumerate() {
        if order > 0 {
            bits = bits & (bits >> (1 << (order - 1))) & EVEN[order - 1];
        }
        *count += u64::from(bits.count_ones());
    }
}

/// Returns `n` bits from `from`; `n` is 1 to 64.
fn mask(from: u64, n: u64) -> u64 {
    (u64::MAX >> (64 - n)) << from
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Run;

    fn of(runs: &[(u64, u64)], end: u64) -> FreeFrames {
        let run = |pfn, frames, kind| Run { pfn, frames, kind, thp: false, unevictable: false };
        let mut all: Vec<Run> = runs.iter().map(|&(pfn, n)| run(pfn, n, FrameKind::Free)).collect();
        all.push(run(end - 1, 1, FrameKind::Slab));
        FreeFrames::new(&Snapshot { runs: all }).unwrap()
    }

    /// Counts blocks as a buddy allocator would have them, one by one.
    fn slowly(free: &FreeFrames, start: u64, end: u64) -> [u64; ORDERS] {
        let is = |pfn: u64| {
            (start..end).contains(&pfn)
                && free.words.get((pfn / 64) as usize).is_some_and(|w| w >> (pfn % 64) & 1 == 1)
        };
        let mut counts = [0; ORDERS];
        let mut pfn = 0;
        while pfn < end {
            let whole =
                (0..ORDERS).rev().find(|o| pfn.is_multiple_of(1 << o) && (pfn..pfn + (1 << o)).all(is));
            if let Some(order) = whole {
                counts[order] += 1;
            }
            pfn += whole.map_or(1, |o| 1 << o);
        }
        counts
    }

    #[test]
    fn blocks_are_counted_as_a_buddy_allocator_has_them() {
        let mut free = of(&[(1, 2), (4, 4), (63, 3), (128, 900), (1024, 5000)], 8192);
        for (pfn, order, kind) in
            [(2048, 10, EventKind::Alloc), (2050, 1, EventKind::Free), (3072, 0, EventKind::Alloc)]
        {
            free.event(&Event { pfn, order, kind, ..event() });
        }
        for (start, end) in [(0, 8192), (0, 1024), (5, 3000), (1024, 7000), (130, 140)] {
            assert_eq!(free.blocks(start, end), slowly(&free, start, end), "{start}..{end}");
        }
        assert_eq!(free.blocks(0, 8)[..3], [2, 0, 1]);
    }

    fn event() -> Event {
        Event {
            time_ns: 0,
            pfn: 0,
            gfp: 0,
            tid: 0,
            cpu: 0,
            kind: EventKind::Alloc,
            order: 0,
            migratetype: 0,
            context: pageyard::Context::Task,
            irqs_off: false,
        }
    }

    #[test]
    fn what_something_was_moved_to_is_in_use() {
        let mut free = of(&[(0, 512)], 1024);
        let row = Move {
            time_ns: 0,
            cpu: 0,
            tid: 0,
            kind: MoveKind::Move,
            pfn: 600,
            to: 256,
            order: 0,
            scanned: 0,
            done: 0,
            failed: 0,
        };
        free.moved(&row);
        free.moved(&Move { kind: MoveKind::IsolateFree, to: 0, ..row });
        assert_eq!(free.blocks(0, 1024), [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
    }

    #[test]
    fn hosts_too_large_are_not_followed() {
        let run =
            Run { pfn: 0, frames: MAX_FRAMES + 1, kind: FrameKind::Free, thp: false, unevictable: false };
        assert!(FreeFrames::new(&Snapshot { runs: vec![run] }).is_none());
    }
}
