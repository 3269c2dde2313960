//! Bringing an engine into the opening state, with only such frames in per-CPU lists as a kernel would keep there. The
//! recorded lists were a kernel's, with its own limits, on a machine of the recorded size. An engine gets as many of
//! their blocks as its own limits allow; the others stay in their zones. So the frames that are not held are the same
//! on every engine, and only their places can differ.

use super::walk::{Follow, Walk};
use crate::engine::{ReplayEngine, zones};
use crate::error::ReplayError;
use crate::ledger::Stand;
use crate::machine::{Cached, Machine, Opening, Start};
use pageyard::{BlockId, CpuId, CpuSet, Cx, Migratetype, Order, PcpStats, Pfn, ZoneId, block};
use serde::Serialize;
use std::collections::HashMap;

/// The opening state is claimed in blocks of at most this order: a claim of a whole pageblock would set its type.
pub const BELOW_A_PAGEBLOCK: Order = Order::of(8);

/// An engine's opening state: frame counts, and the zones that are short of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Opened {
    /// Frames held.
    #[serde(skip)]
    pub held: u64,
    /// Frames on the zones' free lists.
    #[serde(rename = "free_frames")]
    pub free: u64,
    /// Frames in per-CPU lists.
    #[serde(rename = "cached_frames")]
    pub cached: u64,
    /// Frames that the recorded per-CPU lists held and that lie in the zones here, because the lists may not hold them.
    #[serde(rename = "left_in_zones_frames")]
    pub left_in_zones: u64,
    /// Zones that open below their low watermark.
    #[serde(rename = "below_low_watermark")]
    pub short: Vec<ShortZone>,
}

/// A zone that opens below its low watermark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShortZone {
    /// Its name.
    pub zone: String,
    /// Free frames.
    pub free_frames: u64,
    /// The low watermark, in frames.
    pub low_frames: u64,
    /// Frames that are missing.
    pub short_frames: u64,
}

/// Brings an engine into the opening state. Held frames are claimed in blocks of at most `largest` of their type;
/// `hold` gets each block, and returns what stands for it. `follow` is handed to [`Walk::new`].
///
/// A snapshot does not say in which order free blocks lay on their lists. That order follows from the order in which
/// held blocks are claimed: ascending for seed 0, and another one for each other seed. With seed 0 it is the recorded
/// one where the recording has it.
#[allow(clippy::too_many_arguments, reason = "each is another part of the opening state")]
pub fn set_up<'a>(
    engine: &dyn ReplayEngine,
    machine: &'a Machine,
    opening: &Opening,
    follow: Follow,
    seed: u64,
    largest: impl Fn(Migratetype) -> Order,
    mut hold: impl FnMut(Pfn, Order) -> Stand,
) -> Result<(Walk<'a>, Opened), ReplayError> {
    let fail = |what: &str, pfn: Pfn| ReplayError::Machine {
        trace: machine.name().to_owned(),
        why: format!("the opening state cannot be set up: {what} (frame {pfn})"),
    };
    for (block, m) in &opening.types {
        engine.set_pageblock_migratetype(*block, *m);
    }
    let mut walk = Walk::new(machine, follow);
    let mut opened = Opened::default();
    let mut claim = |b: BlockId, m: Migratetype| {
        let claimed = engine.claim_exact(&Cx::on(CpuId(0)), b.pfn, b.order, m);
        claimed.map_err(|why| fail(&why.to_string(), b.pfn))?;
        walk.ledger.put(b.pfn, b.order, hold(b.pfn, b.order));
        Ok::<(), ReplayError>(())
    };
    let mut later = Vec::new();
    for region in machine.regions() {
        for (start, frames, held) in machine.runs(region.start, region.end(), Start::held_as) {
            let Some(m) = held else { continue };
            opened.held += frames.0;
            for b in block::blocks(start, frames, largest(m)) {
                match seed {
                    0 => claim(b, m)?,
                    _ => later.push((b, m)),
                }
            }
        }
    }
    fastrand::Rng::with_seed(seed).shuffle(&mut later);
    later.into_iter().try_for_each(|(b, m)| claim(b, m))?;
    // The limits of a machine that was made smaller are those that its smaller zones start with.
    if !machine.made_smaller {
        for (zone, cpu, high) in &opening.highs {
            engine.restore_pcp_high(*zone, *cpu, *high);
        }
    }
    let (listed, left) = within_limits(engine, machine, opening);
    opened.left_in_zones = left.iter().map(|c| c.order.frames().0).sum();
    // The hottest last: what is added to a list last is taken first.
    let list = |blocks: &[&Cached]| -> Result<(), ReplayError> {
        for c in blocks.iter().rev() {
            engine
                .claim_exact(&Cx::on(CpuId(0)), c.pfn, c.order, c.migratetype)
                .map_err(|why| fail(&why.to_string(), c.pfn))?;
            if !engine.restore_cached(c.cpu, c.pfn, c.order, c.migratetype) {
                // An engine without such a list keeps the block on its free lists.
                engine.free(&Cx::on(c.cpu), c.pfn, c.order).map_err(|why| fail(&why.to_string(), c.pfn))?;
            }
        }
        Ok(())
    };
    if !left.is_empty() {
        // The excess goes the way that a kernel sends it: from the lists to their zones.
        list(&left)?;
        engine.drain(CpuSet::All);
    }
    list(&listed)?;
    if seed == 0 && !opening.ranks.is_empty() {
        engine.order_free_lists(&|pfn| opening.ranks.get(&pfn).copied());
    }
    opened.short = short(engine);
    Ok((walk, opened))
}

/// Separates the recorded lists' blocks that the engine's lists can hold, hottest first, from the others.
fn within_limits<'o>(
    engine: &dyn ReplayEngine,
    machine: &Machine,
    opening: &'o Opening,
) -> (Vec<&'o Cached>, Vec<&'o Cached>) {
    let zones: Vec<(Pfn, Pfn)> = machine.zones().collect();
    // For each zone and CPU: the frames that its lists have room for.
    let mut room: HashMap<(ZoneId, CpuId), u64> = HashMap::new();
    opening.cached.iter().partition(|c| {
        let at = zones.iter().position(|(start, end)| (*start..*end).contains(&c.pfn));
        let zone = ZoneId(at.unwrap_or(zones.len()) as u16);
        let frames = c.order.frames().0;
        let room = room.entry((zone, c.cpu)).or_insert_with(|| match engine.pcp_stats(zone, c.cpu) {
            Some(lists) => limit(&lists, machine, engine.zone_stats(zone).map_or(0, |z| z.span.managed.0)),
            None => 0,
        });
        // Older kernels list single frames alone.
        let fits = frames <= *room && (!machine.made_smaller || c.order == Order::ZERO);
        if fits {
            *room -= frames;
        }
        fits
    })
}

/// Returns how many frames a CPU's lists of a zone can hold at the start.
///
/// On the recorded machine that is what the engine's own lists can hold before the next free drains them. A machine
/// that was made smaller never existed: there it is also less than four batches of its zone, by the smallest batch that
/// any kernel uses. Every design's limit is at least that, so all engines open with the same lists.
fn limit(lists: &PcpStats, machine: &Machine, managed: u64) -> u64 {
    let below_high = lists.high.saturating_sub(1);
    if machine.made_smaller { below_high.min(4 * smallest_batch(managed) - 1) } else { below_high }
}

/// Returns the least number of frames that move between a list and its zone at a time.
///
/// # Linux
/// `zone_batchsize` until 4.19.
fn smallest_batch(managed: u64) -> u64 {
    let quarter = ((managed / 1024).min(128) / 4).max(1);
    ((1 << (quarter + quarter / 2).ilog2()) - 1).max(1)
}

/// Finds the zones that are below their low watermark.
fn short(engine: &dyn ReplayEngine) -> Vec<ShortZone> {
    let zones = zones(engine).into_iter().filter(|z| z.span.managed.0 > 0);
    zones
        .filter(|z| z.free < z.watermarks.low)
        .map(|z| ShortZone {
            zone: z.span.kind.to_string(),
            free_frames: z.free.0,
            low_frames: z.watermarks.low.0,
            short_frames: z.watermarks.low.0 - z.free.0,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::MemoryMap;
    use pageyard_linux::{Config, LinuxAllocator, ZoneOpening};
    use pageyard_trace::{Context, Event, EventKind, FrameKind, FreeBlock, Meta, Run, Snapshot, TraceWriter};

    /// Opens a machine whose first frames are of these kinds, and in which everything behind them is held, with these
    /// lists and rows; returns its opening state, and the reference in it from a seed.
    fn opened(
        name: &str,
        kinds: &[FrameKind],
        lists: &[FreeBlock],
        events: &[Event],
    ) -> (Opening, impl Fn(u64) -> Vec<ZoneOpening>) {
        let path = std::env::temp_dir().join(format!("pageyard-{name}-{}.trace", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        let mut writer = TraceWriter::create(&path).unwrap();
        let run = |pfn: u64, frames, kind| Run { pfn, frames, kind, thp: false, unevictable: false };
        let mut runs: Vec<Run> = (0..).zip(kinds).map(|(pfn, kind)| run(pfn, 1, *kind)).collect();
        runs.push(run(kinds.len() as u64, (16 << 10) - kinds.len() as u64, FrameKind::Anon));
        writer.free_lists(lists).unwrap();
        events.iter().for_each(|event| writer.push(event).unwrap());
        let trace = writer.finish(Meta::new(2), Some(&Snapshot { runs }), None).unwrap();
        let mut machine = Machine::read(&trace, &mut |_, _| ()).unwrap();
        let opening = machine.open(&mut |_, _| ()).unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        let kept = opening.clone();
        let zones = move |seed| {
            let regions = machine.regions();
            let map = MemoryMap::new(&regions).unwrap();
            let engine = LinuxAllocator::new(&map, &Config { cpus: 2, ..Config::linux_6_18() }).unwrap();
            let hold = |pfn: Pfn, _| Stand(pfn.0 as u32);
            set_up(&engine, &machine, &kept, Follow::default(), seed, |_| BELOW_A_PAGEBLOCK, hold).unwrap();
            engine.opening().zones
        };
        (opening, zones)
    }

    #[test]
    fn free_lists_open_in_the_recorded_order_and_type_their_pageblocks() {
        // Every second frame of the first 16 is free, and nothing else.
        let kinds: Vec<FrameKind> = (0..8).flat_map(|_| [FrameKind::Anon, FrameKind::Free]).collect();
        let listed = [5, 1, 15, 7].map(|pfn| FreeBlock { pfn, order: 0, migratetype: 2, cpu: None });
        let (opening, zones) = opened("order", &kinds, &listed, &[]);
        assert_eq!(opening.types, [(pageyard::PageblockId(0), Migratetype::Reclaimable)]);
        let lists = |seed| {
            let lists: Vec<_> = zones(seed).into_iter().flat_map(|zone| zone.free).collect();
            assert_eq!(lists.len(), 1, "one order and one type: {lists:?}");
            lists[0].blocks.iter().map(|pfn| pfn.0).collect::<Vec<u64>>()
        };
        let recorded = lists(0);
        assert_eq!(recorded[4..], [5, 1, 15, 7]);
        let mut others = recorded[..4].to_vec();
        others.sort_unstable();
        assert_eq!(others, [3, 9, 11, 13], "what no list names was freed later");
        assert_ne!(lists(1), recorded);
    }

    #[test]
    fn lists_of_a_cpu_open_as_they_were_recorded_but_for_what_left_them_before() {
        let on = |cpu, pfn, order| FreeBlock { pfn, order, migratetype: 1, cpu: Some(cpu) };
        let listed =
            [on(0, 5, 0), on(0, 1, 0), on(0, 9, 0), on(0, 7, 0), on(1, 2, 0), on(1, 10, 0), on(0, 12, 1)];
        let event = |kind, pfn| Event {
            time_ns: pfn,
            cpu: 0,
            kind,
            pfn,
            order: 0,
            gfp: 0,
            migratetype: 1,
            context: Context::Task,
            tid: 1,
            irqs_off: false,
        };
        // Frame 9 is freed, so somebody had it; frame 10 is used by then. Frame 14 came to the list since. CPU 0
        // empties CPU 1's list, too.
        let events = [
            event(EventKind::Alloc, 1),
            event(EventKind::PcpuDrain, 2),
            event(EventKind::Free, 9),
            event(EventKind::Alloc, 14),
        ];
        let mut kinds = [FrameKind::Other; 16];
        kinds[10] = FrameKind::Anon;
        let (opening, zones) = opened("cached", &kinds, &listed, &events);
        let of = |zones: &[ZoneOpening], cpu: usize| {
            let lists = zones.iter().flat_map(|zone| &zone.cpus[cpu].lists);
            lists.flatten().map(|(pfn, _)| pfn.0).collect::<Vec<u64>>()
        };
        let zones = zones(0);
        assert_eq!(of(&zones, 0), [14, 5, 1, 7, 12]);
        assert_eq!(of(&zones, 1), [2]);
        let counts = opening.counts;
        assert_eq!((counts.cached_by_list, counts.cached_by_event, counts.cached_by_count), (6, 1, 0));
    }

    #[test]
    fn the_smallest_batch_is_that_of_4_19() {
        assert_eq!([1, 3840, 100_000, 772_917, 5_394_266].map(smallest_batch), [1, 1, 31, 31, 31]);
    }
}
