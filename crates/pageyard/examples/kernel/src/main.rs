//! A kernel that boots, with Pageyard as its frame allocator: it hands the firmware's map over, allocates on each of
//! its CPUs and in interrupts, maps pages, adds memory later, and checks that no frame had two owners and none is lost.
//!
//! `./run` builds it and boots it in QEMU. It also builds for `aarch64-unknown-none` and `riscv64gc-unknown-none-elf`,
//! with one CPU and without page tables and interrupts.

#![no_std]
#![no_main]

#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "virt.rs")]
mod machine;

use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use pageyard::proctext::Buddyinfo;
use pageyard::{
    AllocError, BadRequest, CpuId, FirmwareError, FirmwareMap, FreeError, KernelFrames, Order, PAGE_SIZE,
    Pfn, PhysAddr, RangeError,
};

/// The kernel's frames.
pub static FRAMES: KernelFrames = KernelFrames::new();

/// Pairs of an allocation and a free that each CPU makes.
const PAIRS: u64 = 200_000;

/// Blocks that a CPU holds at a time.
const HELD: usize = 64;

/// Where the machine prints.
struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(machine::put);
        Ok(())
    }
}

/// Prints a line.
#[macro_export]
macro_rules! say {
    ($($what:tt)*) => {
        {
            let _ = core::fmt::Write::write_fmt(&mut $crate::Console, format_args!("{}\n", format_args!($($what)*)));
        }
    };
}

/// Why the kernel gives up.
#[derive(Debug)]
pub enum Failed {
    Map(FirmwareError),
    Request(AllocError),
    Free(FreeError),
    Add(RangeError),
    Cpu(BadRequest),
    /// A frame did not hold what its owner wrote.
    TwoOwners(Pfn),
    /// Something else.
    Said(&'static str),
}

macro_rules! from {
    ($($error:ty => $variant:ident),*) => {
        $(impl From<$error> for Failed {
            fn from(error: $error) -> Failed {
                Failed::$variant(error)
            }
        })*
    };
}
from! { FirmwareError => Map, AllocError => Request, FreeError => Free, RangeError => Add, BadRequest => Cpu }

/// The machine's memory.
pub struct Memory {
    /// The usable ranges, and those of them that are in use.
    pub firmware: FirmwareMap<32>,
    /// The first address that the page tables of the start do not reach.
    pub mapped: u64,
    /// Memory that is there and reserved in the map: it is added later.
    pub later: core::ops::Range<u64>,
}

/// Sets the allocator up: ten lines, and the one promise that only the kernel can make.
fn set_up(memory: &mut Memory, cpus: u32) -> Result<(), FirmwareError> {
    let place = KernelFrames::place(&mut memory.firmware, cpus, memory.mapped)?;
    let bytes = ((place.end.0 - place.start.0) * PAGE_SIZE) as usize;
    // SAFETY: the frames are usable memory that nothing else has, and lie at their addresses.
    let metadata = unsafe { core::slice::from_raw_parts_mut(place.start.address().0 as *mut u8, bytes) };
    FRAMES.init(&memory.firmware, cpus, metadata)?;
    say!("{} KiB of metadata at {:#x}", bytes >> 10, place.start.address().0);
    Ok(())
}

/// Runs on the first CPU: sets up, exercises the allocator, adds memory, and audits.
pub fn run(mut memory: Memory, cpus: u32) -> Result<(), Failed> {
    set_up(&mut memory, cpus)?;
    let yard = FRAMES.yard().ok_or(Failed::Said("it was set up"))?;
    say!("{}", Buddyinfo(yard));
    machine::map_pages()?;
    machine::start_interrupts()?;
    machine::with_the_other_cpu(|| exercise(machine::cpu()))?;
    let before = yard.audit().map_err(|_| Failed::Said("the audit found a fault"))?;
    let bytes = memory.later.end - memory.later.start;
    // SAFETY: it was reserved until now, and nothing uses it.
    unsafe { FRAMES.add(machine::cpu(), PhysAddr(memory.later.start), bytes)? };
    let after = yard.audit().map_err(|_| Failed::Said("the audit found a fault"))?;
    if after.managed.0 - before.managed.0 != bytes / PAGE_SIZE || !after.is_conserved() {
        return Err(Failed::Said("frames are missing"));
    }
    say!("{} MiB added later, {} interrupts allocated", bytes >> 20, machine::interrupts());
    say!("{}", Buddyinfo(yard));
    Ok(())
}

/// Operations so far, of all CPUs.
static DONE: AtomicU64 = AtomicU64::new(0);

/// Allocates and frees blocks of up to eight frames in some order; each is stamped by its owner.
pub fn exercise(cpu: CpuId) -> Result<(), Failed> {
    let frames = FRAMES.cpu(cpu)?;
    let mut held: [Option<(Pfn, Order, u64)>; HELD] = [None; HELD];
    let mut random = u64::from(cpu.0) + 1;
    for pair in 0..PAIRS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let slot = &mut held[(random >> 33) as usize % HELD];
        if let Some((pfn, order, stamp)) = slot.take() {
            // SAFETY: the block is this CPU's.
            if unsafe { at(pfn).read_volatile() } != stamp {
                return Err(Failed::TwoOwners(pfn));
            }
            frames.free(pfn, order)?;
        }
        let (order, stamp) = (Order::of((random >> 60) as u8 % 4), pair << 8 | u64::from(cpu.0));
        let pfn = frames.alloc(order)?;
        // SAFETY: as above.
        unsafe { at(pfn).write_volatile(stamp) };
        *slot = Some((pfn, order, stamp));
        DONE.fetch_add(1, Relaxed);
    }
    held.into_iter().flatten().try_for_each(|(pfn, order, _)| frames.free(pfn, order))?;
    Ok(())
}

/// Returns where a frame lies: at its address.
pub fn at(pfn: Pfn) -> *mut u64 {
    pfn.address().0 as *mut u64
}

/// Ends as the outcome says.
pub fn end(outcome: Result<(), Failed>) -> ! {
    match outcome {
        Ok(()) => say!("done: {} pairs", DONE.load(Relaxed)),
        Err(ref why) => say!("failed: {why:?}"),
    }
    machine::exit(outcome.is_ok())
}

#[panic_handler]
fn panic(why: &PanicInfo<'_>) -> ! {
    say!("{why}");
    machine::exit(false)
}
