//! `bench stream` as a document.

use crate::harness::machine::Machine;
use crate::harness::noise::{Disturbance, Skipped};
use crate::stream::{StreamRow, Streamed};
use pageyard_replay::text::bytes;
use pageyard_trace::Document;
use serde::Serialize;

/// The memory bandwidth of a machine.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamDocument<'a> {
    /// Where it was measured.
    pub machine: &'a Machine,
    /// Whether fewer repetitions were measured than the benchmark has.
    pub quick: bool,
    /// The disturbance seen during the run.
    pub disturbance: Disturbance,
    /// Samples of each row.
    pub samples: usize,
    /// Elements of each of the three arrays.
    pub elements: usize,
    /// Bytes of an array.
    pub array_bytes: u64,
    /// Bytes of the last-level caches of all CPUs that were used; left out where the kernel does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_level_caches_bytes: Option<u64>,
    /// The rows.
    pub rows: &'a [StreamRow],
    /// Why the figures may not be those of the memory; left out where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The measurements that were skipped, each with the reason.
    pub skipped: &'a [Skipped],
}

impl Document for StreamDocument<'_> {
    const SCHEMA: &'static str = "pageyard.bench-stream/2";
}

/// The least length of an array as a multiple of the caches, by STREAM's rules.
const TIMES_THE_CACHES: u64 = 4;

impl Streamed {
    /// Returns the result as a document.
    #[must_use]
    pub fn document(&self) -> StreamDocument<'_> {
        let elements = self.options.elements.get();
        let array_bytes = 8 * elements as u64;
        let caches = self.last_level_caches.filter(|caches| array_bytes < TIMES_THE_CACHES * caches);
        StreamDocument {
            machine: &self.machine,
            quick: false,
            disturbance: Disturbance::of_all(&self.noise),
            samples: self.options.samples,
            elements,
            array_bytes,
            last_level_caches_bytes: self.last_level_caches,
            rows: &self.rows,
            warning: caches.map(|caches| {
                format!(
                    "an array has {}, less than {TIMES_THE_CACHES} times the last-level caches ({}), so a part of the traffic is \
                     theirs; ask for --elements {} or more",
                    bytes(array_bytes),
                    bytes(caches),
                    TIMES_THE_CACHES * caches / 8
                )
            }),
            skipped: &self.skipped,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::stream::{StreamOptions, stream};

    #[test]
    fn arrays_that_caches_hold_are_warned_of() {
        let options = StreamOptions { elements: 10_000.try_into().unwrap(), samples: 3 };
        let mut result = stream(&options, &mut |_, _| ()).unwrap();
        result.last_level_caches = Some(20_000);
        assert_eq!(result.document().warning, None, "four times");
        result.last_level_caches = Some(20_002);
        let why = result.document().warning.unwrap();
        assert!(why.contains("last-level") && why.contains("--elements 10001 "), "{why}");
        result.last_level_caches = None;
        assert_eq!(result.document().warning, None, "the kernel names no caches");
    }
}
