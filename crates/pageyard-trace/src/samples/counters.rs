//! Which counters of `/proc/vmstat` are sampled: those that a replay can predict, and those that say why it fails to.

/// The counters, in the order that they have in a sample. Names that some kernels lack are among them.
pub const COUNTERS: [&str; COUNT] = [
    // Free memory; the second, from 6.16 on, is the part of it in whole pageblocks.
    "nr_free_pages",
    "nr_free_pages_blocks",
    // Frames handed out and freed.
    "pgalloc_dma",
    "pgalloc_dma32",
    "pgalloc_normal",
    "pgalloc_movable",
    "pgalloc_device",
    "pgfree",
    // Requests that waited for reclaim: one counter until 4.9, one a zone since.
    "allocstall",
    "allocstall_dma",
    "allocstall_dma32",
    "allocstall_normal",
    "allocstall_movable",
    "allocstall_device",
    // Compaction and migration.
    "compact_migrate_scanned",
    "compact_free_scanned",
    "compact_isolated",
    "compact_stall",
    "compact_fail",
    "compact_success",
    "compact_daemon_wake",
    "compact_daemon_migrate_scanned",
    "compact_daemon_free_scanned",
    "pgmigrate_success",
    "pgmigrate_fail",
    "thp_migration_success",
    "thp_migration_fail",
    "thp_migration_split",
    // Reclaim.
    "pgscan_kswapd",
    "pgscan_direct",
    "pgscan_khugepaged",
    "pgscan_proactive",
    "pgscan_anon",
    "pgscan_file",
    "pgsteal_kswapd",
    "pgsteal_direct",
    "pgsteal_khugepaged",
    "pgsteal_proactive",
    "pgsteal_anon",
    "pgsteal_file",
    "pageoutrun",
    // Huge pages.
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_fault_fallback_charge",
    "thp_collapse_alloc",
    "thp_collapse_alloc_failed",
    "thp_file_alloc",
    "thp_file_fallback",
    "thp_file_mapped",
    "thp_split_page",
    "thp_split_page_failed",
    "thp_deferred_split_page",
    "thp_split_pmd",
    "thp_zero_page_alloc",
    "thp_swpout",
    "thp_swpout_fallback",
];

/// How many there are.
const COUNT: usize = 56;

/// The same after the empty name, which rows of other kinds have.
pub(crate) static NAMES: [&str; COUNT + 1] = with_the_empty_name();

const fn with_the_empty_name() -> [&'static str; COUNT + 1] {
    let mut names = [""; COUNT + 1];
    let mut i = 0;
    while i < COUNT {
        names[i + 1] = COUNTERS[i];
        i += 1;
    }
    names
}

/// Returns whether a counter is a level, which rises and falls, and not a number of events.
pub(crate) fn is_level(name: &str) -> bool {
    name.starts_with("nr_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_counter_is_there_once() {
        let all: BTreeSet<_> = NAMES.iter().collect();
        assert_eq!(all.len(), NAMES.len());
        assert!(is_level("nr_free_pages") && !is_level("pgfree"));
    }
}
