//! How many instructions of a call are locked, counted by stepping through it: a trap before each instruction, whose
//! handler looks at it.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The flag that makes the processor trap after each instruction.
const STEP: u64 = 1 << 8;

static LOCKED: AtomicU64 = AtomicU64::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

thread_local! {
    /// Whether the thread is in a call.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A call, until it is dropped.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// Runs a call; returns how many of its instructions were locked: with the prefix, or an exchange with memory, or a
/// fence, which costs as much. Each instruction takes some microseconds. What it installs for `SIGTRAP` it takes back.
///
/// The kernel restarts a sequence that is stepped through: use [`Rseq::pretending`](super::Rseq::pretending). Calls
/// into the kernel count as one instruction.
///
/// # Errors
/// The host's, where it refuses a handler.
///
/// Those of a call inside `run` are refused ([`WouldBlock`](std::io::ErrorKind::WouldBlock)).
///
/// # Concurrency
/// One call at a time; those of other threads wait. Only the calling thread is stepped.
pub fn locked_instructions(run: &mut dyn FnMut()) -> std::io::Result<u64> {
    if INSIDE.replace(true) {
        return Err(std::io::ErrorKind::WouldBlock.into());
    }
    let _inside = Inside;
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // SAFETY: all zeros is a value of it.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_trap as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler has the signature that SA_SIGINFO promises, and does nothing that a signal handler may not.
    if unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, &raw mut before) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // ORDER: Relaxed, here and below: the handler that counts runs on this thread, and others wait for the lock.
    LOCKED.store(0, Relaxed);
    let stepping = Stepping::begin(before);
    run();
    drop(stepping);
    Ok(LOCKED.load(Relaxed))
}

/// The thread traps after each instruction, until it is dropped: also where the call unwinds.
struct Stepping(libc::sigaction);

impl Stepping {
    #[inline(always)]
    fn begin(before: libc::sigaction) -> Stepping {
        // SAFETY: it changes one flag, by way of the stack, which is as before; the trap that follows has a handler.
        unsafe { core::arch::asm!("pushfq", "or qword ptr [rsp], {STEP}", "popfq", STEP = const STEP) };
        Stepping(before)
    }
}

impl Drop for Stepping {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: 1. As in `begin`. 2. It is the handler from before.
        unsafe {
            core::arch::asm!("pushfq", "and qword ptr [rsp], ~{STEP}", "popfq", STEP = const STEP);
            libc::sigaction(libc::SIGTRAP, &raw const self.0, std::ptr::null_mut());
        }
    }
}

extern "C" fn on_trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands it over.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let next = registers[libc::REG_RIP as usize] as *const u8;
    // SAFETY: the thread is about to run what lies there, so the bytes that are read one after the other, up to the one
    //         that decides, are part of an instruction.
    let byte = |at| unsafe { next.add(at).read() };
    if is_locked(byte) {
        LOCKED.fetch_add(1, Relaxed);
    }
}

/// Returns whether the instruction with these bytes is locked, as [`locked_instructions`] counts. Reads none behind it.
fn is_locked(byte: impl Fn(usize) -> u8) -> bool {
    let mut at = 0;
    loop {
        match byte(at) {
            0xf0 => return true,
            // Other prefixes.
            0x66 | 0x67 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 => at += 1,
            0x40..=0x4f => at += 1,
            // An exchange, whose operand is not two registers.
            0x86 | 0x87 => return byte(at + 1) >> 6 != 3,
            0x0f => return byte(at + 1) == 0xae && byte(at + 2) == 0xf0,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};
    use std::hint::black_box;

    #[test]
    fn what_is_locked_is_seen_as_a_decoder_sees_it() {
        // This program's own text, a stretch of it around some function, and what the compiler seldom emits.
        let start = locked_instructions as *const u8;
        // SAFETY: it is text of this program, which goes on for longer than that.
        let text = unsafe { std::slice::from_raw_parts(start, 1 << 14) };
        let rare = [0x87, 0x07, 0x90, 0x48, 0x87, 0xc3, 0x0f, 0xae, 0xf0, 0x66, 0xf0, 0x0f, 0xb0, 0x0f];
        let (mut seen, mut locked) = (0, 0);
        for code in [text, &rare] {
            let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
            while decoder.can_decode() {
                let at = decoder.position();
                let next = decoder.decode();
                if next.is_invalid() {
                    break;
                }
                let exchanges = next.mnemonic() == Mnemonic::Xchg
                    && (next.op0_kind() == OpKind::Memory || next.op1_kind() == OpKind::Memory);
                let expected = next.has_lock_prefix() || exchanges || next.mnemonic() == Mnemonic::Mfence;
                let length = next.len();
                let byte = |i| if i < length { code[at + i] } else { panic!("read behind it") };
                assert_eq!(is_locked(byte), expected, "{:x?}", &code[at..at + length]);
                (seen, locked) = (seen + 1, locked + usize::from(expected));
            }
        }
        assert!(seen > 1000 && locked >= 3, "{locked} of {seen}");
    }

    #[test]
    fn locked_instructions_are_counted_one_by_one() {
        let word = AtomicU64::new(0);
        for n in [0, 1, 7] {
            let mut run = || {
                for _ in 0..n {
                    black_box(&word).fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            };
            assert_eq!(locked_instructions(&mut run).unwrap(), n);
        }
        assert_eq!(word.load(Relaxed), 8);
    }

    #[test]
    fn a_call_inside_a_call_is_refused_and_does_not_wait_for_itself() {
        let mut inner = None;
        locked_instructions(&mut || inner = Some(locked_instructions(&mut || ()))).unwrap();
        assert_eq!(inner.unwrap().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!(locked_instructions(&mut || ()).unwrap(), 0);
    }
}
