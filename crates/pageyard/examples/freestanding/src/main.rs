//! The engine in a program without std and without libc: what a kernel's early start looks like.
//!
//! `cargo build --release --manifest-path crates/pageyard/examples/freestanding/Cargo.toml`, then run the program: it
//! exits with 0 when a frame could be allocated, freed, and not freed twice.

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use pageyard::{
    Config, CpuId, Cx, Frames, FreeError, MemoryMap, Metadata, Migratetype, NodeId, Order, PageAllocator,
    Pageyard, Pfn, Region, Request, TryLock, ZoneKind,
};

/// Metadata for 32 MiB.
static mut METADATA: [u8; 1 << 20] = [0; 1 << 20];

// The entry point aligns the stack, as the ABI wants it before a call.
global_asm!(".globl _start", "_start:", "xor %ebp, %ebp", "and $-16, %rsp", "call start", "ud2", options(att_syntax));

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    exit(run().map_or(1, |()| 0))
}

fn run() -> Option<()> {
    let regions = [Region::managed(Pfn(0), Frames(8192), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).ok()?;
    // SAFETY: this program has one thread, and this is the only reference.
    let memory = unsafe { core::slice::from_raw_parts_mut((&raw mut METADATA).cast::<u8>(), 1 << 20) };
    // SAFETY: a static that starts as zeros, and nobody wrote to it.
    let metadata = unsafe { Metadata::assume_zeroed(memory) };
    let yard = Pageyard::new(&map, Config::new(1), TryLock, metadata).ok()?;

    let cx = Cx::on(CpuId(0));
    let pfn = yard.alloc(&cx, &Request::new(Order::of(9), Migratetype::Unmovable)).ok()?;
    yard.free(&cx, pfn, Order::of(9)).ok()?;
    let again = yard.free(&cx, pfn, Order::of(9));
    (again == Err(FreeError::NotAllocated) && yard.audit().is_ok_and(|c| c.is_conserved())).then_some(())
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
    unsafe { asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack)) };
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
    unsafe { asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") byte as u8, options(nostack)) };
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

/// What the precompiled core library names for unwinding; nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(2)
}
