//! A storm of signals whose handlers allocate and free while every thread does too: under each protection of the
//! per-CPU lists nothing is lost and no frame has two owners.
#![allow(unsafe_code, reason = "signal handlers, and lists without a lock")]

mod common;

use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use pageyard_core::{
    Context, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator, Pfn, Region,
    Request, RequestFlags, ZoneKind,
};
use pageyard_linux::{Config, LinuxAllocator, irq};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, mpsc};
use std::time::Duration;

const FRAMES: u64 = 1 << 15;
const CPUS: usize = 2;
/// Allocations by handlers, for each way of protecting the lists: more than a million together.
const STORM: u64 = 150_000;
const BURST: usize = 32;

struct Storm {
    allocator: LinuxAllocator,
    /// Whether each frame has an owner.
    owned: Vec<AtomicBool>,
    /// Frames that handlers hold from one to the next, by CPU; zero is none.
    stash: Vec<[AtomicU64; 256]>,
    by_handlers: AtomicU64,
    ran: [AtomicU64; 2],
    wrong: AtomicU64,
}

thread_local! {
    static HERE: Cell<Option<(&'static Storm, u32)>> = const { Cell::new(None) };
}

impl Storm {
    fn take(&self, cx: &Cx) -> Option<Pfn> {
        let request = Request::new(Order::ZERO, Migratetype::Movable)
            .with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
        let pfn = self.allocator.alloc(cx, &request).ok()?;
        if self.owned[pfn.0 as usize].swap(true, SeqCst) {
            self.wrong.fetch_add(1, SeqCst);
        }
        Some(pfn)
    }

    fn give(&self, cx: &Cx, pfn: Pfn) {
        let owned = self.owned[pfn.0 as usize].swap(false, SeqCst);
        if !owned || self.allocator.free(cx, pfn, Order::ZERO).is_err() {
            self.wrong.fetch_add(1, SeqCst);
        }
    }

    fn interrupt(&self, cpu: u32, context: Context) {
        let cx = Cx { context, ..Cx::on(CpuId(cpu)) };
        self.ran[usize::from(context == Context::Softirq)].fetch_add(1, SeqCst);
        for _ in 0..BURST {
            let Some(pfn) = self.take(&cx) else { continue };
            let n = self.by_handlers.fetch_add(1, SeqCst);
            // Frame 0 is not managed here, so zero says that a place is empty.
            let old = self.stash[cpu as usize][n as usize % 256].swap(pfn.0, SeqCst);
            if old != 0 {
                self.give(&cx, Pfn(old));
            }
        }
    }
}

fn run(context: Context) {
    if let Some((storm, cpu)) = HERE.get() {
        storm.interrupt(cpu, context);
    }
}

extern "C" fn handler(signal: i32) {
    let context = if signal == Signal::SIGUSR1 as i32 { Context::Hardirq } else { Context::Softirq };
    if irq::enter(context) {
        run(context);
    }
}

#[test]
fn handlers_allocate_while_threads_do_and_nothing_is_lost() {
    assert!(irq::on_deferred(run));
    // As in a kernel, a hard interrupt may come during a softirq, and not the other way round.
    for (signal, blocked) in [(Signal::SIGUSR1, true), (Signal::SIGUSR2, false)] {
        let mask = if blocked { SigSet::from(Signal::SIGUSR2) } else { SigSet::empty() };
        let action = SigAction::new(SigHandler::Handler(handler), SaFlags::SA_RESTART, mask);
        // SAFETY: 1. The handler calls nothing that a handler may not call: the allocator spins and does not allocate
        //         memory. 2. No other code of this process uses these signals.
        unsafe { sigaction(signal, &action) }.unwrap();
    }
    for (protection, interrupts) in [
        ("irqsave", "signal_mask"),
        ("irqsave", "soft_flag"),
        ("irqsave", "flags_register"),
        ("preempt_only", "signal_mask"),
        ("preempt_only", "soft_flag"),
        ("soft_irq_off", "soft_flag"),
        ("soft_irq_allowed", "soft_flag"),
        ("trylock", "signal_mask"),
        ("trylock", "soft_flag"),
    ] {
        storm(protection, interrupts);
    }
}

fn storm(protection: &str, interrupts: &str) {
    let mut config = Config { cpus: CPUS as u32, ..common::bare(Config::linux_6_1()) };
    config.cpus = CPUS as u32;
    config.set("pcp_protection", protection).unwrap();
    config.set("interrupts", interrupts).unwrap();
    let regions = [Region::managed(Pfn(1), Frames(FRAMES - 1), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).unwrap();
    // SAFETY: each CPU number is one thread's below, and everything else is asked after the threads have ended.
    let allocator = unsafe { LinuxAllocator::by_cpu(&map, &config) }.unwrap();
    let storm: &'static Storm = Box::leak(Box::new(Storm {
        allocator,
        owned: (0..FRAMES).map(|_| AtomicBool::new(false)).collect(),
        stash: (0..CPUS).map(|_| [const { AtomicU64::new(0) }; 256]).collect(),
        by_handlers: AtomicU64::new(0),
        ran: Default::default(),
        wrong: AtomicU64::new(0),
    }));
    let (ready, threads) = mpsc::channel();
    let done = Barrier::new(CPUS + 1);
    std::thread::scope(|scope| {
        for cpu in 0..CPUS as u32 {
            let (ready, done) = (ready.clone(), &done);
            scope.spawn(move || {
                HERE.set(Some((storm, cpu)));
                ready.send(pthread_self()).unwrap();
                let cx = Cx::on(CpuId(cpu));
                let mut held = [None; 48];
                while storm.by_handlers.load(SeqCst) < STORM {
                    held.iter_mut().for_each(|h| *h = storm.take(&cx));
                    held.iter_mut().filter_map(Option::take).for_each(|p| storm.give(&cx, p));
                }
                done.wait();
                HERE.set(None);
            });
        }
        let threads: Vec<_> = threads.iter().take(CPUS).collect();
        while storm.by_handlers.load(SeqCst) < STORM {
            for thread in &threads {
                for signal in [Signal::SIGUSR1, Signal::SIGUSR2] {
                    pthread_kill(*thread, signal).unwrap();
                }
            }
            // Without a pause the sender holds the kernel's lock of this process's signals most of the time, and no
            // other thread can block or unblock one.
            std::thread::sleep(Duration::from_micros(20));
        }
        done.wait();
    });
    let what = format!("{protection}, {interrupts}");
    assert_eq!(storm.wrong.load(SeqCst), 0, "{what}: a frame had two owners, or none when it was freed");
    for cpu in 0..CPUS {
        for place in &storm.stash[cpu] {
            let pfn = place.swap(0, SeqCst);
            if pfn != 0 {
                storm.give(&Cx::on(CpuId(cpu as u32)), Pfn(pfn));
            }
        }
    }
    assert!(storm.ran.iter().all(|n| n.load(SeqCst) > 0), "{what}: both kinds of handlers ran");
    assert!(storm.owned.iter().all(|o| !o.load(SeqCst)));
    storm.allocator.drain(CpuSet::All);
    let census = storm.allocator.audit().unwrap();
    assert!(census.is_conserved() && census.free == Frames(FRAMES - 1), "{what}: {census:?}");
}
