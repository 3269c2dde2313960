//! A request as a guest's module reads it.

use pageyard_core::{Migratetype, NodeMask, Order, Request, RequestFlags, ZoneKind};

/// May use a part of the reserve: `__GFP_HIGH`.
pub const HIGH: u16 = 1 << 0;
/// May wait: `__GFP_DIRECT_RECLAIM`.
pub const DIRECT: u16 = 1 << 1;
/// May wake the background reclaimer: `__GFP_KSWAPD_RECLAIM`.
pub const KSWAPD: u16 = 1 << 2;
/// Gives up early: `__GFP_NORETRY`.
pub const NORETRY: u16 = 1 << 3;
/// Gives up late: `__GFP_RETRY_MAYFAIL`.
pub const MAYFAIL: u16 = 1 << 4;
/// By a task that is reclaiming: `PF_MEMALLOC`.
pub const MEMALLOC: u16 = 1 << 5;
/// From the CPU's node only: `__GFP_THISNODE`.
pub const THIS_NODE: u16 = 1 << 6;
/// A compound page: `__GFP_COMP`.
pub const COMPOUND: u16 = 1 << 7;

// Bits 8 and 9 are the judge's: what compaction may do with the block.

/// Must not use the reserves: `__GFP_NOMEMALLOC`.
pub const NOMEMALLOC: u16 = 1 << 10;
/// By a task that is being killed for its memory: `tsk_is_oom_victim`.
pub const VICTIM: u16 = 1 << 11;

/// The flags that mean the same to a guest and to the allocators here; [`DIRECT`] and [`COMPOUND`] mean the reverse.
const FLAGS: [(u16, RequestFlags); 8] = [
    (HIGH, RequestFlags::HIGH),
    (KSWAPD, RequestFlags::WAKE_RECLAIM),
    (NORETRY, RequestFlags::NORETRY),
    (MAYFAIL, RequestFlags::RETRY_MAYFAIL),
    (MEMALLOC, RequestFlags::MEMALLOC),
    (THIS_NODE, RequestFlags::THIS_NODE),
    (NOMEMALLOC, RequestFlags::NO_RESERVE),
    (VICTIM, RequestFlags::OOM_VICTIM),
];

/// A request for one block, in a guest's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuestRequest {
    /// The order of the block, at most 10.
    pub order: u8,
    /// 0 unmovable, 1 movable, 2 reclaimable.
    pub migratetype: u8,
    /// How hard to try.
    pub flags: u16,
    /// The highest zone that may serve: 0 DMA, 1 DMA32, 2 Normal, 3 Movable.
    pub zone: u8,
    /// The nodes that may serve, a bit each; 0: any.
    pub nodes: u8,
}

impl GuestRequest {
    /// Returns the flags of a request; whether its block is a compound page is not among them.
    #[must_use]
    pub fn flags_of(request: &Request) -> u16 {
        let direct = if request.flags.contains(RequestFlags::NON_BLOCKING) { 0 } else { DIRECT };
        let meant = FLAGS.into_iter().filter(|(_, means)| request.flags.contains(*means));
        meant.fold(direct, |flags, (flag, _)| flags | flag)
    }

    /// Returns what it asks of an allocator here.
    #[must_use]
    pub fn request(&self) -> Request {
        let has = FLAGS.into_iter().filter(|(flag, _)| self.flags & flag != 0);
        let mut flags = has.fold(RequestFlags::empty(), |flags, (_, means)| flags | means);
        if self.order > 0 && self.flags & COMPOUND == 0 {
            flags |= RequestFlags::LOOSE;
        }
        if self.flags & DIRECT == 0 {
            flags |= RequestFlags::NON_BLOCKING;
        }
        Request {
            order: Order::of(self.order),
            highest_zone: [ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal, ZoneKind::Movable]
                [usize::from(self.zone)],
            migratetype: Migratetype::REQUESTED[usize::from(self.migratetype)],
            nodes: if self.nodes == 0 { NodeMask::ALL } else { NodeMask(u64::from(self.nodes)) },
            flags,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_a_request_comes_back_as_it_went() {
        for (flag, means) in FLAGS {
            let asked = GuestRequest { order: 0, migratetype: 1, flags: flag | DIRECT, zone: 2, nodes: 0 };
            assert_eq!(asked.request().flags, means);
            assert_eq!(GuestRequest::flags_of(&asked.request()), flag | DIRECT);
        }
        let waits = GuestRequest { order: 3, migratetype: 0, flags: 0, zone: 0, nodes: 0 };
        assert_eq!(waits.request().flags, RequestFlags::NON_BLOCKING | RequestFlags::LOOSE);
        assert_eq!(GuestRequest::flags_of(&waits.request()), 0);
    }
}
