//! A kernel's counts while a load runs: events, by instances of its tracer that hold one kind each, and its own texts.

use pageyard_replay::what_if::{Figure, Figures, share};
use pageyard_trace::proctext::{Buddyinfo, Pagetypeinfo, Vmstat, Zoneinfo};
use std::fs;
use std::path::{Path, PathBuf};

/// Where instances are made.
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// The counts of the instances: the figure, the event, and its filter.
const EVENTS: [(Figure, &str, &str); 6] = [
    (Figure::Drained, "kmem/mm_page_pcpu_drain", ""),
    (Figure::Fallbacks, "kmem/mm_page_alloc_extfrag", ""),
    (Figure::Wakes, "vmscan/mm_vmscan_wakeup_kswapd", ""),
    // The frame of a request that got nothing is written as all ones.
    (Figure::Failures, "kmem/mm_page_alloc", "pfn == 0xffffffffffffffff"),
    (Figure::EightRefused, "kmem/mm_page_alloc", "pfn == 0xffffffffffffffff && order == 3"),
    (Figure::Refilled, "kmem/mm_page_alloc_zone_locked", ""),
];

/// The figure that an instance with the function tracer counts, and the function. It is left out where a kernel has no
/// such tracer, or has the function inlined.
const CALLS: (Figure, &str) = (Figure::Returns, "free_pcppages_bulk");

/// Counters of the vmstat text, each a figure of its own.
const COUNTERS: [(Figure, &str); 9] = [
    (Figure::Scanned, "pgscan_kswapd"),
    (Figure::Reclaimed, "pgsteal_kswapd"),
    (Figure::DirectScanned, "pgscan_direct"),
    (Figure::DirectReclaimed, "pgsteal_direct"),
    (Figure::HugeRefused, "thp_fault_fallback"),
    (Figure::CompactFailed, "compact_fail"),
    (Figure::CompactHelped, "compact_success"),
    (Figure::MigrateScanned, "compact_migrate_scanned"),
    (Figure::FreeScanned, "compact_free_scanned"),
];

/// Counters of the vmstat text that make up the requests that waited for reclaim.
const ALLOCSTALL: [&str; 5] =
    ["allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable", "allocstall_device"];

/// Instances of the tracer, ready to count.
pub(super) struct Counters {
    instances: Vec<Instance>,
    before: Texts,
}

/// An instance of the tracer that counts one figure.
struct Instance {
    figure: Figure,
    folder: PathBuf,
    /// The file that turns counting on and off.
    switch: PathBuf,
}

/// Returns the folders of the instances, which the caller has to remove again.
pub(super) fn folders() -> impl Iterator<Item = PathBuf> {
    EVENTS.iter().map(|(figure, ..)| figure).chain([&CALLS.0]).map(|figure| folder(*figure))
}

fn folder(figure: Figure) -> PathBuf {
    Path::new(INSTANCES).join(format!("pageyard-what-if-{}", figure.name()))
}

impl Counters {
    /// Makes the instances.
    ///
    /// # Errors
    /// The object that could not be made or written.
    pub(super) fn prepare() -> Result<Counters, String> {
        let mut instances = Vec::new();
        for (figure, event, filter) in EVENTS {
            let folder = made(figure)?;
            let event = folder.join("events").join(event);
            if !filter.is_empty() {
                write(&event.join("filter"), filter)?;
            }
            instances.push(Instance { figure, folder, switch: event.join("enable") });
        }
        let (figure, function) = CALLS;
        let folder = made(figure)?;
        let switch = folder.join("tracing_on");
        write(&switch, "0")?;
        let traced = write(&folder.join("set_ftrace_filter"), function)
            .and_then(|()| write(&folder.join("current_tracer"), "function"));
        if traced.is_ok() {
            instances.push(Instance { figure, folder, switch });
        }
        Ok(Counters { instances, before: Texts::default() })
    }

    /// Begins to count from nothing.
    ///
    /// # Errors
    /// The object that could not be written or read.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        for instance in &self.instances {
            write(&instance.folder.join("trace"), "")?;
            write(&instance.switch, "1")?;
        }
        self.before = Texts::read()?;
        Ok(())
    }

    /// Stops, and returns what was counted since it began.
    ///
    /// # Errors
    /// The object that could not be read.
    pub(super) fn end(&self) -> Result<Figures, String> {
        // What these are at the end first: reading them changes them least then.
        let zoneinfo = parsed("/proc/zoneinfo", Zoneinfo::parse)?;
        let free = parsed("/proc/buddyinfo", free_pageblocks)?;
        let mut figures = Figures::default();
        for instance in &self.instances {
            write(&instance.switch, "0")?;
            figures.0.insert(instance.figure, events(&instance.folder)? as f64);
        }
        let after = Texts::read()?;
        let listed: u64 = zoneinfo.zones.iter().map(|z| z.pcp_frames()).sum();
        figures.0.insert(Figure::Listed, listed as f64);
        figures.0.insert(Figure::FreeHuge, free as f64);
        figures.0.extend(after.since(&self.before));
        Ok(figures)
    }
}

/// Makes an instance with small buffers: only how many events there were is read.
fn made(figure: Figure) -> Result<PathBuf, String> {
    let folder = folder(figure);
    if !folder.is_dir() {
        fs::create_dir(&folder).map_err(|e| {
            format!("{} cannot be made: {e}; mount tracefs, and run this as root", folder.display())
        })?;
    }
    write(&folder.join("buffer_size_kb"), "64")?;
    Ok(folder)
}

/// Counts the events of an instance: those in its buffers, and those that were written over.
fn events(folder: &Path) -> Result<u64, String> {
    let cpus = folder.join("per_cpu");
    let list = fs::read_dir(&cpus).map_err(|e| format!("{} cannot be read: {e}", cpus.display()))?;
    let mut sum = 0;
    for cpu in list.flatten() {
        let path = cpu.path().join("stats");
        let text =
            fs::read_to_string(&path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
        sum += counted(&text);
    }
    Ok(sum)
}

/// Adds up the events in the text of a CPU's buffer.
fn counted(stats: &str) -> u64 {
    let names = ["entries:", "overrun:", "dropped events:"];
    let number = |line: &str| names.iter().find_map(|n| line.strip_prefix(n)?.trim().parse::<u64>().ok());
    stats.lines().filter_map(number).sum()
}

/// Counts the free pageblocks in the text of `/proc/buddyinfo`.
pub(super) fn free_pageblocks(text: &str) -> Result<u64, String> {
    let buddyinfo = Buddyinfo::parse(text).map_err(|e| e.to_string())?;
    let huge = |counts: &[u64]| counts.get(9).unwrap_or(&0) + 2 * counts.get(10).unwrap_or(&0);
    Ok(buddyinfo.zones.iter().map(|z| huge(&z.counts)).sum())
}

/// What a kernel's own texts say at a moment.
#[derive(Default)]
struct Texts {
    vmstat: Vmstat,
    set_aside: u64,
}

impl Texts {
    fn read() -> Result<Texts, String> {
        let types = parsed("/proc/pagetypeinfo", Pagetypeinfo::parse)?;
        let set_aside = types.zones.iter().filter_map(|z| z.blocks.get("HighAtomic")).sum();
        Ok(Texts { vmstat: parsed("/proc/vmstat", Vmstat::parse)?, set_aside })
    }

    /// Returns what has changed.
    fn since(&self, before: &Texts) -> impl Iterator<Item = (Figure, f64)> {
        let get = |texts: &Texts, name: &str| texts.vmstat.get(name).unwrap_or(0) as f64;
        let rose = |name: &str| get(self, name) - get(before, name);
        let (compacting, reclaiming) = (rose("compact_stall"), ALLOCSTALL.into_iter().map(rose).sum::<f64>());
        let others = [
            (Figure::Stalls, compacting + reclaiming),
            (Figure::CompactStalls, compacting),
            (Figure::ReclaimStalls, reclaiming),
            (Figure::SetAside, self.set_aside as f64 - before.set_aside as f64),
            (Figure::Compacted, share(rose("compact_success"), compacting)),
        ];
        let counters = COUNTERS.map(|(figure, name)| (figure, rose(name)));
        others.into_iter().chain(counters)
    }
}

fn parsed<T, E: std::fmt::Display>(path: &str, parse: fn(&str) -> Result<T, E>) -> Result<T, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{path} cannot be read: {e}"))?;
    parse(&text).map_err(|e| e.to_string())
}

pub(super) fn write(path: &Path, value: &str) -> Result<(), String> {
    fs::write(path, value).map_err(|e| format!("{} does not take `{value}`: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_written_over_count_too() {
        let stats =
            "entries: 12\noverrun: 30\ncommit overrun: 7\nbytes: 512\ndropped events: 2\nread events: 5\n";
        assert_eq!(counted(stats), 44);
        assert_eq!(counted("nothing"), 0);
    }

    #[test]
    fn what_the_texts_say_is_counted_from_the_beginning() {
        let texts = |vmstat: &str, set_aside| Texts { vmstat: Vmstat::parse(vmstat).unwrap(), set_aside };
        let before = texts("compact_stall 4\ncompact_success 1\nallocstall_normal 2\npgscan_kswapd 10\n", 2);
        let after = texts(
            "compact_stall 8\ncompact_success 2\nallocstall_normal 5\npgscan_kswapd 30\nthp_fault_fallback 7\n",
            1,
        );
        let since = Figures(after.since(&before).collect());
        let of = [Figure::Stalls, Figure::SetAside, Figure::Scanned, Figure::HugeRefused, Figure::Compacted];
        assert_eq!(of.map(|figure| since.get(figure)), [7.0, -1.0, 20.0, 7.0, 25.0]);
    }
}
