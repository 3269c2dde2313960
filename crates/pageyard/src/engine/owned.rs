//! An instance that owns the memory of its metadata.

use super::config::Config;
use super::pcp::percpu::PerCpu;
use super::yard::Pageyard;
use core::ops::Deref;
use pageyard_core::clear::Clear;
use pageyard_core::error::MapError;
use pageyard_core::memmap::MemoryMap;
use pageyard_core::observer::Observer;
use pageyard_sync::{Metadata, OwnedMemory};

/// A [`Pageyard`] that owns the memory of its metadata, which comes from the global allocator.
///
/// It dereferences to the instance, whose calls are its own. Needs the feature `alloc`.
pub struct OwnedPageyard<P: PerCpu, O: Observer = (), C: Clear = ()> {
    // Declared first, so dropped before the memory that it lives in.
    yard: Pageyard<'static, P, O, C>,
    _memory: OwnedMemory,
}

impl<P: PerCpu> Pageyard<'static, P> {
    /// Makes an instance that owns its metadata, in which every managed frame is free.
    ///
    /// # Errors
    /// As [`Pageyard::new`]; [`MapError::NoMemory`] where the global allocator has too little.
    ///
    /// # Examples
    /// ```
    /// use pageyard::{Config, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, Pageyard, Pfn};
    /// use pageyard::{Region, Request, TryLock, ZoneKind};
    ///
    /// let regions = [Region::managed(Pfn(0), Frames(1 << 18), NodeId(0), ZoneKind::Normal)]; // 1 GiB
    /// let yard = Pageyard::owned(&MemoryMap::new(&regions)?, Config::new(1), TryLock)?;
    /// let (cx, huge) = (Cx::on(CpuId(0)), Order::of(9));
    /// let block = yard.alloc(&cx, &Request::new(huge, Migratetype::Movable))?;
    /// yard.free(&cx, block, huge)?;
    /// assert!(yard.free(&cx, block, huge).is_err(), "a second free is a value, not a crash");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn owned(map: &MemoryMap<'_>, config: Config, percpu: P) -> Result<OwnedPageyard<P>, MapError> {
        Pageyard::owned_with_observer(map, config, percpu, ())
    }
}

impl<P: PerCpu, O: Observer> Pageyard<'static, P, O> {
    /// Makes an instance that owns its metadata, as [`Pageyard::owned`], and reports its blocks to `observer`, as
    /// [`Pageyard::with_observer`] does.
    ///
    /// # Errors
    /// As [`Pageyard::owned`].
    pub fn owned_with_observer(
        map: &MemoryMap<'_>,
        config: Config,
        percpu: P,
        observer: O,
    ) -> Result<OwnedPageyard<P, O>, MapError> {
        Pageyard::owned_with_clearer(map, config, percpu, observer, ())
    }
}

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'static, P, O, C> {
    /// Makes an instance that owns its metadata, and serves requests for zeros, as [`Pageyard::with_clearer`] does.
    ///
    /// # Errors
    /// As [`Pageyard::owned`] and [`Pageyard::with_clearer`].
    pub fn owned_with_clearer(
        map: &MemoryMap<'_>,
        config: Config,
        percpu: P,
        observer: O,
        clearer: C,
    ) -> Result<OwnedPageyard<P, O, C>, MapError> {
        let needed = Pageyard::<P>::layout(map, &config)?.layout.size();
        let mut memory = OwnedMemory::zeroed(needed).ok_or(MapError::NoMemory { needed })?;
        // SAFETY: it outlives the instance, because it is dropped after it, and nothing that an instance lends out
        //         lives longer than a borrow of itself.
        let bytes = unsafe { memory.for_its_owner() };
        // SAFETY: it is fresh from `alloc_zeroed`.
        let metadata = unsafe { Metadata::assume_zeroed(bytes) };
        let yard = Pageyard::with_clearer(map, config, percpu, observer, clearer, metadata)?;
        Ok(OwnedPageyard { yard, _memory: memory })
    }
}

impl<P: PerCpu, O: Observer, C: Clear> Deref for OwnedPageyard<P, O, C> {
    type Target = Pageyard<'static, P, O, C>;

    #[inline(always)]
    fn deref(&self) -> &Pageyard<'static, P, O, C> {
        &self.yard
    }
}

pageyard_core::forward_page_allocator! { unsafe [P: PerCpu, O: Observer, C: Clear] OwnedPageyard<P, O, C>, this => this.yard }
#[cfg(not(pageyard_loom))]
pageyard_core::forward_pressure_allocator! { [P: PerCpu, O: Observer, C: Clear] OwnedPageyard<P, O, C>, this => this.yard }
