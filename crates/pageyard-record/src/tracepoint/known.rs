//! The tracepoints that a trace is made of.

/// The known kinds of events. The first five are the rows of `events.parquet`, in the order of
/// [`pageyard_trace::EventKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Known {
    Alloc = 0,
    Free = 1,
    AllocExtfrag = 2,
    PcpuDrain = 3,
    AllocZoneLocked = 4,
    /// Frames that compaction looked at to move what they hold.
    IsolateMigrate = 5,
    /// Free frames that compaction took as places to move to.
    IsolateFree = 6,
    /// How many frames a call moved.
    Migrated = 7,
    CompactBegin = 8,
    CompactEnd = 9,
    /// A thread began to reclaim.
    ReclaimBegin = 10,
    /// It ended.
    ReclaimEnd = 11,
    /// A mapping was replaced by a note that its frame is being moved.
    SetMigrationPte = 12,
    /// A mapping points to a frame again.
    RemoveMigrationPte = 13,
    SetMigrationPmd = 14,
    RemoveMigrationPmd = 15,
    /// A program in the kernel saw a move, and names both frames. No tracepoint does.
    Moved = 16,
}

/// A tracepoint: its system, its name, what it reports, and the fields that report it.
#[derive(Debug)]
pub(crate) struct Tracepoint {
    pub(crate) system: &'static str,
    pub(crate) name: &'static str,
    pub(crate) known: Known,
    pub(crate) fields: &'static [&'static str],
}

const fn tracepoint(
    system: &'static str,
    name: &'static str,
    known: Known,
    fields: &'static [&'static str],
) -> Tracepoint {
    Tracepoint { system, name, known, fields }
}

/// Tracepoints without which there is no trace.
pub(crate) const REQUIRED: [Tracepoint; 2] = [
    tracepoint("kmem", "mm_page_alloc", Known::Alloc, &["pfn", "order", "gfp_flags", "migratetype"]),
    tracepoint("kmem", "mm_page_free", Known::Free, &["pfn", "order"]),
];

/// Tracepoints that are recorded where the kernel has them, with all of their fields.
pub(crate) const WANTED: [Tracepoint; 16] = [
    tracepoint(
        "kmem",
        "mm_page_alloc_extfrag",
        Known::AllocExtfrag,
        &["pfn", "alloc_order", "alloc_migratetype", "fallback_order", "fallback_migratetype"],
    ),
    tracepoint("kmem", "mm_page_pcpu_drain", Known::PcpuDrain, &["pfn", "order", "migratetype"]),
    tracepoint("kmem", "mm_page_alloc_zone_locked", Known::AllocZoneLocked, &["pfn", "order", "migratetype"]),
    tracepoint(
        "compaction",
        "mm_compaction_isolate_migratepages",
        Known::IsolateMigrate,
        &["start_pfn", "end_pfn", "nr_scanned", "nr_taken"],
    ),
    tracepoint(
        "compaction",
        "mm_compaction_isolate_freepages",
        Known::IsolateFree,
        &["start_pfn", "end_pfn", "nr_scanned", "nr_taken"],
    ),
    tracepoint("compaction", "mm_compaction_begin", Known::CompactBegin, &["migrate_pfn", "free_pfn"]),
    tracepoint("compaction", "mm_compaction_end", Known::CompactEnd, &["migrate_pfn", "free_pfn"]),
    tracepoint("migrate", "mm_migrate_pages", Known::Migrated, &["succeeded", "failed"]),
    tracepoint("vmscan", "mm_vmscan_direct_reclaim_begin", Known::ReclaimBegin, &["order"]),
    tracepoint("vmscan", "mm_vmscan_direct_reclaim_end", Known::ReclaimEnd, &["nr_reclaimed"]),
    tracepoint("vmscan", "mm_vmscan_kswapd_wake", Known::ReclaimBegin, &["order"]),
    tracepoint("vmscan", "mm_vmscan_kswapd_sleep", Known::ReclaimEnd, &[]),
    tracepoint("migrate", "set_migration_pte", Known::SetMigrationPte, &["addr", "pte"]),
    tracepoint("migrate", "remove_migration_pte", Known::RemoveMigrationPte, &["addr", "pte"]),
    tracepoint("thp", "set_migration_pmd", Known::SetMigrationPmd, &["addr", "pmd"]),
    tracepoint("thp", "remove_migration_pmd", Known::RemoveMigrationPmd, &["addr", "pmd"]),
];

impl Tracepoint {
    /// Returns whether its events are about mappings of frames that are being moved.
    pub(crate) fn names_mapping(&self) -> bool {
        self.known as u8 >= Known::SetMigrationPte as u8
    }

    /// Finds a tracepoint by its two names.
    pub(crate) fn find(system: &str, name: &str) -> Option<&'static Tracepoint> {
        REQUIRED.iter().chain(&WANTED).find(|t| t.system == system && t.name == name)
    }
}
