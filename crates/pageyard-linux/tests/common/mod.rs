//! Machines and shorthands for the tests of the reference.
#![allow(dead_code, reason = "each test file uses a part of it")]

use pageyard_core::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard_core::reclaim::{Reclaim, Reclaimed, Shortage};
use pageyard_core::{
    CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator, Pfn, Region, Request,
    RequestFlags, ZoneId, ZoneKind,
};
use pageyard_linux::{Config, LinuxAllocator};
use std::convert::Infallible;

/// The only CPU that most tests use.
pub const CX: Cx = Cx::on(CpuId(0));

/// Makes a machine of one Normal zone.
pub fn normal(frames: u64, config: &Config) -> LinuxAllocator {
    let regions = [Region::managed(Pfn(0), Frames(frames), NodeId(0), ZoneKind::Normal)];
    LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), config).unwrap()
}

/// A preset that keeps nothing back, so that a test can use every frame, and has no lists of its own in the way.
pub fn bare(mut config: Config) -> Config {
    config.set("min_free_kbytes", "0").unwrap();
    config.set("nofragment", "false").unwrap();
    config.cpus = 1;
    config
}

/// A request that may use every reserve.
pub fn request(order: u8, m: Migratetype) -> Request {
    Request::new(Order::of(order), m).with(RequestFlags::MEMALLOC)
}

/// Allocates, or fails the test.
pub fn take(a: &LinuxAllocator, order: u8, m: Migratetype) -> Pfn {
    a.alloc(&CX, &request(order, m)).unwrap()
}

/// Frees, or fails the test.
pub fn give(a: &LinuxAllocator, pfn: Pfn, order: u8) {
    a.free(&CX, pfn, Order::of(order)).unwrap();
}

/// Returns the free blocks of one order and type in the first zone.
pub fn blocks(a: &LinuxAllocator, order: u8, m: Migratetype) -> u64 {
    a.zone_stats(ZoneId(0)).unwrap().free_blocks[order as usize][m.index()]
}

/// Returns the pageblocks of one type in the first zone.
pub fn pageblocks(a: &LinuxAllocator, m: Migratetype) -> u64 {
    a.zone_stats(ZoneId(0)).unwrap().pageblocks[m.index()]
}

/// Audits, and checks that no frame is missing.
pub fn sound(a: &LinuxAllocator) {
    let census = a.audit().unwrap();
    assert!(census.is_conserved(), "{census:?}");
}

/// Help that moves nothing: what reclaims, and how many frames of each zone it says that it could.
pub struct Reclaiming<F>(pub F, pub Frames);

impl<F: Fn() -> Reclaimed> Reclaim for Reclaiming<F> {
    fn reclaim(&self, _: &Cx, _: &Shortage) -> Reclaimed {
        self.0()
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        self.1
    }
}

// SAFETY: it never moves anything.
unsafe impl<F> Migrate for Reclaiming<F> {
    type Isolated = Infallible;

    fn isolate(&self, _: Pfn, _: Mode) -> Result<Infallible, Busy> {
        Err(Busy::Pinned)
    }

    fn migrate(&self, from: &mut Infallible, _: Pfn, _: Mode) -> Result<(), MigrateError> {
        match *from {}
    }

    fn putback(&self, from: Infallible) {
        match from {}
    }
}
