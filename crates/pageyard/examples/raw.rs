//! An instance that borrows the memory of its metadata, in ten lines: what there is, the size query, the memory, the
//! instance.

use pageyard::{Metadata, Order, Pageyard, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let builder = Pageyard::builder().cpus(4).usable(0x10_0000..0x1010_0000);
    let mut memory = vec![0; builder.layout()?.layout.size()];
    let yard = builder.build_in(Metadata::zeroed(&mut memory))?;

    let (cpu, order) = (yard.cpu(3)?, Order::of(3));
    let pfn = cpu.alloc(Request::of(order).movable())?;
    println!("eight frames from {pfn} on");
    cpu.free(pfn, order)?;
    println!("freed again: {}", cpu.free(pfn, order).unwrap_err());
    Ok(())
}
