//! The reference: its policies worked by hand, and the suite that every engine passes.

mod background;
mod boost_atomic;
mod buddy;
mod classes;
mod cma;
#[path = "../common/mod.rs"]
mod common;
mod compaction_finish;
mod compaction_folios;
mod compaction_hints;
mod compaction_knobs;
mod compaction_leases;
mod compaction_lists;
mod compaction_pivot;
mod compaction_restraint;
mod compaction_scanners;
mod compaction_searches;
mod counted_once;
mod differential;
mod exact;
mod exact_opening;
mod no_such_cpu;
mod numa;
mod one_by_one;
mod owners;
mod panics;
mod policy;
mod pressure;
mod recorded;
mod reserves;
mod scripted_zone;
mod set_watermarks;
mod suite;
mod superpageblocks;
