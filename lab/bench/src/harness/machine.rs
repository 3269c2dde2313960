//! The environment of a benchmark: the machine, and whether other processes used it meanwhile.

use super::clock::now_ns;
use super::costs::Costs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::{fmt, fs};

/// Whether this program was built with assertions and overflow checks, as tests are. Its figures then count the checks,
/// too: a pair takes up to twice as long as in a release build.
pub const CHECKED_BUILD: bool = cfg!(debug_assertions);

/// The warning that stands beside every figure of a checked build.
pub const CHECKED_BUILD_WARNING: &str = "CHECKED BUILD: assertions and overflow checks are part of every figure, so quote none of \
    them. For figures that count, run the command that `cargo build --release` builds.";

/// The machine, for the head of a table, and how the program that measures on it was built.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// The running kernel.
    pub kernel: String,
    /// Whether the program was built with assertions and overflow checks; left out for a release build.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checked_build: bool,
    /// The costs of its own operations; omitted if not measured.
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
            checked_build: CHECKED_BUILD,
            costs: None,
        }
    }
}

/// Reads a file of `/sys/devices/system/cpu`; `None` where it cannot be read.
type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

fn read_cpu(path: &str) -> Option<String> {
    fs::read_to_string(format!("/sys/devices/system/cpu/{path}")).ok()
}

/// Returns the caches that a CPU has for data, smallest first: bytes, and the CPUs that share each.
fn data_caches(cpu: usize, read: Read<'_>) -> Vec<(u64, String)> {
    let cache = |index: u32| {
        let file = |name: &str| read(&format!("cpu{cpu}/cache/index{index}/{name}"));
        let holds_data = file("type").is_some_and(|kind| kind.trim() != "Instruction");
        let kib = file("size")?.trim().strip_suffix('K')?.parse::<u64>().ok()?;
        let shared_by = file("shared_cpu_list").unwrap_or_else(|| cpu.to_string());
        holds_data.then_some((kib << 10, shared_by))
    };
    let mut caches: Vec<_> = (0..8).filter_map(cache).collect();
    caches.sort_unstable();
    caches
}

/// Returns the sizes of the first CPU's caches for data, in bytes, smallest first; none where the kernel does not say.
pub(crate) fn caches() -> Vec<u64> {
    data_caches(0, &read_cpu).into_iter().map(|(bytes, _)| bytes).collect()
}

/// Returns the bytes of all last-level caches that these CPUs use; `None` where the kernel does not say.
pub(crate) fn last_level_caches(cpus: &[usize]) -> Option<u64> {
    last_level_of(cpus, &read_cpu)
}

fn last_level_of(cpus: &[usize], read: Read<'_>) -> Option<u64> {
    let last = |cpu: &usize| data_caches(*cpu, read).pop().map(|(bytes, shared_by)| (shared_by, bytes));
    // CPUs that share a cache name it by the same list.
    let caches = cpus.iter().map(last).collect::<Option<BTreeMap<String, u64>>>()?;
    Some(caches.into_values().sum()).filter(|bytes| *bytes > 0)
}

impl fmt::Display for Machine {
    /// Writes the processor's name and how many CPUs there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} CPU{}", self.cpu, self.cpus, if self.cpus == 1 { "" } else { "s" })
    }
}

/// The processor time that other processes took from a benchmark.
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
    /// Returns whether it is more than a median can absorb.
    #[must_use]
    pub fn is_much(&self) -> bool {
        self.steal_ms > 0.0 && self.steal_ms >= WAITED_SHARE * self.elapsed_ms
            || self.waited_ms > WAITED_SHARE * self.elapsed_ms
    }
}

/// Watches for other processes from the moment it is made.
pub(crate) struct InterferenceWatch {
    steal_ms: f64,
    waited_ms: f64,
    at: u64,
}

impl InterferenceWatch {
    /// Begins to watch.
    pub fn start() -> InterferenceWatch {
        InterferenceWatch { steal_ms: steal_ms(), waited_ms: waited_ms(), at: now_ns() }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Four CPUs in two pairs; each pair has an L3 of 32 MiB, each CPU an L1 for data, one for instructions and an L2.
    fn two_pairs(path: &str) -> Option<String> {
        let (cpu, rest) = path.strip_prefix("cpu")?.split_once("/cache/index")?;
        let (index, file) = rest.split_once('/')?;
        let (kind, size, pair) = match index {
            "0" => ("Data", "32K", false),
            "1" => ("Instruction", "64K", false),
            "2" => ("Unified", "1024K", false),
            "3" => ("Unified", "32768K", true),
            _ => return None,
        };
        let first = cpu.parse::<usize>().ok().filter(|cpu| *cpu < 4)? / 2 * 2;
        Some(match file {
            "type" => kind.to_owned() + "\n",
            "size" => size.to_owned() + "\n",
            "shared_cpu_list" if pair => format!("{first}-{}\n", first + 1),
            "shared_cpu_list" => format!("{cpu}\n"),
            _ => return None,
        })
    }

    #[test]
    fn a_cache_that_cpus_share_counts_once() {
        for (cpus, mib) in [(&[0][..], 32), (&[0, 1], 32), (&[3, 1], 64), (&[0, 1, 2, 3], 64)] {
            assert_eq!(last_level_of(cpus, &two_pairs), Some(mib << 20), "{cpus:?}");
        }
        let sizes =
            |cpu| data_caches(cpu, &two_pairs).into_iter().map(|(bytes, _)| bytes >> 10).collect::<Vec<_>>();
        assert_eq!(sizes(2), [32, 1024, 32768]);
    }

    #[test]
    fn caches_that_the_kernel_does_not_name_have_no_size() {
        assert_eq!(last_level_of(&[0, 4], &two_pairs), None);
        assert_eq!(last_level_of(&[0], &|_| None), None);
        assert_eq!(
            last_level_of(&[0], &|path| Some(if path.ends_with("type") { "Data" } else { "many" }.into())),
            None
        );
        assert_eq!(last_level_of(&[], &two_pairs), None);
    }
}
