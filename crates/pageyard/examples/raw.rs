//! An instance that borrows the memory of its metadata, in ten lines: the size query, the memory, the instance.

use pageyard::{
    Config, CpuId, Cx, Frames, MemoryMap, Metadata, Migratetype, NodeId, Order, Pageyard, Pfn, Region,
    Request, TryLock, ZoneKind,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let regions = [Region::managed(Pfn(0x100), Frames(1 << 16), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions)?;
    let config = Config::new(4);
    let mut memory = vec![0; Pageyard::<TryLock>::layout(&map, &config)?.layout.size()];
    let yard = Pageyard::new(&map, config, TryLock, Metadata::zeroed(&mut memory))?;

    let cx = Cx::on(CpuId(0));
    let pfn = yard.alloc(&cx, &Request::new(Order::of(3), Migratetype::Movable))?;
    println!("eight frames from {pfn} on");
    yard.free(&cx, pfn, Order::of(3))?;
    println!("freed again: {}", yard.free(&cx, pfn, Order::of(3)).unwrap_err());
    Ok(())
}
