//! A hypervisor backs its guests: huge pages first, 4 KiB frames where there are none left.

use pageyard::{AllocError, Cpu, Order, PageAllocator, Pageyard, Pfn, Request};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The memory of one guest, and, where it got less than it wanted, why.
struct Guest {
    blocks: Vec<(Pfn, Order)>,
    no_huge: Option<AllocError>,
    no_frame: Option<AllocError>,
}

fn back(host: Cpu<'_, impl PageAllocator>, bytes: u64) -> Guest {
    let mut left = bytes / 4096;
    let mut guest = Guest { blocks: Vec::new(), no_huge: None, no_frame: None };
    for (order, refusal) in [(Order::HUGE, &mut guest.no_huge), (Order::ZERO, &mut guest.no_frame)] {
        while left >= order.frames().0 && refusal.is_none() {
            match host.alloc(Request::of(order).movable().waiting()) {
                Ok(pfn) => {
                    guest.blocks.push((pfn, order));
                    left -= order.frames().0;
                }
                Err(why) => *refusal = Some(why),
            }
        }
    }
    guest
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let builder = Pageyard::builder().usable(0..0x9_fc00).usable(MIB..3 * GIB).usable(4 * GIB..5 * GIB);
    // Our image, and ACPI's tables.
    let yard = builder.reserved(16 * MIB..44 * MIB).reserved(3 * GIB - 64 * 1024..3 * GIB).build()?;
    let host = yard.cpu(0)?;

    let guests = [GIB, 2 * GIB + 12 * 1024, 2 * GIB].map(|bytes| back(host, bytes));
    for (nr, guest) in guests.iter().enumerate() {
        let huge = guest.blocks.iter().filter(|b| b.1 == Order::HUGE).count();
        println!("guest {nr}: {huge} huge pages and {} of 4 KiB", guest.blocks.len() - huge);
        guest.no_huge.inspect(|why| println!("  no more huge pages: {why}"));
        guest.no_frame.inspect(|why| println!("  it has less than it wanted: {why}"));
    }
    assert!(guests[0].no_huge.is_none() && guests[1].no_frame.is_none() && guests[2].no_frame.is_some());
    for (pfn, order) in guests.into_iter().flat_map(|guest| guest.blocks) {
        host.free(pfn, order)?;
    }
    assert!(yard.audit()?.is_conserved());
    Ok(())
}
