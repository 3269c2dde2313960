//! A storm of timer signals whose handlers allocate and free while every thread does too.

use super::super::unsafely::Handled;
use crate::harness::team::Team;
use nix::sys::signal::{SigEvent, SigSet, SigevNotify, Signal};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use pageyard::{Context, CpuId, Cx, Migratetype, Order, PageAllocator, Pfn, Request, RequestFlags};
use pageyard_linux::irq;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The time between two signals of one timer: each thread has two timers.
const PERIOD: Duration = Duration::from_micros(100);

/// Frames that a handler takes.
const BURST: usize = 32;

/// Frames that the handlers of a CPU hold from one to the next.
const STASH: usize = 256;

/// The counts of a storm.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Handlers that ran, at once or deferred.
    pub handlers: u64,
    /// Of those, the ones that found interrupts off and ran later.
    pub deferred: u64,
    /// Allocations by handlers.
    pub allocations: u64,
    /// Allocations by the threads that they interrupted.
    pub by_threads: u64,
    /// Frames that had two owners, or none when they were freed.
    pub wrong: u64,
}

struct Storm {
    allocator: Box<dyn PageAllocator + Send>,
    /// Whether each frame has an owner.
    owned: Vec<AtomicBool>,
    /// By CPU; zero is no frame.
    stash: Vec<[AtomicU64; STASH]>,
    handlers: AtomicU64,
    deferred: AtomicU64,
    allocations: AtomicU64,
    by_threads: AtomicU64,
    wrong: AtomicU64,
}

thread_local! {
    static HERE: Cell<Option<(&'static Storm, u32)>> = const { Cell::new(None) };
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
    } else if let Some((storm, _)) = HERE.get() {
        storm.deferred.fetch_add(1, Relaxed);
    }
}

// ORDER: Relaxed in this file: the hand-over of frames is under test, and owners are told apart by
//        read-modify-writes of one word, which no ordering can make both succeed.
impl Storm {
    fn take(&self, cx: &Cx) -> Option<Pfn> {
        let request = Request::new(Order::ZERO, Migratetype::Movable)
            .with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
        let pfn = self.allocator.alloc(cx, &request).ok()?;
        if self.owned[pfn.0 as usize].swap(true, Relaxed) {
            self.wrong.fetch_add(1, Relaxed);
        }
        Some(pfn)
    }

    fn give(&self, cx: &Cx, pfn: Pfn) {
        let owned = self.owned[pfn.0 as usize].swap(false, Relaxed);
        if !owned || self.allocator.free(cx, pfn, Order::ZERO).is_err() {
            self.wrong.fetch_add(1, Relaxed);
        }
    }

    fn interrupt(&self, cpu: u32, context: Context) {
        let cx = Cx { context, ..Cx::on(CpuId(cpu)) };
        self.handlers.fetch_add(1, Relaxed);
        for _ in 0..BURST {
            let Some(pfn) = self.take(&cx) else { continue };
            let n = self.allocations.fetch_add(1, Relaxed) as usize;
            let old = self.stash[cpu as usize][n % STASH].swap(pfn.0, Relaxed);
            if old != 0 {
                self.give(&cx, Pfn(old));
            }
        }
    }

    /// Runs for a time, and one round at least.
    fn thread(&self, cpu: u32, time: Duration) {
        let cx = Cx::on(CpuId(cpu));
        let mut held = [None; 48];
        let begun = Instant::now();
        loop {
            held.iter_mut().for_each(|h| *h = self.take(&cx));
            self.by_threads.fetch_add(held.len() as u64, Relaxed);
            held.iter_mut().filter_map(Option::take).for_each(|p| self.give(&cx, p));
            if begun.elapsed() >= time {
                return;
            }
        }
    }
}

/// A timer that signals this thread.
fn timer(signal: Signal) -> nix::Result<Timer> {
    let thread_id = nix::unistd::gettid().as_raw();
    let event = SigEvent::new(SigevNotify::SigevThreadId { signal, thread_id, si_value: 0 });
    let mut timer = Timer::new(ClockId::CLOCK_MONOTONIC, event)?;
    let period = TimeSpec::nanoseconds(PERIOD.as_nanos() as i64);
    timer.set(Expiration::Interval(period), TimerSetTimeFlags::empty())?;
    Ok(timer)
}

/// Runs a storm over an allocator of `frames` frames, of which frame 0 is not managed, on all threads of a team.
///
/// # Errors
/// A sentence where timers or handlers are not available, or frames were lost.
pub(super) fn storm(
    allocator: Box<dyn PageAllocator + Send>,
    frames: u64,
    team: &Team,
    time: Duration,
) -> Result<Seen, String> {
    irq::on_deferred(run);
    let failed = |e: nix::errno::Errno| format!("timer signals are not available: {e}");
    // As in a kernel, a hard interrupt may come during a softirq, and not the other way round.
    let _hard = Handled::new(Signal::SIGUSR1, SigSet::from(Signal::SIGUSR2), handler).map_err(failed)?;
    let _soft = Handled::new(Signal::SIGUSR2, SigSet::empty(), handler).map_err(failed)?;
    // Kept for good: a handler may look at it as long as there are signals, and it is small.
    let storm: &'static Storm = Box::leak(Box::new(Storm {
        allocator,
        owned: (0..frames).map(|_| AtomicBool::new(false)).collect(),
        stash: (0..team.len()).map(|_| [const { AtomicU64::new(0) }; STASH]).collect(),
        handlers: AtomicU64::new(0),
        deferred: AtomicU64::new(0),
        allocations: AtomicU64::new(0),
        by_threads: AtomicU64::new(0),
        wrong: AtomicU64::new(0),
    }));
    let threads = team.run(team.len(), move |cpu| {
        HERE.set(Some((storm, cpu as u32)));
        let timers = [timer(Signal::SIGUSR1), timer(Signal::SIGUSR2)];
        let ran = timers.iter().find_map(|t| t.as_ref().err()).map_or(Ok(()), |e| Err(*e));
        storm.thread(cpu as u32, time);
        drop(timers);
        HERE.set(None);
        ran
    });
    let threads = threads.ok_or("a thread of the storm panicked")?;
    threads.into_iter().try_for_each(|ran| ran.map_err(failed))?;
    for (cpu, stash) in storm.stash.iter().enumerate() {
        let cx = Cx::on(CpuId(cpu as u32));
        stash.iter().map(|p| p.swap(0, Relaxed)).filter(|p| *p != 0).for_each(|p| storm.give(&cx, Pfn(p)));
    }
    let census = storm.allocator.audit().map_err(|e| format!("an audit failed: {e}"))?;
    if !census.is_conserved() || census.allocated.0 > 0 {
        return Err(format!("frames were lost: {census:?}"));
    }
    let read = |n: &AtomicU64| n.load(Relaxed);
    Ok(Seen {
        handlers: read(&storm.handlers),
        deferred: read(&storm.deferred),
        allocations: read(&storm.allocations),
        by_threads: read(&storm.by_threads),
        wrong: read(&storm.wrong),
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::machines::reference;
    use super::*;
    use crate::harness::team::cpus;
    use pageyard::{Frames, NodeId, Region, ZoneKind};

    #[test]
    fn a_storm_is_counted_and_loses_nothing() {
        let regions = [Region::managed(Pfn(1), Frames((1 << 15) - 1), NodeId(0), ZoneKind::Normal)];
        let mut config = pageyard_linux::Config::linux_4_10();
        config.set("interrupts", "soft_flag").unwrap();
        let allocator = reference(&regions, &config).unwrap();
        let cpus = cpus();
        let team = Team::new(&cpus[..cpus.len().min(2)]);
        let seen = storm(Box::new(allocator), 1 << 15, &team, Duration::from_millis(200)).unwrap();
        assert!(seen.handlers > 0 && seen.allocations > seen.handlers && seen.by_threads > 0, "{seen:?}");
        assert_eq!(seen.wrong, 0);
    }
}
