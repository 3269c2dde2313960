//! The trait an engine implements: allocate, free, and report.

use crate::error::{AllocError, AuditError, ClaimError, FreeError};
use crate::migratetype::Migratetype;
use crate::request::Request;
use crate::stats::{Census, PcpStats, Stats, ZoneStats};
use crate::units::{CpuId, CpuSet, CpusetId, Frames, Nanos, Order, Pfn, ZoneId};

/// The kind of code that is calling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Context {
    /// A task: it may be preempted.
    #[default]
    Task = 0,
    /// A deferred interrupt: it runs between tasks, never inside another of its kind.
    Softirq = 1,
    /// An interrupt handler.
    Hardirq = 2,
    /// A non-maskable interrupt: it may run in the middle of anything, this allocator included.
    Nmi = 3,
}

impl Context {
    /// Every context.
    pub const ALL: [Context; 4] = [Context::Task, Context::Softirq, Context::Hardirq, Context::Nmi];

    /// Returns the name that traces use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Context::Task => "task",
            Context::Softirq => "softirq",
            Context::Hardirq => "hardirq",
            Context::Nmi => "nmi",
        }
    }
}

/// Where and when a call happens: explicit, so that a replay is deterministic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cx {
    /// The CPU that the caller runs on.
    pub cpu: CpuId,
    /// The kind of code that calls.
    pub context: Context,
    /// The time.
    pub now: Nanos,
    /// The cpuset of the running task, for engines with cpusets; the root unless set.
    pub cpuset: CpusetId,
}

impl Cx {
    /// Makes a context for task code on `cpu` at time zero.
    #[must_use]
    pub const fn on(cpu: CpuId) -> Cx {
        Cx { cpu, context: Context::Task, now: Nanos(0), cpuset: CpusetId(0) }
    }
}

/// The result of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drained {
    /// Frames that went back to their zones.
    pub frames: Frames,
    /// Lists that were in use the whole time: their frames stay in them. Zero where nothing else runs.
    pub busy: u32,
}

impl Drained {
    /// Returns whether all lists were emptied.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        self.busy == 0
    }
}

impl core::ops::AddAssign for Drained {
    fn add_assign(&mut self, other: Drained) {
        self.frames += other.frames;
        self.busy += other.busy;
    }
}

/// A page-frame allocator.
///
/// Frames are numbers; nothing is ever stored in the memory they name. Blocks are aligned to their size. Every call
/// that changes something names the CPU it runs on; a CPU that the instance does not have is refused, with nothing
/// changed.
///
/// References, boxes and reference counts of an allocator are allocators too (`Box` and `Arc` with the feature
/// `alloc`).
///
/// # Safety
/// Callers turn what an allocator returns into references to memory, so an implementation promises:
///
/// 1. A block that [`alloc`](PageAllocator::alloc), [`alloc_bulk`](PageAllocator::alloc_bulk) or
///    [`claim_exact`](PageAllocator::claim_exact) hands out has no frame in common with any block that was handed out
///    and not freed since, however many threads call.
/// 2. It is `2^order` managed frames of one zone, starting at a multiple of `2^order`.
/// 3. It stays its owner's until the owner frees or splits it. No call that is refused, no free of anything else, no
///    panic of a callback and no other call changes that.
pub unsafe trait PageAllocator: Sync {
    /// Allocates one block of `2^request.order` frames.
    ///
    /// # Errors
    /// [`AllocError`] tells a bad request, a reserve, fragmentation and a lack of memory apart. The
    /// allocator's free frames are unchanged on every error.
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError>;

    /// Frees a block that was allocated with `order`, or split to it.
    ///
    /// # Errors
    /// [`FreeError`] says what is wrong with it; nothing changed. Two CPUs that free one block at the same time get
    /// one `Ok` between them.
    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError>;

    /// Frees a block whose last fragment was given up. An engine for which that differs from any other free says so.
    ///
    /// # Errors
    /// As [`free`](PageAllocator::free).
    ///
    /// # Linux
    /// The end of `page_frag_free`.
    #[inline(always)]
    fn free_frag(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.free(cx, pfn, order)
    }

    /// Allocates blocks until `out` is full or an allocation fails; returns how many it wrote, from the front.
    fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        for (got, slot) in out.iter_mut().enumerate() {
            match self.alloc(cx, request) {
                Ok(pfn) => *slot = pfn,
                Err(_) => return got,
            }
        }
        out.len()
    }

    /// Frees blocks of one order; `wrong` is called for each one that is refused, and the others are freed nonetheless.
    fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], order: Order, wrong: &mut dyn FnMut(Pfn, FreeError)) {
        for pfn in pfns {
            if let Err(why) = self.free(cx, *pfn, order) {
                wrong(*pfn, why);
            }
        }
    }

    /// Turns an allocated block of order `from` into allocated blocks of order `to`, each freed on its own.
    ///
    /// # Errors
    /// As [`PageAllocator::free`]; [`FreeError::Misaligned`] also where `to` is above `from`.
    ///
    /// # Linux
    /// `split_page`.
    fn split(&self, cx: &Cx, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError>;

    /// Allocates exactly this block, for an opening state. Its pageblock takes `migratetype` if the block covers it.
    ///
    /// Watermarks do not apply.
    ///
    /// # Errors
    /// [`ClaimError`]; nothing changed.
    fn claim_exact(
        &self,
        cx: &Cx,
        pfn: Pfn,
        order: Order,
        migratetype: Migratetype,
    ) -> Result<(), ClaimError>;

    /// Returns a context for calls that cannot name their CPU, such as a call from `Drop`: any thread may use it at any
    /// time. `None` if each call must name the CPU that it runs on.
    fn anywhere(&self) -> Option<Cx> {
        None
    }

    /// Returns the order of the allocated block that starts at this frame, or `None` where none does.
    ///
    /// # Concurrency
    /// Exact for a block that the caller owns; for any other, the answer may be stale when it is returned.
    fn order_of(&self, pfn: Pfn) -> Option<Order>;

    /// Returns the frames in the per-CPU lists of `cpus` to their zones.
    ///
    /// Where the result [is complete](Drained::is_complete), no allocation that begins afterwards gets a frame that was
    /// freed before and lies in a pageblock that had been taken out of allocation by then.
    fn drain(&self, cpus: CpuSet) -> Drained;

    /// Returns the counters.
    fn stats(&self) -> Stats;

    /// Returns one zone's state, or `None` where there is no such zone.
    fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats>;

    /// Returns the state of one CPU's lists of one zone, or `None` where there is no such zone or CPU.
    fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats>;

    /// Recounts every frame and checks every index against the count.
    ///
    /// Call it while nothing else runs.
    ///
    /// # Errors
    /// [`AuditError`]: the first inconsistency.
    fn audit(&self) -> Result<Census, AuditError>;
}

/// Implements [`PageAllocator`] for a type that holds one, by forwarding every call to it.
///
/// `unsafe [generics] Type, this => expression`, where the expression is the allocator, or a guard that dereferences to
/// it.
///
/// The implementation is `unsafe`, and so is asking for it: the promises of [`PageAllocator`] are kept only where the
/// expression is the same allocator in every call.
#[macro_export]
macro_rules! forward_page_allocator {
    (unsafe [$($generics:tt)*] $type:ty, $this:ident => $to:expr) => {
        // SAFETY: the invocation promised that every call is made on one allocator, which keeps the promises.
        #[allow(unsafe_code, reason = "a promise that is passed on")]
        unsafe impl<$($generics)*> $crate::PageAllocator for $type {
            #[inline(always)]
            fn alloc(&self, cx: &$crate::Cx, request: &$crate::Request) -> Result<$crate::Pfn, $crate::AllocError> {
                let $this = self;
                $to.alloc(cx, request)
            }

            #[inline(always)]
            fn free(&self, cx: &$crate::Cx, pfn: $crate::Pfn, order: $crate::Order) -> Result<(), $crate::FreeError> {
                let $this = self;
                $to.free(cx, pfn, order)
            }

            #[inline(always)]
            fn free_frag(&self, cx: &$crate::Cx, pfn: $crate::Pfn, order: $crate::Order) -> Result<(), $crate::FreeError> {
                let $this = self;
                $to.free_frag(cx, pfn, order)
            }

            #[inline]
            fn alloc_bulk(&self, cx: &$crate::Cx, request: &$crate::Request, out: &mut [$crate::Pfn]) -> usize {
                let $this = self;
                $to.alloc_bulk(cx, request, out)
            }

            #[inline]
            fn free_bulk(
                &self,
                cx: &$crate::Cx,
                pfns: &[$crate::Pfn],
                order: $crate::Order,
                wrong: &mut dyn FnMut($crate::Pfn, $crate::FreeError),
            ) {
                let $this = self;
                $to.free_bulk(cx, pfns, order, wrong);
            }

            fn split(
                &self,
                cx: &$crate::Cx,
                pfn: $crate::Pfn,
                from: $crate::Order,
                to: $crate::Order,
            ) -> Result<(), $crate::FreeError> {
                let $this = self;
                $to.split(cx, pfn, from, to)
            }

            fn claim_exact(
                &self,
                cx: &$crate::Cx,
                pfn: $crate::Pfn,
                order: $crate::Order,
                migratetype: $crate::Migratetype,
            ) -> Result<(), $crate::ClaimError> {
                let $this = self;
                $to.claim_exact(cx, pfn, order, migratetype)
            }

            fn anywhere(&self) -> Option<$crate::Cx> {
                let $this = self;
                $to.anywhere()
            }

            fn order_of(&self, pfn: $crate::Pfn) -> Option<$crate::Order> {
                let $this = self;
                $to.order_of(pfn)
            }

            fn drain(&self, cpus: $crate::CpuSet) -> $crate::Drained {
                let $this = self;
                $to.drain(cpus)
            }

            fn stats(&self) -> $crate::Stats {
                let $this = self;
                $to.stats()
            }

            fn zone_stats(&self, zone: $crate::ZoneId) -> Option<$crate::ZoneStats> {
                let $this = self;
                $to.zone_stats(zone)
            }

            fn pcp_stats(&self, zone: $crate::ZoneId, cpu: $crate::CpuId) -> Option<$crate::PcpStats> {
                let $this = self;
                $to.pcp_stats(zone, cpu)
            }

            fn audit(&self) -> Result<$crate::Census, $crate::AuditError> {
                let $this = self;
                $to.audit()
            }
        }
    };
}

forward_page_allocator! { unsafe [A: PageAllocator + ?Sized] &A, this => (**this) }

#[cfg(feature = "alloc")]
forward_page_allocator! { unsafe [A: PageAllocator + ?Sized] alloc::boxed::Box<A>, this => (**this) }

#[cfg(feature = "alloc")]
forward_page_allocator! { unsafe [A: PageAllocator + Send + ?Sized] alloc::sync::Arc<A>, this => (**this) }
