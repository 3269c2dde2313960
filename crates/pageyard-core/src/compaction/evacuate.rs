//! Moving everything out of a range of frames.

use super::cluster::CLUSTER;
use super::migrate::{Busy, Migrate, MigrateError, Mode};
use super::moves::ROUNDS;
use super::moving::Moving;
use super::targets::Targets;
use super::view::Cluster;
use super::view::{CompactionView, FrameState};
use crate::allocator::Cx;
use crate::memmap::MAX_ZONES;
use crate::units::{BlockId, Frames, Order, Pfn, ZoneId};
use core::ops::Range;

/// Why a range could not be emptied. What was moved until then stays where it is now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stuck {
    /// This frame is in use and does not move: it is part of a larger block, or its owner refused.
    At(Pfn),
    /// There was no free frame to move to.
    NoTarget,
}

/// Moves the contents of each single frame of a range that is in use to a free frame elsewhere; returns how many moved.
///
/// The range has been taken out of allocation, so that what becomes free there stays free. `refill` adds free frames to
/// a stock, each an allocated block of order 0 that no caller knows of; those that are not needed are given back.
///
/// Frames that are free or in transit are passed over: the caller claims the range afterwards, and learns of them then.
///
/// # Errors
/// [`Stuck`], for the first frame that stays.
///
/// # Linux
/// `__alloc_contig_migrate_range`.
pub fn evacuate<M: CompactionView, O: Migrate>(
    map: &M,
    owner: &O,
    cx: &Cx,
    range: Range<Pfn>,
    mode: Mode,
    mut refill: impl FnMut(&mut M::Stock),
) -> Result<Frames, Stuck> {
    let (mut cluster, mut targets) = (Cluster::<M, O>::new(owner, mode), Targets::new(map, cx));
    let mut moved = 0;
    for pfn in spanned(map, &range).map(Pfn) {
        match map.frame(pfn) {
            FrameState::Allocated(order @ Order::ZERO) => match cluster.isolate(BlockId { pfn, order }) {
                Ok(()) | Err(Busy::Gone) => {}
                Err(Busy::Pinned | Busy::Locked) => return Err(Stuck::At(pfn)),
            },
            FrameState::Allocated(_) | FrameState::Tail | FrameState::Loose => return Err(Stuck::At(pfn)),
            FrameState::Hole | FrameState::Free(_) | FrameState::Inside | FrameState::Cached => {}
        }
        if cluster.has(CLUSTER) {
            moved += move_all(map, cx, &mut cluster, &mut targets, &mut refill)?;
        }
    }
    moved += move_all(map, cx, &mut cluster, &mut targets, &mut refill)?;
    Ok(Frames(moved))
}

/// Returns the part of a range from the first frame of any zone to the last: nothing else can be in use.
fn spanned<M: CompactionView>(map: &M, range: &Range<Pfn>) -> Range<u64> {
    let spans = (0..MAX_ZONES as u16).filter_map(|zone| map.zone(ZoneId(zone)).map(|zone| zone.span));
    let ends = spans.map(|span| (span.start.0, span.end().0));
    let (start, end) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, 0));
    range.start.0.max(start)..range.end.0.min(end)
}

/// Moves what was isolated; what stays is put back.
fn move_all<M: CompactionView, O: Migrate>(
    map: &M,
    cx: &Cx,
    cluster: &mut Cluster<'_, M, O>,
    targets: &mut Targets<'_, M>,
    refill: &mut impl FnMut(&mut M::Stock),
) -> Result<u64, Stuck> {
    let (mut moving, mut moved) = (Moving::<M, O>::new(cluster.take(), false), 0);
    let mode = moving.mode();
    loop {
        if moving.seek().is_none() {
            moving.rounds += 1;
            moving.at = 0;
            match moving.first() {
                None => return Ok(moved),
                Some(stays) if moving.rounds >= ROUNDS => return Err(Stuck::At(stays)),
                Some(_) => continue,
            }
        }
        let Some(to) = targets.next() else {
            refill(targets.stock());
            if targets.is_empty() {
                return Err(Stuck::NoTarget);
            }
            continue;
        };
        match moving.migrate(to, mode) {
            Ok(()) => {
                // As in `Pass::move_one`: what the owner's token does when it is dropped comes last.
                let gone = moving.remove();
                targets.used();
                moved += 1;
                if let Some((from, token)) = gone {
                    map.migrated(from, to);
                    map.free_migrated(cx, from);
                    drop(token);
                }
            }
            Err(MigrateError::Again) => {}
            Err(MigrateError::Refused) => {
                return Err(moving.block(moving.at).map_or(Stuck::NoTarget, |block| Stuck::At(block.pfn)));
            }
            Err(MigrateError::Gone) => drop(moving.remove()),
        }
        moving.at += 1;
    }
}
