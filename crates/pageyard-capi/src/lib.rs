//! Pageyard for C and C++. The header is `include/pageyard.h`; what a C programmer needs to know is there.
//!
//! * `error`: what a call returns, and its text.
//! * `table`: handles that can be checked: no call follows a pointer that was given up.
//! * `usage`: how much memory is free.
//! * `arena`: memory of the host, allocated and freed by size, and its pages by their offsets, for `AF_XDP`.
//! * `engine`: pages of the caller's memory, by their addresses.

mod arena;
mod engine;
mod error;
mod table;
mod usage;

pub use arena::{
    ArenaHandle, PAGEYARD_BACKING_BASE, PAGEYARD_BACKING_FILE, PAGEYARD_BACKING_FILE_TRANSPARENT,
    PAGEYARD_BACKING_HUGE_1G, PAGEYARD_BACKING_HUGE_2M, PAGEYARD_BACKING_TRANSPARENT, pageyard_alloc,
    pageyard_alloc_aligned, pageyard_alloc_bulk, pageyard_alloc_zeroed, pageyard_area, pageyard_arena_delete,
    pageyard_arena_new, pageyard_arena_usage, pageyard_discard, pageyard_free, pageyard_free_bulk,
    pageyard_purge, pageyard_release, pageyard_reserve,
};
pub use engine::{
    EngineHandle, MemoryRange, pageyard_addmem, pageyard_engine_delete, pageyard_engine_metadata,
    pageyard_engine_new, pageyard_engine_new_in, pageyard_engine_usage, pageyard_palloc, pageyard_pfree,
};
pub use error::{Error, pageyard_error_text, pageyard_last_error};
pub use usage::Usage;
