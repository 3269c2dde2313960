//! The figures of a recording.

use super::Sampling;
use pageyard_trace::EventKind;

/// Blocks whose place on a list of the host is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedBlocks {
    /// Those of free lists.
    pub free: u64,
    /// Those of per-CPU lists, or why they are not known.
    pub cached: Result<u64, String>,
}

/// The figures of a recording.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recorded {
    /// Rows of the trace by [`EventKind`].
    pub by_kind: [u64; EventKind::ALL.len()],
    /// Rows about compaction and migration; `None` where the kernel does not tell.
    pub moves: Option<u64>,
    /// How many of those name both frames of a move.
    pub moved: u64,
    /// The function of the kernel that was watched for them, where it was: then every move is among them.
    pub moves_by: Option<String>,
    /// Why none was watched.
    pub not_watched: Option<String>,
    /// The host's lists whose order at the start is known, or why it is not.
    pub lists: Result<ListedBlocks, String>,
    /// Events that the kernel had no room for.
    pub lost: u64,
    /// The totals of sampling the host; `None` if it was not requested.
    pub sampling: Option<Sampling>,
    /// Impossible events, such as a frame beyond memory.
    pub impossible: u64,
    /// Events that came too late to be sorted in; they carry their successors' time.
    pub late: u64,
    /// The recorded CPUs.
    pub cpus: u32,
    /// The size of each CPU's buffer in bytes.
    pub buffer_bytes: u64,
    /// Which of the kernel's buffers were used: `tracefs` or `perf`.
    pub buffers: &'static str,
    /// Why those of tracefs, in which an event costs half as much, could not be used.
    pub not_cheapest: Option<String>,
    /// How long the recording took, in seconds.
    pub seconds: f64,
    /// The processor time that the recorder itself took meanwhile, in seconds.
    pub own_seconds: f64,
    /// The cost of an event for the thread that causes it, in nanoseconds, measured just before the recording; `None`
    /// if the measurement failed.
    pub event_ns: Option<f64>,
    /// Tracepoints that this kernel does not have.
    pub missing: Vec<String>,
    /// Threads whose names are kept; `None` where that was not asked for.
    pub names: Option<u64>,
    /// Whether the recorder's priority could be raised; `None` where that was not requested.
    pub raised: Option<bool>,
    /// Why the recording ended early, if it did; the trace has what was written until then.
    pub partial: Option<String>,
}

impl Recorded {
    /// Returns the number of rows of `events.parquet`.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// Returns the events by second of the recording.
    #[must_use]
    pub fn events_per_s(&self) -> f64 {
        self.events() as f64 / self.seconds.max(1e-9)
    }

    /// Returns the processor time that the recorder took as a percentage of all.
    #[must_use]
    pub fn own_pct(&self) -> f64 {
        100.0 * self.own_seconds / (self.seconds * f64::from(self.cpus)).max(1e-9)
    }

    /// Returns the processor time that taking samples took as a percentage of all.
    #[must_use]
    pub fn sampling_pct(&self) -> Option<f64> {
        let all = (self.seconds * f64::from(self.cpus)).max(1e-9);
        self.sampling.map(|sampling| 100.0 * sampling.cpu_seconds / all)
    }

    /// Estimates the share of the host's processor time that the recording took: the recorder's own and that of the
    /// events in the kernel.
    ///
    /// `None` where the cost of an event could not be measured, or was measured too high to be true: all events
    /// would have taken more time than there was.
    #[must_use]
    pub fn overhead(&self) -> Option<f64> {
        let available = self.seconds * f64::from(self.cpus);
        let all = (self.events() + self.moves.unwrap_or(0)) as f64;
        let share = (self.own_seconds + all * self.event_ns? / 1e9) / available;
        (share < 1.0).then_some(share)
    }
}
