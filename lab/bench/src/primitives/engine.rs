//! The operations that the engine relies on.
#![allow(unsafe_code, reason = "some instructions have no safe name")]

use super::primitive::{Primitive, TIMES, pair};
use crate::harness::clock::now_ns;
use crate::harness::noise::Skipped;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};

/// Returns the primitives that the engine's paths are made of.
pub(super) fn engine(skipped: &mut Vec<Skipped>) -> Vec<Primitive> {
    let (byte, word, count) = (AtomicU8::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (plain, flag, line) = (AtomicU8::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let mut all = vec![
        Primitive::new("locked_cmpxchg_u8", "a free's check: the tag, compared and swapped", move || {
            // ORDER: as in the engine's tags.
            let _ = black_box(&byte).compare_exchange(0, 0, Ordering::AcqRel, Ordering::Relaxed);
        }),
        Primitive::new("locked_cmpxchg_u64", "a pageblock's descriptor, compared and swapped", move || {
            // ORDER: as in the engine's descriptors.
            let _ = black_box(&word).compare_exchange(0, 0, Ordering::AcqRel, Ordering::Relaxed);
        }),
        Primitive::new("locked_and_u64", "taking bits of a word", move || {
            // ORDER: as in the engine's words of bits. The mask is hidden: one that keeps all bits would be no
            // instruction.
            black_box(black_box(&count).fetch_and(black_box(u64::MAX), Ordering::AcqRel));
        }),
        Primitive::new("xchg_and_store", "a try-lock taken and released", move || {
            // ORDER: as those of a lock.
            black_box(&flag).swap(true, Ordering::Acquire);
            flag.store(false, Ordering::Release);
        }),
        Primitive::new(
            "load_and_store_u8",
            "the same check without a locked instruction: not sound",
            move || {
                let tag = black_box(&plain);
                if tag.load(Ordering::Acquire) == 0 {
                    tag.store(0, Ordering::Release);
                }
            },
        ),
        Primitive::new("store_fence_load", "a store, a full fence, a load of the same line", move || {
            line.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            black_box(line.load(Ordering::Relaxed));
        }),
        Primitive::new("clock_gettime", "the clock that times these rows", || {
            black_box(now_ns());
        })
        .slow(TIMES / 8),
        Primitive::new("sched_getcpu", "the CPU's number, by the C library's or the kernel's page", || {
            black_box(rustix::thread::sched_getcpu());
        })
        .slow(TIMES / 8),
        Primitive::new("system_call", "getppid", || {
            black_box(rustix::process::getppid());
        })
        .slow(TIMES / 32),
    ];
    for (name, how, row) in [
        ("page_alloc_put/pageyard-exclusive", "order 0 in the engine, one owner", "pageyard-exclusive"),
        (
            "page_alloc_put/pageyard-alone",
            "order 0 in the engine, one owner, checks without locks",
            "pageyard-alone",
        ),
        ("page_alloc_put/pageyard-trylock", "order 0 in the engine, try-lock", "pageyard-trylock"),
    ] {
        all.extend(pair(name, how, row));
    }
    all.extend(x86());
    all.extend(rseq(skipped));
    all.extend(barriers(skipped));
    all
}

#[cfg(target_arch = "x86_64")]
fn x86() -> Vec<Primitive> {
    use std::arch::x86_64::{__rdtscp, _mm_lfence, _mm_mfence, _rdtsc};
    // SAFETY, of all: every x86-64 processor has these instructions, and they read or order, nothing else.
    vec![
        Primitive::new("rdtsc", "the time-stamp counter", || {
            // SAFETY: as above.
            black_box(unsafe { _rdtsc() });
        }),
        Primitive::new("rdtscp", "the time-stamp counter, after what came before", || {
            let mut cpu = 0;
            // SAFETY: as above.
            black_box(unsafe { __rdtscp(&raw mut cpu) });
        }),
        Primitive::new("lfence", "", || {
            // SAFETY: as above.
            unsafe { _mm_lfence() }
        }),
        Primitive::new("mfence", "", || {
            // SAFETY: as above.
            unsafe { _mm_mfence() }
        }),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn x86() -> Vec<Primitive> {
    Vec::new()
}

/// Reads of the thread's restartable-sequence area, where the C library registered one.
#[cfg(all(target_arch = "x86_64", not(target_feature = "crt-static")))]
fn rseq(skipped: &mut Vec<Skipped>) -> Vec<Primitive> {
    use std::arch::asm;
    let library = libloading::os::unix::Library::this();
    let (offset, size) = (b"__rseq_offset", b"__rseq_size");
    // SAFETY: glibc 2.35 and later has both, with these types.
    let found = unsafe {
        let size = library.get::<*const u32>(size).map(|p| **p).unwrap_or(0);
        library.get::<*const isize>(offset).map(|p| **p).ok().filter(|_| size > 0)
    };
    let Some(offset) = found else {
        let why = "the C library has not registered an area for restartable sequences".into();
        skipped.push(Skipped { allocator: "rseq_cpu_id", why });
        return Vec::new();
    };
    vec![
        Primitive::new("rseq_cpu_id", "the CPU's number from the thread's area: one load", move || {
            let cpu: u32;
            // SAFETY: the field `cpu_id` lies 4 bytes into the area, which the C library keeps for each thread.
            unsafe {
                asm!("mov {0:e}, fs:[{1} + 4]", out(reg) cpu, in(reg) offset, options(nostack, readonly))
            };
            black_box(cpu);
        }),
        Primitive::new(
            "rseq_arm_and_check",
            "entering a sequence: a store to the area and the load above",
            move || {
                let cpu: u32;
                // SAFETY: 1. as above. 2. `rseq_cs` lies 8 bytes into it, and zero says that no sequence runs, as
                // before.
                unsafe {
                    asm!("mov qword ptr fs:[{1} + 8], 0", "mov {0:e}, fs:[{1} + 4]", out(reg) cpu, in(reg) offset,
                     options(nostack));
                }
                black_box(cpu);
            },
        ),
    ]
}

#[cfg(not(all(target_arch = "x86_64", not(target_feature = "crt-static"))))]
fn rseq(skipped: &mut Vec<Skipped>) -> Vec<Primitive> {
    let why = "this build does not know where the C library keeps its area".into();
    skipped.push(Skipped { allocator: "rseq_cpu_id", why });
    Vec::new()
}

/// The fences by which one thread makes all others fence, or restart.
fn barriers(skipped: &mut Vec<Skipped>) -> Vec<Primitive> {
    use rustix::thread::{MembarrierCommand as Command, membarrier};
    let kinds = [
        ("membarrier", Command::RegisterPrivateExpedited, Command::PrivateExpedited),
        ("membarrier_rseq", Command::RegisterPrivateExpeditedRseq, Command::PrivateExpeditedRseq),
    ];
    let mut all = Vec::new();
    for (name, register, command) in kinds {
        match membarrier(register) {
            Ok(()) => all.push(
                Primitive::new(
                    name,
                    "every thread of this process fences, or restarts its sequence",
                    move || {
                        let _ = membarrier(command);
                    },
                )
                .slow(1 << 12),
            ),
            Err(e) => skipped.push(Skipped { allocator: name, why: format!("the kernel refuses it: {e}") }),
        }
    }
    all
}
