//! Requests that are built up, call by call.

use crate::memmap::ZoneKind;
use crate::migratetype::Migratetype;
use crate::request::{NodeMask, Request, RequestFlags};
use crate::units::{NodeId, Order};

impl Request {
    /// Makes a request for a block of an order known at compile time, for contents that do not move, that is served at
    /// once or not at all. The calls below say more.
    ///
    /// ```
    /// use pageyard_core::{NodeId, Request};
    ///
    /// let request = Request::order(9).movable().node(NodeId(1)).zeroed();
    /// ```
    ///
    /// # Panics
    /// As [`Order::of`].
    #[must_use]
    #[inline]
    pub const fn order(order: u8) -> Request {
        Request::of(Order::of(order))
    }

    /// The same for any order.
    #[must_use]
    #[inline]
    pub const fn of(order: Order) -> Request {
        Request::new(order, Migratetype::Unmovable).with(RequestFlags::NON_BLOCKING)
    }

    /// For contents that can move.
    #[must_use]
    #[inline]
    pub const fn movable(mut self) -> Request {
        if matches!(self.highest_zone, ZoneKind::Normal) {
            self.highest_zone = ZoneKind::Movable;
        }
        self.migratetype = Migratetype::Movable;
        self
    }

    /// For contents that can be given up.
    #[must_use]
    #[inline]
    pub const fn reclaimable(mut self) -> Request {
        self.migratetype = Migratetype::Reclaimable;
        self.limited()
    }

    /// From zones of this kind and lower ones only.
    #[must_use]
    #[inline]
    pub const fn below(mut self, highest: ZoneKind) -> Request {
        self.highest_zone = highest;
        self.limited()
    }

    /// From this node only.
    #[must_use]
    #[inline]
    pub const fn node(mut self, node: NodeId) -> Request {
        self.nodes = NodeMask::only(node);
        self
    }

    /// With zeros in it.
    #[must_use]
    #[inline]
    pub const fn zeroed(self) -> Request {
        self.with(RequestFlags::ZERO)
    }

    /// May wait: for lists to be drained, for reclaim and compaction.
    #[must_use]
    #[inline]
    pub const fn waiting(self) -> Request {
        self.without(RequestFlags::NON_BLOCKING)
    }
}

impl From<Order> for Request {
    #[inline]
    fn from(order: Order) -> Request {
        Request::of(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_up_is_what_the_parts_say() {
        let plain = Request::from(Order::ZERO);
        assert_eq!(plain, Request::new(Order::ZERO, Migratetype::Unmovable).with(RequestFlags::NON_BLOCKING));
        assert_eq!(plain.waiting(), Request::new(Order::ZERO, Migratetype::Unmovable));
        assert_eq!(plain.waiting().movable(), Request::new(Order::ZERO, Migratetype::Movable));
        assert_eq!(plain.movable().reclaimable().highest_zone, ZoneKind::Normal);
        let low = Request::order(9).below(ZoneKind::Dma32).movable().node(NodeId(1)).zeroed();
        assert_eq!((low.highest_zone, low.nodes), (ZoneKind::Dma32, NodeMask(2)));
        assert!(low.flags.contains(RequestFlags::ZERO) && low.order == Order::HUGE);
        assert_eq!(plain.below(ZoneKind::Movable).highest_zone, ZoneKind::Normal);
    }
}
