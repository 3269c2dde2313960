//! What hosts of a fleet are compared by.

use pageyard_trace::fleet::{FleetNumber as N, FleetRow};

/// The direction in which a figure gets worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worse {
    /// More is worse.
    More,
    /// Less is worse.
    Less,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// So many an hour.
    PerHour,
    /// So many a second.
    PerSecond,
    /// A share in percent.
    Percent,
}

impl Unit {
    /// Returns its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Unit::PerHour => "per_hour",
            Unit::PerSecond => "per_second",
            Unit::Percent => "percent",
        }
    }

    /// Returns what follows a value.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Unit::PerHour => "/h",
            Unit::PerSecond => "/s",
            Unit::Percent => " %",
        }
    }
}

/// How a figure is made of a host's rows.
#[derive(Clone, Copy)]
enum Source {
    /// A number by time: of windows where events count it, of samples where the kernel's texts do.
    Rate(N),
    /// The mean of a state as a share of another one's.
    State(N, N),
    /// A number as a share of another one.
    Share(N, N),
}

/// A figure of a host.
pub struct Figure {
    /// Its name in words.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The direction in which it gets worse.
    pub worse: Worse,
    /// The least change that is worth a word, in its unit.
    pub(super) floor: f64,
    source: Source,
}

const fn rate(name: &'static str, unit: Unit, number: N) -> Figure {
    Figure { name, unit, worse: Worse::More, floor: 1.0, source: Source::Rate(number) }
}

const fn share(name: &'static str, worse: Worse, source: Source) -> Figure {
    Figure { name, unit: Unit::Percent, worse, floor: 2.0, source }
}

/// Every figure, the most urgent first.
pub static FIGURES: [Figure; 14] = [
    rate("requests that failed", Unit::PerHour, N::Failures),
    rate("requests that reclaimed", Unit::PerHour, N::DirectReclaims),
    rate("requests that compacted", Unit::PerHour, N::Compactions),
    rate("requests for which compaction failed", Unit::PerHour, N::CompactionFailures),
    rate("faults that got no huge page", Unit::PerHour, N::HugeFallbacks),
    share("pageblocks that the kernel pins", Worse::More, Source::Share(N::PinnedPageblocks, N::Pageblocks)),
    share(
        "share of free memory in huge frames",
        Worse::Less,
        Source::State(N::FreeHugeFrames, N::FreeFrames),
    ),
    share("free memory", Worse::Less, Source::State(N::FreeFrames, N::Frames)),
    share("memory in per-CPU lists", Worse::More, Source::State(N::ListedFrames, N::Frames)),
    rate("requests served by another type's pageblock", Unit::PerHour, N::Fallbacks),
    rate("frames reclaimed in the background", Unit::PerSecond, N::ReclaimedInBackground),
    rate("frames reclaimed by requests", Unit::PerSecond, N::ReclaimedByRequests),
    rate("frames moved", Unit::PerSecond, N::Moved),
    rate("frames that compaction looked at", Unit::PerSecond, N::CompactionScanned),
];

impl Figure {
    /// Returns its value for a host; `None` where the host does not tell it.
    #[must_use]
    pub fn of(&self, totals: &Totals) -> Option<f64> {
        let share = |part: f64, of: f64| (of > 0.0).then(|| 100.0 * part / of);
        match self.source {
            Source::State(part, of) => share(totals.states[part as usize], totals.states[of as usize]),
            Source::Share(part, of) => share(totals.sum(part), totals.sum(of)),
            Source::Rate(number) => {
                let time = if number.counters().is_empty() { N::WindowMs } else { N::SampledMs };
                let scale = if self.unit == Unit::PerHour { 3.6e6 } else { 1e3 };
                let ms = totals.sum(time);
                (ms > 0.0).then(|| scale * totals.sum(number) / ms)
            }
        }
    }
}

/// The rows of a host, added up.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    sums: [f64; N::ALL.len()],
    /// The same, each times how long it was sampled.
    states: [f64; N::ALL.len()],
}

impl Totals {
    /// Adds a row.
    pub fn add(&mut self, row: &FleetRow) {
        let sampled = row[N::SampledMs] as f64;
        for number in N::ALL {
            let n = row[number] as f64;
            self.sums[number as usize] += n;
            self.states[number as usize] += n * sampled;
        }
    }

    /// Adds those of other rows of the host.
    pub fn join(&mut self, other: &Totals) {
        let both = self.sums.iter_mut().chain(&mut self.states);
        both.zip(other.sums.iter().chain(&other.states)).for_each(|(all, more)| *all += more);
    }

    /// Returns the sum of a number.
    #[must_use]
    pub fn sum(&self, number: N) -> f64 {
        self.sums[number as usize]
    }
}
