//! A PC with two CPUs, as QEMU starts it through the PVH entry: memory below 4 GiB at its addresses.

mod apic;
mod paging;

use crate::{FRAMES, Failed, Memory, say};
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use pageyard::{CpuId, FirmwareError, FirmwareMap, Order, Pfn, ZoneLimits};
use x86_64::VirtAddr;
use x86_64::structures::idt::InterruptDescriptorTable;

pub use paging::map_pages;

global_asm!(include_str!("boot.s"), options(att_syntax));

unsafe extern "C" {
    static kernel_start: u8;
    static kernel_end: u8;
    static second_start: u8;
    static second_end: u8;
    fn timer_entry();
}

/// The page tables of the start reach so far.
const MAPPED: u64 = 1 << 32;

/// How much memory is added later.
const LATER: u64 = 64 << 20;

/// Where the second CPU starts: a page below 1 MiB.
const SECOND: u64 = 0x8000;

/// The number of the timer's interrupt.
const TIMER: u8 = 32;

/// The loader's description of the machine (`hvm_start_info`, version 1).
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    ranges: u64,
    range_count: u32,
}

#[repr(C)]
struct Range {
    start: u64,
    bytes: u64,
    kind: u32,
    reserved: u32,
}

#[unsafe(no_mangle)]
extern "C" fn first_cpu(info: &StartInfo) -> ! {
    crate::end(memory(info).and_then(|memory| crate::run(memory, 2)))
}

fn memory(info: &StartInfo) -> Result<Memory, Failed> {
    if info.magic != 0x336e_c578 || info.version < 1 {
        return Err(Failed::Said("no loader of PVH guests started it"));
    }
    // SAFETY: the loader promises that they are there.
    let ranges =
        unsafe { core::slice::from_raw_parts(info.ranges as *const Range, info.range_count as usize) };
    let usable = || ranges.iter().filter(|range| range.kind == 1).map(|range| (range.start, range.bytes));
    let end = usable().map(|(start, bytes)| start + bytes).filter(|end| *end <= MAPPED).max();
    let end = end.ok_or(FirmwareError::NothingUsable)?;
    let later = end - LATER..end;
    let mut firmware = FirmwareMap::new(ZoneLimits::X86_64);
    for (start, bytes) in usable().filter(|(start, bytes)| start + bytes <= MAPPED) {
        firmware.usable(start..start + bytes)?;
    }
    // The first MiB has the firmware's data, and the page where the second CPU starts.
    firmware.reserved(0..1 << 20)?.reserved(later.clone())?;
    firmware.reserved((&raw const kernel_start) as u64..(&raw const kernel_end) as u64)?;
    Ok(Memory { firmware, mapped: MAPPED, later })
}

fn out(port: u16, byte: u8) {
    // SAFETY: the ports are those of the serial line, of the interrupt controller that is not used, and of the exit.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nostack, nomem)) };
}

pub fn put(byte: u8) {
    out(0x3f8, byte);
}

/// Ends the machine: QEMU's exit status is 33 or 35.
pub fn exit(is_good: bool) -> ! {
    out(0xf4, if is_good { 16 } else { 17 });
    loop {
        x86_64::instructions::hlt();
    }
}

pub fn cpu() -> CpuId {
    CpuId(apic::number())
}

/// Interrupts that have allocated.
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

pub fn interrupts() -> u64 {
    INTERRUPTS.load(Relaxed)
}

/// The frame that the timer's interrupt has, by CPU; 0 is none.
static KEPT: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Allocates a frame, and frees the one of the interrupt before: in the middle of whatever the CPU was doing.
#[unsafe(no_mangle)]
extern "C" fn on_timer() {
    let cpu = cpu();
    if let (Ok(frames), Some(kept)) = (FRAMES.cpu(cpu), KEPT.get(cpu.0 as usize)) {
        let now = frames.alloc(Order::ZERO).map_or(0, |pfn| pfn.0);
        match kept.swap(now, Relaxed) {
            0 => {}
            before => frames.free(Pfn(before), Order::ZERO).expect("the last interrupt allocated it"),
        }
        INTERRUPTS.fetch_add(u64::from(now != 0), Relaxed);
    }
    apic::end_of_interrupt();
}

/// The table of interrupts, which lies in a frame of the allocator; 0: there is none.
static TABLE: AtomicU64 = AtomicU64::new(0);

pub fn start_interrupts() -> Result<(), Failed> {
    // The old controller says nothing.
    [0x21, 0xa1].into_iter().for_each(|port| out(port, 0xff));
    let table = FRAMES.cpu(cpu())?.alloc(Order::ZERO)?;
    let at = crate::at(table).cast::<InterruptDescriptorTable>();
    // SAFETY: 1. A frame is as large as the table, and is this one's for good. 2. The entry keeps what calls change,
    // and
    //         returns from the interrupt.
    unsafe {
        at.write(InterruptDescriptorTable::new());
        let table = &mut *at;
        table[TIMER].set_handler_addr(VirtAddr::new(timer_entry as *const () as u64));
    }
    TABLE.store(table.address().0, Release);
    take_interrupts();
    Ok(())
}

/// Lets the timer interrupt this CPU.
fn take_interrupts() {
    let table = TABLE.load(Acquire) as *const InterruptDescriptorTable;
    // SAFETY: it was written before its address was stored, and is not changed any more.
    unsafe { (*table).load() };
    apic::start_timer(TIMER);
    x86_64::instructions::interrupts::enable();
}

/// Ends the timer, and frees the frame that its interrupt has.
fn leave_interrupts() -> Result<(), Failed> {
    x86_64::instructions::interrupts::disable();
    let cpu = cpu();
    match KEPT.get(cpu.0 as usize).map_or(0, |kept| kept.swap(0, Relaxed)) {
        0 => Ok(()),
        pfn => Ok(FRAMES.cpu(cpu)?.free(Pfn(pfn), Order::ZERO)?),
    }
}

/// State of the second CPU: 1 once it runs, 2 when it may begin, 3 after success, 4 after a failure.
static SECOND_IS: AtomicU32 = AtomicU32::new(0);

#[unsafe(no_mangle)]
extern "C" fn second_cpu() -> ! {
    SECOND_IS.store(1, Release);
    while SECOND_IS.load(Acquire) != 2 {
        core::hint::spin_loop();
    }
    take_interrupts();
    let done = crate::exercise(cpu()).and_then(|()| leave_interrupts());
    if let Err(why) = &done {
        say!("the second CPU: {why:?}");
    }
    SECOND_IS.store(if done.is_ok() { 3 } else { 4 }, Release);
    loop {
        x86_64::instructions::hlt();
    }
}

/// Waits for the second CPU to be something, a few seconds at most.
fn wait_for(is_it: impl Fn(u32) -> bool) -> Result<u32, Failed> {
    for _ in 0..10_000_000_000_u64 {
        let is = SECOND_IS.load(Acquire);
        if is_it(is) {
            return Ok(is);
        }
        core::hint::spin_loop();
    }
    Err(Failed::Said("the second CPU does not answer"))
}

/// Does the same on both CPUs at once, with interrupts that allocate; without them afterwards.
pub fn with_the_other_cpu(work: impl FnOnce() -> Result<(), Failed>) -> Result<(), Failed> {
    let (start, end) = (&raw const second_start, &raw const second_end);
    // SAFETY: the page is reserved, and the code reaches no further.
    unsafe { core::ptr::copy_nonoverlapping(start, SECOND as *mut u8, end as usize - start as usize) };
    apic::start_cpu(1, SECOND);
    wait_for(|is| is == 1)?;
    SECOND_IS.store(2, Release);
    work()?;
    leave_interrupts()?;
    match wait_for(|is| is > 2)? {
        3 => Ok(()),
        _ => Err(Failed::Said("the second CPU failed")),
    }
}
