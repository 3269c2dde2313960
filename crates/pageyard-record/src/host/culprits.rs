//! The content of frames without any kernel flag, as far as the kernel's own counters show it.

use pageyard_trace::FrameKind;
use pageyard_trace::proctext::{Vmstat, Zoneinfo, ZoneinfoZone, balloon};

/// Something that holds memory without a mark on its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// The name that JSON uses.
    pub name: &'static str,
    /// Its description, for people.
    pub meaning: &'static str,
    /// Frames.
    pub frames: u64,
}

/// The known content of frames of kind [`FrameKind::Other`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprits {
    /// Those that the kernel counts, the largest first; those that hold nothing are left out.
    pub known: Vec<Culprit>,
    /// The frames that nothing in `/proc` accounts for: buffers of pipes, and what drivers and file systems took.
    pub unaccounted: u64,
}

/// The texts that counters are read from.
pub(super) struct Sources<'a> {
    /// Frames by kind.
    pub(super) frames: &'a [u64; FrameKind::ALL.len()],
    pub(super) vmstat: Option<&'a Vmstat>,
    /// `/proc/meminfo`; empty where it could not be read.
    pub(super) meminfo: &'a str,
    /// `/proc/net/sockstat`; empty where it could not be read.
    pub(super) sockstat: &'a str,
    pub(super) zoneinfo: Option<&'a Zoneinfo>,
}

impl Culprits {
    /// Adds up what the counters say.
    pub(super) fn of(sources: &Sources<'_>) -> Culprits {
        let counter = |name: &str| sources.vmstat.and_then(|v| v.get(name));
        let vmstat = |name: &str| counter(name).unwrap_or(0);
        let kib = |name: &str| kib_of(sources.meminfo, name).unwrap_or(0) / (pageyard::PAGE_SIZE / 1024);
        let zones = sources.zoneinfo.map_or(&[][..], |info| &info.zones);
        let pcp = zones.iter().map(ZoneinfoZone::pcp_frames).sum();
        let marked = |kind: FrameKind| sources.frames[kind.index()];
        let all_slab = vmstat("nr_slab_reclaimable") + vmstat("nr_slab_unreclaimable");
        let stacks = kib("KernelStack");
        let culprit = |name, meaning, frames| Culprit { name, meaning, frames };
        // Since Linux 4.21 a balloon marks its frames as taken out of use; they are then no part of the frames without
        // a mark.
        let ballooned = balloon(sources.vmstat, Some(kib("Balloon")))
            .unwrap_or(0)
            .saturating_sub(marked(FrameKind::Offline));
        let unmanaged = Unmanaged::of(sources.frames, zones);
        let mut known = vec![
            culprit("balloon", "ballooned: lent to the hypervisor", ballooned),
            culprit(
                "not_managed",
                "in no zone's use: the hypervisor took it or never gave it",
                // A balloon that gives its memory up before processes are killed leaves it to its zone.
                unmanaged.taken.saturating_sub(ballooned),
            ),
            culprit("holes", "addresses without memory, not marked as such", unmanaged.holes),
            culprit("pcp", "free, in per-CPU lists", pcp),
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

/// Frames without a mark that no zone hands out.
struct Unmanaged {
    /// Present, and taken from their zone or never given to it.
    taken: u64,
    /// Not present at all.
    holes: u64,
}

impl Unmanaged {
    /// Compares the frames that have a state with those that zones have. What is marked as reserved or offline is
    /// present and not managed; where it is not present, this shows as many frames too few as taken and too many as
    /// holes.
    fn of(frames: &[u64; FrameKind::ALL.len()], zones: &[ZoneinfoZone]) -> Unmanaged {
        let sum = |of: fn(&ZoneinfoZone) -> u64| zones.iter().map(of).fold(0, u64::saturating_add);
        let (present, managed) = (sum(|z| z.present), sum(|z| z.managed));
        if managed == 0 {
            return Unmanaged { taken: 0, holes: 0 };
        }
        let marked = frames[FrameKind::Reserved.index()] + frames[FrameKind::Offline.index()];
        let described: u64 = frames.iter().sum::<u64>() - frames[FrameKind::None.index()];
        let unmanaged = described.saturating_sub(managed).saturating_sub(marked);
        let taken = present.saturating_sub(managed).saturating_sub(marked).min(unmanaged);
        Unmanaged { taken, holes: unmanaged - taken }
    }
}

/// Reads the number of `Percpu:    736 kB`.
pub(super) fn kib_of(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
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
    use pageyard_trace::proctext::Pageset;

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
        let zoneinfo = Zoneinfo { zones: vec![zone(0, 0)] };
        let found = Culprits::of(&Sources {
            frames: &frames,
            vmstat: Some(&vmstat),
            meminfo,
            sockstat,
            zoneinfo: Some(&zoneinfo),
        });
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
        let found = Culprits::of(&Sources {
            frames: &frames,
            vmstat: None,
            meminfo: "x",
            sockstat: "mem",
            zoneinfo: None,
        });
        assert_eq!(found, Culprits { known: Vec::new(), unaccounted: 7 });
    }

    #[test]
    fn memory_that_the_hypervisor_never_gave_is_called_that() {
        let frames = |reserved, offline, other| {
            let mut frames = [0; FrameKind::ALL.len()];
            frames[FrameKind::Reserved.index()] = reserved;
            frames[FrameKind::Offline.index()] = offline;
            frames[FrameKind::Other.index()] = other;
            frames[FrameKind::None.index()] = 7;
            frames[FrameKind::Anon.index()] = 1000;
            frames
        };
        let named = |frames: &[u64; FrameKind::ALL.len()], vmstat: &str, zones: &[(u64, u64)]| {
            let vmstat = Vmstat::parse(vmstat).unwrap();
            let zones = zones.iter().map(|&(present, managed)| zone(present, managed)).collect();
            let found = Culprits::of(&Sources {
                frames,
                vmstat: Some(&vmstat),
                meminfo: "",
                sockstat: "",
                zoneinfo: Some(&Zoneinfo { zones }),
            });
            let of = |name| found.known.iter().find(|c| c.name == name).map_or(0, |c| c.frames);
            [of("balloon"), of("not_managed"), of("holes"), of("pcp"), found.unaccounted]
        };
        // 5,000 frames in all: 1,000 of processes, 100 reserved, 3,900 without a mark, of which 1,200 are managed.
        let zones = [(3000, 1500), (1500, 700)];
        assert_eq!(named(&frames(100, 0, 3900), "", &zones), [0, 2200, 500, 180, 1020]);
        // The balloon's part of that, by its own counter: unmarked frames first, then marked ones.
        let inflated = "balloon_inflate 300\n";
        assert_eq!(named(&frames(100, 0, 3900), inflated, &zones), [300, 1900, 500, 180, 1020]);
        assert_eq!(named(&frames(100, 300, 3600), inflated, &zones), [0, 1900, 500, 180, 1020]);
        // A balloon that leaves its memory to the zone.
        assert_eq!(named(&frames(100, 0, 3900), inflated, &[(4900, 4900)]), [300, 0, 0, 90, 3510]);
    }

    fn zone(present: u64, managed: u64) -> ZoneinfoZone {
        let pagesets = vec![Pageset { count: 90, ..Pageset::default() }];
        ZoneinfoZone { present, managed, pagesets, ..ZoneinfoZone::default() }
    }
}
