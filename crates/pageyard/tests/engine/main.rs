//! The engine as callers see it: the suite of all engines, and what it promises beyond.
#![cfg(not(any(pageyard_loom, pageyard_shuttle)))]

mod panicking;

mod bulk;
mod clearing;
mod compaction_blocks;
mod compaction_choice;
mod compaction_leases;
mod compaction_zones;
mod contig;
mod conversion;
mod counters;
mod doors;
mod emptied;
mod hotplug;
mod kernel;
mod nodes;
mod observer;
mod panics;
mod placement;
mod pressure;
mod range_edges;
mod range_threads;
mod ranges;
mod reserve;
mod runs;
mod search;
mod suite;
mod threads;
mod visits;
mod wild;
mod zeroed_regions;
mod zeros;
