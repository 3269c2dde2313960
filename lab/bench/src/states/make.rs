//! Memory laid out as a state of the bank.
//!
//! A degree is hit by counting pageblocks: so many are free, others are worn until as many frames are free in pieces as
//! the unusable index asks for, and the rest is full. Of those that are not free so many get frames that cannot be
//! moved.

use super::bank::{Level, State, Unmovable, Worn};
use super::degree::{Degree, MOST_OFF};
use super::memory::{BLOCK, Content, Memory};
use crate::error::BenchError;
use fastrand::Rng;
use pageyard_trace::FrameKind;
use pageyard_trace::text::size;

/// Lays out memory of this many bytes. The same seed gives the same memory.
///
/// # Errors
/// [`BenchError::State`] for a size that is no whole number of pageblocks, is too large, or is so small that no number
/// of pageblocks comes within [`MOST_OFF`] of the degree.
pub fn make(state: &State, level: Level, bytes: u64, seed: u64) -> Result<Memory, BenchError> {
    let mut memory = Memory::filled(bytes, Content::of(state.filled_with))?;
    let pageblocks = memory.frames().0 / BLOCK;
    let asked = state.asked(level);
    let plan = Plan::of(&asked, pageblocks).ok_or_else(|| too_small(state, level, pageblocks))?;
    let mut rng = Rng::with_seed(seed);
    let mut order: Vec<u64> = (0..pageblocks).collect();
    rng.shuffle(&mut order);
    let (free, others) = order.split_at_mut(plan.free_pageblocks as usize);
    free.iter().for_each(|at| memory.pageblock(*at).fill(Content::FREE));
    let mut left = plan.frames_in_pieces;
    for at in others.iter() {
        if left == 0 {
            break;
        }
        left -= wear(memory.pageblock(*at), &state.worn, left, &mut rng);
    }
    if !state.unmovable.worn_first {
        rng.shuffle(others);
    }
    for at in others.iter().take(plan.unmovable_pageblocks as usize) {
        spoil(memory.pageblock(*at), &state.unmovable, &mut rng);
    }
    Ok(memory)
}

/// The numbers by which a degree is hit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plan {
    free_pageblocks: u64,
    frames_in_pieces: u64,
    unmovable_pageblocks: u64,
}

impl Plan {
    /// Finds the numbers that come closest, if they are close enough.
    fn of(asked: &Degree, pageblocks: u64) -> Option<Plan> {
        let free = asked.free_share * pageblocks as f64;
        let whole = (1.0 - asked.unusable_index) * free;
        let unmovable = (asked.unmovable_pageblock_share * pageblocks as f64).round() as u64;
        let plans = [whole.floor(), whole.ceil()].into_iter().flat_map(|whole| {
            // Either figure can be met, and the other misses by what rounding costs.
            let for_the_index = whole * asked.unusable_index / (1.0 - asked.unusable_index);
            [for_the_index, free - whole].map(|in_pieces| Plan {
                free_pageblocks: whole as u64,
                frames_in_pieces: (in_pieces * BLOCK as f64).round() as u64,
                unmovable_pageblocks: unmovable.min(pageblocks - whole as u64),
            })
        });
        let off = |plan: &Plan| asked.off(&plan.degree(pageblocks));
        plans.filter(|plan| off(plan) <= MOST_OFF).min_by(|a, b| off(a).total_cmp(&off(b)))
    }

    /// Returns the degree that it leads to.
    fn degree(&self, pageblocks: u64) -> Degree {
        let free = self.free_pageblocks * BLOCK + self.frames_in_pieces;
        Degree {
            free_share: free as f64 / (pageblocks * BLOCK) as f64,
            unusable_index: self.frames_in_pieces as f64 / free.max(1) as f64,
            unmovable_pageblock_share: self.unmovable_pageblocks as f64 / pageblocks as f64,
        }
    }
}

/// Says that memory is too small for a degree, and what is not.
fn too_small(state: &State, level: Level, pageblocks: u64) -> BenchError {
    let asked = state.asked(level);
    let larger =
        (0..).map(|shift| pageblocks.next_power_of_two() << shift).find(|n| Plan::of(&asked, *n).is_some());
    let why = format!(
        "in {} no number of pageblocks comes within {:.0} % of {}, {}; take {}",
        size(pageblocks * BLOCK),
        MOST_OFF * 100.0,
        state.name,
        level.name(),
        size(larger.unwrap_or(pageblocks) * BLOCK)
    );
    BenchError::State { why }
}

/// Gives back parts of a full pageblock, at most this many frames and never all; returns how many.
fn wear(pageblock: &mut [Content], worn: &Worn, most: u64, rng: &mut Rng) -> u64 {
    let held = pageblock[0];
    match worn {
        Worn::Blocks(order, chance) => {
            for block in pageblock.chunks_mut(order.frames().0 as usize) {
                if rng.f64() < *chance {
                    block.fill(Content::FREE);
                }
            }
        }
        Worn::AllBut(kept) => {
            pageblock.fill(Content::FREE);
            (0..rng.u64(kept.clone())).for_each(|_| pageblock[rng.u64(0..BLOCK) as usize] = held);
        }
        Worn::Runs(runs, frames) => {
            for _ in 0..rng.u64(runs.clone()) {
                let frames = rng.u64(frames.clone());
                let start = rng.u64(0..=BLOCK - frames);
                pageblock[start as usize..(start + frames) as usize].fill(Content::FREE);
            }
        }
    }
    if pageblock.iter().all(|frame| *frame == Content::FREE) {
        pageblock[rng.u64(0..BLOCK) as usize] = held;
    }
    let free = pageblock.iter_mut().filter(|frame| frame.kind == FrameKind::Free);
    let free: Vec<&mut Content> = free.collect();
    let given_back = most.min(free.len() as u64);
    let too_many = free.len() - given_back as usize;
    free.into_iter().take(too_many).for_each(|frame| *frame = held);
    given_back
}

/// Turns blocks of a pageblock that are held as a whole into ones that cannot be moved.
fn spoil(pageblock: &mut [Content], with: &Unmovable, rng: &mut Rng) {
    let blocks = pageblock.chunks_mut(with.order.frames().0 as usize);
    let mut held: Vec<&mut [Content]> = blocks.filter(|b| b.iter().all(|f| f.is_movable())).collect();
    rng.shuffle(&mut held);
    let most = rng.u64(with.blocks.clone()) as usize;
    held.into_iter().take(most).for_each(|block| block.fill(with.what));
}
