//! The opening state: the allocator's state when the recording began.
//!
//! The snapshot says which frames were on free lists. It does not say which lay in per-CPU lists (they look like kernel
//! memory), nor what type each pageblock was. The events do: a frame that is allocated, or drained from a list, before
//! any event freed it was in a list; and a drain names the type of the pageblock. Where the recording has the host's
//! lists, free lists tell the types of their blocks, and per-CPU lists their blocks; both tell the order of them.

use super::emptied::{Emptied, Emptying};
use super::filler::{Filler, Refilled, is_listed};
use super::first_sample::FirstSample;
use super::listed::Listed;
use super::parts::{Cached, OpeningCounts};
use super::reclaimed::{Reclaim, Reclaimed};
use super::reclaimers::Reclaimers;
use super::types::NamedTypes;
use super::{BYTES_A_FRAME, Machine, Start};
use crate::bitmap::FrameSet;
use crate::by_number::ByNumber;
use crate::error::ReplayError;
use crate::kept::{Keeping, KeptEvents, Readings};
use crate::rows::{Row, each_row};
use pageyard::{CpuId, Frames, Migratetype, Order, PageblockId, Pfn, ZoneId};
use pageyard_trace::proctext::Pageset;
use pageyard_trace::{Event, EventKind};
use std::collections::{HashMap, HashSet};

/// CPUs that a trace may claim without naming any of them: each costs memory, and the limits of lists depend on their
/// number.
const UNNAMED_CPUS: u32 = 64;

/// The opening state.
#[derive(Clone)]
pub struct Opening {
    /// Pageblocks that are not movable.
    pub types: Vec<(PageblockId, Migratetype)>,
    /// Blocks in per-CPU lists, the next to be taken first.
    pub cached: Vec<Cached>,
    /// Limits of per-CPU lists, in frames.
    pub highs: Vec<(ZoneId, CpuId, u64)>,
    /// Frames that an event names.
    pub(super) touched: FrameSet,
    /// The places of blocks on their free lists, the next to be taken first; empty where the recording does not tell.
    pub ranks: HashMap<Pfn, u32>,
    /// How it was found.
    pub counts: OpeningCounts,
    /// Time of the last event, in nanoseconds.
    pub duration_ns: u64,
    /// Threads that do nothing but reclaim.
    pub(crate) reclaimers: ByNumber<bool>,
    /// The blocks that reclaim freed, in order of time, where rows say who reclaimed.
    pub(crate) reclaimed: Vec<Reclaimed>,
    /// When the host emptied the lists of all CPUs, where rows say so.
    pub(crate) emptied: Vec<Emptying>,
    /// The events that it was found in, where they are read several times more and fit into memory.
    pub(crate) events: Option<KeptEvents>,
}

impl Opening {
    /// Iterates over the threads that do nothing but reclaim.
    pub fn reclaimers(&self) -> impl Iterator<Item = u32> {
        self.reclaimers.iter().filter(|(_, is_one)| **is_one).map(|(tid, _)| tid)
    }
}

impl Machine {
    /// Reads the events once and works out the opening state.
    ///
    /// # Errors
    /// [`ReplayError::Trace`] where the events cannot be read.
    pub fn open(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<Opening, ReplayError> {
        self.open_for(Readings::One, progress)
    }

    /// Works out the opening state as [`Machine::open`] does, from events that will be read `again`.
    ///
    /// # Errors
    /// As [`Machine::open`].
    pub(crate) fn open_for(
        &mut self,
        again: Readings,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Opening, ReplayError> {
        let mut first = FirstSample::read(self)?;
        let trace = self.trace.clone();
        let lists = trace.free_lists()?.unwrap_or_default();
        let mut scan = Scan {
            touched: FrameSet::new(self.end()),
            types: NamedTypes::new(self),
            taken: Vec::new(),
            drained: Vec::new(),
            listed: Listed::new(&lists, self.end()),
            refilled: Refilled::default(),
            unseen: 0,
            reclaimers: Reclaimers::new(self.end()),
            cpus: 0,
        };
        let mut last = 0;
        let free = || lists.iter().filter(|block| block.cpu.is_none());
        scan.types.listed(free());
        let ranks: HashMap<Pfn, u32> = free().map(|b| Pfn(b.pfn)).zip(0..).collect();
        let mut reclaim = Reclaim::of(&trace, self.end())?;
        let mut emptied = reclaim.as_ref().map(|_| Emptied::new(self.end()));
        let mut events = Keeping::new(self.end().0.saturating_mul(BYTES_A_FRAME), again);
        each_row(&trace, progress, |row| {
            if let Some(reclaim) = &mut reclaim {
                reclaim.row(&row);
            }
            let event = match row {
                Row::Event(event) => event,
                Row::Move(row) => {
                    emptied.iter_mut().for_each(|emptied| emptied.row(row));
                    return;
                }
            };
            events.event(event);
            scan.cpus = scan.cpus.max(event.cpu.saturating_add(1));
            if let Some(order) = self.order_of(event) {
                scan.event(self, event, order);
                if let Some(emptied) = &mut emptied {
                    emptied.event(event, order);
                }
                scan.reclaimers.event(self, event, order);
            }
            if let Some(first) = &mut first {
                first.event(event);
            }
            last = event.time_ns;
        })?;
        let events = events.kept();
        let reclaimed = reclaim.map(Reclaim::found).unwrap_or_default();
        self.cpus = self.cpus.min(scan.cpus.max(self.listed_cpus()).max(UNNAMED_CPUS));
        let mut counts = OpeningCounts { freed_unseen: scan.unseen, ..OpeningCounts::default() };
        if !self.has_snapshot {
            let none = (Vec::new(), Vec::new(), Vec::new());
            return Ok(Opening {
                types: none.0,
                cached: none.1,
                highs: none.2,
                touched: scan.touched,
                ranks,
                counts,
                duration_ns: last,
                reclaimers: scan.reclaimers.found(),
                reclaimed,
                emptied: emptied.map(|e| e.found(&[])).unwrap_or_default(),
                events,
            });
        }
        let types = self.pageblock_types(scan.types.found(), &scan.touched, &mut counts)?;
        let of_others = self.drained_of_others(&mut scan.drained, &scan.taken, &scan.listed, first.as_ref());
        let emptied = emptied.map(|e| e.found(&of_others)).unwrap_or_default();
        let (cached, highs) = self.cached_frames(&mut scan, &types, first.as_ref(), &mut counts);
        let types = (0..)
            .map(PageblockId)
            .zip(types)
            .filter_map(|(b, m)| Some((b, m.filter(|m| *m != Migratetype::Movable)?)))
            .collect();
        Ok(Opening {
            types,
            cached,
            highs,
            touched: scan.touched,
            ranks,
            counts,
            duration_ns: last,
            reclaimers: scan.reclaimers.found(),
            reclaimed,
            emptied,
            events,
        })
    }

    /// Returns the order of a row's block, if the row has one and all of it lies within the memory map.
    fn order_of(&self, event: &Event) -> Option<Order> {
        let order = Order::new(event.order)?;
        // The number of a request that failed is beyond any map.
        event.pfn.checked_add(order.frames().0).filter(|end| *end <= self.end().0).map(|_| order)
    }

    /// Returns how many CPUs `zoneinfo` lists.
    fn listed_cpus(&self) -> u32 {
        let zones = self.zoneinfo.iter().flat_map(|z| &z.zones);
        zones.flat_map(|z| &z.pagesets).map(|set| set.cpu.saturating_add(1)).max().unwrap_or(0)
    }

    /// Returns what each CPU's lists of the machine's `index`th zone held before the first row: frames, and their
    /// limit.
    fn lists(&self, index: usize, first: Option<&FirstSample>) -> Vec<(CpuId, u64, u64)> {
        let zone = &self.zones[index];
        let all = self.zoneinfo.iter().flat_map(|z| &z.zones);
        let record = all.into_iter().find(|r| r.node == zone.node.0 && r.name == zone.kind.name());
        let sets = record.map_or(&[][..], |r| &r.pagesets);
        let held = |set: &Pageset| {
            let sampled = first.and_then(|first| first.lists(index, zone, set.cpu));
            let (count, high) = sampled.unwrap_or((set.count, set.high));
            (CpuId(set.cpu), count, high)
        };
        sets.iter().map(held).collect()
    }

    /// Puts blocks that were drained from lists into those of the CPUs that had them. Their rows name the CPU that
    /// drained, which may have emptied another's lists: what its own did not hold lay there, where the recording does
    /// not tell. Returns the times at which
    /// a CPU drained blocks of another, in order.
    fn drained_of_others(
        &self,
        drained: &mut [(Cached, u64)],
        taken: &[Cached],
        listed: &Listed,
        first: Option<&FirstSample>,
    ) -> Vec<u64> {
        let mut times = Vec::new();
        for (index, zone) in self.zones.iter().enumerate() {
            let here = |c: &Cached| (zone.start..zone.end).contains(&c.pfn);
            // By CPU, the frames that its lists held beside those that it took out itself.
            let room = |(cpu, count, _): (CpuId, u64, u64)| {
                let of_cpu = taken.iter().filter(|c| c.cpu == cpu && here(c));
                (cpu, count.saturating_sub(of_cpu.map(|c| c.order.frames().0).sum()))
            };
            let mut rooms: Vec<(CpuId, u64)> = self.lists(index, first).into_iter().map(room).collect();
            for (c, time_ns) in drained.iter_mut().filter(|(c, _)| here(c)) {
                let frames = c.order.frames().0;
                let recorded = listed.cpu_of(c).and_then(|of| rooms.iter().position(|(cpu, _)| *cpu == of));
                let own = || rooms.iter().position(|(cpu, room)| *cpu == c.cpu && *room >= frames);
                let widest = || {
                    let at = (0..rooms.len()).max_by_key(|at| rooms[*at].1)?;
                    (rooms[at].1 >= frames).then_some(at)
                };
                if let Some(at) = recorded.or_else(own).or_else(widest) {
                    let (cpu, room) = &mut rooms[at];
                    *room = room.saturating_sub(frames);
                    if c.cpu != *cpu {
                        c.cpu = *cpu;
                        times.push(*time_ns);
                    }
                }
            }
        }
        times.sort_unstable();
        times
    }

    /// Works out the per-CPU lists: frames taken first lie in front, frames drained first lie at the back, and between
    /// them those that the recording has on the lists, and unknown frames that make up the recorded count.
    fn cached_frames(
        &mut self,
        scan: &mut Scan,
        types: &[Option<Migratetype>],
        first: Option<&FirstSample>,
        counts: &mut OpeningCounts,
    ) -> (Vec<Cached>, Vec<(ZoneId, CpuId, u64)>) {
        let Scan { taken, drained, listed, refilled, .. } = scan;
        let mut taken = std::mem::take(taken);
        let mut drained: Vec<Cached> = std::mem::take(drained).into_iter().map(|(block, _)| block).collect();
        let by_row = taken.iter().chain(&drained).map(|c| (c.pfn, c.order)).collect();
        let listed = listed.found(self, &by_row);
        let placed: HashSet<Pfn> = listed.iter().map(|c| c.pfn).collect();
        for blocks in [&mut taken, &mut drained] {
            blocks.retain(|c| !placed.contains(&c.pfn));
        }
        let mut highs = Vec::new();
        let mut fillers = Vec::new();
        for (index, zone) in self.zones.clone().iter().enumerate() {
            let mut filler = Filler::new(self, zone, types);
            for (cpu, count, high) in self.lists(index, first) {
                highs.push((ZoneId(index as u16), cpu, high));
                let of_cpu = |c: &&Cached| c.cpu == cpu && (zone.start..zone.end).contains(&c.pfn);
                let known = taken.iter().chain(&listed).chain(&drained).filter(of_cpu);
                let known: u64 = known.map(|c| c.order.frames().0).sum();
                filler.take(cpu, count.saturating_sub(known), refilled, &mut fillers);
            }
        }
        for c in &fillers {
            self.set(c.pfn, c.order.frames(), Start::Cached);
        }
        let frames = |list: &[Cached]| list.iter().map(|c| c.order.frames().0).sum::<u64>();
        counts.cached_by_event = frames(&taken) + frames(&drained);
        counts.cached_by_list = frames(&listed);
        counts.cached_by_count = frames(&fillers);
        let mut cached = taken;
        cached.extend(listed);
        cached.extend(fillers);
        cached.extend(drained.into_iter().rev());
        (cached, highs)
    }

    /// Returns whether none of these frames has a name in the snapshot.
    pub(super) fn all_unknown(&self, pfn: Pfn, frames: Frames) -> bool {
        self.unknown.count(pfn, frames) == frames.0
    }

    fn is_held(&self, pfn: Pfn, frames: Frames) -> bool {
        (pfn.0..pfn.0 + frames.0).all(|f| self.at(f).held_as().is_some())
    }

    pub(super) fn set(&mut self, pfn: Pfn, frames: Frames, state: Start) {
        self.start[pfn.0 as usize..(pfn.0 + frames.0) as usize].fill(state);
    }
}

/// The findings of one pass over the events.
struct Scan {
    touched: FrameSet,
    types: NamedTypes,
    taken: Vec<Cached>,
    /// With the times at which they were drained.
    drained: Vec<(Cached, u64)>,
    listed: Listed,
    refilled: Refilled,
    unseen: u64,
    reclaimers: Reclaimers,
    /// One more than the highest CPU of any event.
    cpus: u32,
}

impl Scan {
    /// Takes in a row whose block, of this order, lies within the memory map.
    fn event(&mut self, machine: &mut Machine, event: &Event, order: Order) {
        let (pfn, frames) = (Pfn(event.pfn), order.frames());
        let m = u8::try_from(event.migratetype).ok().and_then(Migratetype::from_index);
        self.types.event(event, m);
        if event.kind == EventKind::AllocZoneLocked
            && let Some(m) = m
        {
            self.refilled.note(event.cpu, order, m);
        }
        let first = self.touched.insert(pfn, frames) == 0;
        let m = m.filter(|m| m.is_requested()).unwrap_or(Migratetype::Movable);
        let cached = Cached { cpu: CpuId(event.cpu), pfn, order, migratetype: m };
        match event.kind {
            EventKind::Free if first => self.listed.freed(pfn, frames),
            EventKind::Free | EventKind::AllocExtfrag => {}
            EventKind::Alloc | EventKind::PcpuDrain
                if first && machine.is_held(pfn, frames) && is_listed(order) =>
            {
                match event.kind {
                    EventKind::Alloc => self.taken.push(cached),
                    _ => self.drained.push((cached, event.time_ns)),
                }
                machine.set(pfn, frames, Start::Cached);
            }
            EventKind::Alloc | EventKind::PcpuDrain | EventKind::AllocZoneLocked if first => {
                // Taken from the free lists, or only partly known: it was free by then.
                for f in pfn.0..pfn.0 + frames.0 {
                    if machine.at(f).held_as().is_some() {
                        machine.set(Pfn(f), Frames(1), Start::Free);
                        self.unseen += 1;
                    }
                }
            }
            _ => {}
        }
    }
}
