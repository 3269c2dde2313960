//! Safe code that once made two owners, a wrong zero, or a deadlock; each case is named after what broke.

use pageyard::{Exclusive, Frames, Order, PerCpu, TryLock};
use pageyard_arena::backing::{Backing, Mapping};
use pageyard_arena::{Arena, Handle};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

const MIB: usize = 1 << 20;

fn all_free<P: PerCpu>(arena: &Arena<P>) {
    let census = arena.audit().unwrap();
    assert!(census.is_conserved() && census.allocated == Frames(0), "{census:?}");
}

/// Counts a thread off when it ends, by a panic or not.
struct Ends<'a>(&'a AtomicUsize);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Threads fill an arena with handles and drop some while others compact: each handle has its frame, and none is lost.
#[test]
fn handles_of_a_full_arena_that_are_dropped_under_compactions_do_not_use_up_its_slots() {
    const HANDLES: usize = 200_000;
    let arena = Arena::builder().size(4 * MIB).build_locked().unwrap();
    let (made, filling) = (AtomicUsize::new(0), AtomicUsize::new(3));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (arena, made, filling) = (&arena, &made, &filling);
            scope.spawn(move || {
                let _last = Ends(filling);
                let mut rng = fastrand::Rng::with_seed(thread);
                let mut held: Vec<(u8, Handle<&Arena<TryLock>>)> = Vec::new();
                while made.load(SeqCst) < HANDLES {
                    match arena.alloc_movable(Order::of(rng.u8(..6).saturating_sub(3))) {
                        Ok(mut handle) => {
                            let stamp = rng.u8(..);
                            handle.pin_mut()[7] = stamp;
                            held.push((stamp, handle));
                            made.fetch_add(1, SeqCst);
                        }
                        Err(_) if held.is_empty() => std::thread::yield_now(),
                        Err(_) => {
                            for _ in 0..rng.usize(1..8).min(held.len()) {
                                let (stamp, handle) = held.swap_remove(rng.usize(..held.len()));
                                assert_eq!(handle.pin()[7], stamp);
                            }
                        }
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while filling.load(SeqCst) > 0 {
                    arena.compact();
                }
            });
        }
    });
    all_free(&arena);
    let all: Vec<_> = std::iter::from_fn(|| arena.alloc_movable(Order::ZERO).ok()).collect();
    assert_eq!(all.len(), 1024, "no slot and no frame is lost");
}

#[test]
fn memory_that_was_written_to_before_it_became_an_arenas_is_no_zeros() {
    let mut mapping = Mapping::new(4 * MIB, Backing::Anonymous).unwrap();
    mapping.as_bytes_mut().iter_mut().for_each(|byte| {
        byte.write(7);
    });
    let arena = Arena::builder().memory(mapping).build_locked().unwrap();
    let blocks: Vec<_> = std::iter::from_fn(|| arena.alloc_zeroed(Order::of(3)).ok()).collect();
    assert_eq!(blocks.len(), 128);
    for block in blocks {
        assert!(block.iter().all(|byte| *byte == 0) && !block.was_zeroed());
    }
    all_free(&arena);
}

/// A signal handler makes and drops handles while its thread does, wherever it is interrupted.
#[test]
fn a_handle_that_a_signal_handler_makes_or_drops_waits_for_nothing() {
    const SIGNALS: usize = 20_000;
    static ARENA: OnceLock<Arena<TryLock>> = OnceLock::new();
    static SIGNALLED: AtomicUsize = AtomicUsize::new(0);
    static STOP: AtomicBool = AtomicBool::new(false);
    extern "C" fn on_signal(_: libc::c_int) {
        let Some(arena) = ARENA.get() else { return };
        if let Ok(mut handle) = arena.alloc_movable(Order::ZERO) {
            handle.pin_mut()[0] = 1;
        }
        SIGNALLED.fetch_add(1, SeqCst);
    }
    let arena = ARENA.get_or_init(|| Arena::builder().size(4 * MIB).build_locked().unwrap());
    // SAFETY: 1. The handler has the signature of one. 2. It calls nothing but the arena, which is what is tested. A
    //         deadlock ends the process by the alarm.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
        libc::alarm(120);
    }
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // SAFETY: it names the calling thread.
            send.send(unsafe { libc::pthread_self() }).unwrap();
            let mut held = Vec::new();
            while !STOP.load(SeqCst) {
                match arena.alloc_movable(Order::ZERO) {
                    Ok(handle) if held.len() < 500 => held.push(handle),
                    _ => held.clear(),
                }
            }
        });
        let thread = receive.recv().unwrap();
        for sent in 1..=SIGNALS {
            // SAFETY: the thread runs until it is told to stop.
            assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
            while SIGNALLED.load(SeqCst) < sent {
                std::hint::spin_loop();
            }
        }
        STOP.store(true, SeqCst);
    });
    // SAFETY: it takes the alarm back.
    unsafe { libc::alarm(0) };
    all_free(arena);
}

/// Calls on a CPU, on a thread of its own.
fn on(cpu: usize, calls: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut one = CpuSet::new();
            one.set(cpu);
            sched_setaffinity(None, &one).unwrap();
            calls();
        });
    });
}

/// Compactions and purges drained the lists of all CPUs, although what protects them let only their own CPU do that.
#[test]
fn lists_that_only_their_cpu_uses_are_left_to_it_by_compactions_and_purges() {
    let allowed = sched_getaffinity(None).unwrap();
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let (Some(one), Some(other)) = (cpus.next(), cpus.next()) else {
        println!("skipped: this process has one CPU");
        return;
    };
    // SAFETY: one thread calls after another.
    let exclusive = unsafe { Exclusive::by_cpu() };
    let arena = Arena::builder().size(8 * MIB).build_with(exclusive).unwrap();
    on(one, || drop(arena.alloc(Order::ZERO).unwrap()));
    let cached = || arena.audit().unwrap().cached;
    let before = cached();
    assert!(before > Frames::ZERO);
    on(other, || _ = arena.compact());
    assert_eq!(cached(), before);
    on(other, || _ = arena.purge(Frames(512)).unwrap());
    assert_eq!(cached(), before);
    on(one, || _ = arena.compact());
    assert_eq!(cached(), Frames::ZERO);
    all_free(&arena);
}
