//! The environment of a benchmark: the machine, and whether other processes used it meanwhile.

use super::clock::now_ns;
use super::costs::Costs;
use serde::{Deserialize, Serialize};
use std::{fmt, fs};

/// The machine, for the head of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// The running kernel.
    pub kernel: String,
    /// What its own operations cost; left out where that was not measured.
    #[serde(flatten)]
    pub costs: Option<Costs>,
}

impl Machine {
    /// Looks at this machine, and measures what its operations cost.
    #[must_use]
    pub fn measured() -> Machine {
        Machine { costs: Some(Costs::of_this_machine()), ..Machine::this() }
    }

    /// Looks at this machine.
    #[must_use]
    pub fn this() -> Machine {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu: model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned()),
            cpus: super::team::cpus().len(),
            kernel: kernel.trim().to_owned(),
            costs: None,
        }
    }
}

/// Returns the sizes of the first CPU's caches for data, in bytes, smallest first; none where the kernel does not say.
pub(crate) fn caches() -> Vec<u64> {
    let read = |index: u32, file: &str| {
        fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}"))
    };
    let size = |index: u32| {
        let holds_data = read(index, "type").is_ok_and(|kind| kind.trim() != "Instruction");
        let kib = read(index, "size").ok()?.trim().strip_suffix('K')?.parse::<u64>().ok()?;
        holds_data.then_some(kib << 10)
    };
    let mut sizes: Vec<u64> = (0..8).filter_map(size).collect();
    sizes.sort_unstable();
    sizes
}

/// Returns the size of the last-level cache, in bytes.
pub(crate) fn last_level_cache() -> Option<u64> {
    caches().last().copied()
}

impl fmt::Display for Machine {
    /// Writes the processor's name and how many CPUs there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} CPU{}", self.cpu, self.cpus, if self.cpus == 1 { "" } else { "s" })
    }
}

/// What other processes took from a benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Taken {
    /// Time that the hypervisor gave to other guests, milliseconds over all CPUs.
    pub steal_ms: f64,
    /// Time that this process's threads could have run and did not, milliseconds.
    pub waited_ms: f64,
    /// Time that passed, milliseconds.
    pub elapsed_ms: f64,
}

/// Threads that wait for less than this share of the time were not disturbed: the kernel's own work takes as much.
const WAITED_SHARE: f64 = 0.05;

impl Taken {
    /// Says whether it is more than a median can absorb.
    #[must_use]
    pub fn is_much(&self) -> bool {
        self.steal_ms > 0.0 && self.steal_ms >= WAITED_SHARE * self.elapsed_ms
            || self.waited_ms > WAITED_SHARE * self.elapsed_ms
    }
}

/// Watches for other processes from the moment it is made.
pub(crate) struct Watch {
    steal_ms: f64,
    waited_ms: f64,
    at: u64,
}

impl Watch {
    /// Begins to watch.
    pub fn start() -> Watch {
        Watch { steal_ms: steal_ms(), waited_ms: waited_ms(), at: now_ns() }
    }

    /// Returns what was seen since.
    pub fn seen(&self) -> Taken {
        Taken {
            steal_ms: (steal_ms() - self.steal_ms).max(0.0),
            waited_ms: (waited_ms() - self.waited_ms).max(0.0),
            elapsed_ms: (now_ns() - self.at) as f64 / 1e6,
        }
    }
}

/// The eighth figure of the first line of `/proc/stat`, in ticks of 10 ms.
fn steal_ms() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().and_then(|l| l.split_whitespace().nth(8)?.parse::<f64>().ok());
    ticks.unwrap_or(0.0) * 10.0
}

/// The second figure of each thread's `schedstat`: nanoseconds on a run queue.
fn waited_ms() -> f64 {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waits = threads.filter_map(|t| {
        let text = fs::read_to_string(t.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<f64>().ok()
    });
    waits.sum::<f64>() / 1e6
}
