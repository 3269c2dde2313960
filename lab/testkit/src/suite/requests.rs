//! Requests: the bad ones, and those that name zones and nodes.

use super::steps::{CPU0, any, fill, must_alloc, sound};
use crate::engine::Build;
use crate::maps::{self, normal};
use crate::session::Session;
use pageyard::{
    AllocError, BadRequest, CpuId, CpuSet, Cx, FreeError, Migratetype, NodeId, NodeMask, Order,
    PageAllocator, Pfn, Request, RequestFlags, ZoneKind,
};

/// Each bad request is refused as such, even when memory is full, and changes nothing.
pub fn bad_requests_are_named_and_change_nothing<B: Build>(build: &B) {
    let mut session = Session::new(build, &[normal(0, 2048)], 2);
    for full in [false, true] {
        let before = session.engine.audit().expect("a sound engine");
        let mut bad = |request: &Request, why: BadRequest| {
            for cpu in [0, 1] {
                let answer = sound(session.alloc(CpuId(cpu), request));
                assert_eq!(answer, Err(AllocError::BadRequest(why)), "memory full: {full}");
            }
            let mut out = [Pfn(7); 3];
            assert_eq!(session.engine.alloc_bulk(&Cx::on(CPU0), request, &mut out), 0);
        };
        for state in [Migratetype::HighAtomic, Migratetype::Cma, Migratetype::Isolate] {
            bad(&Request { migratetype: state, ..any(Order::ZERO) }, BadRequest::Migratetype);
        }
        let largest = build.largest_order();
        if let Some(order) = largest.larger() {
            bad(&any(order), BadRequest::OrderTooLarge { order, largest });
            bad(&any(Order::MAX), BadRequest::OrderTooLarge { order: Order::MAX, largest });
        }
        bad(&Request { highest_zone: ZoneKind::Dma32, ..any(Order::ZERO) }, BadRequest::NoZone);
        bad(&Request { nodes: NodeMask::only(NodeId(1)), ..any(Order::ZERO) }, BadRequest::NoZone);
        bad(&Request { nodes: NodeMask(0), ..any(Order::ZERO) }, BadRequest::NoZone);
        assert_eq!(session.engine.audit(), Ok(before), "a bad request changed something");
        fill(&mut session, &any(Order::ZERO));
    }
    sound(session.finish());
}

/// A CPU that does not exist gets nothing, frees nothing and can be drained.
pub fn unknown_cpus_are_refused<B: Build>(build: &B) {
    let mut session = Session::new(build, &[normal(0, 2048)], 2);
    must_alloc(&mut session, CPU0, &any(Order::ZERO));
    for cpu in [2, 3, 64, u32::MAX].map(CpuId) {
        let answer = sound(session.alloc(cpu, &any(Order::ZERO)));
        assert_eq!(answer, Err(AllocError::BadRequest(BadRequest::NoSuchCpu)));
        assert_eq!(sound(session.free_held(cpu, 0)), Err(FreeError::NoSuchCpu));
        assert_eq!(sound(session.bulk_alloc(cpu, &any(Order::ZERO), 5)), 0);
        let held = session.held[0].pfn;
        let mut refused = Vec::new();
        session
            .engine
            .free_bulk(&Cx::on(cpu), &[held, held], Order::ZERO, &mut |pfn, why| refused.push((pfn, why)));
        assert_eq!(refused, [(held, FreeError::NoSuchCpu); 2]);
        session.drain(CpuSet::One(cpu));
        sound(session.check());
    }
    sound(session.finish());
}

/// No request gets a frame of a zone above its highest, down to the last frame of those it may use.
pub fn the_highest_zone_is_respected<B: Build>(build: &B) {
    for highest_zone in [ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal, ZoneKind::Movable] {
        for order in [0, 3, 9].map(Order::of) {
            let mut session = Session::new(build, &maps::numa().regions, 2);
            let request = Request { highest_zone, ..any(order) };
            let there: usize = session.model.allowed(&request).map(|z| z.aligned(order).count()).sum();
            let (granted, why) = fill(&mut session, &request);
            assert_eq!(granted, there as u64, "blocks of order {order} up to {highest_zone}");
            assert_eq!(why, AllocError::OutOfMemory);
            sound(session.finish());
        }
    }
    // Contents that cannot move never come into the movable zone.
    let mut session = Session::new(build, &maps::numa().regions, 2);
    let unmovable = super::steps::of_type(Order::ZERO, Migratetype::Unmovable);
    let (granted, _) = fill(&mut session, &unmovable);
    let movable =
        session.model.zones().iter().find(|z| z.span.kind == ZoneKind::Movable).expect("numa has one");
    assert_eq!(granted, (session.model.managed - movable.span.managed).0);
    sound(session.finish());
}

/// No request gets a frame of a node that it does not allow.
pub fn node_masks_are_respected<B: Build>(build: &B) {
    for mask in [0b01, 0b10, 0b11, 0b110, u64::MAX] {
        let mut session = Session::new(build, &maps::numa().regions, 2);
        let request = Request { nodes: NodeMask(mask), ..any(Order::ZERO) };
        let there: u64 = session.model.allowed(&request).map(|z| z.span.managed.0).sum();
        let (granted, why) = fill(&mut session, &request);
        assert_eq!((granted, why), (there, AllocError::OutOfMemory), "mask {mask:#b}");
        sound(session.finish());
    }
}

/// A request that keeps to one node stays there to the last frame, whichever of several the engine takes as the first.
pub fn this_node_is_one_node<B: Build>(build: &B) {
    for mask in [0b01, 0b10, 0b11, u64::MAX] {
        for cpu in [0, 1].map(CpuId) {
            let mut session = Session::new(build, &maps::numa().regions, 2);
            let request = Request { nodes: NodeMask(mask), ..any(Order::ZERO) }.with(RequestFlags::THIS_NODE);
            let why = loop {
                if let Err(why) = sound(session.alloc(cpu, &request)) {
                    break why;
                }
            };
            let node = |pfn| session.model.zone(pfn).map(|z| z.span.node);
            let home = node(session.held[0].pfn).expect("the block was judged");
            assert!(session.held.iter().all(|b| node(b.pfn) == Some(home)), "mask {mask:#b}: not one node");
            let of_home = session.model.zones().iter().filter(|z| z.span.node == home);
            let there: u64 = of_home.map(|z| z.span.managed.0).sum();
            assert_eq!((session.held.len() as u64, why), (there, AllocError::OutOfMemory), "mask {mask:#b}");
            sound(session.finish());
        }
    }
}
