//! How much memory this process may still use: the least that its own limits, its cgroups and the host allow.
//!
//! Rust ends a process that runs out of memory. So a command that is about to keep tables for a whole machine asks
//! first, and refuses with a sentence.

use std::fmt;

/// The limit on the memory of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundBy {
    /// `RLIMIT_AS`, what `ulimit -v` sets.
    AddressSpace,
    /// `RLIMIT_DATA`, what `ulimit -d` sets.
    Data,
    /// The memory controller of the process's cgroup, or of one above it.
    Cgroup,
    /// The host's memory: `MemAvailable`.
    Host,
}

impl fmt::Display for BoundBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BoundBy::AddressSpace => "the process's limit on address space (ulimit -v)",
            BoundBy::Data => "the process's limit on data (ulimit -d)",
            BoundBy::Cgroup => "the memory limit of its cgroup",
            BoundBy::Host => "the memory that this host has available",
        })
    }
}

/// How much memory may still be used, in bytes, and what bounds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// The limit that applies.
    pub bound_by: BoundBy,
}

/// The assumption where nothing can be read: enough for a recording of a large host.
const UNKNOWN: u64 = 8 << 30;

/// More than any machine has: cgroup v1 writes its page counter's maximum where there is no limit.
const UNLIMITED: u64 = 1 << 60;

/// cgroups are nested, and no deeper than this.
const DEEPEST: usize = 64;

/// Returns how much memory this process may still use.
#[must_use]
pub fn memory() -> Room {
    room(&|path| std::fs::read_to_string(path).ok())
}

/// Reads a file; `None` where it cannot be read.
type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the least that any bound leaves.
fn room(read: Read<'_>) -> Room {
    let limits = read("/proc/self/limits").unwrap_or_default();
    let status = read("/proc/self/status").unwrap_or_default();
    let limit = |name: &str, used: &str| {
        Some(soft_limit(&limits, name)?.saturating_sub(kib(&status, used).unwrap_or(0)))
    };
    let available = read("/proc/meminfo").and_then(|text| kib(&text, "MemAvailable:"));
    let bounds = [
        (limit("Max address space", "VmSize:"), BoundBy::AddressSpace),
        (limit("Max data size", "VmData:"), BoundBy::Data),
        (cgroup(read), BoundBy::Cgroup),
        (Some(available.unwrap_or(UNKNOWN)), BoundBy::Host),
    ];
    let rooms = bounds.into_iter().filter_map(|(bytes, bound_by)| Some(Room { bytes: bytes?, bound_by }));
    rooms.min_by_key(|room| room.bytes).unwrap_or(Room { bytes: UNKNOWN, bound_by: BoundBy::Host })
}

/// Finds the soft limit of a line of `/proc/self/limits`, in bytes; `None` if there is none.
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|l| l.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Finds a value that a line gives in KiB, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Finds a value of `memory.stat`.
fn stat(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

/// Returns the least that the process's cgroup and those above it leave, in either version's files.
///
/// File pages count as used but are evicted first when a cgroup reaches its limit, so they count as room here.
fn cgroup(read: Read<'_>) -> Option<u64> {
    let text = read("/proc/self/cgroup")?;
    let mut least: Option<u64> = None;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (root, names) = match controllers {
            "" => ("/sys/fs/cgroup", V2),
            _ if controllers.split(',').any(|c| c == "memory") => ("/sys/fs/cgroup/memory", V1),
            _ => continue,
        };
        for folder in upwards(path) {
            if let Some(left) = left_in(read, &format!("{root}{folder}"), &names) {
                least = Some(least.map_or(left, |l| l.min(left)));
            }
        }
    }
    least
}

/// The files of a memory controller: limit, use, and the lines of `memory.stat` that count file pages.
struct Names {
    limit: &'static str,
    used: &'static str,
    file_pages: [&'static str; 2],
}

const V2: Names =
    Names { limit: "memory.max", used: "memory.current", file_pages: ["inactive_file", "active_file"] };
const V1: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    file_pages: ["total_inactive_file", "total_active_file"],
};

/// Returns a cgroup's path and those above it, each without a slash at the end.
fn upwards(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    std::iter::successors(Some(path), |p| p.rfind('/').map(|at| &p[..at])).take(DEEPEST)
}

/// Returns what one cgroup leaves; `None` where it sets no limit, or cannot be seen from here.
fn left_in(read: Read<'_>, folder: &str, names: &Names) -> Option<u64> {
    let number = |file: &str| read(&format!("{folder}/{file}"))?.trim().parse::<u64>().ok();
    let limit = number(names.limit).filter(|limit| *limit < UNLIMITED)?;
    let files = read(&format!("{folder}/memory.stat")).unwrap_or_default();
    let file_pages: u64 = names.file_pages.iter().map(|name| stat(&files, name)).sum();
    let used = number(names.used).unwrap_or(0).saturating_sub(file_pages);
    Some(limit.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
                          Max data size             unlimited            unlimited            bytes     \n\
                          Max address space         307200000            unlimited            bytes     \n";
    const STATUS: &str = "Name:\tpageyard\nVmSize:\t  100000 kB\nVmData:\t   20000 kB\n";
    const MEMINFO: &str = "MemTotal:  16000000 kB\nMemAvailable:    4000000 kB\n";

    fn of(files: &[(&str, &str)]) -> Room {
        room(&|path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned()))
    }

    #[test]
    fn without_limits_the_host_bounds() {
        let limits = LIMITS.replace("307200000", "unlimited");
        let room = of(&[("/proc/self/limits", &limits), ("/proc/meminfo", MEMINFO)]);
        assert_eq!(room, Room { bytes: 4_000_000 << 10, bound_by: BoundBy::Host });
        assert_eq!(of(&[]), Room { bytes: UNKNOWN, bound_by: BoundBy::Host });
    }

    #[test]
    fn a_limit_on_address_space_is_lessened_by_what_is_mapped() {
        let files =
            [("/proc/self/limits", LIMITS), ("/proc/self/status", STATUS), ("/proc/meminfo", MEMINFO)];
        let expected = 307_200_000 - (100_000 << 10);
        assert_eq!(of(&files), Room { bytes: expected, bound_by: BoundBy::AddressSpace });
        let data = LIMITS.replace("data size             unlimited", "data size             30000000");
        let files = [("/proc/self/limits", &*data), ("/proc/self/status", STATUS)];
        assert_eq!(of(&files), Room { bytes: 30_000_000 - (20_000 << 10), bound_by: BoundBy::Data });
    }

    #[test]
    fn the_tightest_cgroup_on_the_way_up_bounds() {
        let files = [
            ("/proc/self/cgroup", "0::/user.slice/job.scope\n"),
            ("/sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n"),
            ("/sys/fs/cgroup/user.slice/memory.max", "1000000000\n"),
            ("/sys/fs/cgroup/user.slice/memory.current", "700000000\n"),
            (
                "/sys/fs/cgroup/user.slice/memory.stat",
                "anon 1\nactive_file 100000000\ninactive_file 50000000\n",
            ),
            ("/proc/meminfo", MEMINFO),
        ];
        assert_eq!(of(&files), Room { bytes: 450_000_000, bound_by: BoundBy::Cgroup });
    }

    #[test]
    fn the_root_of_a_container_bounds() {
        let files = [
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/memory.max", "268435456\n"),
            ("/sys/fs/cgroup/memory.current", "300000000\n"),
            ("/proc/meminfo", MEMINFO),
        ];
        assert_eq!(of(&files), Room { bytes: 0, bound_by: BoundBy::Cgroup });
    }

    #[test]
    fn version_one_has_files_of_its_own_and_no_word_for_unlimited() {
        let none = "9223372036854771712\n";
        let files = [
            ("/proc/self/cgroup", "12:cpu,cpuacct:/x\n5:memory:/docker/abc\n0::/\n"),
            ("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "536870912\n"),
            ("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "36870912\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", none),
            ("/proc/meminfo", MEMINFO),
        ];
        assert_eq!(of(&files), Room { bytes: 500_000_000, bound_by: BoundBy::Cgroup });
        let unlimited = [
            ("/proc/self/cgroup", "5:memory:/docker/abc\n"),
            ("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", none),
        ];
        assert_eq!(of(&unlimited).bound_by, BoundBy::Host);
    }

    #[test]
    fn texts_that_make_no_sense_bound_nothing() {
        let files = [
            ("/proc/self/limits", "Max address space"),
            ("/proc/self/cgroup", "::\n0\nmemory\n5:memory\n"),
            ("/sys/fs/cgroup/memory.max", "lots"),
            ("/proc/meminfo", "MemAvailable: 99999999999999999999 kB"),
        ];
        assert_eq!(of(&files), Room { bytes: UNKNOWN, bound_by: BoundBy::Host });
    }

    #[test]
    fn this_process_has_some_room() {
        assert!(memory().bytes > 0);
    }
}
