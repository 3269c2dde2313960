//! The cost of an event for the thread that causes it.

use std::fs::File;
use std::io::Write;

use rustix::fs::{MemfdFlags, memfd_create};

use super::buffers::Buffers;
use super::host::thread_ns;
use super::instance::Instance;
use super::priority::Raised;
use super::rings::Seen;

/// Frames allocated and freed at a time: enough to measure, few enough to finish in milliseconds.
const FRAMES: usize = 1024;

/// Measurements with events and without, in turn; the fastest of each counts, since disturbances only slow them down.
const ROUNDS: usize = 9;

/// Turns with and without, of as many measurements each.
const TURNS: usize = 5;

/// Measures the time that an event takes in the kernel: frames are allocated and freed with recording on and off, in
/// turn.
///
/// `None` where nothing could be measured. The buffers are empty and recording is off afterwards.
pub(super) fn of_an_event(buffers: &mut Buffers) -> Option<f64> {
    let (mut without, mut with) = (u64::MAX, u64::MAX);
    let mut events = u64::MAX;
    // The first round warms up.
    for round in 0..=ROUNDS {
        let off = allocate_and_free()?;
        buffers.enable().ok()?;
        // The kernel has just changed its own instructions: what follows is slower for a while.
        let warm = allocate_and_free();
        buffers.drain(u64::MAX, &mut Seen::default(), &mut |_, _, _, _| ());
        let on = warm.and_then(|_| allocate_and_free());
        buffers.disable().ok()?;
        let mut seen = 0;
        buffers.drain(u64::MAX, &mut Seen::default(), &mut |_, _, _, _| seen += 1);
        let on = on?;
        if round > 0 {
            without = without.min(off);
            with = with.min(on);
            events = events.min(seen);
        }
    }
    // Each frame makes at least its allocation and its free; with much less, the kernel took larger blocks.
    (events >= FRAMES as u64 && with > without).then(|| (with - without) as f64 / events as f64)
}

/// Measures what allocating and freeing a frame takes longer while an instance is switched on, whether it writes the
/// events or its filters leave them out. `None` where nothing could be measured.
pub(super) fn of_a_frame(instance: &mut Instance) -> Option<f64> {
    // Other work on the same CPU only slows it down; the fastest of many counts.
    let fastest =
        || (0..ROUNDS).map(|_| allocate_and_free()).try_fold(u64::MAX, |all, one| Some(all.min(one?)));
    let (mut without, mut with) = (u64::MAX, u64::MAX);
    let _raised = Raised::new();
    for _ in 0..TURNS {
        without = without.min(fastest()?);
        instance.enable().ok()?;
        let on = fastest();
        instance.disable().ok()?;
        instance.pages(0, &mut |_, _| 0);
        with = with.min(on?);
    }
    Some(with.saturating_sub(without) as f64 / FRAMES as f64)
}

/// Returns the processor time, in nanoseconds, of filling a file in memory and dropping it: other work on the host
/// delays a thread, and is not the price of its events.
fn allocate_and_free() -> Option<u64> {
    let page = [1; 4096];
    let start = thread_ns();
    let mut file = File::from(memfd_create("pageyard", MemfdFlags::CLOEXEC).ok()?);
    for _ in 0..FRAMES {
        file.write_all(&page).ok()?;
    }
    drop(file);
    Some(thread_ns() - start)
}
