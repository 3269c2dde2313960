//! Arguments drawn from bytes, and the calls that they were drawn for.

use pageyard::{
    CpuId, CpuSet, CpusetId, Cx, Frames, Migratetype, Nanos, NodeId, NodeMask, Order, PageblockId, Pfn,
    Request, RequestFlags, ZoneId, ZoneKind,
};
use std::fmt::Debug;

/// Bytes that are used up from the front; after the last one, zeros.
#[derive(Debug)]
pub(super) struct Draw<'b> {
    bytes: &'b [u8],
    /// Frames up to here exist.
    end: u64,
    calls: Vec<String>,
}

impl<'b> Draw<'b> {
    pub fn new(bytes: &'b [u8], end: u64) -> Draw<'b> {
        Draw { bytes, end, calls: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Notes a call, to be printed where it panics.
    pub fn call(&mut self, what: impl Debug) {
        self.calls.push(format!("{what:?}"));
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte()))
    }

    /// Draws a number up to about `most`; seldom one near a power of two, the largest number, or any.
    pub fn number(&mut self, most: u64) -> u64 {
        match self.byte() {
            0..=199 => (u64::from(self.byte()) << 8 | u64::from(self.byte())) % most.saturating_add(2),
            200..=219 => (1_u64 << (self.byte() % 64)).wrapping_sub(u64::from(self.byte() % 3)),
            220..=234 => u64::MAX - u64::from(self.byte()),
            235..=244 => most.wrapping_add(u64::from(self.byte())).wrapping_sub(128),
            _ => self.word(),
        }
    }

    pub fn pfn(&mut self) -> Pfn {
        Pfn(self.number(self.end))
    }

    pub fn frames(&mut self) -> Frames {
        Frames(self.number(1500))
    }

    pub fn order(&mut self) -> Order {
        let order = self.byte();
        Order::of(if order < 128 { order % 4 } else { order % 19 })
    }

    pub fn cpu(&mut self) -> CpuId {
        match self.byte() {
            cpu @ 0..=239 => CpuId(u32::from(cpu) % 2),
            240..=247 => CpuId(2),
            _ => CpuId(self.number(100_000) as u32),
        }
    }

    pub fn cpus(&mut self) -> CpuSet {
        if self.flag() { CpuSet::All } else { CpuSet::One(self.cpu()) }
    }

    pub fn cx(&mut self) -> Cx {
        let mut cx = Cx::on(self.cpu());
        if self.byte() > 200 {
            (cx.now, cx.cpuset) = (Nanos(self.number(1000)), CpusetId(self.number(4) as u16));
        }
        cx
    }

    pub fn zone(&mut self) -> ZoneId {
        ZoneId(self.number(2) as u16)
    }

    pub fn pageblock(&mut self) -> PageblockId {
        PageblockId(self.number(self.end / 512))
    }

    pub fn migratetype(&mut self) -> Migratetype {
        let nth = self.byte();
        let types = Migratetype::ALL;
        if nth < 200 { types[usize::from(nth) % 3] } else { types[usize::from(nth) % types.len()] }
    }

    pub fn kind(&mut self) -> ZoneKind {
        let kinds = [ZoneKind::Movable, ZoneKind::Normal, ZoneKind::Dma32, ZoneKind::Dma, ZoneKind::Device];
        kinds[usize::from(self.byte()) % kinds.len()]
    }

    pub fn flags(&mut self) -> RequestFlags {
        if self.byte() < 128 {
            return RequestFlags::MEMALLOC;
        }
        RequestFlags::from_bits_retain(u16::from(self.byte()) << 8 | u16::from(self.byte()))
    }

    pub fn request(&mut self) -> Request {
        let mut request = Request::new(self.order(), self.migratetype());
        request.flags = self.flags();
        if self.byte() > 200 {
            request.highest_zone = self.kind();
            request.nodes = NodeMask::only(NodeId(self.byte()));
        }
        request
    }
}

impl Drop for Draw<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the calls, the last of which panicked:");
            self.calls.iter().for_each(|call| eprintln!("    {call}"));
        }
    }
}
