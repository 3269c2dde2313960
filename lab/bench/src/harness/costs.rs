//! The costs of this machine's own operations: the same design is fast on one processor and slow on another.

use super::clock::now_ns;
use super::team::{Pinned, Team, cpus};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The costs of the operations that an allocator's paths are made of: the least of a few short samples, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Costs {
    /// The processor's family, by the kernel's number; left out where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<u32>,
    /// The processor's model, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<u32>,
    /// A locked compare-and-swap of a line that this CPU has.
    pub locked_ns: f64,
    /// A load of what was stored just before, and the store after it: what a word costs that is changed again and
    /// again.
    pub store_to_load_ns: f64,
    /// A line written on one CPU until it is seen on another; left out where this process may use one CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handover_ns: Option<f64>,
    /// `membarrier` for this process while none of its other threads runs; left out where the kernel refuses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub membarrier_ns: Option<f64>,
    /// The same while another of its threads runs; left out where one CPU has to do, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub membarrier_running_ns: Option<f64>,
}

/// Samples of each; the least counts, since whatever disturbs one makes it longer.
const SAMPLES: usize = 5;

impl Costs {
    /// Measures, the first time that it is asked for: some milliseconds.
    pub fn of_this_machine() -> Costs {
        static MEASURED: OnceLock<Costs> = OnceLock::new();
        *MEASURED.get_or_init(Costs::measured)
    }

    fn measured() -> Costs {
        let cpus = cpus();
        let team = Team::new(&cpus[..cpus.len().min(2)]);
        let number = |name: &str| cpuinfo(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default(), name);
        let _pinned = cpus.last().map(|cpu| Pinned::to(*cpu));
        Costs {
            family: number("cpu family"),
            model: number("model"),
            locked_ns: least(locked),
            store_to_load_ns: least(store_to_load),
            handover_ns: least_of(|| handover(&team)),
            membarrier_ns: least_of(barriers),
            membarrier_running_ns: least_of(|| barriers_beside(&team)),
        }
    }
}

/// Reads a number of the first CPU.
fn cpuinfo(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().parse().ok())?
    })
}

fn least(mut sample: impl FnMut() -> f64) -> f64 {
    (0..SAMPLES).map(|_| sample()).fold(f64::INFINITY, f64::min)
}

fn least_of(mut sample: impl FnMut() -> Option<f64>) -> Option<f64> {
    (0..SAMPLES).filter_map(|_| sample()).reduce(f64::min)
}

/// Times of one sample of what takes nanoseconds.
const TIMES: u64 = 1 << 16;

fn locked() -> f64 {
    let byte = AtomicU8::new(0);
    let start = now_ns();
    for _ in 0..TIMES {
        // ORDER: as in the engine's tags.
        let _ = black_box(&byte).compare_exchange(0, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
    (now_ns() - start) as f64 / TIMES as f64
}

fn store_to_load() -> f64 {
    let word = AtomicU64::new(0);
    let start = now_ns();
    for _ in 0..TIMES {
        // ORDER: Relaxed: one thread.
        let seen = black_box(&word).load(Ordering::Relaxed);
        word.store(seen + 1, Ordering::Relaxed);
    }
    (now_ns() - start) as f64 / TIMES as f64
}

/// A word that goes back and forth between two CPUs; nanoseconds one way.
pub(crate) fn laps(team: &Team, laps: u64) -> Option<f64> {
    let line = Arc::new(AtomicU64::new(0));
    let times = team.run(2, move |cpu| {
        let start = now_ns();
        for lap in 0..laps {
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
    });
    times.map(|times| times[0] as f64 / (laps * 2) as f64)
}

fn handover(team: &Team) -> Option<f64> {
    laps(team, 1 << 11)
}

/// Returns what a `membarrier` takes.
fn barriers() -> Option<f64> {
    use rustix::thread::{MembarrierCommand as Command, membarrier};
    const BARRIERS: u64 = 1 << 6;
    membarrier(Command::RegisterPrivateExpedited).ok()?;
    let start = now_ns();
    let all = (0..BARRIERS).all(|_| membarrier(Command::PrivateExpedited).is_ok());
    let took = (now_ns() - start) as f64 / BARRIERS as f64;
    all.then_some(took)
}

/// The same while another thread runs.
fn barriers_beside(team: &Team) -> Option<f64> {
    let (running, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let took = team.run(2, move |cpu| {
        // ORDER: Acquire and Release pair with each other; they order nothing else.
        if cpu == 1 {
            running.store(true, Ordering::Release);
            while !done.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            return None;
        }
        while !running.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let took = barriers();
        done.store(true, Ordering::Release);
        took
    })?;
    took[0]
}

impl fmt::Display for Costs {
    /// Writes one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(family), Some(model)) = (self.family, self.model) {
            write!(f, "family {family}, model {model}; ")?;
        }
        write!(
            f,
            "ns: a locked instruction {:.2}, a load behind its store {:.2}",
            self.locked_ns, self.store_to_load_ns
        )?;
        if let Some(ns) = self.handover_ns {
            write!(f, ", a line from CPU to CPU {ns:.0}")?;
        }
        if let Some(ns) = self.membarrier_ns {
            write!(f, ", membarrier {ns:.0}")?;
        }
        if let Some(ns) = self.membarrier_running_ns {
            write!(f, ", beside another thread {ns:.0}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_processor_are_read_from_the_line_of_their_name() {
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9J14\n";
        assert_eq!((cpuinfo(text, "cpu family"), cpuinfo(text, "model")), (Some(25), Some(17)));
        assert_eq!(cpuinfo("model name : 9", "model"), None);
    }

    #[test]
    fn costs_are_measured_once_and_written_on_one_line() {
        let costs = Costs::of_this_machine();
        assert!(costs.locked_ns > 0.0 && costs.store_to_load_ns > 0.0);
        assert_eq!(costs, Costs::of_this_machine());
        assert_eq!(costs.handover_ns.is_some(), cpus().len() > 1);
        assert_eq!(costs.to_string().lines().count(), 1);
        let alone = Costs {
            family: None,
            model: None,
            handover_ns: None,
            membarrier_ns: None,
            membarrier_running_ns: None,
            ..costs
        };
        assert!(alone.to_string().starts_with("ns: a locked instruction"), "{alone}");
    }
}
