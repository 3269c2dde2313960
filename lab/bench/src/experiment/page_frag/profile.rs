//! Where CPUs spend their time: samples by function, as a profile takes them, in a pass of its own.
//!
//! A timer of each thread's CPU time sends it a signal, at best once a tick of the kernel. The handler counts in which
//! places the thread is: each place is a bit, so that a sample counts for all the functions that it is in, as a
//! profile's shares do with callees. The kernel's functions end with calls of those below them, which a profile shows
//! beside them and not within: so `page_frag_free` and `_raw_spin_lock` stand without what they call, here as there.

use super::buffers::Leaves;
use super::columns::{COLUMNS, close, column};
use super::forward::{GROUP, Load, Shape, World};
use super::notes::{Notes, Stage};
use super::subjects::{BUDDY, ENGINE, PCP};
use super::work::Level;
use crate::error::BenchError;
use crate::experiment::unsafely::Handled;
use crate::experiment::{Rows, Run};
use crate::harness::team::Team;
use nix::sys::signal::{SigEvent, SigSet, SigevNotify, Signal};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use pageyard::Pfn;
use pageyard_linux::place::{FreeObserver, FreeStage};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// CPU time between two samples of a thread. The kernel looks once a tick, which is longer on most hosts.
const PERIOD: Duration = Duration::from_millis(1);

const CONSUME: u8 = 1;
const RELEASE: u8 = 2;
const FRAG_FREE: u8 = 4;
const FREE_UNREF: u8 = 8;
const FREE_OK: u8 = 16;
const FREE_ONE: u8 = 32;
const LOCK: u8 = 64;
const SLOWPATH: u8 = 128;

/// Sets of places.
const SETS: usize = 256;

/// A function of the profile, by its samples.
pub(super) struct Function {
    /// Its metric, as the published table names it.
    pub metric: &'static str,
    /// The place that a sample is in.
    within: u8,
    /// Places that it is in none of: what the function ends with a call of.
    without: u8,
    /// Columns that have it.
    pub columns: &'static [&'static str],
}

/// The functions: those of the published profile, as nested there, and two that only exist here.
pub(super) const FUNCTIONS: [Function; 9] = [
    Function {
        metric: "napi_consume_skb of mlx5e_poll_tx_cq",
        within: CONSUME,
        without: 0,
        columns: &COLUMNS,
    },
    Function { metric: "__free_pages_ok", within: FREE_OK, without: 0, columns: &[BUDDY] },
    Function { metric: "free_one_page", within: FREE_ONE, without: 0, columns: &[BUDDY] },
    Function { metric: WAITING, within: CONSUME | SLOWPATH, without: 0, columns: &[BUDDY, PCP] },
    Function { metric: "_raw_spin_lock", within: CONSUME | LOCK, without: SLOWPATH, columns: &[BUDDY, PCP] },
    Function {
        metric: "page_frag_free",
        within: FRAG_FREE,
        without: FREE_OK | FREE_UNREF,
        columns: &[BUDDY, PCP],
    },
    Function { metric: "skb_release_data", within: RELEASE, without: 0, columns: &COLUMNS },
    Function { metric: "free_unref_page", within: FREE_UNREF, without: 0, columns: &[PCP] },
    Function {
        metric: "page_frag_free with the free of its page",
        within: FRAG_FREE,
        without: 0,
        columns: &[BUDDY, PCP, ENGINE],
    },
];

/// Waiting for the zone lock.
pub(super) const WAITING: &str = "queued_spin_lock_slowpath";

/// The samples of a column.
pub(super) const SAMPLES: &str = "samples";

thread_local! {
    /// The places that this thread is in.
    static HERE: Cell<u8> = const { Cell::new(0) };
    /// Its samples, by the places that it was in.
    static SEEN: [Cell<u64>; SETS] = const { [const { Cell::new(0) }; SETS] };
}

/// Takes a sample of the thread that it interrupts.
extern "C" fn sample(_: i32) {
    SEEN.with(|seen| {
        let count = &seen[usize::from(HERE.get())];
        count.set(count.get() + 1);
    });
}

/// A stay in a place.
pub(super) struct Stay(u8);

impl Stay {
    #[inline]
    fn within(bit: u8) -> Stay {
        HERE.set(HERE.get() | bit);
        Stay(bit)
    }
}

impl Drop for Stay {
    #[inline]
    fn drop(&mut self) {
        HERE.set(HERE.get() & !self.0);
    }
}

/// Tells the calling thread's samples where it is.
pub(super) struct Here;

impl Here {
    fn bit(place: FreeStage) -> u8 {
        match place {
            FreeStage::FreeUnrefPage => FREE_UNREF,
            FreeStage::FreePagesOk => FREE_OK,
            FreeStage::FreeOnePage => FREE_ONE,
            FreeStage::RawSpinLock => LOCK,
            FreeStage::SpinLockSlowpath => SLOWPATH,
        }
    }
}

impl FreeObserver for Here {
    type Stay = Stay;

    #[inline]
    fn enter(place: FreeStage) -> Stay {
        Stay::within(Here::bit(place))
    }
}

/// The samples of all threads, by the places that they were in; and whether a thread had no timer.
pub(super) struct Profile {
    seen: [AtomicU64; SETS],
    untimed: AtomicU64,
}

impl Profile {
    fn new() -> Profile {
        Profile { seen: [const { AtomicU64::new(0) }; SETS], untimed: AtomicU64::new(0) }
    }

    /// Returns how many samples are within all of these places and in none of those.
    fn count(&self, within: u8, without: u8) -> u64 {
        let of = (0..SETS).filter(|set| *set as u8 & within == within && *set as u8 & without == 0);
        // ORDER: Relaxed, in this file: counts; the threads that add to them have ended when they are read.
        of.map(|set| self.seen[set].load(Relaxed)).sum()
    }

    /// Returns a function's share of all samples, in percent; not a number where there are none.
    fn share(&self, function: &Function) -> f64 {
        self.count(function.within, function.without) as f64 / self.count(0, 0) as f64 * 100.0
    }
}

/// A thread whose time is sampled.
pub(super) struct Sampled {
    profile: Arc<Profile>,
    /// It sends no signal once it is dropped, before the samples are read.
    timer: Option<Timer>,
}

impl Sampled {
    fn begin(profile: &Arc<Profile>) -> Sampled {
        SEEN.with(|seen| seen.iter().for_each(|count| count.set(0)));
        let timer = timer().ok();
        profile.untimed.fetch_add(u64::from(timer.is_none()), Relaxed);
        Sampled { profile: profile.clone(), timer }
    }
}

impl Drop for Sampled {
    fn drop(&mut self) {
        drop(self.timer.take());
        SEEN.with(|seen| {
            for (count, seen) in self.profile.seen.iter().zip(seen) {
                count.fetch_add(seen.get(), Relaxed);
            }
        });
    }
}

/// A timer that signals the calling thread as it uses CPU time.
fn timer() -> nix::Result<Timer> {
    let thread_id = nix::unistd::gettid().as_raw();
    let event = SigEvent::new(SigevNotify::SigevThreadId { signal: Signal::SIGPROF, thread_id, si_value: 0 });
    let mut timer = Timer::new(ClockId::CLOCK_THREAD_CPUTIME_ID, event)?;
    let period = TimeSpec::nanoseconds(PERIOD.as_nanos() as i64);
    timer.set(Expiration::Interval(period), TimerSetTimeFlags::empty())?;
    Ok(timer)
}

/// The notes of a sampled pass.
pub(super) struct Sampling(Arc<Profile>);

impl Notes for Sampling {
    type FreeObserver = Here;
    type Stay = Stay;
    type Thread = Sampled;

    fn begin(&self, _: usize) -> Sampled {
        Sampled::begin(&self.0)
    }

    #[inline]
    fn at(&self, stage: Stage) -> Stay {
        Stay::within(match stage {
            Stage::Consume => CONSUME,
            Stage::Release => RELEASE,
            Stage::FragFree => FRAG_FREE,
        })
    }

    #[inline]
    fn received(&self, _: usize, _: Pfn) {}
}

/// Held while a signal's handler is this file's: the process has one.
static SAMPLER: Mutex<()> = Mutex::new(());

/// The shapes that are sampled, and their tables.
const TABLES: [(Shape, &str); 2] =
    [(Shape::Both, "Time by function"), (Shape::Split, "Time by function, one CPU receives, one completes")];

pub(super) fn measure(
    run: &mut Run<'_>,
    world: &World,
    team: &Team,
    rows: &mut Rows,
) -> Result<(), BenchError> {
    if team.len() < 2 {
        return Ok(());
    }
    let _one_at_a_time = SAMPLER.lock().unwrap_or_else(PoisonError::into_inner);
    let handled = Handled::new(Signal::SIGPROF, SigSet::empty(), sample);
    let Ok(_handled) = handled else {
        run.note("time by function was not sampled: this host lets no handler be set");
        return Ok(());
    };
    // A quick run looks at the first table only.
    let (tables, time) = if run.quick { (1, 1) } else { (TABLES.len(), 10) };
    for (done, (shape, section)) in TABLES[..tables].iter().enumerate() {
        for (nth, name) in COLUMNS.into_iter().enumerate() {
            run.at("time by function", done * COLUMNS.len() + nth, tables * COLUMNS.len());
            let profile = sampled(run, world, team, name, (*shape, Duration::from_secs(time)))?;
            rows.section(section);
            add(rows, name, &profile);
            if profile.untimed.load(Relaxed) > 0 {
                run.note("time by function was not sampled: this host has no timers of CPU time");
                return Ok(());
            }
        }
    }
    run.note(
        "time by function: samples of CPU time in a pass of its own; the timed passes are compiled without what it looks at",
    );
    Ok(())
}

/// Samples a column for this long.
fn sampled(
    run: &Run<'_>,
    world: &World,
    team: &Team,
    name: &'static str,
    (shape, time): (Shape, Duration),
) -> Result<Arc<Profile>, BenchError> {
    let profile = Arc::new(Profile::new());
    let host = column::<Leaves, Sampling>(name, &run.settings, world, &Arc::new(Sampling(profile.clone())))?;
    // Passes of some hundred milliseconds: threads begin and end them together.
    let load = Load { shape, level: Level::Scaled, groups: 500_000 / GROUP, headers: true };
    let end = Instant::now() + time;
    while Instant::now() < end {
        host.1.run(load, team);
    }
    close(&[host])?;
    Ok(profile)
}

fn add(rows: &mut Rows, name: &'static str, profile: &Profile) {
    if profile.count(0, 0) == 0 {
        return;
    }
    for function in FUNCTIONS.iter().filter(|f| f.columns.contains(&name)) {
        rows.add(function.metric, name, profile.share(function), "% of samples");
    }
    rows.add(SAMPLES, name, profile.count(0, 0) as f64, "");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_counts_for_every_place_that_its_thread_is_in() {
        let profile = Arc::new(Profile::new());
        let notes = Sampling(profile.clone());
        let thread = std::thread::spawn(move || {
            SEEN.with(|seen| seen.iter().for_each(|count| count.set(0)));
            let sampled = Sampled { profile: notes.0.clone(), timer: None };
            sample(0);
            let _consuming = notes.at(Stage::Consume);
            drop(notes.at(Stage::Release));
            sample(0);
            let _freeing = notes.at(Stage::FragFree);
            sample(0);
            let _ok = Here::enter(FreeStage::FreePagesOk);
            let one = Here::enter(FreeStage::FreeOnePage);
            let lock = Here::enter(FreeStage::RawSpinLock);
            sample(0);
            drop(Here::enter(FreeStage::SpinLockSlowpath));
            let slow = Here::enter(FreeStage::SpinLockSlowpath);
            sample(0);
            sample(0);
            drop((slow, lock, one));
            sample(0);
            drop(sampled);
        });
        thread.join().unwrap();
        assert_eq!(profile.count(0, 0), 7);
        let counts = FUNCTIONS.map(|f| profile.count(f.within, f.without));
        assert_eq!(counts, [6, 4, 3, 2, 1, 1, 0, 0, 5]);
        assert!((profile.share(&FUNCTIONS[3]) - 2.0 / 7.0 * 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_thread_that_runs_is_sampled_where_it_is() {
        let _one_at_a_time = SAMPLER.lock().unwrap();
        let _handled = Handled::new(Signal::SIGPROF, SigSet::empty(), sample).unwrap();
        let profile = Arc::new(Profile::new());
        let notes = Sampling(profile.clone());
        let ran = std::thread::spawn(move || {
            let _sampled = notes.begin(0);
            let _consuming = notes.at(Stage::Consume);
            // Bounded by samples, and by time where there are none.
            let end = Instant::now() + Duration::from_secs(20);
            while SEEN.with(|seen| seen[usize::from(CONSUME)].get()) < 5 && Instant::now() < end {
                std::hint::spin_loop();
            }
        });
        ran.join().unwrap();
        assert_eq!(profile.untimed.load(Relaxed), 0);
        assert!(profile.count(CONSUME, 0) >= 5 && profile.count(RELEASE, 0) == 0);
    }
}
