//! A request: what is wanted, from where, and how hard to try.

use crate::gfp::{Gfp, GfpMap};
use crate::memmap::{MAX_NODES, ZoneKind};
use crate::migratetype::Migratetype;
use crate::units::{NodeId, Order};
use bitflags::bitflags;

bitflags! {
    /// How hard a request may try, and what it wants of the frames it gets.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct RequestFlags: u16 {
        /// May go below the watermark by half.
        const HIGH = 1 << 0;
        /// Cannot wait: no reclaim on its behalf; with `HIGH` it may go further below the watermark.
        const NON_BLOCKING = 1 << 1;
        /// Comes from reclaim itself and may use every reserve.
        const MEMALLOC = 1 << 2;
        /// Comes from a victim of the OOM killer.
        const OOM_VICTIM = 1 << 3;
        /// May wake the background reclaimer.
        const WAKE_RECLAIM = 1 << 4;
        /// Gives up after a light attempt.
        const NORETRY = 1 << 5;
        /// Tries hard, but may fail.
        const RETRY_MAYFAIL = 1 << 6;
        /// Must not fail.
        const NOFAIL = 1 << 7;
        /// Stays on one node: that of the first zone of its zonelist that its mask allows.
        const THIS_NODE = 1 << 8;
        /// Wants zeroed frames. Refused with [`BadRequest::CannotZero`](crate::BadRequest::CannotZero) if the instance
        /// cannot clear frames.
        const ZERO = 1 << 9;
        /// Wants the frames that were freed longest ago.
        const COLD = 1 << 10;
        /// Wants frames that do not form one page: compaction treats each separately. Without it, a block of several
        /// frames moves as one.
        const LOOSE = 1 << 11;
        /// Stays on the nodes of its task's cpuset on the slow path too, where other requests may use those of an
        /// enclosing cpuset.
        const HARDWALL = 1 << 12;
        /// Will be written to soon: nodes that already hold too much dirty memory are skipped at first.
        const WRITE = 1 << 13;
        /// Must not use the reserves that `NON_BLOCKING`, `MEMALLOC` and `OOM_VICTIM` open.
        const NO_RESERVE = 1 << 14;
    }
}

impl RequestFlags {
    /// Returns whether a request is urgent, cannot wait, and may use the reserves because of that.
    ///
    /// # Linux
    /// `ALLOC_MIN_RESERVE` with `ALLOC_NON_BLOCK`.
    #[must_use]
    #[inline]
    pub const fn is_atomic(self) -> bool {
        let atomic = Self::HIGH.union(Self::NON_BLOCKING);
        self.intersection(atomic.union(Self::NO_RESERVE)).bits() == atomic.bits()
    }
}

/// The nodes that may serve a request: bit *n* is node *n*. A memory map has at most [`MAX_NODES`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeMask(pub u64);

impl NodeMask {
    /// Any node.
    pub const ALL: NodeMask = NodeMask(u64::MAX);

    /// Returns a mask of one node.
    #[must_use]
    #[inline]
    pub const fn only(node: NodeId) -> NodeMask {
        NodeMask(if (node.0 as usize) < MAX_NODES { 1 << node.0 } else { 0 })
    }

    /// Returns whether the mask allows `node`.
    #[must_use]
    #[inline]
    pub const fn allows(self, node: NodeId) -> bool {
        (node.0 as usize) < MAX_NODES && self.0 & (1 << node.0) != 0
    }
}

impl Default for NodeMask {
    fn default() -> Self {
        NodeMask::ALL
    }
}

/// A request to an allocator.
///
/// # Linux
/// The arguments of `__alloc_pages` after `prepare_alloc_pages` and `gfp_to_alloc_flags` have read them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// The size of the block.
    pub order: Order,
    /// The highest kind of zone that may serve it.
    pub highest_zone: ZoneKind,
    /// How movable the contents will be.
    pub migratetype: Migratetype,
    /// The nodes it may come from.
    pub nodes: NodeMask,
    /// How hard to try.
    pub flags: RequestFlags,
}

impl Request {
    /// Makes a plain request: any node, any zone, no reserves.
    #[must_use]
    #[inline]
    pub const fn new(order: Order, migratetype: Migratetype) -> Request {
        Request {
            order,
            highest_zone: ZoneKind::Movable,
            migratetype,
            nodes: NodeMask::ALL,
            flags: RequestFlags::WAKE_RECLAIM,
        }
        .limited()
    }

    /// Adds flags.
    #[must_use]
    #[inline]
    pub const fn with(mut self, flags: RequestFlags) -> Request {
        self.flags = self.flags.union(flags);
        self
    }

    /// Takes flags away.
    #[must_use]
    #[inline]
    pub const fn without(mut self, flags: RequestFlags) -> Request {
        self.flags = self.flags.difference(flags);
        self
    }

    /// Bars requests that are not movable from the movable zone.
    pub(crate) const fn limited(mut self) -> Request {
        if matches!(self.highest_zone, ZoneKind::Movable) && !matches!(self.migratetype, Migratetype::Movable)
        {
            self.highest_zone = ZoneKind::Normal;
        }
        self
    }

    /// Reads a kernel's gfp bits. A recorded migratetype wins over the one the bits name.
    ///
    /// # Linux
    /// `gfp_zone`, `gfp_migratetype`, `gfp_to_alloc_flags`. `__GFP_ATOMIC`, where the kernel has it, means high and
    /// non-blocking.
    #[must_use]
    pub fn from_gfp(raw: u32, map: &GfpMap, order: Order, recorded: Option<Migratetype>) -> Request {
        let gfp = map.decode(raw);
        let highest_zone = if gfp.contains(Gfp::DMA) {
            ZoneKind::Dma
        } else if gfp.contains(Gfp::DMA32) {
            ZoneKind::Dma32
        } else if gfp.contains(Gfp::HIGHMEM.union(Gfp::MOVABLE)) {
            ZoneKind::Movable
        } else {
            ZoneKind::Normal
        };
        let migratetype = recorded.filter(|m| m.is_requested()).unwrap_or({
            if gfp.contains(Gfp::MOVABLE) {
                Migratetype::Movable
            } else if gfp.contains(Gfp::RECLAIMABLE) {
                Migratetype::Reclaimable
            } else {
                Migratetype::Unmovable
            }
        });
        let mut flags = RequestFlags::empty();
        let mut set = |when: bool, flag: RequestFlags| {
            if when {
                flags |= flag;
            }
        };
        set(gfp.intersects(Gfp::HIGH.union(Gfp::ATOMIC)), RequestFlags::HIGH);
        set(!gfp.contains(Gfp::DIRECT_RECLAIM), RequestFlags::NON_BLOCKING);
        set(gfp.contains(Gfp::NOMEMALLOC), RequestFlags::NO_RESERVE);
        // `MEMALLOC` also says that the task reclaims, which the bit does not.
        set(gfp.contains(Gfp::MEMALLOC) && !gfp.contains(Gfp::NOMEMALLOC), RequestFlags::MEMALLOC);
        set(gfp.contains(Gfp::KSWAPD_RECLAIM), RequestFlags::WAKE_RECLAIM);
        set(gfp.contains(Gfp::NORETRY), RequestFlags::NORETRY);
        set(gfp.contains(Gfp::RETRY_MAYFAIL), RequestFlags::RETRY_MAYFAIL);
        set(gfp.contains(Gfp::NOFAIL), RequestFlags::NOFAIL);
        set(gfp.contains(Gfp::THISNODE), RequestFlags::THIS_NODE);
        set(gfp.contains(Gfp::ZERO), RequestFlags::ZERO);
        set(gfp.contains(Gfp::COLD), RequestFlags::COLD);
        set(gfp.contains(Gfp::HARDWALL), RequestFlags::HARDWALL);
        set(gfp.contains(Gfp::WRITE), RequestFlags::WRITE);
        Request { order, highest_zone, migratetype, nodes: NodeMask::ALL, flags }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: GfpMap = GfpMap::LINUX_6_18;

    #[test]
    fn gfp_kernel_is_unmovable_and_may_wait() {
        let kernel = 1 << 6 | 1 << 7 | 1 << 10 | 1 << 11;
        let r = Request::from_gfp(kernel, &MAP, Order::ZERO, None);
        assert_eq!(r.migratetype, Migratetype::Unmovable);
        assert_eq!(r.highest_zone, ZoneKind::Normal);
        assert_eq!(r.flags, RequestFlags::WAKE_RECLAIM);
    }

    #[test]
    fn gfp_atomic_of_6_18_is_high_without_direct_reclaim() {
        let r = Request::from_gfp(1 << 5 | 1 << 11, &MAP, Order::ZERO, None);
        assert!(r.flags.contains(RequestFlags::HIGH | RequestFlags::NON_BLOCKING));
    }

    #[test]
    fn gfp_atomic_of_6_1_is_read_by_name() {
        let map = GfpMap::from_names([("__GFP_ATOMIC", 9), ("__GFP_KSWAPD_RECLAIM", 11)]);
        let r = Request::from_gfp(1 << 9 | 1 << 11, &map, Order::ZERO, None);
        assert!(r.flags.contains(RequestFlags::HIGH | RequestFlags::NON_BLOCKING));
    }

    #[test]
    fn user_pages_may_use_the_movable_zone_and_a_recorded_type_wins() {
        let user = 1 << 1 | 1 << 3;
        let r = Request::from_gfp(user, &MAP, Order::ZERO, None);
        assert_eq!((r.migratetype, r.highest_zone), (Migratetype::Movable, ZoneKind::Movable));
        let r = Request::from_gfp(user, &MAP, Order::ZERO, Some(Migratetype::Reclaimable));
        assert_eq!(r.migratetype, Migratetype::Reclaimable);
    }

    #[test]
    fn nomemalloc_overrules_memalloc() {
        let r = Request::from_gfp(1 << 17 | 1 << 19, &MAP, Order::ZERO, None);
        assert!(!r.flags.contains(RequestFlags::MEMALLOC));
    }

    #[test]
    fn a_request_without_direct_reclaim_cannot_wait_whatever_it_says_of_the_reserves() {
        let (atomic, nomemalloc) = (1 << 5 | 1 << 11, 1 << 19);
        let r = Request::from_gfp(atomic | nomemalloc, &MAP, Order::ZERO, None);
        assert!(r.flags.contains(RequestFlags::HIGH | RequestFlags::NON_BLOCKING | RequestFlags::NO_RESERVE));
        assert!(!r.flags.is_atomic());
        assert!(Request::from_gfp(atomic, &MAP, Order::ZERO, None).flags.is_atomic());
    }
}
