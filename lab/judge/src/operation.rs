//! The operations that a kernel and the reference both carry out, and what each answers.

use pageyard_core::watermark::WatermarkKnobs;
use pageyard_core::{CpuId, Request};
use pageyard_guest::request::GuestRequest;

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Asks for one block.
    Alloc = 0,
    /// Frees the block of operation `arg`, or frame `sub` of a bulk request.
    Free = 1,
    /// Asks for `arg` single frames.
    AllocBulk = 2,
    /// Frees all that is left of bulk request `arg`.
    FreeBulk = 3,
    /// Frees the block of operation `arg` as the last fragment of a page does.
    FreeFrag = 4,
    /// Drains the lists of all CPUs, or, with `arg` 1, of its own.
    Drain = 5,
    /// Lets the vmstat worker of its CPU run.
    Tick = 6,
    /// Lets the background reclaimer of node `arg` go to sleep.
    KswapdEnds = 7,
    /// From now on the block of operation `arg` can be reclaimed.
    GiveUp = 8,
    /// Asks for `arg` single frames that follow each other, as `alloc_pages_exact` gives them. To those that free it is
    /// a bulk request.
    AllocExact = 9,
    /// Sets `min_free_kbytes` to `arg`, `watermark_scale_factor` to `sub`, and `watermark_boost_factor` to `gives`
    /// thousandths, as writing them below `/proc/sys/vm` does.
    SetWatermarks = 10,
}

impl Kind {
    /// Every kind, by number.
    const ALL: [Kind; 11] = [
        Kind::Alloc,
        Kind::Free,
        Kind::AllocBulk,
        Kind::FreeBulk,
        Kind::FreeFrag,
        Kind::Drain,
        Kind::Tick,
        Kind::KswapdEnds,
        Kind::GiveUp,
        Kind::AllocExact,
        Kind::SetWatermarks,
    ];

    /// Returns whether it asks for something.
    #[must_use]
    pub fn asks(self) -> bool {
        matches!(self, Kind::Alloc | Kind::AllocBulk | Kind::AllocExact)
    }

    /// Returns whether it asks for single frames, each of which is freed by its number.
    #[must_use]
    pub fn asks_for_frames(self) -> bool {
        matches!(self, Kind::AllocBulk | Kind::AllocExact)
    }
}

/// Of movable single frames and compound pages: cannot be isolated.
pub const PINNED: u16 = 1 << 8;
/// The same: can be isolated, and not moved.
pub const STUCK: u16 = 1 << 9;

/// The most frames of one exact request.
pub const MOST_EXACT: u32 = 1 << 10;

/// A frame's contents that compaction moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The operation that was carried out.
    pub operation: u32,
    /// Where they were.
    pub from: u32,
    /// Where they are.
    pub to: u32,
}

impl Move {
    /// Reads three numbers of 32 bits; there must be as many.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Move {
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Move { operation: number(0), from: number(4), to: number(8) }
    }

    /// Writes them.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 12] {
        let mut out = [0; 12];
        for (part, n) in out.chunks_exact_mut(4).zip([self.operation, self.from, self.to]) {
            part.copy_from_slice(&n.to_le_bytes());
        }
        out
    }
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// The kind.
    pub kind: Kind,
    /// The CPU that does it.
    pub cpu: u8,
    /// Of requests: the order of the block.
    pub order: u8,
    /// Of requests: 0 unmovable, 1 movable, 2 reclaimable.
    pub migratetype: u8,
    /// Of requests: how hard to try.
    pub flags: u16,
    /// Of requests: the highest zone that may serve: 0 DMA, 1 DMA32, 2 Normal, 3 Movable.
    pub zone: u8,
    /// Of requests: the nodes that may serve, a bit each; 0: any.
    pub nodes: u8,
    /// The kind's argument.
    pub arg: u32,
    /// The kind's second argument.
    pub sub: u16,
    /// Of requests: how many blocks are freed each time that they reclaim, if there are so many.
    pub gives: u16,
}

impl Operation {
    /// Bytes of an operation as the guest reads it.
    pub const BYTES: usize = 16;

    /// Makes an operation that needs no more than a CPU and a number.
    #[must_use]
    pub const fn new(kind: Kind, cpu: u8, arg: u32) -> Operation {
        Operation { kind, cpu, order: 0, migratetype: 0, flags: 0, zone: 0, nodes: 0, arg, sub: 0, gives: 0 }
    }

    /// Writes it as the guest reads it.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Operation::BYTES] {
        let [f0, f1] = self.flags.to_le_bytes();
        let [a0, a1, a2, a3] = self.arg.to_le_bytes();
        let [s0, s1] = self.sub.to_le_bytes();
        let [g0, g1] = self.gives.to_le_bytes();
        let kind = self.kind as u8;
        let (order, m) = (self.order, self.migratetype);
        [kind, self.cpu, order, m, f0, f1, self.zone, self.nodes, a0, a1, a2, a3, s0, s1, g0, g1]
    }

    /// Reads it; `None` where there is no such kind, order, type or zone.
    #[must_use]
    pub fn from_bytes(b: [u8; Operation::BYTES]) -> Option<Operation> {
        let op = Operation {
            kind: *Kind::ALL.get(usize::from(b[0]))?,
            cpu: b[1],
            order: b[2],
            migratetype: b[3],
            flags: u16::from_le_bytes([b[4], b[5]]),
            zone: b[6],
            nodes: b[7],
            arg: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            sub: u16::from_le_bytes([b[12], b[13]]),
            gives: u16::from_le_bytes([b[14], b[15]]),
        };
        let exact = op.kind != Kind::AllocExact
            || ((1..=MOST_EXACT).contains(&op.arg) && op.order == 0 && op.nodes == 0 && op.zone <= 2);
        let marks = op.kind != Kind::SetWatermarks
            || ((128..=65_536).contains(&op.arg) && (1..=1000).contains(&op.sub));
        (op.cpu < 2 && op.order <= 10 && op.migratetype <= 2 && op.zone <= 3 && exact && marks).then_some(op)
    }

    /// Returns whether it speaks of an earlier operation, `arg`.
    #[must_use]
    pub fn refers(&self) -> bool {
        matches!(self.kind, Kind::Free | Kind::FreeBulk | Kind::FreeFrag | Kind::GiveUp)
    }

    /// Returns the CPU.
    #[must_use]
    pub fn cpu(&self) -> CpuId {
        CpuId(u32::from(self.cpu))
    }

    /// Returns what an operation that sets watermarks sets them to.
    #[must_use]
    pub fn watermarks(&self) -> WatermarkKnobs {
        WatermarkKnobs {
            min_free_kbytes: Some(self.arg.into()),
            watermark_scale_factor: self.sub.into(),
            watermark_boost_factor: u64::from(self.gives) * 10,
            ..WatermarkKnobs::default()
        }
    }

    /// Returns what a request asks of the reference.
    #[must_use]
    pub fn request(&self) -> Request {
        let Operation { order, migratetype, flags, zone, nodes, .. } = *self;
        GuestRequest { order, migratetype, flags, zone, nodes }.request()
    }
}

/// The outcome of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A request for a block: its first frame, if there was one.
    Block(Option<u64>),
    /// A bulk request: its frames.
    Bulk(Vec<u64>),
    /// Anything else.
    Done,
    /// The reference refused a free that the kernel carried out: why.
    Refused(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_guest::request::{COMPOUND, HIGH};

    #[test]
    fn an_operation_is_read_as_it_was_written() {
        let op = Operation {
            kind: Kind::AllocBulk,
            cpu: 1,
            order: 3,
            migratetype: 2,
            flags: HIGH | COMPOUND,
            zone: 1,
            nodes: 2,
            arg: 70_000,
            sub: 300,
            gives: 4,
        };
        assert_eq!(Operation::from_bytes(op.to_bytes()), Some(op));
        assert_eq!(Operation::from_bytes([255; Operation::BYTES]), None);
    }
}
