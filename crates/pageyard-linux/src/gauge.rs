//! Flags and gauges: state of a zone that is read without its lock. Layer: values.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A flag of a zone that is read without a lock and only steers policy.
#[derive(Default)]
pub struct Flag(AtomicBool);

impl Flag {
    // ORDER: Relaxed throughout: a flag that is seen late delays a policy by one call and orders nothing.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set(&self, on: bool) {
        if self.get() != on {
            self.0.store(on, Ordering::Relaxed);
        }
    }

    /// Clears the flag and returns whether it was set.
    pub fn take(&self) -> bool {
        self.get() && self.0.swap(false, Ordering::Relaxed)
    }
}

/// A number that only the holder of the zone lock changes, and that any thread reads as an estimate.
#[derive(Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    // ORDER: Relaxed throughout: readers take it as an estimate, as Linux's `zone_page_state` is one.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// A value that is written often, on its own cache lines beside fields that are only read.
#[derive(Default)]
#[repr(align(128))]
pub struct Apart<T>(T);

impl<T> std::ops::Deref for Apart<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
