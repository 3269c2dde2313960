//! The hook that runs before every atomic step.

#[cfg(feature = "step-hook")]
use core::sync::atomic::{AtomicPtr, Ordering::SeqCst};

#[cfg(feature = "step-hook")]
static HOOK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Installs a function that runs before every atomic step of every thread, or removes it.
#[cfg(feature = "step-hook")]
pub fn set(hook: Option<fn()>) {
    HOOK.store(hook.map_or(core::ptr::null_mut(), |f| f as *mut ()), SeqCst);
}

#[cfg(feature = "step-hook")]
#[inline]
pub(crate) fn step() {
    let hook = HOOK.load(SeqCst);
    if !hook.is_null() {
        // SAFETY: 1. Only `set` stores here, and what it stores that is not null is a `fn()`.
        //         2. Functions live for the whole program.
        let hook: fn() = unsafe { core::mem::transmute(hook) };
        hook();
    }
}

#[cfg(not(feature = "step-hook"))]
#[inline(always)]
pub(crate) fn step() {}
