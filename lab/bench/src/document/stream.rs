//! `bench stream` as a document, beside what document 003 prints for its router.

use super::DisturbanceDocument;
use crate::experiment::Published;
use crate::harness::machine::Machine;
use crate::harness::noise::Skipped;
use crate::stream::{Agreement, ELEMENT_BYTES, Elements, Kernel, StreamRow, Streamed, TOLERANCE};
use pageyard_replay::text::bytes;
use pageyard_trace::{Document, grouped};
use serde::Serialize;

/// How many bytes a second go between processor and memory.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamDocument<'a> {
    /// Where it was measured.
    pub machine: &'a Machine,
    /// Whether fewer repetitions were measured than the benchmark has.
    pub quick: bool,
    /// What disturbed it.
    pub disturbance: DisturbanceDocument,
    /// Samples of each row.
    pub samples: usize,
    /// How often each operation was run: the samples, and a first time that is none.
    pub repetitions: usize,
    /// Elements of each of the three arrays.
    pub elements: usize,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Bytes of an array.
    pub array_bytes: u64,
    /// Bytes of the three arrays.
    pub all_bytes: u64,
    /// Nanoseconds by which the clock steps, or that it takes to read where that is more.
    pub clock_step_ns: u64,
    /// Steps of the clock in the shortest sample.
    pub shortest_sample_steps: u64,
    /// Bytes of the last-level caches of all CPUs that were used; left out where the kernel does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_level_caches_bytes: Option<u64>,
    /// The rows.
    pub rows: Vec<StreamRowDocument>,
    /// What document 003 prints for its router: arrays of ten million elements, the best of ten repetitions without the
    /// first.
    pub published: Vec<PublishedStreamDocument>,
    /// What the arrays held at the end. A run whose arrays are wrong prints no document.
    pub validated: Vec<ValidatedDocument>,
    /// The largest relative error that counts as none.
    pub tolerance: f64,
    /// Why the figures may not be those of the memory, or do not compare with the published ones.
    pub warnings: Vec<String>,
    /// What was not measured.
    pub skipped: &'a [Skipped],
}

impl Document for StreamDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-stream/1";
}

/// An operation with one number of threads.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamRowDocument {
    /// The operation.
    pub kernel: Kernel,
    /// Threads, each on a CPU of its own.
    pub threads: usize,
    /// Bytes that count for an element: those that the operation reads and writes.
    pub bytes_per_element: u64,
    /// Megabytes (10^6 bytes) a second in the fastest sample.
    pub mbps_best: f64,
    /// Nanoseconds for a pass over the arrays, the mean of the samples.
    pub avg_ns: f64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A published figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedStreamDocument {
    /// The operation.
    pub kernel: Kernel,
    /// Where its threads ran.
    pub nodes: &'static str,
    /// Threads.
    pub threads: usize,
    /// Megabytes (10^6 bytes) a second in the fastest repetition.
    pub mbps_best: f64,
}

/// The arrays at the end of the run with one number of threads.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ValidatedDocument {
    /// Threads.
    pub threads: usize,
    /// Each array, beside what it must hold.
    pub arrays: [Agreement; 3],
}

impl Streamed {
    /// Returns the result as a document, beside the published tables that this was built with.
    #[must_use]
    pub fn document(&self) -> StreamDocument<'_> {
        self.document_beside(&Published::carried())
    }

    /// Returns the result as a document, beside these published tables.
    #[must_use]
    pub fn document_beside(&self, tables: &Published) -> StreamDocument<'_> {
        let published = published(tables);
        StreamDocument {
            machine: &self.machine,
            quick: false,
            disturbance: DisturbanceDocument::of_all(&self.noise),
            samples: self.samples,
            repetitions: self.samples + 1,
            elements: self.elements.get(),
            element_bytes: ELEMENT_BYTES,
            array_bytes: self.elements.array_bytes(),
            all_bytes: self.elements.all_bytes(),
            clock_step_ns: self.clock_step_ns,
            shortest_sample_steps: self.shortest_sample_steps(),
            last_level_caches_bytes: self.last_level_caches,
            rows: self.rows.iter().map(StreamRowDocument::from).collect(),
            warnings: self.warnings(!published.is_empty()),
            published,
            validated: self
                .validated
                .iter()
                .map(|v| ValidatedDocument { threads: v.threads, arrays: v.arrays })
                .collect(),
            tolerance: TOLERANCE,
            skipped: &self.skipped,
        }
    }

    fn shortest_sample_steps(&self) -> u64 {
        self.rows.iter().map(|r| r.min_ns).min().unwrap_or(0) / self.clock_step_ns.max(1)
    }

    /// Says why the figures may not be those of the memory, or do not compare with published ones that are there.
    fn warnings(&self, published: bool) -> Vec<String> {
        let too_small = self.last_level_caches.filter(|c| self.elements.array_bytes() < TIMES_THE_CACHES * c);
        let too_small = too_small.map(|caches| {
            format!(
                "an array has {}, less than {TIMES_THE_CACHES} times the last-level caches ({}): what they keep does not come from \
                 memory; ask for --elements {} or more",
                bytes(self.elements.array_bytes()),
                bytes(caches),
                TIMES_THE_CACHES * caches / ELEMENT_BYTES
            )
        });
        let steps = self.shortest_sample_steps();
        let too_short = (steps < FEWEST_STEPS).then(|| {
            format!(
                "the shortest sample took {steps} steps of the clock, fewer than {FEWEST_STEPS}: ask for more --elements"
            )
        });
        let incomparable = (published && self.elements != Elements::PUBLISHED).then(|| {
            format!(
                "the published tables are of arrays of {} elements, not of {}",
                grouped(Elements::PUBLISHED.get() as u64),
                grouped(self.elements.get() as u64)
            )
        });
        [too_small, too_short, incomparable].into_iter().flatten().collect()
    }
}

/// The original asks for arrays of at least four times the caches, and for samples of at least 20 steps of the clock.
const TIMES_THE_CACHES: u64 = 4;
const FEWEST_STEPS: u64 = 20;

impl From<&StreamRow> for StreamRowDocument {
    fn from(row: &StreamRow) -> StreamRowDocument {
        StreamRowDocument {
            kernel: row.kernel,
            threads: row.threads,
            bytes_per_element: row.kernel.bytes_per_element(),
            mbps_best: row.best().megabytes_per_second(),
            avg_ns: row.avg_ns,
            min_ns: row.min_ns,
            max_ns: row.max_ns,
        }
    }
}

/// The columns of the published table: where the threads ran, and how many they were.
const PUBLISHED_COLUMNS: [(&str, &str, usize); 2] =
    [("both_nodes_56_threads_MBps", "both nodes", 56), ("one_node_28_threads_MBps", "one node", 28)];

/// Returns the figures that document 003 prints, table by table; none where the tables were not there.
fn published(tables: &Published) -> Vec<PublishedStreamDocument> {
    let lines = tables.lines("stream_router");
    let figure = |(column, nodes, threads), kernel: Kernel| {
        let line = lines.iter().find(|l| l.text("kernel") == kernel.name())?;
        let mbps_best = line.number(column);
        mbps_best.is_finite().then_some(PublishedStreamDocument { kernel, nodes, threads, mbps_best })
    };
    let all =
        PUBLISHED_COLUMNS.into_iter().flat_map(|column| Kernel::ALL.map(|kernel| figure(column, kernel)));
    all.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{StreamOptions, stream};

    fn small() -> Streamed {
        let options = StreamOptions { elements: Elements::new(50_000).unwrap(), samples: 3 };
        stream(&options, &mut |_, _| ()).unwrap()
    }

    #[test]
    fn both_published_tables_are_carried_over() {
        let all = published(&Published::carried());
        let of = |threads| {
            let table = all.iter().filter(|p| p.threads == threads);
            table.map(|p| (p.kernel.name(), p.mbps_best)).collect::<Vec<_>>()
        };
        assert_eq!(of(56), [("Copy", 29907.2), ("Scale", 28787.3), ("Add", 34153.3), ("Triad", 34944.0)]);
        assert_eq!(of(28), [("Copy", 20156.4), ("Scale", 19436.1), ("Add", 20184.7), ("Triad", 20687.9)]);
    }

    #[test]
    fn without_the_published_tables_everything_measured_is_the_same() {
        let result = small();
        let json = |tables: &Published| serde_json::to_value(result.document_beside(tables)).unwrap();
        let (with, mut without) = (json(&Published::carried()), json(&Published::none()));
        assert_eq!(
            (with["published"].as_array().unwrap().len(), &without["published"]),
            (8, &serde_json::json!([]))
        );
        assert!(with["warnings"].to_string().contains("published"), "{with}");
        assert!(!without["warnings"].to_string().contains("published"), "{without}");
        for key in ["published", "warnings"] {
            without[key] = with[key].clone();
        }
        assert_eq!(with, without);
    }

    #[test]
    fn arrays_that_caches_hold_and_samples_that_the_clock_cannot_tell_are_warned_of() {
        let mut result = small();
        let warned = |result: &Streamed| result.warnings(false);
        result.elements = Elements::PUBLISHED;
        (result.last_level_caches, result.clock_step_ns) = (Some(20_000_000), 1);
        result.rows.iter_mut().for_each(|r| r.min_ns = 20);
        assert_eq!(warned(&result), Vec::<String>::new(), "four times, and twenty steps");
        result.last_level_caches = Some(20_000_001);
        let why = warned(&result);
        assert!(
            why.len() == 1 && why[0].contains("last-level") && why[0].contains("--elements 10000000 "),
            "{why:?}"
        );
        result.last_level_caches = None;
        assert!(warned(&result).is_empty(), "nothing is claimed of caches that no one knows");
        result.rows[0].min_ns = 19;
        let why = warned(&result);
        assert!(why.len() == 1 && why[0].contains("19 steps"), "{why:?}");
    }
}
