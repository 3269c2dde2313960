//! The engine in a program without std and without libc: what a kernel's early start looks like.
//!
//! `cargo build --release --manifest-path crates/pageyard/examples/freestanding/Cargo.toml`, then run the program: it
//! exits with 0 when a frame could be allocated, freed, and not freed twice.

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::ops::Range;
use pageyard::{
    Config, CpuId, Cx, FirmwareMap, FreeError, Metadata, Migratetype, Order, PAGE_SIZE, Pageyard, Request,
    TryLock, ZoneLimits,
};

/// The machine's memory: 32 MiB, whose first page is frame 0.
static mut MEMORY: [u8; 32 << 20] = [0; 32 << 20];

// The entry point aligns the stack, as the ABI wants it before a call.
global_asm!(
    ".globl _start",
    "_start:",
    "xor %ebp, %ebp",
    "and $-16, %rsp",
    "call start",
    "ud2",
    options(att_syntax)
);

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    exit(run().map_or(1, |()| 0))
}

fn run() -> Option<()> {
    let mut firmware = FirmwareMap::<4>::new(ZoneLimits::NONE);
    firmware.usable(0..32 << 20).ok()?;
    let config = Config::new(1);
    let Range { start, end } = Pageyard::<TryLock>::place_metadata(&mut firmware, &config).ok()?;
    let at = (&raw mut MEMORY).cast::<u8>().wrapping_add((start.0 * PAGE_SIZE) as usize);
    // SAFETY: 1. The frames lie inside the memory. 2. They are reserved, and this program has one thread: this is the
    //         only reference.
    let memory = unsafe { core::slice::from_raw_parts_mut(at, (end - start).as_bytes() as usize) };
    let regions = firmware.regions().ok()?;
    let yard = Pageyard::new(&regions.map(), config, TryLock, Metadata::zeroed(memory)).ok()?;

    let cx = Cx::on(CpuId(0));
    let pfn = yard.alloc(&cx, &Request::new(Order::of(9), Migratetype::Unmovable)).ok()?;
    yard.free(&cx, pfn, Order::of(9)).ok()?;
    let again = yard.free(&cx, pfn, Order::of(9));
    let conserved = !cfg!(feature = "audit") || yard.audit().is_ok_and(|census| census.is_conserved());
    (again == Err(FreeError::NotAllocated) && conserved).then_some(())
}

fn exit(code: i32) -> ! {
    // SAFETY: the system call `exit_group` of x86-64 Linux takes a code and does not return.
    unsafe { asm!("syscall", in("rax") 231, in("rdi") code, options(noreturn)) }
}

// What the compiler calls where it copies and compares; a kernel has its own.

/// Copies bytes forwards.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear in the ABI.
    unsafe {
        asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack))
    };
    to
}

/// Copies bytes that may overlap.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= n {
        // SAFETY: copying forwards reads each byte before it is written.
        return unsafe { memcpy(to, from, n) };
    }
    for i in (0..n).rev() {
        // SAFETY: the caller's promise. Volatile, so that this does not become a call of itself.
        unsafe { to.add(i).write_volatile(from.add(i).read()) };
    }
    to
}

/// Fills bytes.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    // SAFETY: as in `memcpy`.
    unsafe {
        asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") byte as u8, options(nostack))
    };
    to
}

/// Compares bytes.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    for i in 0..n {
        // SAFETY: the caller's promise.
        let (x, y) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// The unwinding symbol that the precompiled core library refers to. Nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(2)
}
