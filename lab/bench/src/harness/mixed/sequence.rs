//! The calls of a mixed load, made once from a fixed seed: the same for every allocator and sample.
//!
//! A thread takes blocks in a run, then gives back others in a run, and so on; how long a run is varies. Which of the
//! blocks held is given back is random. What is held wanders around half of the zone, and a pass ends with as many
//! blocks as it began with, so passes follow each other without end.

use crate::harness::handover::GROUP;
use pageyard::Order;
use serde::{Deserialize, Serialize};

/// The memory that is managed, in frames: 512 MiB.
pub const ZONE: u64 = 1 << 17;

/// Allocations by order in the recordings that ship, together: `by_order` of `pageyard summary --json` for
/// `data/traces/build.trace`, `net.trace`, `fork.trace` and `net-order0.trace`. Other orders are 556 of 2,678,930.
pub const RECORDED: [(Order, u64); 6] = [
    (Order::of(0), 2_180_200),
    (Order::of(1), 1_224),
    (Order::of(2), 2_866),
    (Order::of(3), 493_737),
    (Order::of(4), 197),
    (Order::of(9), 150),
];

/// Returns the share of the allocations that have the order of this entry of [`RECORDED`].
#[must_use]
pub fn share(entry: usize) -> f64 {
    RECORDED[entry].1 as f64 / total() as f64
}

fn total() -> u64 {
    RECORDED.iter().map(|(_, n)| n).sum()
}

/// Whose blocks a thread gives back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MixedPattern {
    /// Its own.
    Local,
    /// A quarter of them those that another thread took, handed over 64 at a time: each thread hands to the next, the
    /// last to the first.
    HandedOver,
}

impl MixedPattern {
    /// Every pattern.
    pub const ALL: [MixedPattern; 2] = [MixedPattern::Local, MixedPattern::HandedOver];

    /// The name of each.
    pub const NAMES: [&str; 2] = [MixedPattern::Local.name(), MixedPattern::HandedOver.name()];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MixedPattern::Local => "local",
            MixedPattern::HandedOver => "handed-over",
        }
    }
}

/// Of this many blocks given back, one is handed over.
const HANDED: usize = 4;

/// The seed of the first thread's calls; each further thread adds its number.
const SEED: u64 = 20_260;

/// The mean length of a run of calls: about the batch by which lists are filled.
const RUN: u32 = 64;

/// The divisor of the held count that bounds how far it wanders from the middle.
const WANDERS: usize = 16;

/// A thread gives back a block from another after it has handed over so many more itself. Less than the queue holds,
/// and more than a group, so that threads never wait for each other in a circle.
const LAG: usize = 2 * GROUP;

/// One call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step(u32);

/// The kind of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Takes a block.
    Take(Order),
    /// Gives back one of those held.
    Give,
    /// Hands one of those held over to the next thread.
    Hand,
    /// Gives back the next one that the thread before has handed over.
    GiveHanded,
}

impl Step {
    /// Bits that choose among the blocks held; the kind lies above.
    const CHOICE: u32 = 28;
    const GIVE: u32 = 16 - 3;
    const HAND: u32 = 16 - 2;
    const GIVE_HANDED: u32 = 16 - 1;

    fn new(kind: u32, rng: &mut fastrand::Rng) -> Step {
        Step(kind << Step::CHOICE | rng.u32(..1 << Step::CHOICE))
    }

    /// Returns what it does.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        match self.0 >> Step::CHOICE {
            Step::GIVE => Kind::Give,
            Step::HAND => Kind::Hand,
            Step::GIVE_HANDED => Kind::GiveHanded,
            order => Kind::Take(Order::new(order as u8).unwrap_or(Order::ZERO)),
        }
    }

    /// Chooses one of the blocks held.
    #[inline(always)]
    pub fn choice(self, held: usize) -> usize {
        let random = u64::from(self.0 & ((1 << Step::CHOICE) - 1));
        ((random * held as u64) >> Step::CHOICE) as usize
    }
}

/// One thread's calls.
pub(crate) struct Sequence {
    /// The orders of the blocks that it holds at first.
    pub opening: Box<[Order]>,
    /// The calls of a pass.
    pub steps: Box<[Step]>,
    /// Blocks that a pass takes, and gives back.
    pub blocks: usize,
}

impl Sequence {
    /// Makes the calls of one of `threads` threads: passes of at least so many blocks. All threads hand over as many.
    pub fn new(thread: usize, threads: usize, pattern: MixedPattern, blocks: usize) -> Sequence {
        let mut rng = fastrand::Rng::with_seed(SEED + thread as u64);
        let frames: u64 = RECORDED.iter().map(|(order, n)| n << order.get()).sum();
        let held = (ZONE / 2 / threads as u64 * total() / frames) as usize;
        let opening = orders(held, &mut rng);
        let runs = Runs::new(held, blocks, &mut rng);
        let handed = if pattern == MixedPattern::HandedOver { blocks / HANDED / GROUP * GROUP } else { 0 };
        let mut handing = vec![false; runs.blocks];
        handing[..handed].fill(true);
        rng.shuffle(&mut handing);
        let mut handing = handing.into_iter();
        let mut takes = orders(runs.blocks, &mut rng).into_vec().into_iter();
        let (mut steps, mut sent) = (Vec::new(), 0);
        for (taken, given) in runs.lengths {
            let takes = takes.by_ref().take(taken).map(|order| u32::from(order.get()));
            steps.extend(takes.map(|order| Step::new(order, &mut rng)));
            for hand in handing.by_ref().take(given) {
                steps.push(Step::new(if hand { Step::HAND } else { Step::GIVE }, &mut rng));
                sent += usize::from(hand);
                if hand && sent > LAG {
                    steps.push(Step::new(Step::GIVE_HANDED, &mut rng));
                }
            }
        }
        steps.extend((0..handed.min(LAG)).map(|_| Step::new(Step::GIVE_HANDED, &mut rng)));
        Sequence { opening, steps: steps.into(), blocks: runs.blocks }
    }

    /// Returns the most blocks that are held at a time.
    pub fn most_held(&self) -> usize {
        self.opening.len() + self.opening.len() / WANDERS
    }
}

/// The lengths of runs: blocks taken, then given back.
struct Runs {
    lengths: Vec<(usize, usize)>,
    /// Blocks taken in all of them, and given back.
    blocks: usize,
}

impl Runs {
    fn new(held: usize, blocks: usize, rng: &mut fastrand::Rng) -> Runs {
        let most = held / WANDERS;
        let (mut lengths, mut taken, mut given) = (Vec::new(), 0, 0);
        // Above the middle by `taken - given`, or below it.
        while taken < blocks {
            let up = run(rng).min(most + given - taken);
            taken += up;
            let down = run(rng).min(most + taken - given);
            given += down;
            lengths.push((up, down));
        }
        lengths.push((given.saturating_sub(taken), taken.saturating_sub(given)));
        Runs { lengths, blocks: taken.max(given) }
    }
}

/// Returns the length of a run: geometric, [`RUN`] in the mean.
fn run(rng: &mut fastrand::Rng) -> usize {
    1 + std::iter::repeat_with(|| rng.u32(..RUN)).take_while(|n| *n > 0).count()
}

/// Returns so many orders by their shares, to the block, in random order.
fn orders(n: usize, rng: &mut fastrand::Rng) -> Box<[Order]> {
    let mut orders = Vec::with_capacity(n);
    let mut seen = 0;
    for (order, recorded) in RECORDED {
        seen += recorded;
        // Up to here in all, rounded: what one share loses, the next one gets.
        let until = (n as u64 * seen + total() / 2) / total();
        orders.resize(until as usize, order);
    }
    rng.shuffle(&mut orders);
    orders.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const BLOCKS: usize = 1 << 15;

    /// A thread that holds orders instead of blocks.
    struct Thread {
        sequence: Sequence,
        held: Vec<Order>,
        at: usize,
    }

    impl Thread {
        fn new(thread: usize, threads: usize, pattern: MixedPattern) -> Thread {
            let sequence = Sequence::new(thread, threads, pattern, BLOCKS);
            Thread { held: sequence.opening.to_vec(), sequence, at: 0 }
        }

        /// Makes calls until a pass ends, or a block is lacking that the other hands over; tells of each what it does
        /// to the frames in use.
        fn go(&mut self, out: &mut Vec<Order>, inbox: &mut VecDeque<Order>, tell: &mut impl FnMut(i64)) {
            while let Some(step) = self.sequence.steps.get(self.at) {
                let frames = |order: Order| order.frames().0 as i64;
                let change = match step.kind() {
                    Kind::Take(order) => {
                        self.held.push(order);
                        frames(order)
                    }
                    Kind::Give => -frames(self.held.swap_remove(step.choice(self.held.len()))),
                    Kind::Hand => {
                        out.push(self.held.swap_remove(step.choice(self.held.len())));
                        0
                    }
                    Kind::GiveHanded => match inbox.pop_front() {
                        Some(order) => -frames(order),
                        None => return,
                    },
                };
                assert!(self.held.len() <= self.sequence.most_held());
                tell(change);
                self.at += 1;
            }
        }
    }

    #[test]
    fn the_calls_are_the_same_each_time_and_differ_by_thread() {
        let steps = |thread, pattern| Sequence::new(thread, 2, pattern, BLOCKS).steps;
        for pattern in MixedPattern::ALL {
            assert_eq!(steps(0, pattern), steps(0, pattern));
            assert_ne!(steps(0, pattern), steps(1, pattern));
        }
    }

    #[test]
    fn orders_are_taken_by_their_recorded_shares() {
        let sequence = Sequence::new(0, 1, MixedPattern::Local, 1 << 17);
        for (i, (order, _)) in RECORDED.iter().enumerate() {
            let of = |step: &&Step| step.kind() == Kind::Take(*order);
            let n = sequence.steps.iter().filter(of).count();
            assert!((n as f64 - share(i) * sequence.blocks as f64).abs() < 1.0, "{order:?}: {n}");
        }
        assert!((0..RECORDED.len()).map(share).sum::<f64>() > 0.999_999);
    }

    #[test]
    fn runs_vary_around_their_mean_and_end_where_they_began() {
        let runs = Runs::new(20_000, BLOCKS, &mut fastrand::Rng::with_seed(1));
        let (up, down): (usize, usize) =
            runs.lengths.iter().fold((0, 0), |(up, down), run| (up + run.0, down + run.1));
        assert_eq!((up, down), (runs.blocks, runs.blocks));
        assert!(runs.blocks >= BLOCKS);
        let (short, long) =
            (runs.lengths.iter().filter(|r| r.0 < 8), runs.lengths.iter().filter(|r| r.0 > 128));
        assert!(short.count() > 10 && long.count() > 10);
    }

    #[test]
    fn the_zone_stays_between_40_and_60_percent_full_pass_after_pass() {
        for (threads, pattern) in [
            (1, MixedPattern::Local),
            (2, MixedPattern::Local),
            (2, MixedPattern::HandedOver),
            (16, MixedPattern::HandedOver),
        ] {
            let mut all: Vec<Thread> = (0..threads).map(|i| Thread::new(i, threads, pattern)).collect();
            let frames = |t: &Thread| t.held.iter().map(|o| o.frames().0 as i64).sum::<i64>();
            let mut used: i64 = all.iter().map(frames).sum();
            let mut seen = (used, used);
            for _ in 0..20 {
                let mut queues = vec![VecDeque::new(); threads];
                let mut rounds = 0;
                while all.iter().any(|t| t.at < t.sequence.steps.len()) {
                    for (i, thread) in all.iter_mut().enumerate() {
                        let mut out = Vec::new();
                        thread.go(&mut out, &mut queues[i], &mut |change| {
                            used += change;
                            seen = (seen.0.min(used), seen.1.max(used));
                        });
                        queues[(i + 1) % threads].extend(out);
                    }
                    rounds += 1;
                    assert!(rounds < BLOCKS, "the threads wait for each other");
                }
                assert!(queues.iter().all(VecDeque::is_empty), "what was handed over was given back");
                for thread in &mut all {
                    assert_eq!(thread.held.len(), thread.sequence.opening.len());
                    thread.at = 0;
                }
            }
            let pct = |frames: i64| 100.0 * frames as f64 / ZONE as f64;
            assert!(pct(seen.0) > 40.0 && pct(seen.1) < 60.0, "{threads}, {pattern:?}: {seen:?}");
        }
    }
}
