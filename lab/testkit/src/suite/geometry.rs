//! Memory maps that engines get wrong.

use super::steps::{CPU0, any, fill, must_alloc, sound};
use crate::engine::Build;
use crate::maps::{self, normal};
use crate::session::Session;
use pageyard::{AllocError, MapError, MemoryMap, Order, Region};

/// A map of no frames is refused by value, and never reaches the engine.
pub fn no_frames_are_refused<B: Build>(_: &B) {
    let unmanaged = [Region { managed: false, ..normal(0, 1024) }];
    for regions in [&[][..], &[normal(0, 0)][..], &unmanaged[..]] {
        assert_eq!(MemoryMap::new(regions).err(), Some(MapError::NoFrames));
    }
}

/// On each odd map all frames can be allocated, on one CPU or many, and all merge again.
pub fn corner_maps_work<B: Build>(build: &B) {
    for map in maps::corners() {
        for cpus in [1, 4] {
            let mut session = Session::new(build, &map.regions, cpus);
            sound(session.check());
            let (granted, why) = fill(&mut session, &any(Order::ZERO));
            assert_eq!(
                (granted, why),
                (session.model.managed.0, AllocError::OutOfMemory),
                "map {}",
                map.name
            );
            sound(session.finish().map_err(|e| format!("map {}: {e}", map.name)));
        }
    }
}

/// The only frame of a machine comes and goes.
pub fn order_0_from_one_frame<B: Build>(build: &B) {
    for start in [0, 1, 511, 512, 1 << 30] {
        let mut session = Session::new(build, &[normal(start, 1)], 2);
        for _ in 0..100 {
            assert_eq!(must_alloc(&mut session, CPU0, &any(Order::ZERO)).0, start);
            assert_eq!(sound(session.alloc(CPU0, &any(Order::ZERO))), Err(AllocError::OutOfMemory));
            assert_eq!(sound(session.alloc(CPU0, &any(Order::of(1)))), Err(AllocError::OutOfMemory));
            assert_eq!(sound(session.free_held(CPU0, 0)), Ok(()));
        }
        sound(session.finish());
    }
}

/// Every block of every order that is granted lies within the managed frames of one zone, and each such block can be
/// allocated.
pub fn blocks_do_not_cross_holes_or_zones<B: Build>(build: &B) {
    for map in maps::corners() {
        for order in Order::ZERO.up_to(build.largest_order().min(Order::of(10))) {
            let mut session = Session::new(build, &map.regions, 1);
            let there: usize = session.model.zones().iter().map(|z| z.aligned(order).count()).sum();
            let (granted, _) = fill(&mut session, &any(order));
            assert_eq!(granted, there as u64, "blocks of order {order} of map {}", map.name);
            sound(session.finish());
        }
    }
}
