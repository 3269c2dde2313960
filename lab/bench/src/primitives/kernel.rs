//! The thirteen operations of document 000, as user space has them.

use super::primitive::{Primitive, TIMES, pair};
use pageyard_linux::config::PcpProtection;
use pageyard_linux::irq::Interrupts;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

/// A lock that no other thread takes.
fn lock_unlock(lock: &AtomicU32) {
    // ORDER: Acquire and Release pair with each other, as those of a lock.
    while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {}
    lock.store(0, Ordering::Release);
}

#[inline(never)]
fn called() {
    black_box(());
}

const FLAG: &str = "a stand-in: the reference's flag, which makes handlers wait";
const COUNT: &str = "the reference's count for it";

/// The row of what the patch removes, and of what it adds.
pub(crate) const SAVE: &str = "local_irq_save_restore";
pub(crate) const PREEMPT: &str = "preempt_disable_enable";
/// The first, closer to a kernel, and as user space really can.
pub(crate) const SAVE_REGISTER: &str = "local_irq_save_restore/flags_register";
pub(crate) const SAVE_MASK: &str = "local_irq_save_restore/signal_mask";

/// The thirteen rows of document 000, in its order, then variants of masking interrupts. A program cannot mask them, so
/// the rows with `irq` in their names are stand-ins, as [`pageyard_linux::irq`] has them.
pub(crate) fn document_000() -> Vec<Primitive> {
    fn with(name: &'static str, how: &'static str, once: impl Fn(&AtomicU32) + 'static) -> Primitive {
        let lock = Box::new(AtomicU32::new(0));
        Primitive::new(name, how, move || once(black_box(&lock)))
    }
    let preempt = || Interrupts::SoftFlag.protect(PcpProtection::PreemptOnly);
    let mut all = vec![
        Primitive::new("for_loop", "an empty loop", || {}),
        with("spin_lock_unlock", "a locked compare-and-swap and a store", lock_unlock),
        with("spin_lock_unlock_irqsave", FLAG, |lock| {
            let _off = Interrupts::SoftFlag.off();
            lock_unlock(lock);
        }),
        with("irqsave_before_lock", "the same, and the count of preemption", move |lock| {
            let _off = Interrupts::SoftFlag.off();
            let _preempt = preempt();
            lock_unlock(lock);
        }),
        with("spin_lock_unlock_irq", FLAG, |lock| {
            let _off = Interrupts::SoftFlag.off();
            lock_unlock(lock);
        }),
        with("simple_irq_disable_before_lock", "the same, and the count of preemption", move |lock| {
            let _off = Interrupts::SoftFlag.off();
            let _preempt = preempt();
            lock_unlock(lock);
        }),
        Primitive::new("local_BH_disable_enable", COUNT, || {
            drop(Interrupts::SoftFlag.protect(PcpProtection::SoftIrqAllowed));
        }),
        Primitive::new("local_IRQ_disable_enable", FLAG, || drop(Interrupts::SoftFlag.off())),
        Primitive::new(SAVE, FLAG, || drop(Interrupts::SoftFlag.off())),
        Primitive::new(PREEMPT, COUNT, move || drop(preempt())),
        Primitive::new("funcion_call_cost", "a call that is not inlined", called),
    ];
    let pointer: fn() = called;
    all.push(Primitive::new("func_ptr_call_cost", "a call through a pointer", move || black_box(pointer)()));
    all.extend(pair("page_alloc_put", "order 0 in the reference, linux-4.10", "linux-4.10"));
    all.extend(pair("page_alloc_put/linux-6.18", "the same, linux-6.18", "linux-6.18"));
    let register = "the same, and the processor's flags register is read and written back";
    all.push(Primitive::new(SAVE_REGISTER, register, || drop(Interrupts::FlagsRegister.off())));
    let mask = "the signal mask, set and put back by two system calls";
    all.push(Primitive::new(SAVE_MASK, mask, || drop(Interrupts::SignalMask.off())).slow(TIMES / 64));
    all
}
