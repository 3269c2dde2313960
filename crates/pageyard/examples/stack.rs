//! Measures how deep the engine's calls reach down the stack: it paints the stack, calls, and looks what is left.
//!
//! `cargo run --release -p pageyard --example stack`

use pageyard::{
    Config, CpuId, CpuSet, Cx, FirmwareMap, Frames, Metadata, Migratetype, Order, PAGE_SIZE, Pageyard, Pfn,
    Request, RequestFlags, TryLock, ZoneId, ZoneLimits,
};
use std::hint::black_box;

/// Bytes that are painted.
const PAINTED: usize = 128 << 10;
/// The paint.
const PAINT: u64 = 0xabab_abab_abab_abab;
/// Bytes below the painter's own stack pointer that it leaves alone.
const OWN: usize = 256;

/// Returns the stack pointer.
#[inline(always)]
fn stack_pointer() -> usize {
    let at: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads a register.
    unsafe {
        std::arch::asm!("mov {}, rsp", out(reg) at, options(nomem, nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("mov {}, sp", out(reg) at, options(nomem, nostack));
    }
    at
}

/// Makes a call and prints how many bytes of stack it took, its own frame included; where its result goes is the
/// caller's.
#[inline(never)]
fn measured<T>(what: &str, call: &mut dyn FnMut() -> T) -> T {
    let top = stack_pointer();
    let words = || (top - PAINTED..top - OWN).step_by(8);
    for at in words() {
        // SAFETY: the thread's stack reaches further down, and nothing lives below the stack pointer.
        unsafe { (at as *mut u64).write_volatile(PAINT) };
    }
    let result = call();
    // SAFETY: as above.
    let kept = words().find(|at| unsafe { (*at as *const u64).read_volatile() } != PAINT);
    println!("{what}: {}", top - kept.unwrap_or(top - OWN));
    result
}

/// A machine of 1 GiB with some of what firmware reports.
fn firmware() -> FirmwareMap<32> {
    let mut map = FirmwareMap::new(ZoneLimits::X86_64);
    map.usable(0x1000..0x9_fc00).expect("room");
    map.usable(0x10_0000..0x4000_0000).expect("room");
    map.reserved(0x100_0000..0x180_0000).expect("room");
    map
}

fn measure() {
    let (mut firmware, config) = (firmware(), Config::new(4));
    let mut placed = None;
    measured("`place_metadata`, `FirmwareMap<32>`", &mut || {
        placed = Some(Pageyard::<TryLock>::place_metadata(&mut firmware, &config));
    });
    let frames = placed.expect("called").expect("room");
    let mut memory = vec![0; (frames.end - frames.start).as_bytes() as usize];
    let mut metadata = Some(Metadata::zeroed(&mut memory));
    let regions = firmware.regions().expect("a map");
    let map = regions.map();
    let yard = measured("`Pageyard::new`", &mut || {
        Pageyard::new(&map, config, TryLock, metadata.take().expect("once"))
    });
    let yard = yard.expect("an instance");

    let cx = Cx::on(CpuId(0));
    let single = Request::new(Order::ZERO, Migratetype::Movable);
    let mut held = Pfn(0);
    measured("an allocation that misses", &mut || held = yard.alloc(&cx, &single).expect("memory"));
    measured("an allocation that hits", &mut || {
        black_box(yard.alloc(&cx, &single).expect("memory"));
    });
    measured("a free into a list", &mut || yard.free(&cx, held, Order::ZERO).expect("held"));
    for order in [Order::of(5), Order::of(9), Order::of(12)] {
        let request = Request::new(order, Migratetype::Movable);
        measured(&format!("an allocation of order {order}"), &mut || {
            held = yard.alloc(&cx, &request).expect("memory")
        });
        measured(&format!("a free of order {order}"), &mut || yard.free(&cx, held, order).expect("held"));
    }
    let mut out = [Pfn(0); 64];
    measured("a bulk call of 64", &mut || {
        assert_eq!(yard.alloc_bulk(&cx, &single, &mut out), 64);
    });
    measured("a bulk free of 64", &mut || {
        yard.free_bulk(&cx, &out, Order::ZERO, &mut |_, why| panic!("{why}"));
    });
    let mut exact = Pfn(0);
    measured("`alloc_exact` of 13 frames", &mut || {
        exact = yard.alloc_exact(&cx, Frames(13), Order::ZERO, &single).expect("memory");
    });
    measured("`free_range` of them", &mut || yard.free_range(&cx, exact, Frames(13)).expect("held"));
    let hurried = single.with(RequestFlags::NON_BLOCKING);
    let mut all = Vec::with_capacity(1 << 18);
    measured("an allocation, with every frame taken one by one", &mut || {
        while let Ok(pfn) = yard.alloc(&cx, &hurried) {
            all.push(pfn);
        }
    });
    measured("a refusal of a request that may wait", &mut || {
        black_box(yard.alloc(&cx, &Request::new(Order::of(9), Migratetype::Movable)).is_err());
    });
    measured("a free, with every frame given back one by one", &mut || {
        all.drain(..).for_each(|pfn| yard.free(&cx, pfn, Order::ZERO).expect("held"));
    });
    measured("a drain", &mut || {
        black_box(yard.drain(CpuSet::All));
    });
    measured("`zone_stats`", &mut || {
        black_box(yard.zone_stats(ZoneId(0)));
    });
    measured("an audit", &mut || assert!(yard.audit().expect("clean").is_conserved()));
}

fn main() {
    let thread = std::thread::Builder::new().stack_size(2 * PAINTED + PAGE_SIZE as usize);
    let measuring = thread.spawn(measure).expect("a thread");
    measuring.join().expect("measured");
}
