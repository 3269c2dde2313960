//! The fragmenter: it brings memory to a named state, and says how close it came.
//!
//! A state says how much of memory is free, in blocks of which orders (as `unusable_index` by order), and which share
//! of the pageblocks contains something that cannot be moved. The frames are claimed one by one, so that each can be
//! moved on its own; their places are random within the state, by a seed.

use super::fragmentation::fragmentation;
use super::object::Role;
use super::owners::Owners;
use crate::engine::ReplayEngine;
use crate::error::ReplayError;
use fastrand::Rng;
use pageyard::CpuId;
use pageyard::Cx;
use pageyard::{Migratetype, Order, PAGEBLOCK_ORDER, Pfn, PressureAllocator, ZoneId};

/// Where free frames lie.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Free {
    /// Each frame is free with this chance.
    Random(f64),
    /// This share of memory, so that `unusable_index` of order k is the k-th number: the share of free memory in blocks
    /// below order k. The numbers must not fall; the first is 0.
    Blocks(f64, [f64; 10]),
}

/// The frames that cannot be moved.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Unmovable {
    /// Each held frame is pinned with this chance.
    Random(f64),
    /// In this share of the pageblocks, this many frames each.
    Pageblocks(f64, u64),
}

/// A state of memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct State {
    /// Its name.
    pub name: &'static str,
    /// Where free frames lie.
    pub free: Free,
    /// The frames that cannot be moved.
    pub unmovable: Unmovable,
    /// The share of movable frames that are page cache; the rest is anonymous.
    pub cache: f64,
}

/// Half free at random; 0.135 % of the frames pinned leave about half of the pageblocks without a pin.
pub const RANDOM_PINS: State = State {
    name: "half free, pins at random",
    free: Free::Random(0.5),
    unmovable: Unmovable::Random(0.0027),
    cache: 0.0,
};

/// Half free at random, and pins in every tenth pageblock.
pub const CLUSTERED_PINS: State = State {
    name: "half free, pins in a tenth of the pageblocks",
    free: Free::Random(0.5),
    unmovable: Unmovable::Pageblocks(0.1, 4),
    cache: 0.0,
};

/// Nearly all of it in single frames and pairs.
const SMALL: [f64; 10] = [0.0, 0.4, 0.65, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0, 1.0];

/// A tenth free, nearly all of it in single frames and pairs; a fifth of the pageblocks spoiled.
pub const WORN: State = State {
    name: "a tenth free in small blocks, a fifth of the pageblocks spoiled",
    free: Free::Blocks(0.1, SMALL),
    unmovable: Unmovable::Pageblocks(0.2, 8),
    cache: 0.95,
};

/// The same with 27 % free, so that patch 2 of document 002 serves as few requests as there.
pub const FRAGMENTED: State = State {
    name: "27 % free in small blocks, a fifth of the pageblocks spoiled",
    free: Free::Blocks(0.27, SMALL),
    ..WORN
};

/// The state asked for, and the state reached.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reached {
    /// The share of memory that is free: asked for, reached.
    pub free: (f64, f64),
    /// `unusable_index` by order: asked for, reached.
    pub unusable_index: [(f64, f64); 10],
    /// The share of pageblocks with something in them that cannot be moved: asked for, reached.
    pub spoiled: (f64, f64),
}

impl Reached {
    /// Returns how far the index of any order is off, at most.
    #[must_use]
    pub fn worst(&self) -> f64 {
        self.unusable_index.iter().map(|(asked, got)| (asked - got).abs()).fold(0.0, f64::max)
    }
}

/// The planned state of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// Not managed.
    None,
    Held,
    Free,
    Unmovable,
}

/// Brings memory to a state. The engine must be new, with everything free.
///
/// # Errors
/// [`ReplayError::Fragment`] where memory is not all free, or a state cannot be reached.
pub fn bring<E: PressureAllocator + ReplayEngine>(
    owners: &Owners<'_, E>,
    state: &State,
    seed: u64,
) -> Result<Reached, ReplayError> {
    let engine = owners.engine();
    let mut rng = Rng::with_seed(seed);
    let zones: Vec<_> = (0..).map(ZoneId).map_while(|z| engine.zone_stats(z)).collect();
    let end = zones.iter().map(|z| z.span.end().0).max().unwrap_or(0);
    let mut plan = vec![Plan::None; end as usize];
    let mut managed = 0;
    for zone in &zones {
        // A zone without holes; in a zone with holes, only the engine knows which frames are managed.
        if zone.span.managed != zone.span.spanned || zone.free != zone.span.managed {
            return Err(ReplayError::Fragment { why: "a zone has holes, or is not all free".into() });
        }
        plan[zone.span.start.0 as usize..zone.span.end().0 as usize].fill(Plan::Held);
        managed += zone.span.managed.0;
    }
    match state.free {
        Free::Random(share) => plan.iter_mut().filter(|p| **p == Plan::Held).for_each(|p| {
            if rng.f64() < share {
                *p = Plan::Free;
            }
        }),
        Free::Blocks(share, index) => {
            lay_blocks(&mut plan, (share * managed as f64) as u64, &index, &mut rng)
        }
    }
    lay_unmovable(&mut plan, state.unmovable, &mut rng);
    let refused = |why: String| ReplayError::Fragment { why };
    for (at, what) in plan.iter().enumerate() {
        let pfn = Pfn(at as u64);
        if matches!(what, Plan::None | Plan::Free) {
            continue;
        }
        engine
            .claim_exact(&Cx::on(CpuId(0)), pfn, Order::ZERO, Migratetype::Movable)
            .map_err(|e| refused(format!("frame {pfn}: {e}")))?;
        let role = if rng.f64() < state.cache { Role::Cache } else { Role::Anon };
        owners.adopt(pfn, Order::ZERO, role, *what == Plan::Unmovable);
    }
    Ok(reached(owners, state, &plan, managed))
}

/// Lays free blocks of each order at random, so that none merges with another.
fn lay_blocks(plan: &mut [Plan], free: u64, index: &[f64; 10], rng: &mut Rng) {
    // What is not below order 9 is free in whole pageblocks.
    for order in (0..=9u8).rev() {
        let (below, at_most) = (index[order as usize], index.get(order as usize + 1).copied().unwrap_or(1.0));
        let blocks = ((at_most - below) * free as f64 / (1u64 << order) as f64).round() as u64;
        let places = plan.len() as u64 >> order;
        let (mut laid, mut tries) = (0, 0);
        while laid < blocks && tries < 64 * places {
            tries += 1;
            let n = rng.u64(0..places);
            let at = |n: u64| (n << order) as usize..((n + 1) << order) as usize;
            let held = |range: std::ops::Range<usize>| {
                plan.get(range).is_some_and(|b| b.iter().all(|p| *p == Plan::Held))
            };
            // Its buddy must stay in part, or the two would be one block; for whole pageblocks that does not matter.
            let alone = order >= 9 || plan.get(at(n ^ 1)).is_some_and(|b| b.iter().any(|p| *p != Plan::Free));
            // A smaller block may not complete a larger one.
            if alone && held(at(n)) {
                plan[at(n)].fill(Plan::Free);
                laid += 1;
            }
        }
    }
}

fn lay_unmovable(plan: &mut [Plan], what: Unmovable, rng: &mut Rng) {
    match what {
        Unmovable::Random(share) => plan.iter_mut().filter(|p| **p == Plan::Held).for_each(|p| {
            if rng.f64() < share {
                *p = Plan::Unmovable;
            }
        }),
        Unmovable::Pageblocks(share, each) => {
            for block in plan.chunks_mut(PAGEBLOCK_ORDER.frames().0 as usize) {
                if block.contains(&Plan::Held) && rng.f64() < share {
                    for _ in 0..each {
                        let at = rng.usize(0..block.len());
                        if block[at] == Plan::Held {
                            block[at] = Plan::Unmovable;
                        }
                    }
                }
            }
        }
    }
}

fn reached<E: PressureAllocator + ReplayEngine>(
    owners: &Owners<'_, E>,
    state: &State,
    plan: &[Plan],
    managed: u64,
) -> Reached {
    let now = fragmentation(owners);
    let pageblocks = plan.chunks(512).filter(|b| b.iter().any(|p| *p != Plan::None));
    let (all, spoiled) = pageblocks
        .fold((0u64, 0u64), |(all, spoiled), b| (all + 1, spoiled + u64::from(b.contains(&Plan::Unmovable))));
    let asked_spoiled = match state.unmovable {
        Unmovable::Pageblocks(share, _) => share,
        Unmovable::Random(share) => {
            let held = 1.0
                - match state.free {
                    Free::Random(free) | Free::Blocks(free, _) => free,
                };
            1.0 - (1.0 - share * held).powi(512)
        }
    };
    let (free, asked) = match state.free {
        Free::Blocks(free, index) => (free, index),
        Free::Random(free) => (free, std::array::from_fn(|k| random_index(free, k as u32))),
    };
    Reached {
        free: (free, now.free.0 as f64 / managed as f64),
        unusable_index: std::array::from_fn(|k| (asked[k], now.unusable_index[k])),
        spoiled: (asked_spoiled, spoiled as f64 / all.max(1) as f64),
    }
}

/// Returns `unusable_index` of memory whose frames are free with chance `p` each: a frame is in a free block of order k
/// or more when the other frames of its aligned block are free too.
fn random_index(p: f64, order: u32) -> f64 {
    1.0 - p.powi((1i32 << order) - 1)
}
