//! Memory pressure: the interface to owners that can give up frames, and the calls of an engine that use it.

use crate::allocator::{Cx, PageAllocator};
use crate::compaction::{Busy, Migrate, MigrateError, Mode, Outcome, Work};
use crate::error::{AllocError, BadRequest};
use crate::memmap::MAX_ZONES;
use crate::request::Request;
use crate::units::{Frames, Order, Pfn, ZoneId};
use core::convert::Infallible;
use core::fmt;
use core::ops::AddAssign;

/// How hard reclaim tries: 12 looks at a 4096th of what it could take, 0 at everything.
///
/// # Linux
/// `DEF_PRIORITY`, and `scan_control.priority`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority(pub u8);

impl Priority {
    /// Where reclaim starts.
    pub const START: Priority = Priority(12);
    /// The hardest.
    pub const HARDEST: Priority = Priority(0);
}

/// Some of an instance's zones: bit *n* is zone *n*. A memory map has no others ([`MAX_ZONES`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ZoneMask(pub u64);

impl ZoneMask {
    /// One zone.
    #[must_use]
    pub const fn only(zone: ZoneId) -> ZoneMask {
        ZoneMask(if zone.index() < MAX_ZONES { 1 << zone.0 } else { 0 })
    }

    /// Returns whether a zone is one of them.
    #[must_use]
    pub const fn contains(self, zone: ZoneId) -> bool {
        zone.index() < MAX_ZONES && self.0 & (1 << zone.0) != 0
    }

    /// Iterates over them, by number.
    pub fn iter(self) -> impl Iterator<Item = ZoneId> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let first = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (first < u64::BITS).then_some(ZoneId(first as u16))
        })
    }
}

impl FromIterator<ZoneId> for ZoneMask {
    fn from_iter<I: IntoIterator<Item = ZoneId>>(zones: I) -> ZoneMask {
        ZoneMask(zones.into_iter().fold(0, |mask, zone| mask | ZoneMask::only(zone).0))
    }
}

/// A demand on reclaim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// The zones that frames may come from, one or several of a node. Frames freed elsewhere do not help. Of several,
    /// those that were used longest ago are given up first, in whichever zone they lie.
    ///
    /// # Linux
    /// Until 4.7 a zone's own lists are shrunk; since 4.8 a node's, up to `scan_control.reclaim_idx`.
    pub zones: ZoneMask,
    /// How many frames are enough.
    pub want: Frames,
    /// The order of the request that caused it.
    pub order: Order,
    /// How hard to try.
    pub priority: Priority,
    /// Whether the background reclaimer asks, or a request that waits.
    pub background: bool,
}

/// Reclaim's report of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reclaimed {
    /// Frames that it looked at. `pgscan`.
    pub scanned: Frames,
    /// Frames that it freed. `pgsteal`.
    pub freed: Frames,
}

/// An owner may say anything, so sums stop at the largest number.
impl AddAssign for Reclaimed {
    fn add_assign(&mut self, other: Reclaimed) {
        self.scanned = Frames(self.scanned.0.saturating_add(other.scanned.0));
        self.freed = Frames(self.freed.0.saturating_add(other.freed.0));
    }
}

/// Implemented by the owner of frames that can be given up.
///
/// It frees through the engine, with [`PageAllocator::free`], before it returns. The engine holds no lock when it
/// calls. What it reports is counted but not trusted: progress is what the zone's free frames show.
pub trait Reclaim {
    /// Frees frames of the zones that it is asked for.
    fn reclaim(&self, cx: &Cx, shortage: &Shortage) -> Reclaimed;

    /// Returns the most frames of a zone that it could free.
    ///
    /// # Linux
    /// `zone_reclaimable_pages`.
    fn reclaimable(&self, zone: ZoneId) -> Frames;
}

/// The owner's help for a request under pressure: frames that can be given up, and frames that can be moved.
pub trait Helpers: Reclaim + Migrate {}

impl<T: Reclaim + Migrate> Helpers for T {}

/// Helpers that cannot help: nothing can be given up, and nothing can be moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHelp;

impl Reclaim for NoHelp {
    fn reclaim(&self, _: &Cx, _: &Shortage) -> Reclaimed {
        Reclaimed::default()
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        Frames::ZERO
    }
}

// SAFETY: it never moves anything.
unsafe impl Migrate for NoHelp {
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

/// Attempts made before a request was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attempts {
    /// Times that reclaim was tried on behalf of the request.
    pub reclaims: u32,
    /// Frames that reclaim says it looked at and freed.
    pub reclaimed: Reclaimed,
    /// Frames by which the zones' free frames, those in lists included, grew while reclaim ran.
    pub gained: Frames,
    /// Times that compaction was tried on behalf of the request.
    pub compactions: u32,
    /// Zones that compaction left alone because it had failed there lately.
    pub deferred: u32,
    /// Work done by compaction.
    pub work: Work,
    /// How the last compaction ended.
    pub outcome: Option<Outcome>,
}

/// Why an allocation failed, with what was tried before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Why.
    pub why: AllocError,
    /// The attempts made.
    pub tried: Attempts,
}

impl From<Failure> for AllocError {
    fn from(failure: Failure) -> Self {
        failure.why
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = &self.tried;
        write!(f, "{}; ", self.why)?;
        write!(f, "{} reclaims freed {} of {} frames, ", t.reclaims, t.gained, t.reclaimed.scanned)?;
        write!(
            f,
            "{} compactions moved {} frames and failed on {}",
            t.compactions, t.work.moved, t.work.failed
        )?;
        match t.outcome {
            Some(outcome) => write!(f, "; the last one {outcome}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Failure {}

/// An engine that can ask for help when memory runs short.
///
/// Generic over the helpers, so not dyn-compatible: code that works with any such engine takes it as a type parameter.
pub trait PressureAllocator: PageAllocator {
    /// Allocates one block, with reclaim and compaction where Linux would use them.
    ///
    /// Helpers may free frames of this engine while they run. They must not call this with helpers again.
    ///
    /// # Errors
    /// [`Failure`]: the reason as [`PageAllocator::alloc`] gives it, and what was tried.
    fn alloc_with<H: Helpers>(&self, cx: &Cx, request: &Request, helpers: &H) -> Result<Pfn, Failure>;

    /// Lets the background reclaimers that were woken run, until there is enough above the high watermark or they make
    /// no more progress. Returns what they did; nothing where none was woken. One that could not do enough stays awake,
    /// and goes on at the next call.
    ///
    /// # Linux
    /// `kswapd`: one run of `balance_pgdat`, and whether it sleeps then (`kswapd_try_to_sleep`).
    ///
    /// # Errors
    /// [`BadRequest::NoSuchCpu`].
    fn kswapd_with<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Result<Reclaimed, BadRequest>;

    /// Lets the background compactors that were woken run, and proactive compaction where it is due.
    /// Returns what they did; nothing where none was woken.
    ///
    /// # Linux
    /// `kcompactd_do_work`, `proactive_compact_node`.
    ///
    /// # Errors
    /// [`BadRequest::NoSuchCpu`].
    fn kcompactd_with<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Result<Work, BadRequest>;

    /// Compacts all of a zone as far as possible.
    ///
    /// # Linux
    /// A write to `/proc/sys/vm/compact_memory`.
    ///
    /// # Errors
    /// [`BadRequest::NoSuchCpu`], [`BadRequest::NoZone`].
    fn compact_zone_with<H: Helpers>(
        &self,
        cx: &Cx,
        zone: ZoneId,
        helpers: &H,
    ) -> Result<(Outcome, Work), BadRequest>;
}

/// Implements [`PressureAllocator`] for a type that holds one, as
/// [`forward_page_allocator`](crate::forward_page_allocator) does for [`PageAllocator`].
#[macro_export]
macro_rules! forward_pressure_allocator {
    ([$($generics:tt)*] $type:ty, $this:ident => $to:expr) => {
        impl<$($generics)*> $crate::PressureAllocator for $type {
            #[inline(always)]
            fn alloc_with<H: $crate::Helpers>(
                &self,
                cx: &$crate::Cx,
                request: &$crate::Request,
                helpers: &H,
            ) -> Result<$crate::Pfn, $crate::Failure> {
                let $this = self;
                $to.alloc_with(cx, request, helpers)
            }

            fn kswapd_with<H: $crate::Helpers>(
                &self,
                cx: &$crate::Cx,
                helpers: &H,
            ) -> Result<$crate::reclaim::Reclaimed, $crate::BadRequest> {
                let $this = self;
                $to.kswapd_with(cx, helpers)
            }

            fn kcompactd_with<H: $crate::Helpers>(
                &self,
                cx: &$crate::Cx,
                helpers: &H,
            ) -> Result<$crate::compaction::Work, $crate::BadRequest> {
                let $this = self;
                $to.kcompactd_with(cx, helpers)
            }

            fn compact_zone_with<H: $crate::Helpers>(
                &self,
                cx: &$crate::Cx,
                zone: $crate::ZoneId,
                helpers: &H,
            ) -> Result<($crate::compaction::Outcome, $crate::compaction::Work), $crate::BadRequest> {
                let $this = self;
                $to.compact_zone_with(cx, zone, helpers)
            }
        }
    };
}

forward_pressure_allocator! { [A: PressureAllocator + ?Sized] &A, this => (**this) }
