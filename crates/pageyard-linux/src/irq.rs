//! User space's interrupts: signal handlers, and what turns them off. Layer: settings.
//!
//! A kernel's per-CPU code is interrupted by interrupt handlers; a thread is interrupted by signal handlers. This
//! module gives the reference the same protections, each with its real cost on this machine: a signal mask (two system
//! calls), a flag that makes handlers defer themselves (as in kernels that turn interrupts off lazily), the same with
//! the processor's flags register saved and restored, a count that holds off softirqs, and a count that holds off
//! preemption (which user space cannot do: only its cost is real).
//!
//! A handler that allocates asks [`enter`] first. A handler that must be deferred runs, through the function given to
//! [`on_deferred`], when the interrupted code turns interrupts on again.

use crate::protection::PcpProtection;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use pageyard_core::{Context, named};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

named! {
    /// How interrupts are turned off.
    pub enum Interrupts {
        /// Nothing: no signal handler calls the allocator.
        None = "none",
        /// Every signal of the thread is blocked.
        SignalMask = "signal_mask",
        /// A flag is set; handlers that see it defer themselves.
        SoftFlag = "soft_flag",
        /// The same, and the processor's flags register is read and written back as a kernel does to save and restore
        /// interrupts. User space cannot turn them off in between.
        FlagsRegister = "flags_register",
    }
}

/// The interrupt state of one thread, as one CPU.
struct State {
    /// How many callers have turned interrupts off.
    off: AtomicU32,
    /// How many hold off softirqs.
    bh: AtomicU32,
    /// How many hold off preemption.
    preempt: AtomicU32,
    /// Handlers deferred, of hard interrupts and of softirqs.
    pending: [AtomicU32; 2],
    /// The signals that were blocked before the outermost section that blocks all.
    before: Cell<Option<SigSet>>,
}

thread_local! {
    static STATE: State = const {
        State {
            off: AtomicU32::new(0),
            bh: AtomicU32::new(0),
            preempt: AtomicU32::new(0),
            pending: [AtomicU32::new(0), AtomicU32::new(0)],
            before: Cell::new(None),
        }
    };
}

static DEFERRED: OnceLock<fn(Context)> = OnceLock::new();

/// Adds to a count of this thread. The fence keeps the compiler from moving protected work out of its section; a
/// handler runs on the same thread, so the processor needs none.
#[inline(always)]
fn raise(count: &AtomicU32) {
    // ORDER: Relaxed: only this thread and its own handlers write it, and a handler leaves it as it found it.
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
}

/// Takes from a count of this thread and returns whether it is zero now.
#[inline(always)]
fn lower(count: &AtomicU32) -> bool {
    compiler_fence(Ordering::SeqCst);
    // ORDER: Relaxed: see `raise`.
    let left = count.load(Ordering::Relaxed) - 1;
    count.store(left, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    left == 0
}

/// Names the function that runs deferred handlers. Only the first call counts; returns whether this was the first.
pub fn on_deferred(run: fn(Context)) -> bool {
    DEFERRED.set(run).is_ok()
}

/// Returns whether a handler that has just interrupted this thread may run now. Otherwise it must return, and the
/// function given to [`on_deferred`] runs later in its place.
#[must_use]
pub fn enter(context: Context) -> bool {
    STATE.with(|s| {
        // ORDER: Relaxed: see `raise`.
        let held = |count: &AtomicU32| count.load(Ordering::Relaxed) > 0;
        let soft = context == Context::Softirq;
        if held(&s.off) || (soft && held(&s.bh)) {
            raise(&s.pending[usize::from(soft)]);
            return false;
        }
        true
    })
}

#[cold]
#[inline(never)]
fn run_deferred(s: &State) {
    let Some(run) = DEFERRED.get() else { return };
    // A handler that comes in between finds nothing off and runs at once, so nothing else writes these now.
    for (pending, context) in s.pending.iter().zip([Context::Hardirq, Context::Softirq]) {
        // ORDER: Relaxed: see `raise`.
        if context == Context::Softirq && s.bh.load(Ordering::Relaxed) > 0 {
            continue;
        }
        for _ in 0..pending.swap(0, Ordering::Relaxed) {
            run(context);
        }
    }
}

#[inline(always)]
fn run_pending(s: &State) {
    // ORDER: Relaxed: see `raise`.
    if s.pending.iter().any(|p| p.load(Ordering::Relaxed) > 0) && s.off.load(Ordering::Relaxed) == 0 {
        run_deferred(s);
    }
}

/// A section in which something is turned off; dropping it turns it on again.
pub enum Section {
    /// Nothing is off.
    Open,
    /// Interrupts are off, by flag.
    Flag,
    /// Interrupts are off, by flag; the flags register was this.
    Register(u64),
    /// Signals are blocked.
    Mask,
    /// Interrupts were off already.
    Inner,
    /// Softirqs are held off.
    Bh,
    /// Preemption is held off.
    Preempt,
}

impl Interrupts {
    /// Turns interrupts off.
    ///
    /// # Linux
    /// `local_irq_save`.
    #[inline]
    #[must_use]
    pub fn off(self) -> Section {
        match self {
            Interrupts::None => Section::Open,
            Interrupts::SoftFlag => {
                STATE.with(|s| raise(&s.off));
                Section::Flag
            }
            Interrupts::FlagsRegister => {
                STATE.with(|s| raise(&s.off));
                Section::Register(flags::read())
            }
            Interrupts::SignalMask => mask(),
        }
    }

    /// Begins the section in which a CPU's lists are used.
    #[inline]
    #[must_use]
    pub fn protect(self, protection: PcpProtection) -> Section {
        match (self, protection) {
            (Interrupts::None, _) => Section::Open,
            (_, PcpProtection::Irqsave) => self.off(),
            (_, PcpProtection::PreemptOnly | PcpProtection::Trylock) => {
                STATE.with(|s| raise(&s.preempt));
                Section::Preempt
            }
            (_, PcpProtection::SoftIrqOff | PcpProtection::SoftIrqAllowed) => {
                STATE.with(|s| raise(&s.bh));
                Section::Bh
            }
        }
    }
}

/// Blocks every signal of this thread, unless that was done already.
#[inline(never)]
fn mask() -> Section {
    STATE.with(|s| {
        // ORDER: Relaxed: see `raise`.
        if s.off.load(Ordering::Relaxed) > 0 {
            return Section::Inner;
        }
        let mut before = SigSet::empty();
        // Cannot fail: the request is well-formed.
        let _ = pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), Some(&mut before));
        // No handler comes in between from here on, so the place belongs to this section until it unblocks.
        raise(&s.off);
        s.before.set(Some(before));
        Section::Mask
    })
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        match self {
            Section::Open | Section::Inner => {}
            Section::Flag => STATE.with(|s| {
                if lower(&s.off) {
                    run_pending(s);
                }
            }),
            Section::Register(was) => {
                flags::write(*was);
                STATE.with(|s| {
                    if lower(&s.off) {
                        run_pending(s);
                    }
                });
            }
            Section::Mask => STATE.with(|s| {
                let before = s.before.take();
                lower(&s.off);
                let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, before.as_ref(), None);
                run_pending(s);
            }),
            Section::Bh => STATE.with(|s| {
                if lower(&s.bh) {
                    run_pending(s);
                }
            }),
            Section::Preempt => STATE.with(|s| {
                lower(&s.preempt);
            }),
        }
    }
}

/// The processor's flags register.
#[cfg(target_arch = "x86_64")]
mod flags {
    #![allow(unsafe_code, reason = "no safe function reads or writes the register")]

    use std::arch::asm;

    /// # Linux
    /// `native_save_fl`.
    #[inline(always)]
    pub fn read() -> u64 {
        let flags;
        // SAFETY: it pushes the register and pops it, so the stack is as before; nothing else changes.
        unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
        flags
    }

    /// # Linux
    /// `native_restore_fl`, while the register was written whole.
    #[inline(always)]
    pub fn write(flags: u64) {
        // SAFETY: the value was read from the register on this thread, so no flag that code relies on differs; the
        //         arithmetic ones are declared as changed.
        unsafe { asm!("push {}", "popfq", in(reg) flags) };
    }
}

/// Elsewhere the register is not accessible; only the flag remains.
#[cfg(not(target_arch = "x86_64"))]
mod flags {
    pub fn read() -> u64 {
        0
    }

    pub fn write(_: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns this thread's runs of deferred work, a count for each context.
    fn ran() -> &'static [AtomicU32; 2] {
        static RAN: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
        &RAN
    }

    fn deferred(context: Context) {
        ran()[usize::from(context == Context::Softirq)].fetch_add(1, Ordering::SeqCst);
    }

    fn counts() -> [u32; 2] {
        [ran()[0].load(Ordering::SeqCst), ran()[1].load(Ordering::SeqCst)]
    }

    // One test: what ran deferred is counted for the process.
    #[test]
    fn handlers_are_deferred_while_off_and_run_once_when_on_again() {
        assert!(on_deferred(deferred));
        assert!(enter(Context::Hardirq), "nothing is off");
        for interrupts in [Interrupts::SoftFlag, Interrupts::FlagsRegister, Interrupts::SignalMask] {
            let before = counts();
            let outer = interrupts.off();
            assert!(!enter(Context::Hardirq) && !enter(Context::Softirq));
            drop(interrupts.off());
            assert_eq!(counts(), before, "an inner section ends: interrupts stay off");
            drop(outer);
            assert_eq!(counts(), [before[0] + 1, before[1] + 1]);
            drop(interrupts.off());
            assert_eq!(counts(), [before[0] + 1, before[1] + 1], "and not a second time");

            let before = counts();
            let bh = interrupts.protect(PcpProtection::SoftIrqAllowed);
            assert!(enter(Context::Hardirq), "only softirqs are held off");
            assert!(!enter(Context::Softirq));
            drop(interrupts.off());
            assert_eq!(counts(), before, "softirqs wait for the end of their own section");
            drop(bh);
            assert_eq!(counts(), [before[0], before[1] + 1]);

            let preempt = interrupts.protect(PcpProtection::PreemptOnly);
            assert!(enter(Context::Hardirq) && enter(Context::Softirq), "only preemption is held off");
            drop(preempt);
        }
    }

    #[test]
    fn a_signal_mask_blocks_signals_and_gives_the_old_mask_back() {
        let now = || SigSet::thread_get_mask().unwrap();
        let before = now();
        let off = Interrupts::SignalMask.off();
        assert!(now().contains(nix::sys::signal::SIGUSR1));
        drop(Interrupts::SignalMask.off());
        assert!(now().contains(nix::sys::signal::SIGUSR1), "the outer section still holds");
        drop(off);
        assert_eq!(now(), before);
    }
}
