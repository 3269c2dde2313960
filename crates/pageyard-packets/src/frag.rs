//! Fragments of an allocator's blocks, and a CPU's cache of them.

use crate::carve::{Carve, LARGEST, Retired};
use crate::error::{PacketsError, PutError};
use crate::fragment::{Fragment, FragmentOwner, Parts};
use crate::use_table::{Owner, UseTable};
use core::alloc::Layout;
use pageyard_core::allocator::{Cx, PageAllocator};
use pageyard_core::error::{AllocError, BadRequest, FreeError};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::request::{Request, RequestFlags};
use pageyard_core::units::{Frames, Order, Pfn, PhysAddr};

/// Which blocks fragments are carved from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragConfig {
    /// The request for a block. Its order is tried first, without effort; then a single frame. At most order 9.
    pub request: Request,
}

impl FragConfig {
    /// Blocks of 32 KiB, unmovable.
    ///
    /// # Linux
    /// `PAGE_FRAG_CACHE_MAX_ORDER`.
    #[must_use]
    pub const fn new() -> FragConfig {
        FragConfig { request: Request::new(Order::of(3), Migratetype::Unmovable) }
    }
}

impl Default for FragConfig {
    fn default() -> FragConfig {
        FragConfig::new()
    }
}

/// The owner of fragments of an allocator's blocks, to which they return from any CPU. Each CPU carves them with a
/// [`PageFrag`].
///
/// Dropped, it reads its table once: where blocks are still in use, by their addresses or by caches that were not
/// drained, no other owner gets its number, and they stay allocated.
///
/// # Examples
#[cfg_attr(feature = "alloc", doc = "```")]
#[cfg_attr(not(feature = "alloc"), doc = "```ignore")]
/// use pageyard_packets::{FragConfig, FragPages, UseTable};
/// use pageyard::*;
/// use core::alloc::Layout;
///
/// let regions = [Region::managed(Pfn(0), Frames(1 << 15), NodeId(0), ZoneKind::Normal)];
/// let yard = Pageyard::owned(&MemoryMap::new(&regions)?, Config::new(2), TryLock)?;
/// let table = UseTable::of(&*yard)?;
/// let pages = FragPages::new(&*yard, &table, FragConfig::new())?;
///
/// let (receive, complete) = (Cx::on(CpuId(0)), Cx::on(CpuId(1)));
/// let mut cache = pages.cache();
/// let buffer = cache.alloc(&receive, Layout::from_size_align(1664, 64)?).unwrap();
/// buffer.put(&complete).unwrap(); // on any CPU; the last one takes the block along
/// cache.drain(&receive);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FragPages<'t, A: PageAllocator> {
    allocator: A,
    table: &'t UseTable<'t>,
    owner: Owner,
    config: FragConfig,
}

impl<'t, A: PageAllocator> FragPages<'t, A> {
    /// Makes an owner of fragments.
    ///
    /// # Errors
    /// [`PacketsError::Order`], [`PacketsError::TooManyOwners`].
    pub fn new(
        allocator: A,
        table: &'t UseTable<'t>,
        config: FragConfig,
    ) -> Result<FragPages<'t, A>, PacketsError> {
        let order = config.request.order;
        if order > LARGEST {
            return Err(PacketsError::Order { order, largest: LARGEST });
        }
        Ok(FragPages { allocator, table, owner: table.enter()?, config })
    }

    /// Makes a cache, for one user at a time.
    pub fn cache(&self) -> PageFrag<'_, 't, A> {
        PageFrag { pages: self, carve: Carve::none(), spare: None }
    }

    /// Returns the allocator.
    pub fn allocator(&self) -> &A {
        &self.allocator
    }

    /// Gives back a fragment by its address, from any CPU: for descriptors that hold only numbers.
    ///
    /// One that is given back twice is noticed when its block has no uses left: until then it counts as another of the
    /// block's, as in Linux. What is given back as a [`Fragment`] cannot be given back twice.
    ///
    /// # Errors
    /// [`PutError`]; nothing changed.
    ///
    /// # Linux
    /// `page_frag_free`; the block is found by arithmetic and by its order, as in `virt_to_head_page`.
    pub fn put_raw(&self, cx: &Cx, at: PhysAddr) -> Result<(), PutError> {
        self.put_at(cx, at)
    }

    /// Returns how many uses a block has, carver's included; 0 where nothing of it is in use.
    ///
    /// # Concurrency
    /// An estimate, unless the caller has one of the uses.
    pub fn uses_of(&self, block: Pfn) -> u32 {
        if self.table.covers(block, Frames(1)) { self.table.uses(block, self.owner) } else { 0 }
    }

    /// Makes one fragment of a whole block, which the caller owns: for a page that left its pool, or that a device
    /// filled. `None` where the block does not start at a multiple of its size, lies outside the table, or is of an
    /// order that is neither a single frame's nor that of the blocks carved here: then it is still the caller's.
    ///
    /// The block must be one of this allocator's, of that order: the allocator refuses any other when the fragment is
    /// given back.
    ///
    /// # Linux
    /// `build_skb` on a page: its one reference is the buffer's.
    #[inline]
    pub fn whole(&self, block: Pfn, order: Order) -> Option<Fragment<'_, Self>> {
        let known = order == Order::ZERO || order == self.config.request.order;
        if !known || !block.is_aligned(order) || !self.table.covers(block, order.frames()) {
            return None;
        }
        self.table.start(block, self.owner, 1);
        Some(Fragment::new(self, block.address(), order.frames().as_bytes() as usize, order))
    }

    /// Takes a block for a buffer: of the order asked for, or a single frame.
    #[cold]
    fn block(&self, cx: &Cx, layout: Layout) -> Result<(Pfn, Order), AllocError> {
        let wanted = self.config.request;
        let light = wanted.with(RequestFlags::NORETRY).without(RequestFlags::MEMALLOC);
        let single = Request { order: Order::ZERO, ..wanted };
        let first = if wanted.order == Order::ZERO { wanted } else { light };
        let (pfn, order) = match self.allocator.alloc(cx, &first) {
            Ok(pfn) => (pfn, wanted.order),
            // A single frame is too small for it.
            Err(why) if wanted.order == Order::ZERO || !Carve::fits(layout, Order::ZERO) => return Err(why),
            Err(_) => (self.allocator.alloc(cx, &single)?, Order::ZERO),
        };
        if self.table.covers(pfn, order.frames()) {
            return Ok((pfn, order));
        }
        let _ = self.allocator.free(cx, pfn, order);
        Err(AllocError::BadRequest(BadRequest::NoZone))
    }
}

impl<A: PageAllocator> Drop for FragPages<'_, A> {
    fn drop(&mut self) {
        // While blocks are in use, no one else must get the number that tells whose they are.
        let mut in_use = false;
        self.table.visit(self.owner, &mut |_, _| in_use = true);
        if !in_use {
            self.table.leave(self.owner);
        }
    }
}

impl<A: PageAllocator> FragmentOwner for FragPages<'_, A> {}

impl<A: PageAllocator> Parts for FragPages<'_, A> {
    #[inline(always)]
    fn table(&self) -> &UseTable<'_> {
        self.table
    }

    fn owner(&self) -> Owner {
        self.owner
    }

    fn block_of(&self, at: PhysAddr) -> Option<(Pfn, Order)> {
        let (pfn, large) = (at.pfn(), self.config.request.order);
        let head = pfn.align_down(large);
        // Blocks do not overlap: if the larger one is allocated, this byte lies in it.
        let (block, order) = match self.allocator.order_of(head) {
            Some(order) if order == large => (head, large),
            _ => (pfn, Order::ZERO),
        };
        self.table.covers(block, order.frames()).then_some((block, order))
    }

    #[inline]
    fn take_back(&self, cx: &Cx, block: Pfn, order: Order) -> Result<(), FreeError> {
        self.allocator.free_frag(cx, block, order)
    }
}

/// A cache of fragments: the block that one user carves.
///
/// An allocation costs no atomic operation: the block's uses were counted in advance. [`drain`](PageFrag::drain) it
/// before it is dropped: the block of a cache that is dropped stays in use.
///
/// # Linux
/// `struct page_frag_cache`, with `page_frag_alloc_align`.
pub struct PageFrag<'o, 't, A: PageAllocator> {
    pages: &'o FragPages<'t, A>,
    carve: Carve,
    /// A block that was to follow the one at hand, when the allocator took back neither.
    spare: Option<(Pfn, Order)>,
}

impl<'o, 't, A: PageAllocator> PageFrag<'o, 't, A> {
    /// Carves a buffer of this size and alignment.
    ///
    /// # Errors
    /// [`BadRequest::Size`] for a buffer of no bytes, or one that is larger than a block, or whose alignment is (unless
    /// the block at hand happens to have it); otherwise the allocator's. Buffers larger than a frame fail where there
    /// are only single frames. [`AllocError::OutOfMemory`] while the allocator refuses to take an unused block back.
    #[inline(always)]
    pub fn alloc(&mut self, cx: &Cx, layout: Layout) -> Result<Fragment<'o, FragPages<'t, A>>, AllocError> {
        let at = match self.carve.carve(layout) {
            Some(at) => at,
            None => self.alloc_slow(cx, layout)?,
        };
        Ok(Fragment::new(self.pages, at, layout.size(), self.carve.order()))
    }

    /// Carves it from the same block, if that has come back, or from another.
    #[cold]
    #[inline(never)]
    fn alloc_slow(&mut self, cx: &Cx, layout: Layout) -> Result<PhysAddr, AllocError> {
        let FragPages { table, owner, config, .. } = *self.pages;
        let most = config.request.order;
        if !Carve::fits(layout, most) {
            return Err(Carve::refusal(layout, most));
        }
        if Carve::fits(layout, self.carve.order())
            && self.carve.again(table, owner)
            && let Some(at) = self.carve.carve(layout)
        {
            return Ok(at);
        }
        // The next block first: if there is none, this one can still be carved for smaller buffers.
        let (block, order) =
            if self.spare.is_none() { self.pages.block(cx, layout)? } else { self.spare_block(cx, layout)? };
        if !self.leave(cx) {
            return Err(self.put_aside(cx, block, order));
        }
        self.carve.start(table, owner, block, order);
        // A block that fits has room.
        self.carve.carve(layout).ok_or(AllocError::OutOfMemory)
    }

    /// Stops carving: the block goes back to the allocator, now or with its last fragment. Where the allocator refuses
    /// it, because the CPU is not one of its own, the cache keeps it.
    ///
    /// # Linux
    /// `__page_frag_cache_drain`.
    pub fn drain(&mut self, cx: &Cx) {
        self.leave(cx);
        self.give_spare_back(cx);
    }

    /// Leaves the block at hand; returns whether it did. Where the allocator refuses to take it back, it is carved
    /// anew.
    #[inline(always)]
    fn leave(&mut self, cx: &Cx) -> bool {
        let FragPages { table, owner, .. } = *self.pages;
        match self.carve.retire(table, owner) {
            Some(Retired::Unused(block, order)) if self.pages.allocator.free(cx, block, order).is_err() => {
                self.carve.start(table, owner, block, order);
                false
            }
            _ => true,
        }
    }

    /// Gets the next block while there is a spare one: that one, if it fits.
    #[cold]
    #[inline(never)]
    fn spare_block(&mut self, cx: &Cx, layout: Layout) -> Result<(Pfn, Order), AllocError> {
        if let Some(spare) = self.spare.take_if(|(_, order)| Carve::fits(layout, *order)) {
            return Ok(spare);
        }
        self.give_spare_back(cx);
        if self.spare.is_some() { Err(AllocError::OutOfMemory) } else { self.pages.block(cx, layout) }
    }

    /// Gives back a block that was to follow one that the allocator refuses, or keeps it, too.
    #[cold]
    #[inline(never)]
    fn put_aside(&mut self, cx: &Cx, block: Pfn, order: Order) -> AllocError {
        self.spare = Some((block, order));
        self.give_spare_back(cx);
        AllocError::OutOfMemory
    }

    fn give_spare_back(&mut self, cx: &Cx) {
        let allocator = &self.pages.allocator;
        self.spare = self.spare.filter(|(block, order)| allocator.free(cx, *block, *order).is_err());
    }
}
