//! QEMU's machine "virt", with an Arm or a RISC-V processor: one CPU at physical addresses.

use crate::{Failed, Memory};
use core::arch::global_asm;
use pageyard::{CpuId, FirmwareMap, ZoneLimits};

#[cfg(target_arch = "aarch64")]
mod place {
    pub const SERIAL: usize = 0x0900_0000;
    pub const MEMORY: u64 = 0x4000_0000;
    core::arch::global_asm!(
        ".section .text.start",
        ".globl _start",
        "_start:",
        "adrp x0, stack_top",
        "add x0, x0, :lo12:stack_top",
        "mov sp, x0",
        "b start",
    );
}

#[cfg(target_arch = "riscv64")]
mod place {
    pub const SERIAL: usize = 0x1000_0000;
    pub const MEMORY: u64 = 0x8000_0000;
    core::arch::global_asm!(
        ".section .text.start",
        ".globl _start",
        "_start:",
        "la sp, stack_top",
        "j start"
    );
}

global_asm!(".section .text");

/// Memory that the machine has at least.
const BYTES: u64 = 128 << 20;

unsafe extern "C" {
    static kernel_start: u8;
    static kernel_end: u8;
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    crate::end(memory().map_err(Failed::from).and_then(|memory| crate::run(memory, 1)))
}

fn memory() -> Result<Memory, pageyard::FirmwareError> {
    let (end, later) = (place::MEMORY + BYTES, place::MEMORY + BYTES - (16 << 20));
    let mut firmware = FirmwareMap::new(ZoneLimits::NONE);
    // What lies in front of the kernel is the firmware's.
    firmware.usable(place::MEMORY..end)?.reserved(place::MEMORY..(&raw const kernel_start) as u64)?;
    firmware.reserved((&raw const kernel_start) as u64..(&raw const kernel_end) as u64)?;
    firmware.reserved(later..end)?;
    Ok(Memory { firmware, mapped: end, later: later..end })
}

pub fn put(byte: u8) {
    // SAFETY: the machine's serial line takes a byte there.
    unsafe { (place::SERIAL as *mut u8).write_volatile(byte) };
}

pub fn cpu() -> CpuId {
    CpuId(0)
}

pub fn map_pages() -> Result<(), Failed> {
    Ok(())
}

pub fn start_interrupts() -> Result<(), Failed> {
    Ok(())
}

pub fn interrupts() -> u64 {
    0
}

pub fn with_the_other_cpu(work: impl FnOnce() -> Result<(), Failed>) -> Result<(), Failed> {
    work()
}

pub fn exit(_: bool) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
