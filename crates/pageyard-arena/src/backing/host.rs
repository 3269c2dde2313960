//! The host's memory, and the part this process may use.

use super::error::BackingError;
use super::kind::PageSize;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the huge pages of a size.
fn folder(size: PageSize) -> PathBuf {
    PathBuf::from(format!("/sys/kernel/mm/hugepages/hugepages-{}kB", size.bytes() >> 10))
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Checks that so many reserved huge pages are free.
pub(super) fn check_huge_pages(size: PageSize, needed: u64) -> Result<(), BackingError> {
    let folder = folder(size);
    let setting = folder.join("nr_hugepages").display().to_string();
    let Some(free) = number(&folder.join("free_hugepages")) else {
        return Err(BackingError::NoSuchPages { size, setting: folder.display().to_string() });
    };
    // Those that are free but promised to another mapping.
    let promised = number(&folder.join("resv_hugepages")).unwrap_or(0);
    let surplus = number(&folder.join("nr_overcommit_hugepages"))
        .unwrap_or(0)
        .saturating_sub(number(&folder.join("surplus_hugepages")).unwrap_or(0));
    let free = free.saturating_sub(promised) + surplus;
    if free < needed {
        return Err(BackingError::HugePages { needed, free, size, setting });
    }
    Ok(())
}

/// Checks that so many bytes of ordinary memory can be there at all: below the host's memory, and below the limit of
/// this process's control group.
pub(super) fn check_memory(bytes: u64) -> Result<(), BackingError> {
    let limits =
        [(total(), "the host's memory"), (group_limit(), "memory.max of this process's control group")];
    for (limit, whose) in limits {
        if let Some(limit) = limit.filter(|limit| bytes > *limit) {
            return Err(BackingError::BeyondMemory { bytes, limit, whose });
        }
    }
    Ok(())
}

/// Reads `MemTotal` and `SwapTotal` of `/proc/meminfo`.
fn total() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
    };
    Some((kib("MemTotal:")? + kib("SwapTotal:").unwrap_or(0)) * 1024)
}

/// Reads the least `memory.max` on the way up from this process's control group.
fn group_limit() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let root = Path::new("/sys/fs/cgroup");
    let group = root.join(path.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(|group| number(&group.join("memory.max"))).min()
}
