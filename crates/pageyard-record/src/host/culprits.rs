//! What frames without any kernel flag hold, by the kernel's own counters, as far as it counts.

use pageyard_trace::FrameKind;
use pageyard_trace::proctext::Vmstat;

/// Something that holds memory without a mark on its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// The name that JSON uses.
    pub name: &'static str,
    /// What it is, for people.
    pub meaning: &'static str,
    /// Frames.
    pub frames: u64,
}

/// What is known of the frames of kind [`FrameKind::Other`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprits {
    /// Those that the kernel counts, the largest first; those that hold nothing are left out.
    pub known: Vec<Culprit>,
    /// The frames that nothing in `/proc` accounts for.
    pub unaccounted: u64,
}

/// What counters are read from.
pub(super) struct Sources<'a> {
    /// Frames by kind.
    pub(super) frames: &'a [u64; FrameKind::ALL.len()],
    pub(super) vmstat: Option<&'a Vmstat>,
    /// `/proc/meminfo`; empty where it could not be read.
    pub(super) meminfo: &'a str,
    /// `/proc/net/sockstat`; empty where it could not be read.
    pub(super) sockstat: &'a str,
    /// Frames in per-CPU lists.
    pub(super) pcp: u64,
}

impl Culprits {
    /// Adds up what the counters say.
    pub(super) fn of(sources: &Sources<'_>) -> Culprits {
        let vmstat = |name: &str| sources.vmstat.and_then(|v| v.get(name)).unwrap_or(0);
        let kib = |name: &str| kib_of(sources.meminfo, name) / (pageyard::PAGE_SIZE / 1024);
        let marked = |kind: FrameKind| sources.frames[kind.index()];
        let all_slab = vmstat("nr_slab_reclaimable") + vmstat("nr_slab_unreclaimable");
        let stacks = kib("KernelStack");
        let culprit = |name, meaning, frames| Culprit { name, meaning, frames };
        let mut known = vec![
            culprit("balloon", "ballooned: lent to the hypervisor", balloon(&vmstat, kib("Balloon"))),
            culprit("pcp", "free, in per-CPU lists", sources.pcp),
            culprit(
                "slab",
                "slab, frames without its mark",
                all_slab.saturating_sub(marked(FrameKind::Slab)),
            ),
            culprit(
                "page_tables",
                "page tables, frames without their mark",
                (vmstat("nr_page_table_pages") + vmstat("nr_sec_page_table_pages"))
                    .saturating_sub(marked(FrameKind::PageTable)),
            ),
            culprit("kernel_stacks", "stacks of threads in the kernel", stacks),
            culprit("percpu", "the kernel's per-CPU variables", kib("Percpu")),
            // Stacks come from there too, on kernels that can tell an overflow.
            culprit(
                "vmalloc",
                "vmalloc, stacks left out: modules, large tables",
                kib("VmallocUsed").saturating_sub(stacks),
            ),
            culprit("sockets", "buffers of sockets", sockets(sources.sockstat)),
        ];
        known.retain(|c| c.frames > 0);
        known.sort_by_key(|c| std::cmp::Reverse(c.frames));
        let sum: u64 = known.iter().map(|c| c.frames).sum();
        Culprits { known, unaccounted: marked(FrameKind::Other).saturating_sub(sum) }
    }
}

/// Returns the frames that a balloon holds. A balloon that marks them as taken out of use does so since Linux 4.21; they are
/// then no part of the frames without a mark.
fn balloon(vmstat: &impl Fn(&str) -> u64, meminfo: u64) -> u64 {
    let counted = vmstat("balloon_inflate").saturating_sub(vmstat("balloon_deflate"));
    meminfo.max(vmstat("nr_balloon_pages")).max(counted)
}

/// Reads `Percpu:    736 kB`.
fn kib_of(meminfo: &str, name: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Adds up the `mem` of `TCP: inuse 2 .. mem 3` and its like, which are frames.
fn sockets(sockstat: &str) -> u64 {
    let words: Vec<&str> = sockstat.split_whitespace().collect();
    words
        .windows(2)
        .filter(|w| w[0] == "mem")
        .filter_map(|w| w[1].parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_holds_is_named_and_the_rest_said() {
        let mut frames = [0; FrameKind::ALL.len()];
        frames[FrameKind::Other.index()] = 10_000;
        frames[FrameKind::Slab.index()] = 300;
        let vmstat = Vmstat::parse(
            "nr_slab_reclaimable 200\nnr_slab_unreclaimable 150\nballoon_inflate 9000\nballoon_deflate 1000\n\
             nr_page_table_pages 40\n",
        )
        .unwrap();
        let meminfo = "KernelStack:  400 kB\nVmallocUsed: 800 kB\nPercpu: 736 kB\nPercpuOther: 9 kB\n";
        let sockstat = "sockets: used 21\nTCP: inuse 2 orphan 0 tw 0 alloc 2 mem 7\nUDP: inuse 0 mem 3\nFRAG: inuse 0 memory 9\n";
        let found =
            Culprits::of(&Sources { frames: &frames, vmstat: Some(&vmstat), meminfo, sockstat, pcp: 90 });
        let named: Vec<_> = found.known.iter().map(|c| (c.name, c.frames)).collect();
        let expected = [
            ("balloon", 8000),
            ("percpu", 184),
            ("kernel_stacks", 100),
            ("vmalloc", 100),
            ("pcp", 90),
            ("slab", 50),
            ("page_tables", 40),
            ("sockets", 10),
        ];
        assert_eq!(named, expected);
        assert_eq!(found.unaccounted, 10_000 - expected.iter().map(|(_, n)| n).sum::<u64>());
    }

    #[test]
    fn without_counters_everything_is_unaccounted() {
        let mut frames = [0; FrameKind::ALL.len()];
        frames[FrameKind::Other.index()] = 7;
        let found =
            Culprits::of(&Sources { frames: &frames, vmstat: None, meminfo: "x", sockstat: "mem", pcp: 0 });
        assert_eq!(found, Culprits { known: Vec::new(), unaccounted: 7 });
    }
}
