//! The rows of each benchmark, as a file has them.

use super::fields::Fields;
use crate::harness::mixed::sequence::MixedPattern;
use crate::harness::pattern::Pattern;

/// The figures of a row.
pub(crate) trait Figures: Sized {
    /// The schema of the document.
    const SCHEMA: &'static str;

    /// Reads them; the allocator's name apart.
    fn read(row: &Fields<'_>) -> Result<Self, String>;

    /// Returns whether the other's setting is the same.
    fn is_of_the_setting_of(&self, other: &Self) -> bool;
}

/// Those of `bench sweep`.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepFigures {
    /// Threads at the same time.
    pub threads: usize,
    /// Order of the blocks.
    pub order: u8,
    /// Blocks in a batch.
    pub batch: usize,
    /// Order of the frees.
    pub pattern: Pattern,
    /// Taking.
    pub alloc_ns: f64,
    /// Giving back.
    pub free_ns: f64,
    /// Both, the fastest sample.
    pub total_ns_min: f64,
    /// Both, the median.
    pub total_ns_median: f64,
    /// Refills and spills in all samples, where they were counted.
    pub moves: Option<(u64, u64)>,
    /// The share of the frees that were checked without a locked instruction, where that is known.
    pub biased_share: Option<f64>,
    /// How often a pageblock's bias was taken back, likewise.
    pub revocations: Option<u64>,
    /// Samples.
    pub samples: u64,
    /// Whether it was disturbed.
    pub disturbed: bool,
}

impl Figures for SweepFigures {
    const SCHEMA: &'static str = "pageyard.bench-sweep/1";

    fn read(row: &Fields<'_>) -> Result<SweepFigures, String> {
        let moves = match row.maybe("moves_seen", Fields::flag)? {
            Some(false) => None,
            _ => row.maybe("refills", Fields::count)?.zip(row.maybe("spills", Fields::count)?),
        };
        let order = row.count("order")?;
        Ok(SweepFigures {
            threads: row.count("threads")? as usize,
            order: u8::try_from(order).map_err(|_| format!("its `order` is {order}; orders end at 10"))?,
            batch: row.count("batch")? as usize,
            pattern: row.one_of("pattern", &Pattern::ALL, Pattern::name)?,
            alloc_ns: row.ns("alloc_ns")?,
            free_ns: row.ns("free_ns")?,
            total_ns_min: row.ns_above_0("total_ns_min")?,
            total_ns_median: row.ns_above_0("total_ns_median")?,
            moves,
            biased_share: row.maybe("biased_share", Fields::share)?,
            revocations: row.maybe("revocations", Fields::count)?,
            samples: row.count("samples")?,
            disturbed: row.maybe("disturbed", Fields::flag)?.unwrap_or(false),
        })
    }

    fn is_of_the_setting_of(&self, other: &SweepFigures) -> bool {
        let setting = |row: &SweepFigures| (row.threads, row.order, row.batch, row.pattern);
        setting(self) == setting(other)
    }
}

/// Those of `bench mixed`.
#[derive(Clone, Debug, PartialEq)]
pub struct MixedFigures {
    /// Threads at the same time.
    pub threads: usize,
    /// Whose blocks a thread gives back.
    pub pattern: MixedPattern,
    /// Whether frames were touched.
    pub touched: bool,
    /// Taking and giving back, the median.
    pub ns_median: f64,
    /// The loop by itself.
    pub harness_ns: f64,
    /// Requests in all passes.
    pub requests: u64,
    /// Of those, the ones that failed.
    pub failed: u64,
    /// The share of the frees that were checked without a locked instruction, where that is known.
    pub biased_share: Option<f64>,
    /// How often a pageblock's bias was taken back, likewise.
    pub revocations: Option<u64>,
    /// Samples.
    pub samples: u64,
    /// Whether it was disturbed.
    pub disturbed: bool,
}

impl Figures for MixedFigures {
    const SCHEMA: &'static str = "pageyard.bench-mixed/1";

    fn read(row: &Fields<'_>) -> Result<MixedFigures, String> {
        let (requests, failed) = (row.count("requests")?, row.count("failed")?);
        if failed > requests {
            return Err(format!("its `failed` is {failed}, of {requests} `requests`; correct it"));
        }
        Ok(MixedFigures {
            threads: row.count("threads")? as usize,
            pattern: row.one_of("pattern", &MixedPattern::ALL, MixedPattern::name)?,
            touched: row.flag("touched")?,
            ns_median: row.ns_above_0("ns_median")?,
            harness_ns: row.ns("harness_ns")?,
            requests,
            failed,
            biased_share: row.maybe("biased_share", Fields::share)?,
            revocations: row.maybe("revocations", Fields::count)?,
            samples: row.count("samples")?,
            disturbed: row.maybe("disturbed", Fields::flag)?.unwrap_or(false),
        })
    }

    fn is_of_the_setting_of(&self, other: &MixedFigures) -> bool {
        let setting = |row: &MixedFigures| (row.threads, row.pattern, row.touched);
        setting(self) == setting(other)
    }
}

/// Those of `bench cross`.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossFigures {
    /// Taking on one CPU, the median.
    pub alloc_ns: f64,
    /// Giving back on the other.
    pub free_ns: f64,
    /// Both, the fastest sample.
    pub total_ns_min: f64,
    /// Both, the median.
    pub total_ns_median: f64,
    /// Elapsed time for each block.
    pub elapsed_ns_median: f64,
    /// The same less what the queue takes by itself.
    pub elapsed_less_queue_ns: f64,
    /// The share of the frees that were checked without a locked instruction, where that is known.
    pub biased_share: Option<f64>,
    /// How often a pageblock's bias was taken back, likewise.
    pub revocations: Option<u64>,
}

impl Figures for CrossFigures {
    const SCHEMA: &'static str = "pageyard.bench-cross/1";

    fn read(row: &Fields<'_>) -> Result<CrossFigures, String> {
        Ok(CrossFigures {
            alloc_ns: row.ns("alloc_ns")?,
            free_ns: row.ns("free_ns")?,
            total_ns_min: row.ns_above_0("total_ns_min")?,
            total_ns_median: row.ns_above_0("total_ns_median")?,
            elapsed_ns_median: row.ns_above_0("elapsed_ns_median")?,
            elapsed_less_queue_ns: row.ns("elapsed_less_queue_ns")?,
            biased_share: row.maybe("biased_share", Fields::share)?,
            revocations: row.maybe("revocations", Fields::count)?,
        })
    }

    /// It has one.
    fn is_of_the_setting_of(&self, _: &CrossFigures) -> bool {
        true
    }
}
