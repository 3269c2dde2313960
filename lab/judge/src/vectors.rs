//! A ruling as text that any program can read: the state that a kernel was in, operation by operation what it was asked
//! and which frames it gave, and the state that it was in at the end. `docs/design/vectors.md` describes the lines.

use crate::exchange::Ruling;
use crate::kernel_state::{KernelState, KernelZone};
use crate::operation::Answer;
use crate::recording::Recording;
use std::io::{self, Write};

/// The version of the lines.
pub const VERSION: u32 = 1;

/// Writes a ruling, or its first `most` operations; the closing state follows only after all of them.
///
/// # Errors
/// Those of `out`.
pub fn write(recording: &Recording, most: usize, out: &mut impl Write) -> io::Result<()> {
    let Recording { preset, settings, compacts, operations, ruling } = recording;
    let Ruling { release, opening, answers, moves, reclaims, closing, .. } = ruling;
    writeln!(
        out,
        "# Operations that a Linux kernel carried out, and what it gave: docs/design/vectors.md of Pageyard."
    )?;
    writeln!(out, "v {VERSION}\nk {release} {preset} {}", u8::from(*compacts))?;
    for (name, value) in settings {
        writeln!(out, "s {name} {value}")?;
    }
    state(opening, out)?;
    let mut moves = moves.iter().peekable();
    for (n, op) in operations.iter().take(most).enumerate() {
        let (kind, order, ty) = (op.kind as u8, op.order, op.migratetype);
        let (flags, zone, nodes) = (op.flags, op.zone, op.nodes);
        let (arg, sub, gives, reclaims) = (op.arg, op.sub, op.gives, reclaims[n]);
        writeln!(
            out,
            "o {kind} {} {order} {ty} {flags} {zone} {nodes} {arg} {sub} {gives} {reclaims}",
            op.cpu
        )?;
        while let Some(moved) = moves.next_if(|moved| moved.operation as usize <= n) {
            writeln!(out, "p {} {}", moved.from, moved.to)?;
        }
        let frames: &[u64] = match &answers[n] {
            Answer::Block(Some(pfn)) => std::slice::from_ref(pfn),
            Answer::Bulk(frames) => frames,
            _ => &[],
        };
        frames.iter().try_for_each(|pfn| writeln!(out, "a {pfn}"))?;
    }
    if most >= operations.len() {
        // Between the last operation and the state at the end.
        moves.try_for_each(|moved| writeln!(out, "p {} {}", moved.from, moved.to))?;
        writeln!(out, "e")?;
        state(closing, out)?;
    }
    Ok(())
}

fn state(state: &KernelState, out: &mut impl Write) -> io::Result<()> {
    state.zones.iter().enumerate().try_for_each(|(number, zone)| zone_state(number, zone, out))
}

fn zone_state(number: usize, zone: &KernelZone, out: &mut impl Write) -> io::Result<()> {
    let KernelZone { node, kind, start, spanned, computed, state, reclaimable, runs, .. } = zone;
    let ([min, low, high], [p0, p1, p2, p3]) = (computed.marks, computed.protection);
    let flags = [state.reclaiming, state.boosted, state.below_high].map(u8::from);
    let [reclaiming, boosted, below_high] = flags;
    writeln!(
        out,
        "z {number} {} {} {} {} {} {min} {low} {high} {} {p0} {p1} {p2} {p3} {} {reclaiming} {boosted} {below_high} {reclaimable}",
        node.0,
        kind.index(),
        start.0,
        spanned.0,
        computed.managed,
        state.boost.0,
        state.reserved_highatomic.0,
    )?;
    for (pfn, frames, managed) in runs {
        writeln!(out, "r {number} {} {} {}", pfn.0, frames.0, u8::from(*managed))?;
    }
    let mut first = 0;
    for same in state.types.chunk_by(|a, b| a == b) {
        writeln!(out, "t {number} {first} {} {}", same.len(), same[0] as u8)?;
        first += same.len();
    }
    for list in &state.free {
        for pfn in &list.blocks {
            writeln!(out, "f {number} {} {} {}", list.order.get(), list.migratetype as u8, pfn.0)?;
        }
    }
    for (pfn, frames) in &state.movable {
        writeln!(out, "m {number} {} {}", pfn.0, frames.0)?;
    }
    for block in &state.whole {
        writeln!(out, "w {number} {} {}", block.order.get(), block.pfn.0)?;
    }
    for (cpu, (lists, [batch, high_min, high_max])) in state.cpus.iter().zip(&computed.lists).enumerate() {
        let (high, factor, count, freed) =
            (lists.high, lists.factor, lists.free_count, u8::from(lists.freed_high_order));
        writeln!(out, "c {number} {cpu} {batch} {high} {high_min} {high_max} {factor} {count} {freed}")?;
        for (list, blocks) in lists.lists.iter().enumerate() {
            for (pfn, ty) in blocks {
                writeln!(out, "l {number} {cpu} {list} {} {}", pfn.0, *ty as u8)?;
            }
        }
    }
    Ok(())
}
