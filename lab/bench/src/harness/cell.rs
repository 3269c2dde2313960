//! One setting, measured on every subject in turn, sample by sample, beside a pair that must agree.

use super::clock::clock_cost;
use super::floors::{FLOOR, FloorArray};
use super::load::{Load, Taken};
use super::machine::InterferenceWatch;
use super::moves::Moves;
use super::noise::Noise;
use super::sampler::{Sample, Sampler};
use super::samples::Samples;
use super::subject::{Alone, Subject};
use super::team::{Pinned, Span, Team, cpus, overlap};
use std::sync::Arc;

/// Nanoseconds that a sample takes at least, unless it reaches [`MOST_BLOCKS`] before.
const SAMPLE_NS: f64 = 1.5e6;

/// Blocks that a sample handles at most on one thread, unless its batch is larger: at a nanosecond each, the clock's
/// cost is a thousandth.
const MOST_BLOCKS: usize = 1 << 15;

/// Times the clock is read in a sample of several threads, so that what did not overlap can be dropped.
const READS: usize = 16;

/// The least overlap of a sample of several threads of which only the parts that overlap count.
const LEAST_OVERLAP: f64 = 0.5;

/// One setting.
pub(crate) struct Cell {
    /// The order in which a batch is given back; its length is the batch.
    pub order: Arc<[u32]>,
    /// Blocks in a call.
    pub call: usize,
    /// Threads at the same time.
    pub threads: usize,
    /// Samples of each subject.
    pub samples: usize,
}

/// A subject's result, in nanoseconds a block and thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub alloc_ns: f64,
    pub free_ns: f64,
    pub total_ns_min: f64,
    pub total_ns_median: f64,
    /// Refills and spills in all samples, where they can be seen.
    pub moves: Option<Moves>,
    /// Blocks handled in all samples.
    pub blocks: u64,
    /// The share of the time in which all threads ran; 1 for one thread.
    pub overlap: f64,
    /// The share of the frees that were checked without a locked instruction, and revocations in all samples, where
    /// there is such a thing.
    pub biased: Option<(f64, u64)>,
    /// Samples that count.
    pub samples: usize,
}

/// The result of a setting.
pub(crate) struct CellResult {
    /// By subject; `None` where it could not be measured.
    pub measured: Vec<Option<Measured>>,
    /// The disturbances during it.
    pub noise: Noise,
}

/// A subject in its turns.
struct Turn<'a> {
    subject: &'a dyn Subject,
    threads: usize,
    load: Load,
    /// Refills and spills before the first of them.
    before: Option<(u64, u64)>,
    revoked_before: Option<u64>,
    taken: u64,
    missing: u64,
}

impl Turn<'_> {
    /// Takes a sample: nanoseconds a block, the share of it that is taking, and the overlap.
    fn sample(&mut self, team: &Team, clock: f64) -> Sample<3> {
        let Some(taken) = self.subject.sample(team, self.threads, &self.load) else {
            return Sample::Impossible;
        };
        self.taken += 1;
        self.missing += taken.iter().map(|t| t.missing).sum::<u64>();
        let Some((total, overlap)) = together(&taken, (self.load.chunk * self.load.order.len()) as f64)
        else {
            return Sample::Disturbed;
        };
        let cost = clock * (self.load.split * taken.len()) as f64;
        let part = |ns: u64| (ns as f64 - cost).max(0.0);
        let alloc = part(taken.iter().map(|t| t.alloc).sum());
        let free = part(taken.iter().map(|t| t.free).sum());
        let share = if alloc + free > 0.0 { alloc / (alloc + free) } else { 0.5 };
        Sample::Counts([total, share, overlap])
    }

    /// Returns revocations so far, and then runs a pass more that counts.
    fn biased(&self, team: &Team) -> Option<(f64, u64)> {
        let revoked = self.subject.revocations()? - self.revoked_before?;
        Some((self.subject.biased_share(team, self.threads, &self.load)?, revoked))
    }

    /// Sums up; `None` where blocks were missing, or half of the samples do not count.
    fn measured(&self, wanted: usize, [totals, shares, overlaps]: &[Samples; 3]) -> Option<Measured> {
        if self.missing > 0 || totals.len() <= wanted / 2 {
            return None;
        }
        let (total, share) = (totals.median(), shares.median());
        Some(Measured {
            alloc_ns: total * share,
            free_ns: total * (1.0 - share),
            total_ns_min: totals.min(),
            total_ns_median: total,
            moves: Moves::between(self.before, self.subject.moves()),
            blocks: self.load.all_blocks() * self.taken * self.threads as u64,
            overlap: overlaps.median(),
            biased: None,
            samples: totals.len(),
        })
    }
}

/// Returns nanoseconds a block, of the chunks that ran while all threads ran, and the share of the time in which they
/// did. `None` where that is too little.
fn together(taken: &[Taken], blocks_a_chunk: f64) -> Option<(f64, f64)> {
    let span = |t: &Taken| Some(Span { start: *t.marks.first()?, end: *t.marks.last()? });
    let spans = taken.iter().map(span).collect::<Option<Vec<Span>>>()?;
    let (common, overlap) = (Span::common(&spans)?, overlap(&spans));
    if overlap < LEAST_OVERLAP {
        return None;
    }
    let mut sum = 0.0;
    for thread in taken {
        let within = |mark: &u64| (common.start..=common.end).contains(mark);
        let inside: Vec<u64> = thread.marks.iter().copied().filter(within).collect();
        let chunks = inside.len().checked_sub(1).filter(|n| *n > 0)?;
        sum += (inside[chunks] - inside[0]) as f64 / (chunks as f64 * blocks_a_chunk);
    }
    Some((sum / taken.len() as f64, overlap))
}

impl Cell {
    /// Measures every subject after untimed passes.
    pub fn measure(&self, team: &Team, subjects: &[&dyn Subject]) -> CellResult {
        let _pinned = cpus().last().map(|cpu| Pinned::to(*cpu));
        let clock = clock_cost();
        let watch = InterferenceWatch::start();
        let pair = [floor(), floor()];
        let first = (&pair[0] as &dyn Subject, 1);
        let others = subjects.iter().map(|s| (*s, self.threads));
        let all: Vec<_> = [first].into_iter().chain(others).chain([(&pair[1] as &dyn Subject, 1)]).collect();
        let loads: Vec<Load> = all.iter().map(|(s, threads)| self.load(team, *s, *threads)).collect();
        let turns = all.into_iter().zip(loads).map(|((subject, threads), load)| Turn {
            subject,
            threads,
            load,
            before: subject.moves(),
            revoked_before: subject.revocations(),
            taken: 0,
            missing: 0,
        });
        let mut turns: Vec<Turn<'_>> = turns.collect();
        let series = Sampler::new(self.samples).warmed().run(&mut turns, |t| t.sample(team, clock));
        let measured = turns.iter().zip(&series).map(|(turn, series)| {
            let biased = turn.biased(team);
            turn.measured(self.samples, series).map(|m| Measured { biased, ..m })
        });
        let mut measured: Vec<Option<Measured>> = measured.collect();
        let pair = [measured.remove(0), measured.pop().flatten()];
        let noise = Noise::of(pair.map(|m| m.map_or(0.0, |m| m.total_ns_median)), &watch);
        CellResult { measured, noise }
    }

    /// Runs the untimed passes, and says how many rounds a sample has.
    fn load(&self, team: &Team, subject: &dyn Subject, threads: usize) -> Load {
        let reads = if threads == 1 { 1 } else { READS };
        let make = |blocks| Load::new(self.order.clone(), self.call, blocks, reads);
        let trial = make(MOST_BLOCKS / 4);
        subject.sample(team, threads, &trial);
        let taken = subject.sample(team, threads, &trial).unwrap_or_default();
        let ns = taken.iter().filter_map(|t| Some(t.marks.last()? - t.marks.first()?)).max().unwrap_or(1);
        let each = ns.max(1) as f64 / trial.blocks() as f64;
        make(((SAMPLE_NS / each) as usize).min(MOST_BLOCKS * if threads == 1 { 1 } else { 4 }))
    }
}

/// The pair that must agree: the same floor twice, first and last of each turn.
fn floor() -> Alone<FloorArray> {
    Alone { name: "pair", allocator: FloorArray::new(FLOOR), bulk: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(marks: &[u64]) -> Taken {
        Taken { marks: marks.to_vec(), ..Taken::default() }
    }

    #[test]
    fn what_did_not_overlap_does_not_count() {
        // The second thread is three times as fast while the first has not begun, and again when that is done.
        let a = thread(&[300, 600, 900]);
        let b = thread(&[0, 100, 200, 300, 600, 900, 1000]);
        let (ns, overlap) = together(&[a, b], 100.0).unwrap();
        assert_eq!((ns, overlap), (3.0, 0.6));
        assert_eq!(together(&[thread(&[0, 500]), thread(&[500, 1000])], 1.0), None);
    }
}
