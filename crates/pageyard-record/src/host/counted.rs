//! Memory that the kernel counts by use, whatever marks its frames have.

use pageyard_trace::proctext::{Vmstat, balloon};

use super::culprits::{Culprit, kib_of};

/// Memory that no counter of the kernel shows.
pub const NOT_COUNTED: &str = "The kernel counts neither the buffers of pipes (their owners alone can ask for a pipe's size) nor what drivers take for themselves; secret memory (memfd_secret) is part of `unevictable`.";

/// Adds up what `vmstat` and `meminfo` say; counters that this kernel lacks are left out.
pub(super) fn counted(vmstat: Option<&Vmstat>, meminfo: Option<&str>) -> Vec<Culprit> {
    let counter = |name: &str| vmstat.and_then(|v| v.get(name));
    let number = |name: &str| meminfo.and_then(|text| kib_of(text, name));
    let frames = |kib: u64| kib / (pageyard::PAGE_SIZE / 1024);
    // Counts of huge pages of the default size, which `meminfo` gives in KiB.
    let huge = |name: &str| Some(frames(number(name)?.saturating_mul(number("Hugepagesize")?)));
    let hugetlb = number("Hugetlb").map(frames).or_else(|| huge("HugePages_Total"));
    // A kernel without the counters of balloons has none.
    let lent = number("Balloon").map(frames);
    let ballooned = balloon(vmstat, lent);
    [
        ("shmem", "shared memory and tmpfs", counter("nr_shmem")),
        ("mlocked", "locked by mlock", counter("nr_mlock")),
        ("unevictable", "unevictable: locked memory, secret memory, ramfs", counter("nr_unevictable")),
        ("hugetlb", "huge pages set aside (hugetlb), of every size", hugetlb),
        ("hugetlb_free", "of these, of the default size, free", huge("HugePages_Free")),
        ("hugetlb_reserved", "of those, promised to processes", huge("HugePages_Rsvd")),
        ("ballooned", "ballooned: lent to the hypervisor", ballooned),
    ]
    .into_iter()
    .filter_map(|(name, meaning, frames)| Some(Culprit { name, meaning, frames: frames? }))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vmstat: &str, meminfo: &str) -> Vec<(&'static str, u64)> {
        let vmstat = Vmstat::parse(vmstat).unwrap();
        counted(Some(&vmstat), Some(meminfo)).iter().map(|c| (c.name, c.frames)).collect()
    }

    #[test]
    fn counters_become_frames() {
        let found = of(
            "nr_shmem 10\nnr_mlock 20\nnr_unevictable 30\nballoon_inflate 90\nballoon_deflate 40\n",
            "HugePages_Total: 4\nHugePages_Free: 3\nHugePages_Rsvd: 1\nHugepagesize: 2048 kB\nHugetlb: 1056768 kB\n",
        );
        assert_eq!(
            found,
            [
                ("shmem", 10),
                ("mlocked", 20),
                ("unevictable", 30),
                ("hugetlb", 264_192),
                ("hugetlb_free", 1536),
                ("hugetlb_reserved", 512),
                ("ballooned", 50)
            ]
        );
    }

    #[test]
    fn a_kernel_without_a_counter_has_no_entry() {
        assert_eq!(of("nr_shmem 0\n", "HugePages_Total: 4\n"), [("shmem", 0), ("ballooned", 0)]);
        let older = of("nr_mlock 1\n", "HugePages_Total: 4\nHugepagesize: 2048 kB\n");
        assert_eq!(older, [("mlocked", 1), ("hugetlb", 2048), ("ballooned", 0)]);
        assert_eq!(counted(None, None), []);
        assert_eq!(counted(None, Some("HugePages_Total: 4\n")), []);
        let lent = counted(None, Some("Balloon: 80 kB\n"));
        assert_eq!(lent.iter().map(|c| (c.name, c.frames)).collect::<Vec<_>>(), [("ballooned", 20)]);
    }
}
