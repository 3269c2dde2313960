//! Why a replay could not do its work: one sentence each.

use crate::text::{bytes, count, shown};
use pageyard::MapError;
use pageyard_trace::TraceError;
use pageyard_trace::limits::Room;

/// Why a replay could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is no engine of this name.
    #[error("there is no engine `{name}`;{meant} there are {known}")]
    NoSuchEngine {
        /// The name.
        name: String,
        /// Which may have been meant.
        meant: String,
        /// Those there are.
        known: String,
    },
    /// A knob was set that an engine does not have, or to a value that it does not take.
    #[error("{engine}: {why}")]
    Knob {
        /// The engine.
        engine: String,
        /// The fault.
        why: String,
    },
    /// An engine for one thread was to run on several.
    #[error("{engine} is for one thread; replay with --threads on pageyard, pageyard-trylock or a reference")]
    OneThread {
        /// The engine.
        engine: String,
    },
    /// This host lost what the engine needs.
    #[error("{engine}: {why}")]
    Unavailable {
        /// The engine.
        engine: String,
        /// The reason.
        why: pageyard_arena::rseq::Unavailable,
    },
    /// A kernel cannot be made ready, or its guest did not replay.
    #[error("{engine}: {why}")]
    Kernel {
        /// How it was named.
        engine: String,
        /// The fault, and the remedy.
        why: String,
    },
    /// A slow path was asked for in a replay on several threads.
    #[error("a replay with a slow path is made on one thread; leave out --threads")]
    SlowPathOnThreads,
    /// Requests were to fail on purpose in a replay on several threads, or in a kernel.
    #[error(
        "requests fail on purpose in a replay on one thread, outside of a kernel; leave out --threads and kernel: engines"
    )]
    FaultsElsewhere,
    /// There are limits to how many of something a replay can have.
    #[error("{asked} {of} are not possible; ask for 1 to {}", count(*most))]
    OutOfRange {
        /// Of what: "samples".
        of: &'static str,
        /// The number asked for.
        asked: u64,
        /// The most.
        most: u64,
    },
    /// The memory map that follows from a trace is not one.
    #[error("{trace}: the memory map cannot be used: {why}")]
    Map {
        /// The trace.
        trace: String,
        /// The fault.
        why: MapError,
    },
    /// The trace describes a machine that cannot be replayed.
    #[error("{trace}: {why}")]
    Machine {
        /// The trace.
        trace: String,
        /// The fault, and the remedy.
        why: String,
    },
    /// The second recording of a job cannot be compared with the first.
    #[error("--repeat {}: {why}", shown(trace))]
    Repeat {
        /// The second recording.
        trace: String,
        /// The fault, and the remedy.
        why: String,
    },
    /// The request needs more memory than this process may use.
    #[error("{what} needs {} of memory, and {} leaves {}; {instead}", bytes(*need), room.bound_by, bytes(room.bytes))]
    NoRoom {
        /// The part that needs it.
        what: String,
        /// Bytes.
        need: u64,
        /// The room available.
        room: Room,
        /// The alternative.
        instead: &'static str,
    },
    /// A thread cannot be started.
    #[error("thread {thread} of {threads} cannot be started: {why}; replay without --threads")]
    NoThread {
        /// Its number.
        thread: usize,
        /// How many were requested.
        threads: usize,
        /// The system's error.
        why: std::io::Error,
    },
    /// The machine cannot be made that small or that large.
    #[error("--memory {asked} MiB is not possible: {why}")]
    Memory {
        /// The size asked for, in MiB.
        asked: u64,
        /// Why not.
        why: String,
    },
    /// A map's packer ended before its work was done.
    #[error("the map cannot be packed: the thread that compresses it ended early; run the command again")]
    Packing,
    /// Memory cannot be brought to a state.
    #[error("memory cannot be brought to this state: {why}")]
    Fragment {
        /// Why not.
        why: String,
    },
}
