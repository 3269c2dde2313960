//! Results of the benchmarks as documents: what was measured, and the ratios and shares that follow from it.
//!
//! The text that people read is made from these, so that no number of it is missing here.

mod bulk;
mod clear;
mod cross;
mod fault;
mod mixed;
mod pools;
mod primitives;
mod router;
mod scale;
mod stream;
mod sweep;

pub use bulk::{BufferRowDocument, BulkDisturbance, BulkDocument, BulkRowDocument};
pub use clear::{ClearDocument, ClearRowDocument};
pub use cross::{CrossDocument, CrossRowDocument};
pub use fault::{FaultDocument, FaultRowDocument};
pub use mixed::{MixedDocument, MixedRowDocument, ShareDocument};
pub use pools::{PoolRowDocument, PoolsDocument};
pub use primitives::{PrimitiveRowDocument, PrimitivesDocument};
pub use router::{EffortDocument, RouterDocument, RouterSweepDocument};
pub use scale::{RefusedRowDocument, ScaleDocument, ScaleRowDocument};
pub use stream::StreamDocument;
pub use sweep::{SweepDocument, SweepRowDocument};

use crate::harness::machine::Taken;
use crate::harness::noise::Noise;
use serde::Serialize;

/// What disturbed a run.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DisturbanceDocument {
    /// Settings measured.
    pub settings: usize,
    /// Of those, the ones whose rows are to be doubted.
    pub disturbed: usize,
    /// The largest disagreement of a pair of the same code.
    pub pair_apart_pct_max: f64,
    /// What others took meanwhile.
    #[serde(flatten)]
    pub taken: Taken,
}

impl DisturbanceDocument {
    /// Describes a run of many settings; `apart` is the largest disagreement as a share.
    #[must_use]
    pub fn of((settings, disturbed): (usize, usize), apart: f64, taken: Taken) -> DisturbanceDocument {
        DisturbanceDocument { settings, disturbed, pair_apart_pct_max: 100.0 * apart, taken }
    }

    /// Describes a run by what disturbed each of its settings.
    #[must_use]
    pub fn of_all(noise: &[Noise]) -> DisturbanceDocument {
        let disturbed = noise.iter().filter(|n| n.disturbs()).count();
        let apart = noise.iter().map(|n| n.apart).fold(0.0, f64::max);
        let taken = noise.iter().map(|n| n.taken).fold(Taken::default(), |all, one| Taken {
            steal_ms: all.steal_ms + one.steal_ms,
            waited_ms: all.waited_ms + one.waited_ms,
            elapsed_ms: all.elapsed_ms + one.elapsed_ms,
        });
        DisturbanceDocument::of((noise.len(), disturbed), apart, taken)
    }
}

impl From<&Noise> for DisturbanceDocument {
    /// Describes a run of one setting.
    fn from(noise: &Noise) -> DisturbanceDocument {
        DisturbanceDocument::of((1, usize::from(noise.disturbs())), noise.apart, noise.taken)
    }
}

/// Returns a figure that is above 0; 0 stands for one that is not known.
fn known(figure: f64) -> Option<f64> {
    (figure > 0.0).then_some(figure)
}

/// Returns one figure as a multiple of another.
fn times(figure: f64, of: f64) -> f64 {
    figure / of.max(0.01)
}

#[cfg(test)]
mod tests {
    use super::{CrossDocument, MixedDocument, SweepDocument};
    use crate::bulk::Where;
    use crate::figures::{CrossFigures, Figures, MixedFigures, SweepFigures};
    use crate::mixed::MixedPattern;
    use crate::pools;
    use crate::sweep::Pattern;
    use pageyard_trace::Document;

    #[test]
    fn a_document_names_things_as_texts_and_options_do() {
        for pattern in Pattern::ALL {
            assert_eq!(serde_json::to_value(pattern).unwrap(), pattern.name());
        }
        for at in [Where::InCache, Where::Across] {
            assert_eq!(serde_json::to_value(at).unwrap(), at.name());
        }
        for at in [pools::Where::Same, pools::Where::Across] {
            assert_eq!(serde_json::to_value(at).unwrap(), at.name());
        }
        for pattern in MixedPattern::ALL {
            assert_eq!(serde_json::to_value(pattern).unwrap(), pattern.name());
        }
    }

    #[test]
    fn rows_from_elsewhere_are_read_under_the_schema_that_they_are_written_under() {
        assert_eq!(SweepFigures::SCHEMA, SweepDocument::SCHEMA);
        assert_eq!(MixedFigures::SCHEMA, MixedDocument::SCHEMA);
        assert_eq!(CrossFigures::SCHEMA, CrossDocument::SCHEMA);
    }
}
