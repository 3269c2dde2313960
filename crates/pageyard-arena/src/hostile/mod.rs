//! Every argument of the safe functions of engine, pools and arena drawn from bytes, wild ones included: for fuzzing,
//! and for a random test.
//!
//! Whatever the bytes, each call returns a value, and afterwards no frame is lost and none has two owners. Which calls
//! were made is printed where one panics.
//!
//! * `draw`: arguments from bytes; [`engine`]: an engine's calls, and what compaction may call; [`damaged`]: the same
//!   on damaged metadata; [`pools`]: packet buffers; [`arena`]: blocks, pages and handles of two arenas.

mod arena;
mod draw;
mod engine;
mod pools;

pub use arena::arena;
pub use engine::{damaged, engine};
pub use pools::pools;

/// A function of bytes, by its name in `fuzz/`.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Makes the calls that the bytes say.
    pub run: fn(&[u8]),
}

/// Every target.
///
/// [`damaged`] is none of those that a process may run beside others: once something was damaged, assertions about
/// other engines are off.
pub const TARGETS: [Target; 3] = [
    Target { name: "engine", run: engine },
    Target { name: "pools", run: pools },
    Target { name: "arena", run: arena },
];
