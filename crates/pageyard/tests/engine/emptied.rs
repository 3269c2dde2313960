//! A pageblock whose last frame is freed on the CPU that works on it: it serves that CPU again, and every other request
//! still finds it.

use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Config, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator, Pageyard,
    Pfn, Region, Request, RequestFlags, TryLock, ZoneKind,
};

const BLOCK: u64 = 512;

struct Machine(OwnedPageyard<TryLock>);

impl Machine {
    /// Makes a machine of two CPUs without lists.
    fn new(pageblocks: u64) -> Machine {
        let regions = [Region::managed(Pfn(0), Frames(pageblocks * BLOCK), NodeId(0), ZoneKind::Normal)];
        let map = MemoryMap::new(&regions).unwrap();
        let watermark = WatermarkKnobs {
            min_free_kbytes: Some(0),
            watermark_scale_factor: 0,
            ..WatermarkKnobs::default()
        };
        let config = Config { pcp: false, watermark, ..Config::new(2) };
        Machine(Pageyard::owned(&map, config, TryLock).unwrap())
    }

    /// Takes what a request gets that may not wait, so that nothing is swept for it.
    fn take(&self, cpu: u32, order: u8, ty: Migratetype) -> Option<Pfn> {
        let flags = RequestFlags::MEMALLOC | RequestFlags::NON_BLOCKING;
        self.0.alloc(&Cx::on(CpuId(cpu)), &Request::new(Order::of(order), ty).with(flags)).ok()
    }

    fn movable(&self, cpu: u32, order: u8) -> Option<Pfn> {
        self.take(cpu, order, Migratetype::Movable)
    }

    fn free(&self, cpu: u32, pfn: Pfn, order: u8) {
        self.0.free(&Cx::on(CpuId(cpu)), pfn, Order::of(order)).unwrap();
    }

    /// Leaves CPU 0 a pageblock that it emptied; returns its first frame.
    fn emptied(&self) -> Pfn {
        let one = self.movable(0, 0).unwrap();
        self.free(0, one, 0);
        Pfn(one.0 / BLOCK * BLOCK)
    }
}

#[test]
fn it_serves_its_cpu_again() {
    let m = Machine::new(8);
    for order in [0, 3, 6, 8] {
        let first = m.movable(0, order).unwrap();
        m.free(0, first, order);
        assert_eq!(m.movable(0, order), Some(first), "order {order}");
        m.free(0, first, order);
    }
    m.0.audit().unwrap();
}

#[test]
fn a_request_for_a_pageblock_or_a_run_of_them_gets_it() {
    for ty in [Migratetype::Movable, Migratetype::Unmovable] {
        let m = Machine::new(4);
        m.emptied();
        assert!((0..4).all(|_| m.take(1, 9, ty).is_some()), "{ty:?}");
        m.0.audit().unwrap();
        let m = Machine::new(4);
        m.emptied();
        assert!(m.take(1, 11, ty).is_some(), "{ty:?}: a run of all four");
        m.0.audit().unwrap();
    }
}

#[test]
fn another_cpu_and_another_type_find_a_frame_in_it() {
    for (cpu, ty) in [(1, Migratetype::Movable), (0, Migratetype::Unmovable), (1, Migratetype::Reclaimable)] {
        let m = Machine::new(2);
        let first = m.emptied();
        let other = m.movable(1, 9).unwrap();
        assert_ne!(other, first, "the index has the other one");
        assert!(m.take(cpu, 0, ty).is_some_and(|pfn| pfn.0 / BLOCK == first.0 / BLOCK), "{cpu} {ty:?}");
        m.0.audit().unwrap();
    }
}

#[test]
fn pageblocks_that_are_partly_used_come_first_where_few_are_free() {
    let m = Machine::new(64);
    let first = m.emptied();
    // Of all but three pageblocks all is taken, and of one all but a frame, on the other CPU.
    let held: Vec<Pfn> = (0..61).map(|_| m.movable(1, 9).unwrap()).collect();
    assert!(!held.contains(&first));
    let frames: Vec<Pfn> = (0..BLOCK).map(|_| m.movable(1, 0).unwrap()).collect();
    let (part, back) = (frames[0].0 / BLOCK, frames[7]);
    assert!(frames.iter().all(|pfn| pfn.0 / BLOCK == part) && part != first.0 / BLOCK);
    // The other CPU moves on to other pageblocks, so that the index has this one.
    let m1 = m.movable(1, 0);
    m.free(1, back, 0);
    let one = m.movable(0, 0).unwrap();
    assert_ne!(one.0 / BLOCK, first.0 / BLOCK, "{one} {m1:?}: a whole pageblock was broken up");
    m.0.audit().unwrap();
}

#[test]
fn a_cpu_that_does_not_work_on_it_puts_it_back_on_its_bin() {
    let m = Machine::new(4);
    let one = m.movable(0, 0).unwrap();
    m.free(1, one, 0);
    // Nothing is let go of for a run that the index has.
    assert!(m.movable(1, 11).is_some());
    m.0.audit().unwrap();
}

#[test]
fn cpus_begin_with_pageblocks_far_from_each_other() {
    let m = Machine::new(64);
    let (first, other) = (m.movable(0, 9).unwrap(), m.movable(1, 9).unwrap());
    assert_eq!(first.0.abs_diff(other.0), 32 * BLOCK, "{first} {other}: half of memory apart");
    // Each goes on where it was.
    assert_eq!(m.movable(1, 9), Some(Pfn(other.0 + BLOCK)));
    m.0.audit().unwrap();
}
