//! `bench primitives`: what the paths of an allocator are made of, one operation at a time.
//!
//! First the thirteen of document 000, under its names, each as user space has it; then those that the engine relies on.
//! A loop's own cost is a separate row, as there, and is not subtracted from the others.
#![allow(unsafe_code, reason = "some operations have no safe name")]

use super::clock::now_ns;
use super::environment::{Machine, Watch};
use super::team::{Pinned, Team, cpus};
use super::{Noise, SAMPLES, Skipped, median};
use crate::variants::{alone_on_one_thread, exclusive_on_one_thread};
use pageyard::Pageyard;
use pageyard::{
    Config, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator, Pfn, Region, Request,
    TryLock, ZoneKind,
};
use pageyard_linux::LinuxAllocator;
use serde::Serialize;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

/// One row.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrimitiveRow {
    /// The operation, by document 000's name where it has one.
    pub primitive: &'static str,
    /// What was done here.
    pub how: &'static str,
    /// Nanoseconds for one, the median.
    #[serde(rename = "ns_median")]
    pub ns: f64,
    /// The fastest sample.
    pub ns_min: f64,
    /// Cycles of the time-stamp counter; 0 where there is none.
    #[serde(skip)]
    pub cycles: f64,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Primitives {
    /// Where it was measured.
    pub machine: Machine,
    /// The rows: first those of document 000, in its order.
    pub rows: Vec<PrimitiveRow>,
    /// What is not there.
    pub skipped: Vec<Skipped>,
    /// What disturbed it: the empty loop, first and last of each turn, is the pair that must agree.
    pub noise: Noise,
}

/// An operation: `run` does it this many times.
struct Primitive {
    name: &'static str,
    how: &'static str,
    times: u64,
    run: Box<dyn Fn(u64)>,
}

/// Times of one sample: about a millisecond of a fast operation.
const TIMES: u64 = 1 << 19;

impl Primitive {
    fn new(name: &'static str, how: &'static str, once: impl Fn() + 'static) -> Primitive {
        let run = move |n| {
            for i in 0..n {
                black_box(i);
                once();
            }
        };
        Primitive { name, how, times: TIMES, run: Box::new(run) }
    }

    /// The same for an operation that takes long.
    fn slow(self, times: u64) -> Primitive {
        Primitive { times, ..self }
    }

    fn sample(&self) -> f64 {
        let start = now_ns();
        (self.run)(self.times);
        (now_ns() - start) as f64 / self.times as f64
    }
}

/// Measures. `progress` is told how many of how many samples are done.
#[must_use]
pub fn primitives(progress: &mut dyn FnMut(u64, u64)) -> Primitives {
    let mut result = Primitives { machine: Machine::this(), ..Primitives::default() };
    let cpus = cpus();
    let team = Team::new(&cpus);
    let _pinned = cpus.last().map(|cpu| Pinned::to(*cpu));
    let mut all = document_000();
    all.extend(engine(&mut result.skipped));
    all.push(Primitive::new("for_loop", "the pair", || {}));
    let watch = Watch::start();
    let mut samples = vec![Vec::with_capacity(SAMPLES); all.len()];
    for primitive in &all {
        primitive.sample();
    }
    for i in 0..SAMPLES {
        for (primitive, samples) in all.iter().zip(&mut samples) {
            samples.push(primitive.sample());
        }
        progress(i as u64 + 1, SAMPLES as u64);
    }
    let ghz = tsc_ghz();
    let mut rows: Vec<PrimitiveRow> = all
        .iter()
        .zip(&mut samples)
        .map(|(p, samples)| {
            let ns = median(samples);
            PrimitiveRow { primitive: p.name, how: p.how, ns, ns_min: samples[0], cycles: ns * ghz }
        })
        .collect();
    let again = rows.pop().map_or(0.0, |r| r.ns);
    let apart = (rows[0].ns - again).abs() / rows[0].ns.min(again).max(0.01);
    match handover(&team) {
        Some(ns) => rows.push(PrimitiveRow {
            primitive: "cache_line_handover",
            how: "a line written on one CPU, seen and written on the other: one way",
            ns,
            ns_min: ns,
            cycles: ns * ghz,
        }),
        None => result.skipped.push(Skipped {
            allocator: "cache_line_handover",
            why: "it needs two CPUs, and this process may use one".into(),
        }),
    }
    result.rows = rows;
    result.noise = Noise { apart, taken: watch.seen() };
    result
}

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
fn document_000() -> Vec<Primitive> {
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
    let preset = |name| {
        let config = pageyard_linux::Config::preset(name).expect("it is one of the presets");
        LinuxAllocator::new(&map(), &config).expect("the map is small enough")
    };
    all.push(pair("page_alloc_put", "order 0 in the reference, linux-4.10", preset("linux-4.10")));
    all.push(pair("page_alloc_put/linux-6.18", "the same, linux-6.18", preset("linux-6.18")));
    all.extend(masks());
    all
}

fn map() -> MemoryMap<'static> {
    static REGIONS: [Region; 1] = [Region::managed(Pfn(0), Frames(1 << 18), NodeId(0), ZoneKind::Normal)];
    MemoryMap::new(&REGIONS).expect("one region is a map")
}

fn pair(name: &'static str, how: &'static str, allocator: impl PageAllocator + 'static) -> Primitive {
    let request = Request::new(Order::ZERO, Migratetype::Movable);
    let cx = Cx::on(CpuId(0));
    let once = move || {
        if let Ok(pfn) = allocator.alloc(&cx, &request) {
            let _ = allocator.free(&cx, black_box(pfn), Order::ZERO);
        }
    };
    Primitive::new(name, how, once).slow(TIMES / 8)
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

/// What the engine's paths are made of.
fn engine(skipped: &mut Vec<Skipped>) -> Vec<Primitive> {
    let (byte, word, count) = (AtomicU8::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (plain, flag, line) = (AtomicU8::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let small = "the map is small enough";
    let exclusive = exclusive_on_one_thread(&map(), Config::new(1)).expect(small);
    let alone = alone_on_one_thread(&map(), Config::new(1)).expect(small);
    let trylock = Pageyard::owned(&map(), Config::new(1), TryLock).expect(small);
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
            // ORDER: as in the engine's words of bits. The mask is hidden: one that keeps all bits would be no instruction.
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
        pair("page_alloc_put/pageyard-exclusive", "order 0 in the engine, one owner", exclusive),
        pair(
            "page_alloc_put/pageyard-alone",
            "order 0 in the engine, one owner, checks without locks",
            alone,
        ),
        pair("page_alloc_put/pageyard-trylock", "order 0 in the engine, try-lock", trylock),
    ];
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
                // SAFETY: 1. as above. 2. `rseq_cs` lies 8 bytes into it, and zero says that no sequence runs, as before.
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

/// Nanoseconds for a cache line to go from one CPU to another, the median of samples.
fn handover(team: &Team) -> Option<f64> {
    const LAPS: u64 = 1 << 14;
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let line = Arc::new(AtomicU64::new(0));
        let times = team.run(2, move |cpu| {
            let start = now_ns();
            for lap in 0..LAPS {
                let mine = lap * 2 + cpu as u64;
                let mut spins = 0u32;
                // ORDER: Acquire and Release pair with each other: a word that goes back and forth.
                while line.load(Ordering::Acquire) != mine {
                    spins += 1;
                    if spins.is_multiple_of(1 << 14) {
                        std::thread::yield_now();
                    }
                }
                line.store(mine + 1, Ordering::Release);
            }
            now_ns() - start
        })?;
        samples.push(times[0] as f64 / (LAPS * 2) as f64);
    }
    Some(median(&mut samples))
}

/// Measures how fast the time-stamp counter runs, in cycles a nanosecond; 0 where there is none.
fn tsc_ghz() -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has it, and it only reads.
        let read = || unsafe { std::arch::x86_64::_rdtsc() };
        let (start, cycles) = (now_ns(), read());
        while now_ns() - start < 5_000_000 {
            std::hint::spin_loop();
        }
        (read() - cycles) as f64 / (now_ns() - start) as f64
    }
    #[cfg(not(target_arch = "x86_64"))]
    0.0
}
