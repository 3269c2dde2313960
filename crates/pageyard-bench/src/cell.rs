//! One setting, measured on every subject in turn, sample by sample, beside a pair that must agree.

use super::clock::clock_cost;
use super::environment::Watch;
use super::floors::FloorArray;
use super::subject::{Alone, Load, Subject, Taken};
use super::team::{Pinned, Team, cpus};
use super::{Noise, SAMPLES, median};
use std::sync::Arc;

/// Nanoseconds that a sample takes at least, unless it reaches [`MOST_BLOCKS`] before.
const SAMPLE_NS: f64 = 1.5e6;

/// Blocks that a sample handles at most on one thread, unless its batch is larger: at a nanosecond each, the clock's
/// cost is a thousandth.
const MOST_BLOCKS: usize = 1 << 15;

/// Times the clock is read in a sample of several threads, so that what did not overlap can be dropped.
const READS: usize = 16;

/// A sample of several threads of which less than this share overlapped is dropped.
const LEAST_OVERLAP: f64 = 0.5;

/// The two halves of the pair may differ by this share.
pub(super) const AGREE: f64 = 0.05;

/// One setting.
pub(super) struct Cell {
    /// The order in which a batch is given back; its length is the batch.
    pub order: Arc<[u32]>,
    /// Blocks in a call.
    pub call: usize,
    /// Threads at the same time.
    pub threads: usize,
}

/// A subject's result, in nanoseconds a block and thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub alloc_ns: f64,
    pub free_ns: f64,
    pub total_ns_min: f64,
    pub total_ns_median: f64,
    /// Refills and spills in all samples, where they can be seen.
    pub moves: Option<(u64, u64)>,
    /// Blocks handled in all samples.
    pub blocks: u64,
    /// The share of the time in which all threads ran; 1 for one thread.
    pub overlap: f64,
    /// Samples that count.
    pub samples: usize,
}

/// The result of a setting.
pub(super) struct CellResult {
    /// By subject; `None` where it could not be measured.
    pub measured: Vec<Option<Measured>>,
    /// What disturbed it.
    pub noise: Noise,
}

/// What a subject's samples add up to.
#[derive(Default)]
struct Samples {
    totals: Vec<f64>,
    shares: Vec<f64>,
    overlaps: Vec<f64>,
    missing: u64,
    failed: bool,
}

impl Samples {
    fn add(&mut self, taken: Option<Vec<Taken>>, load: &Load, clock: f64) {
        let Some(taken) = taken else { return self.failed = true };
        self.missing += taken.iter().map(|t| t.missing).sum::<u64>();
        let Some((total, overlap)) = together(&taken, (load.chunk * load.order.len()) as f64) else { return };
        let cost = clock * (load.split * taken.len()) as f64;
        let part = |ns: u64| (ns as f64 - cost).max(0.0);
        let alloc = part(taken.iter().map(|t| t.alloc).sum());
        let free = part(taken.iter().map(|t| t.free).sum());
        self.totals.push(total);
        self.overlaps.push(overlap);
        self.shares.push(if alloc + free > 0.0 { alloc / (alloc + free) } else { 0.5 });
    }
}

/// Returns nanoseconds a block, of the chunks that ran while all threads ran, and the share of the time in which they did.
/// `None` where that is too little.
fn together(taken: &[Taken], blocks_a_chunk: f64) -> Option<(f64, f64)> {
    let first = |t: &Taken| t.marks.first().copied();
    let last = |t: &Taken| t.marks.last().copied();
    let (from, until) = (taken.iter().filter_map(first).max()?, taken.iter().filter_map(last).min()?);
    let (begin, end) = (taken.iter().filter_map(first).min()?, taken.iter().filter_map(last).max()?);
    let overlap = until.saturating_sub(from) as f64 / end.saturating_sub(begin).max(1) as f64;
    if overlap < LEAST_OVERLAP {
        return None;
    }
    let mut sum = 0.0;
    for thread in taken {
        let inside: Vec<u64> = thread.marks.iter().copied().filter(|m| (from..=until).contains(m)).collect();
        let chunks = inside.len().checked_sub(1).filter(|n| *n > 0)?;
        sum += (inside[chunks] - inside[0]) as f64 / (chunks as f64 * blocks_a_chunk);
    }
    Some((sum / taken.len() as f64, overlap))
}

impl Cell {
    /// Measures every subject after one untimed pass.
    pub fn measure(&self, team: &Team, subjects: &[&dyn Subject]) -> CellResult {
        let _pinned = cpus().last().map(|cpu| Pinned::to(*cpu));
        let clock = clock_cost();
        let watch = Watch::start();
        let pair = [floor(), floor()];
        let mut all: Vec<&dyn Subject> = vec![&pair[0]];
        all.extend(subjects);
        all.push(&pair[1]);
        let threads = |i: usize| if i == 0 || i == all.len() - 1 { 1 } else { self.threads };
        let loads: Vec<Load> = all.iter().enumerate().map(|(i, s)| self.load(team, *s, threads(i))).collect();
        let before: Vec<_> = all.iter().map(|s| s.moves()).collect();
        let mut samples: Vec<Samples> = all.iter().map(|_| Samples::default()).collect();
        for _ in 0..SAMPLES {
            for (i, subject) in
                all.iter().enumerate().filter(|(i, _)| !samples[*i].failed).collect::<Vec<_>>()
            {
                samples[i].add(subject.sample(team, threads(i), &loads[i]), &loads[i], clock);
            }
        }
        let mut measured: Vec<Option<Measured>> = (0..all.len())
            .map(|i| {
                let moves = all[i].moves().zip(before[i]).map(|(b, a)| (b.0 - a.0, b.1 - a.1));
                sum_up(&mut samples[i], loads[i].all_blocks() * (SAMPLES * threads(i)) as u64, moves)
            })
            .collect();
        let pair = [measured.remove(0), measured.pop().flatten()];
        let pair = pair.map(|m| m.map_or(0.0, |m| m.total_ns_median));
        let apart = (pair[0] - pair[1]).abs() / pair[0].min(pair[1]).max(0.01);
        CellResult { measured, noise: Noise { apart, taken: watch.seen() } }
    }

    /// Runs the untimed pass, and says how many rounds a sample has.
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
    Alone { name: "pair", allocator: FloorArray::new(super::subjects::FLOOR), bulk: true }
}

fn sum_up(samples: &mut Samples, blocks: u64, moves: Option<(u64, u64)>) -> Option<Measured> {
    let n = samples.totals.len();
    if samples.failed || samples.missing > 0 || n <= SAMPLES / 2 {
        return None;
    }
    let (total, share) = (median(&mut samples.totals), median(&mut samples.shares));
    Some(Measured {
        alloc_ns: total * share,
        free_ns: total * (1.0 - share),
        total_ns_min: samples.totals[0],
        total_ns_median: total,
        moves,
        blocks,
        overlap: median(&mut samples.overlaps),
        samples: n,
    })
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
