//! A storm of signals: threads allocate and free, timers interrupt them, and the handlers do the same.
//!
//! Every frame has an owner's word. A thread that gets a frame swaps its own number in and must find zero; a thread
//! that frees one swaps zero in and must find its own. So a frame with two owners is detected immediately.

use pageyard::{
    AuditError, Census, Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order,
    PageAllocator, Pfn, Region, Request, RequestFlags, ZoneKind,
};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Frames of the machine: 256 MiB.
const FRAMES: u64 = 1 << 16;
/// Frames that a thread holds at most, and its handler.
const HELD: usize = 256;
const HANDLER_HELD: usize = 8;
/// Time between a thread's signals: 20 kHz.
const PERIOD: Duration = Duration::from_micros(50);

/// The totals of a storm.
pub struct Storm {
    /// Allocations in handlers, in threads, and handlers that ran.
    pub in_handlers: u64,
    pub in_threads: u64,
    pub signals: u64,
    /// CPUs that handlers allocated on.
    pub cpus: u32,
    /// Frames that were handed out while owned, and frees that were refused.
    pub doubles: u64,
    pub refused: u64,
    /// Drains of every CPU's lists while it went on.
    pub drains: u64,
    pub seconds: f64,
    /// The engine's own recount at the end, after everything was freed.
    pub audit: Result<Census, AuditError>,
}

/// Makes the map that storms run on.
pub fn machine<T>(make: impl FnOnce(&MemoryMap<'_>, Config) -> T, cpus: u32) -> T {
    let regions = [Region::managed(Pfn(0), Frames(FRAMES), NodeId(0), ZoneKind::Normal)];
    make(&MemoryMap::new(&regions).expect("one region is a map"), Config::new(cpus))
}

static OWNERS: [AtomicU32; FRAMES as usize] = [const { AtomicU32::new(0) }; FRAMES as usize];
static IN_HANDLERS: AtomicU64 = AtomicU64::new(0);
static IN_THREADS: AtomicU64 = AtomicU64::new(0);
static SIGNALS: AtomicU64 = AtomicU64::new(0);
static CPUS: AtomicU64 = AtomicU64::new(0);
static DOUBLES: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);
/// The engine, and the handler's work on one of its kind.
static ENGINE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static WORK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Number of the thread, from 1; zero where no handler is to do anything.
    static ME: Cell<u32> = const { Cell::new(0) };
    /// The blocks that the thread's handler holds.
    static KEPT: [Cell<u64>; HANDLER_HELD] = const { [const { Cell::new(u64::MAX) }; HANDLER_HELD] };
}

fn take<E: PageAllocator>(engine: &E, cpu: CpuId, who: u32, order: Order) -> Option<Pfn> {
    let request = Request::new(order, Migratetype::Movable).with(RequestFlags::MEMALLOC);
    let pfn = engine.alloc(&Cx::on(cpu), &request).ok()?;
    for frame in pfn.0..pfn.0 + order.frames().0 {
        if OWNERS[frame as usize].swap(who, SeqCst) != 0 {
            DOUBLES.fetch_add(1, SeqCst);
        }
    }
    Some(pfn)
}

fn give<E: PageAllocator>(engine: &E, cpu: CpuId, who: u32, pfn: Pfn, order: Order) {
    for frame in pfn.0..pfn.0 + order.frames().0 {
        if OWNERS[frame as usize].swap(0, SeqCst) != who {
            DOUBLES.fetch_add(1, SeqCst);
        }
    }
    if engine.free(&Cx::on(cpu), pfn, order).is_err() {
        REFUSED.fetch_add(1, SeqCst);
    }
}

/// Returns the CPU that a thread names: its own where the engine looks for itself anyway.
fn cpu_of(me: u32) -> CpuId {
    CpuId((me - 1) % 2)
}

/// Frees what the handler kept last time, and keeps as many new blocks.
fn work<E: PageAllocator>(engine: *const ()) {
    // SAFETY: `run` stored a pointer to an engine of this type, which lives until every handler is done.
    let engine = unsafe { &*engine.cast::<E>() };
    let me = ME.get();
    if me == 0 {
        return;
    }
    let (cpu, who) = (cpu_of(me), 2 * me + 1);
    // ORDER: Relaxed, here and below: counters order nothing.
    SIGNALS.fetch_add(1, Relaxed);
    CPUS.fetch_or(1 << pageyard_arena::rseq::current_cpu().map_or(63, |c| c.0.min(62)), Relaxed);
    KEPT.with(|kept| {
        for kept in kept {
            if kept.get() != u64::MAX {
                give(engine, cpu, who, Pfn(kept.get()), Order::ZERO);
            }
            kept.set(take(engine, cpu, who, Order::ZERO).map_or(u64::MAX, |pfn| pfn.0));
            IN_HANDLERS.fetch_add(u64::from(kept.get() != u64::MAX), Relaxed);
        }
    });
}

extern "C" fn on_signal(_: libc::c_int) {
    let (engine, work) = (ENGINE.load(SeqCst), WORK.load(SeqCst));
    if work != 0 {
        // SAFETY: `run` stored a function of this type.
        let work: fn(*const ()) = unsafe { std::mem::transmute(work) };
        work(engine);
    }
}

/// A timer that interrupts the thread that made it, until it is dropped.
struct Timer(libc::timer_t);

impl Timer {
    fn new() -> Timer {
        // SAFETY: everything that is filled in is a local variable; the signal has a handler.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGUSR1;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = std::mem::zeroed();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer), 0);
            let every = libc::timespec { tv_sec: 0, tv_nsec: PERIOD.as_nanos() as i64 };
            let times = libc::itimerspec { it_interval: every, it_value: every };
            assert_eq!(libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()), 0);
            Timer(timer)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: it was created.
        unsafe { libc::timer_delete(self.0) };
    }
}

fn thread<E: PageAllocator>(engine: &E, me: u32, stop: &AtomicBool) {
    let _registered = pageyard_arena::rseq::register_thread();
    let mut rng = fastrand::Rng::with_seed(u64::from(me));
    let (cpu, who) = (cpu_of(me), 2 * me);
    let mut held: Vec<(Pfn, Order)> = Vec::with_capacity(HELD);
    ME.set(me);
    let timer = Timer::new();
    while !stop.load(Relaxed) {
        if held.len() < HELD && rng.u8(0..8) < if held.len() < HELD / 2 { 5 } else { 3 } {
            let order = if rng.u8(0..64) == 0 { Order::of(rng.u8(1..4)) } else { Order::ZERO };
            if let Some(pfn) = take(engine, cpu, who, order) {
                held.push((pfn, order));
                IN_THREADS.fetch_add(1, Relaxed);
            }
        } else if !held.is_empty() {
            let at = if rng.bool() { held.len() - 1 } else { rng.usize(0..held.len()) };
            let (pfn, order) = held.swap_remove(at);
            give(engine, cpu, who, pfn, order);
        }
    }
    drop(timer);
    // A last signal may be on its way; it finds no number.
    ME.set(0);
    held.into_iter().for_each(|(pfn, order)| give(engine, cpu, who, pfn, order));
    KEPT.with(|kept| {
        for kept in kept.iter().map(Cell::get).filter(|k| *k != u64::MAX) {
            give(engine, cpu, who + 1, Pfn(kept), Order::ZERO);
        }
    });
}

/// Runs a storm on `threads` threads until handlers have made `allocations` and `seen` says that what is to happen did,
/// or five minutes are over. A busy host may keep all threads on one CPU for a second, so counting allocations is not
/// enough.
pub fn run<E: PageAllocator>(engine: &E, threads: u32, allocations: u64, seen: impl Fn() -> bool) -> Storm {
    for counter in [&IN_HANDLERS, &IN_THREADS, &SIGNALS, &CPUS, &DOUBLES, &REFUSED] {
        counter.store(0, SeqCst);
    }
    ENGINE.store(std::ptr::from_ref(engine).cast_mut().cast(), SeqCst);
    WORK.store(work::<E> as fn(*const ()) as usize, SeqCst);
    // SAFETY: the handler does only what a signal handler may: it takes no lock and no memory of the C library.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    let (stop, start, mut drains) = (AtomicBool::new(false), Instant::now(), 0);
    std::thread::scope(|scope| {
        for me in 1..=threads {
            let stop = &stop;
            scope.spawn(move || thread(engine, me, stop));
        }
        let ended = || IN_HANDLERS.load(Relaxed) >= allocations && seen();
        while !ended() && start.elapsed() < Duration::from_secs(300) {
            std::thread::sleep(Duration::from_micros(500));
            engine.drain(CpuSet::All);
            drains += 1;
        }
        stop.store(true, SeqCst);
    });
    WORK.store(0, SeqCst);
    Storm {
        in_handlers: IN_HANDLERS.load(SeqCst),
        in_threads: IN_THREADS.load(SeqCst),
        signals: SIGNALS.load(SeqCst),
        cpus: CPUS.load(SeqCst).count_ones(),
        doubles: DOUBLES.load(SeqCst),
        refused: REFUSED.load(SeqCst),
        drains,
        seconds: start.elapsed().as_secs_f64(),
        audit: engine.audit(),
    }
}

impl fmt::Display for Storm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Storm { in_handlers, in_threads, signals, cpus, drains, seconds, .. } = self;
        write!(
            f,
            "{in_handlers} allocations in {signals} handlers on {cpus} CPUs, {in_threads} in threads, {drains} drains, in {seconds:.1} s; \
             {} handed out twice, {} frees refused, {:?}",
            self.doubles, self.refused, self.audit
        )
    }
}

impl Storm {
    /// Checks that nothing was lost and nothing handed out twice.
    pub fn is_sound(&self) {
        assert_eq!((self.doubles, self.refused), (0, 0), "{self}");
        let census = self.audit.as_ref().expect("the audit finds nothing wrong");
        assert_eq!(census.allocated, Frames(0), "everything was freed");
        assert_eq!(census.free + census.cached, Frames(FRAMES), "no frame is lost");
    }
}
