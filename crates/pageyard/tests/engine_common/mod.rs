//! An engine that owns its metadata, for tests.

#![allow(dead_code, reason = "each test file uses its part")]

use pageyard::{
    AllocError, AuditError, Census, ClaimError, Config, CpuId, CpuSet, Cx, FreeError, MapError, MemoryMap,
    Metadata, Migratetype, Order, PageAllocator, Pageyard, PcpStats, PerCpu, Pfn, Request, Stats, ZoneId,
    ZoneStats,
};

/// An engine and its metadata.
pub struct Owned<P: PerCpu> {
    // Dropped before the memory that it lives in.
    pub yard: Pageyard<'static, P>,
    _memory: Memory,
}

/// Zeroed memory that the system hands out lazily.
pub struct Memory(*mut u8, std::alloc::Layout);

// SAFETY: it is owned memory, and nothing looks at it but the engine.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn zeroed(layout: std::alloc::Layout) -> Memory {
        // An allocator that aligns also touches; one that does not hands out untouched pages.
        let layout = std::alloc::Layout::from_size_align(layout.size() + layout.align(), 16).unwrap();
        // SAFETY: the layout is not empty.
        let at = unsafe { std::alloc::alloc_zeroed(layout) };
        assert!(!at.is_null(), "no memory for the metadata");
        Memory(at, layout)
    }

    /// Returns the bytes.
    ///
    /// # Safety
    /// Called once, and the bytes are not used after `self` is dropped.
    pub unsafe fn bytes(&self) -> &'static mut [u8] {
        // SAFETY: it is that large, initialised, and the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0, self.1.size()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { std::alloc::dealloc(self.0, self.1) };
    }
}

impl<P: PerCpu> Owned<P> {
    pub fn new(map: &MemoryMap<'_>, config: Config, percpu: P) -> Result<Owned<P>, MapError> {
        let memory = Memory::zeroed(Pageyard::<P>::layout(map, &config)?.layout);
        // SAFETY: 1. The bytes are fresh and zero. 2. The engine is dropped first.
        let metadata = unsafe { Metadata::assume_zeroed(memory.bytes()) };
        Ok(Owned { yard: Pageyard::new(map, config, percpu, metadata)?, _memory: memory })
    }
}

impl<P: PerCpu> PageAllocator for Owned<P> {
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        self.yard.alloc(cx, request)
    }
    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.yard.free(cx, pfn, order)
    }
    fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        self.yard.alloc_bulk(cx, request, out)
    }
    fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], wrong: &mut dyn FnMut(Pfn, FreeError)) {
        self.yard.free_bulk(cx, pfns, wrong);
    }
    fn split(&self, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        self.yard.split(pfn, from, to)
    }
    fn claim_exact(&self, pfn: Pfn, order: Order, migratetype: Migratetype) -> Result<(), ClaimError> {
        self.yard.claim_exact(pfn, order, migratetype)
    }
    fn drain(&self, cpus: CpuSet) {
        self.yard.drain(cpus);
    }
    fn stats(&self) -> Stats {
        self.yard.stats()
    }
    fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        self.yard.zone_stats(zone)
    }
    fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        self.yard.pcp_stats(zone, cpu)
    }
    fn audit(&self) -> Result<Census, AuditError> {
        self.yard.audit()
    }
}
