//! Facts about this host that a recording needs.

use std::fs::{self, File};
use std::io::Read;

use rustix::time::{ClockId, clock_gettime};

use pageyard_trace::TraceError;
use pageyard_trace::source::reason;
use pageyard_trace::{ProcTexts, kernel_name};

use super::error::RecordError;

/// The most text read from one file.
pub(super) const MAX_TEXT: u64 = 8 << 20;

/// Returns the kernel's name and version. The host's own name is not read.
pub(super) fn kernel() -> String {
    kernel_name(&rustix::system::uname().release().to_string_lossy())
}

/// Reads the clock that the events' times are of.
pub(super) fn now_ns() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Returns when that clock showed `at_ns`, in seconds since 1970.
pub(super) fn unix_s(at_ns: u64) -> u64 {
    nanos(ClockId::Realtime).saturating_sub(now_ns().saturating_sub(at_ns)) / 1_000_000_000
}

/// Returns the processor time that this process has taken.
pub(super) fn own_ns() -> u64 {
    nanos(ClockId::ProcessCPUTime)
}

/// Returns the threads of this process.
pub(super) fn own_threads() -> Vec<u32> {
    let listed = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the processor time that this thread has taken.
pub(super) fn thread_ns() -> u64 {
    nanos(ClockId::ThreadCPUTime)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the host's memory.
pub(super) fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(info.mem_unit.into())
}

/// Returns the CPUs that are running.
pub(super) fn online_cpus() -> Result<Vec<u32>, RecordError> {
    const FILE: &str = "/sys/devices/system/cpu/online";
    let text = fs::read_to_string(FILE)
        .map_err(|e| RecordError::Refused { what: format!("{FILE} cannot be read"), why: reason(&e) })?;
    parse_list(text.trim()).ok_or_else(|| RecordError::Refused {
        what: format!("{FILE} cannot be understood"),
        why: format!("it says `{}`", pageyard_trace::text::quoted(text.trim().as_bytes())),
    })
}

/// Reads `0-3,8`.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= 8192 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Reads Linux's own texts about its memory.
pub(super) fn texts() -> Result<ProcTexts, TraceError> {
    let read = |name: &str| {
        let path = format!("/proc/{name}");
        let mut bytes = Vec::new();
        match File::open(&path).and_then(|f| f.take(MAX_TEXT).read_to_end(&mut bytes)) {
            Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            // Some kernels are built without one of them; a trace may lack it.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(e) => Err(TraceError::Unreadable { file: path, why: reason(&e) }),
        }
    };
    Ok(ProcTexts {
        buddyinfo: read("buddyinfo")?,
        pagetypeinfo: read("pagetypeinfo")?,
        zoneinfo: read("zoneinfo")?,
        vmstat: read("vmstat")?,
    })
}

#[cfg(test)]
mod tests {
    use super::parse_list;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list("7"), Some(vec![7]));
        for bad in ["", "2-1", "a", "0-99999", "1,"] {
            assert_eq!(parse_list(bad), None, "{bad}");
        }
    }
}
