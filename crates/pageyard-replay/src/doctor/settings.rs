//! Which kernels have which settings: advice never names one that the kernel lacks.

use super::facts::Facts;

/// A release's major and minor number.
type Release = (u32, u32);

/// The oldest kernels whose logs are read.
const OLDEST: Release = (2, 6);

/// Settings, the first release that has each, and the first that has it no more.
const SETTINGS: [(&str, Release, Option<Release>); 16] = [
    ("vm.min_free_kbytes", (2, 6), None),
    ("vm.lowmem_reserve_ratio", (2, 6), None),
    ("vm.nr_hugepages", (2, 6), None),
    // 2.6.27.
    ("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", (2, 6), None),
    ("vm.vfs_cache_pressure", (2, 6), None),
    ("cpuset.mems", (2, 6), None),
    ("numactl --membind", (2, 6), None),
    ("vmalloc=", (2, 6), None),
    ("memory.limit_in_bytes", (2, 6), None),
    ("memory.max", (4, 5), None),
    // 2.6.35; the last number is not looked at.
    ("vm.compact_memory", (3, 0), None),
    ("vm.percpu_pagelist_fraction", (2, 6), Some((5, 14))),
    ("vm.percpu_pagelist_high_fraction", (5, 14), None),
    ("cma=", (3, 5), None),
    ("vm.compaction_proactiveness", (5, 9), None),
    ("vm.defrag_mode", (6, 15), None),
];

/// Returns whether a host's kernel has a setting: it was read there, or its release has it. Of an unknown release only
/// what every kernel has is known.
pub(super) fn has(facts: &Facts, name: &str) -> bool {
    let file = name.replacen('.', "/", 1);
    if facts.settings.contains_key(&file) {
        return true;
    }
    let release = facts.release();
    SETTINGS.iter().any(|(setting, since, until)| {
        let is_there = match release {
            Some(release) => release >= *since && until.is_none_or(|until| release < until),
            None => *since <= OLDEST && until.is_none(),
        };
        *setting == name && is_there
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_of_the_releases_that_have_them() {
        let on = |kernel: Option<&str>, name: &str| {
            has(&Facts { kernel: kernel.map(str::to_owned), ..Facts::default() }, name)
        };
        for (kernel, name, has) in [
            ("3.10.0-1160.el7", "vm.compaction_proactiveness", false),
            ("5.8.1", "vm.compaction_proactiveness", false),
            ("5.9.0", "vm.compaction_proactiveness", true),
            ("2.6.32-573.el6", "vm.compact_memory", false),
            ("3.0.101", "vm.compact_memory", true),
            ("5.13.2", "vm.percpu_pagelist_fraction", true),
            ("5.14.0", "vm.percpu_pagelist_fraction", false),
            ("6.14.0", "vm.defrag_mode", false),
            ("6.15.0", "vm.defrag_mode", true),
        ] {
            assert_eq!(on(Some(kernel), name), has, "{name} on {kernel}");
        }
        assert!(on(None, "vm.min_free_kbytes") && !on(None, "vm.compact_memory"));
        assert!(!on(None, "vm.percpu_pagelist_fraction"));
        assert!(!on(Some("7.0.0"), "vm.no_such_setting"));
    }
}
