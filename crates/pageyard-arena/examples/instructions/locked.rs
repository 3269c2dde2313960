//! Counts the locked instructions of a call, by stepping through it: a trap before each instruction, whose handler decodes it.

use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Longest instruction.
const LONGEST: usize = 15;
/// The flag that makes the processor trap after each instruction.
const STEP: u64 = 1 << 8;

static LOCKED: AtomicU64 = AtomicU64::new(0);

/// Runs a call; returns how many of its instructions were locked: with the prefix, or an exchange with memory, or a fence, which
/// costs as much.
pub fn count(run: &mut dyn FnMut()) -> u64 {
    // SAFETY: the handler has the signature that SA_SIGINFO promises, and does nothing that a signal handler may not.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
    }
    LOCKED.store(0, Relaxed);
    // SAFETY: it changes one flag, by way of the stack, which is as before; the trap that follows has a handler.
    unsafe { core::arch::asm!("pushfq", "or qword ptr [rsp], {STEP}", "popfq", STEP = const STEP) };
    run();
    // SAFETY: as above.
    unsafe { core::arch::asm!("pushfq", "and qword ptr [rsp], ~{STEP}", "popfq", STEP = const STEP) };
    LOCKED.load(Relaxed)
}

extern "C" fn on_trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands it over.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let next = registers[libc::REG_RIP as usize] as *const u8;
    // SAFETY: the thread is about to run what lies there, and text goes on for more than an instruction's length, because the
    // program's last function is none of those that run here.
    let bytes = unsafe { std::slice::from_raw_parts(next, LONGEST) };
    let next = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
    let exchanges = next.mnemonic() == Mnemonic::Xchg
        && (next.op0_kind() == OpKind::Memory || next.op1_kind() == OpKind::Memory);
    if next.has_lock_prefix() || exchanges || next.mnemonic() == Mnemonic::Mfence {
        LOCKED.fetch_add(1, Relaxed);
    }
}
