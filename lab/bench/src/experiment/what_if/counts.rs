//! A kernel's counts while a load runs: events, by instances of its tracer that hold one kind each, and its own texts.

use pageyard_replay::what_if::{Figure, Figures, share};
use pageyard_trace::proctext::{Buddyinfo, Pagetypeinfo, Vmstat, Zoneinfo};
use std::fs;
use std::path::{Path, PathBuf};

/// Where instances are made.
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// The counts of the instances: the figure, the event, and its filter.
const EVENTS: [(Figure, &str, &str); 5] = [
    (Figure::Drained, "kmem/mm_page_pcpu_drain", ""),
    (Figure::Fallbacks, "kmem/mm_page_alloc_extfrag", ""),
    (Figure::Wakes, "vmscan/mm_vmscan_wakeup_kswapd", ""),
    // The frame of a request that got nothing is written as all ones.
    (Figure::Failures, "kmem/mm_page_alloc", "pfn == 0xffffffffffffffff"),
    (Figure::EightRefused, "kmem/mm_page_alloc", "pfn == 0xffffffffffffffff && order == 3"),
];

/// Counters of the vmstat text that make up the stalls.
const STALLS: [&str; 6] = [
    "compact_stall",
    "allocstall_dma",
    "allocstall_dma32",
    "allocstall_normal",
    "allocstall_movable",
    "allocstall_device",
];

/// Instances of the tracer, ready to count.
pub(super) struct Counters {
    instances: Vec<(Figure, PathBuf, &'static str)>,
    before: Texts,
}

/// Returns the folders of the instances, which the caller has to remove again.
pub(super) fn folders() -> impl Iterator<Item = PathBuf> {
    EVENTS.iter().map(|(figure, ..)| Path::new(INSTANCES).join(format!("pageyard-what-if-{}", figure.name())))
}

impl Counters {
    /// Makes the instances, with small buffers: only how many events there were is read.
    ///
    /// # Errors
    /// The object that could not be made or written.
    pub(super) fn prepare() -> Result<Counters, String> {
        let mut instances = Vec::new();
        for ((figure, event, filter), folder) in EVENTS.iter().zip(folders()) {
            if !folder.is_dir() {
                fs::create_dir(&folder).map_err(|e| {
                    format!("{} cannot be made: {e}; mount tracefs, and run this as root", folder.display())
                })?;
            }
            write(&folder.join("buffer_size_kb"), "64")?;
            if !filter.is_empty() {
                write(&folder.join("events").join(event).join("filter"), filter)?;
            }
            instances.push((*figure, folder, *event));
        }
        Ok(Counters { instances, before: Texts::default() })
    }

    /// Begins to count from nothing.
    ///
    /// # Errors
    /// The object that could not be written or read.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        for (_, folder, event) in &self.instances {
            write(&folder.join("trace"), "")?;
            write(&folder.join("events").join(event).join("enable"), "1")?;
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
        for (figure, folder, event) in &self.instances {
            write(&folder.join("events").join(event).join("enable"), "0")?;
            figures.0.insert(*figure, events(folder)? as f64);
        }
        let after = Texts::read()?;
        let listed: u64 = zoneinfo.zones.iter().map(|z| z.pcp_frames()).sum();
        figures.0.insert(Figure::Listed, listed as f64);
        figures.0.insert(Figure::FreeHuge, free as f64);
        figures.0.extend(after.since(&self.before));
        Ok(figures)
    }
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
    fn since(&self, before: &Texts) -> [(Figure, f64); 5] {
        let get = |texts: &Texts, name: &str| texts.vmstat.get(name).unwrap_or(0) as f64;
        let rose = |name: &str| get(self, name) - get(before, name);
        [
            (Figure::Stalls, STALLS.into_iter().map(rose).sum()),
            (Figure::SetAside, self.set_aside as f64 - before.set_aside as f64),
            (Figure::Scanned, rose("pgscan_kswapd")),
            (Figure::HugeRefused, rose("thp_fault_fallback")),
            (Figure::Compacted, share(rose("compact_success"), rose("compact_stall"))),
        ]
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
        let since = Figures(after.since(&before).into());
        let of = [Figure::Stalls, Figure::SetAside, Figure::Scanned, Figure::HugeRefused, Figure::Compacted];
        assert_eq!(of.map(|figure| since.get(figure)), [7.0, -1.0, 20.0, 7.0, 25.0]);
    }
}
