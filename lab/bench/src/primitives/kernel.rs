//! The thirteen operations of document 000, as user space has them.
#![allow(unsafe_code, reason = "a signal mask is set by the C library")]

use super::primitive::{Primitive, TIMES, pair};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A thread's state as a kernel keeps it for a CPU: plain memory that no other thread writes.
#[derive(Default)]
struct Cpu {
    preempt: AtomicU32,
    pending: AtomicU32,
    irqs_off: AtomicBool,
    lock: AtomicU32,
}

impl Cpu {
    // ORDER: Relaxed, throughout: one thread uses it, and a handler on that thread would see its writes in order.

    #[inline(always)]
    fn add(&self, n: u32) {
        self.preempt.store(self.preempt.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    #[inline(always)]
    fn sub_and_test(&self, n: u32) {
        self.add(n.wrapping_neg());
        if self.pending.load(Ordering::Relaxed) != 0 {
            deferred();
        }
    }

    #[inline(always)]
    fn irqs(&self, off: bool) {
        self.irqs_off.store(off, Ordering::Relaxed);
        if !off && self.pending.load(Ordering::Relaxed) != 0 {
            deferred();
        }
    }

    #[inline(always)]
    fn save(&self) -> bool {
        let before = self.irqs_off.load(Ordering::Relaxed);
        self.irqs_off.store(true, Ordering::Relaxed);
        before
    }

    #[inline(always)]
    fn lock_unlock(&self) {
        // ORDER: Acquire and Release pair with each other, as those of a lock.
        while self.lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {}
        self.lock.store(0, Ordering::Release);
    }
}

#[cold]
#[inline(never)]
fn deferred() {
    black_box(());
}

#[inline(never)]
fn called() {
    black_box(());
}

const FLAG: &str = "a flag of the thread's own, tested when it is cleared";

/// The thirteen rows of document 000, in its order, then variants with a real signal mask.
pub(super) fn document_000() -> Vec<Primitive> {
    fn with(name: &'static str, how: &'static str, once: impl Fn(&Cpu) + 'static) -> Primitive {
        let cpu = Box::new(Cpu::default());
        Primitive::new(name, how, move || once(black_box(&cpu)))
    }
    let mut all = vec![
        Primitive::new("for_loop", "an empty loop", || {}),
        with("spin_lock_unlock", "a locked compare-and-swap and a store", |c| c.lock_unlock()),
        with("spin_lock_unlock_irqsave", FLAG, |c| {
            let before = c.save();
            c.lock_unlock();
            c.irqs(before);
        }),
        with("irqsave_before_lock", "the same, flag and count of preemption apart", |c| {
            let before = c.save();
            c.add(1);
            c.lock_unlock();
            c.sub_and_test(1);
            c.irqs(before);
        }),
        with("spin_lock_unlock_irq", FLAG, |c| {
            c.irqs(true);
            c.lock_unlock();
            c.irqs(false);
        }),
        with("simple_irq_disable_before_lock", "the same, flag and count of preemption apart", |c| {
            c.irqs(true);
            c.add(1);
            c.lock_unlock();
            c.sub_and_test(1);
            c.irqs(false);
        }),
        with("local_BH_disable_enable", "a count, and a test for deferred work", |c| {
            c.add(0x200);
            c.sub_and_test(0x200);
        }),
        with("local_IRQ_disable_enable", FLAG, |c| {
            c.irqs(true);
            c.irqs(false);
        }),
        with("local_irq_save_restore", FLAG, |c| {
            let before = c.save();
            c.irqs(before);
        }),
        with("preempt_disable_enable", "a count, and a test for deferred work", |c| {
            c.add(1);
            c.sub_and_test(1);
        }),
        Primitive::new("funcion_call_cost", "a call that is not inlined", called),
    ];
    let pointer: fn() = called;
    all.push(Primitive::new("func_ptr_call_cost", "a call through a pointer", move || black_box(pointer)()));
    all.extend(pair("page_alloc_put", "order 0 in the reference, linux-4.10", "linux-4.10"));
    all.extend(pair("page_alloc_put/linux-6.18", "the same, linux-6.18", "linux-6.18"));
    all.extend(masks());
    all
}

/// Masking interrupts as user space really can: by its signal mask, two system calls.
fn masks() -> Vec<Primitive> {
    // SAFETY, of the calls below: the sets are initialised by `sigfillset` or written by the call that reads them.
    fn block() -> libc::sigset_t {
        let mut before = std::mem::MaybeUninit::uninit();
        // SAFETY: as above.
        unsafe {
            let mut all = std::mem::MaybeUninit::uninit();
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            before.assume_init()
        }
    }
    fn restore(before: libc::sigset_t) {
        // SAFETY: as above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    }
    let how = "the signal mask, set and put back by two system calls";
    let cpu = Cpu::default();
    vec![
        Primitive::new("local_irq_save_restore/signal_mask", how, || restore(block())).slow(TIMES / 64),
        Primitive::new("spin_lock_unlock_irqsave/signal_mask", how, move || {
            let before = block();
            cpu.lock_unlock();
            restore(before);
        })
        .slow(TIMES / 64),
    ]
}
