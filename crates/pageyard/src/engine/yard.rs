//! An instance: its size query, its construction.

use super::config::Config;
use super::geometry::{BLOCK_ORDER, FrameIdx, LINE_WORDS, ZONE_LIMIT};
use super::map::count::FrameDelta;
use super::map::cpu_words::{CpuGroups, CpuWords};
use super::pcp::bias_asks::BiasAsks;
use super::pcp::lists::Lists;
use super::pcp::percpu::PerCpu;
use super::pcp::runs::{DOUBLINGS, Runs};
use super::pcp::scratch::ScratchAreas;
use super::pcp::tuning::Tuning;
use super::zone::Zone;
use super::zone::compaction_state::CompactionState;
use super::zone::hints::{ChoiceHints, OrderWake};
use super::zone::online::Online;
use super::zone::pageblocks::Pageblocks;
use super::zone::unaccepted::Unaccepted;
use super::zonelists::{self, Zonelists};
use core::alloc::Layout;
use pageyard_core::clear::Clear;
use pageyard_core::cpu::Cpu;
use pageyard_core::error::{BadRequest, MapError};
use pageyard_core::memmap::{MemoryMap, NR_ZONE_KINDS, ZoneKind, ZoneSpan};
use pageyard_core::observer::Observer;
use pageyard_core::request::{NodeMask, Request, RequestFlags};
use pageyard_core::stats::{Counter, NR_COUNTERS};
use pageyard_core::units::{CpuId, Frames, MAX_CPUS, Pfn, ZoneId};
use pageyard_core::watermark::{default_min_free_kbytes, max_boost, protection, watermarks};
use pageyard_sync::{A64, Carver, LINE, Metadata, Relaxed};

/// Counters of one CPU, padded to cache lines.
const COUNTER_WORDS: usize = NR_COUNTERS.next_multiple_of(LINE / 8);

/// The word of a CPU's line of efforts that says where it last claimed or released a whole pageblock.
pub(super) const WHOLE_WORD: usize = 3;
const _: () = assert!(WHOLE_WORD < LINE_WORDS);

/// How much metadata an instance needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetadataLayout {
    /// Size of the memory to hand over, which may begin anywhere, and the alignment with which none of it is wasted.
    pub layout: Layout,
    /// Of that, what grows with memory: the rest grows with CPUs.
    pub frames_bytes: usize,
}

/// A lock-free page-frame allocator.
///
/// It owns no memory and no thread: the caller supplies the metadata, names the CPU with each call, and chooses by `P`
/// how a CPU's lists are protected. `O` is told of each block that changes hands; the default, `()`, ignores that
/// ([`Pageyard::with_observer`] takes another). See [`PageAllocator`](crate::PageAllocator) for what its calls do.
///
/// # Concurrency
/// Every call may run at the same time as every other one, except [`audit`](crate::PageAllocator::audit), and as far as
/// `P` allows. No path waits: a thread that stops in the middle of a call blocks no other.
pub struct Pageyard<'m, P, O = (), C = ()> {
    pub(crate) percpu: P,
    pub(crate) observer: O,
    pub(crate) clearer: C,
    pub(crate) zones: &'m [Zone<'m>],
    /// The largest zone: most frees are of its frames.
    pub(crate) main: &'m Zone<'m>,
    pub(crate) zonelists: Zonelists<'m>,
    pub(crate) counters: CpuGroups<'m>,
    /// One cache line per CPU. Word 0 is the largest search effort so far; words 1 and 2 count blocks that requests
    /// popped from a list after missing it at first; the next is `WHOLE_WORD`.
    pub(crate) efforts: &'m [A64],
    /// Which CPUs ask for pageblocks to be biased to them.
    pub(crate) bias_asks: BiasAsks<'m>,
    /// Where frames are sorted.
    pub(crate) scratch_areas: ScratchAreas<'m>,
    /// Whether a block that is known to hold zeros was ever freed.
    pub(crate) zero_seen: &'m [A64],
    pub(crate) config: Config,
    pub(crate) frames_bytes: usize,
}

/// The parts that construction carves from the metadata.
struct Parts<'m> {
    zones: &'m [Zone<'m>],
    zonelists: zonelists::Parts<'m>,
    counters: &'m [A64],
    efforts: &'m [A64],
    bias_asks: BiasAsks<'m>,
    scratch_areas: ScratchAreas<'m>,
    zero_seen: &'m [A64],
    frames_bytes: usize,
}

impl<'m, P: PerCpu> Pageyard<'m, P> {
    /// Says how much metadata memory an instance needs.
    ///
    /// # Errors
    /// [`MapError::Cpus`]; [`MapError::ZoneTooLarge`] where a zone spans more frames than a per-CPU list can name
    /// (2^32).
    pub fn layout(map: &MemoryMap<'_>, config: &Config) -> Result<MetadataLayout, MapError> {
        let mut carver = Carver::counting();
        let parts = Self::carve(&mut carver, map, config)?;
        // With room to begin at a cache line, wherever the memory begins.
        let size = carver.used().saturating_add(LINE);
        let layout = Layout::from_size_align(size, LINE).map_err(|_| MapError::NoMemory { needed: size })?;
        Ok(MetadataLayout { layout, frames_bytes: parts.frames_bytes })
    }

    /// Makes an instance in which every managed frame is free.
    ///
    /// # Errors
    /// As [`Pageyard::layout`]; [`MapError::MetadataTooSmall`] where `metadata` is smaller than it says.
    ///
    /// # Complexity
    /// One visit to each pageblock's descriptor; the bits and tags of pageblocks that are managed as a whole are not
    /// touched.
    pub fn new(
        map: &MemoryMap<'_>,
        config: Config,
        percpu: P,
        metadata: Metadata<'m>,
    ) -> Result<Pageyard<'m, P>, MapError> {
        Pageyard::with_clearer(map, config, percpu, (), (), metadata)
    }

    /// Carves the parts from the metadata, with every managed frame free.
    #[inline(never)]
    fn opened(map: &MemoryMap<'_>, config: &Config, metadata: Metadata<'m>) -> Result<Parts<'m>, MapError> {
        let needed = Self::layout(map, config)?.layout.size();
        let memory = metadata.into_memory();
        let given = memory.len();
        let mut carver = Carver::of(memory);
        if !carver.has(needed - LINE) {
            return Err(MapError::MetadataTooSmall { needed, given });
        }
        let parts = Self::carve(&mut carver, map, config)?;
        for zone in parts.zones {
            zone.pageblocks.open(map);
        }
        // Each CPU begins in its own part of memory. From the first pageblock on, all of them would go on in one cache
        // line of descriptors and one of the index.
        for words in parts.efforts.chunks(LINE_WORDS) {
            // ORDER: Relaxed: whatever publishes the allocator publishes it.
            words[WHOLE_WORD].store(u64::MAX, Relaxed);
        }
        if map.regions().any(|r| r.managed && r.zeroed) {
            // ORDER: Relaxed: whatever publishes the allocator publishes it.
            parts.zero_seen[0].store(1, Relaxed);
        }
        Ok(parts)
    }

    fn carve(carver: &mut Carver<'m>, map: &MemoryMap<'_>, config: &Config) -> Result<Parts<'m>, MapError> {
        if !(1..=MAX_CPUS).contains(&config.cpus) {
            return Err(MapError::Cpus { cpus: config.cpus, most: MAX_CPUS });
        }
        let cpus = config.cpus as usize;
        let zones = || map.zones().map(|(_, span)| span);
        let blocks = |z: &ZoneSpan| (z.end().0 >> BLOCK_ORDER) - (z.start.0 >> BLOCK_ORDER);
        if let Some(zone) = zones().position(|z| blocks(&z) >= ZONE_LIMIT >> BLOCK_ORDER) {
            return Err(MapError::ZoneTooLarge { zone: ZoneId(zone as u16), most: Frames(ZONE_LIMIT) });
        }
        let lowmem = zones().filter(|z| z.kind <= ZoneKind::Normal).map(|z| z.managed).sum();
        let default = || default_min_free_kbytes(zones(), config.watermark.transparent_hugepage);
        let kib = config.watermark.min_free_kbytes.unwrap_or_else(default);
        let (mut percpu_bytes, mut room) = (0, 0);
        let mut next = zones();
        let zones = carver.filled(map.zone_count(), |i, carver| {
            let span = next.next().expect("there are that many zones");
            let mut managed = [Frames::ZERO; NR_ZONE_KINDS];
            for other in zones().filter(|z| z.node == span.node) {
                managed[other.kind.index()] = other.managed;
            }
            let marks = watermarks(&span, lowmem, kib, config.watermark.watermark_scale_factor);
            let fraction = config.percpu_pagelist_high_fraction;
            let tuning = if config.pcp {
                let sharers = map.topology().sharers(span.node, config.cpus, map.nodes());
                // Where memory is accepted later, lists are as large as it then calls for.
                let all = if config.accept.is_some() { span.present } else { span.managed };
                Tuning::of(all, marks.low, sharers, fraction)
            } else {
                Tuning::NONE
            };
            let pageblocks = Pageblocks::carve(carver, ZoneId(i as u16), span, cpus);
            let before = carver.used();
            let lists = Lists::carve(carver, cpus, tuning);
            let runs = Runs::carve(carver, cpus);
            room = room.max(tuning.room(DOUBLINGS as u32));
            percpu_bytes += carver.used() - before + cpus * Pageblocks::BYTES_OF_CPU;
            Zone {
                pageblocks,
                lists,
                listed: tuning.listed(),
                runs,
                online: Online::new(span.managed, marks),
                unaccepted: Unaccepted::default(),
                reserve_rule: config.reserve_rule,
                protection: protection(span.kind, &managed, &config.watermark.lowmem_reserve_ratio),
                max_boost: max_boost(marks.high, span.managed, config.watermark.watermark_boost_factor),
                compaction: CompactionState::new(),
                choices: ChoiceHints::default(),
                reclaim_wake: OrderWake::new(),
            }
        });
        let zonelists = zonelists::Parts::carve(carver, map, zones, config.cpus, &mut percpu_bytes);
        let before = carver.used();
        let counters = carver.zeroed((cpus + 1) * COUNTER_WORDS);
        let efforts = carver.zeroed(cpus * LINE / 8);
        let bias_asks = BiasAsks::carve(carver, cpus);
        let scratch_areas = ScratchAreas::carve(carver, cpus, room);
        percpu_bytes += carver.used() - before;
        let zero_seen = carver.zeroed(1);
        let frames_bytes = carver.used() - percpu_bytes;
        Ok(Parts { zones, zonelists, counters, efforts, bias_asks, scratch_areas, zero_seen, frames_bytes })
    }
}

impl<'m, P: PerCpu, O: Observer> Pageyard<'m, P, O> {
    /// Makes an instance in which every managed frame is free, and `observer` is told of each block that it hands out,
    /// frees, splits or moves. [`Pageyard::layout`] says how much metadata it needs: as much as one without.
    ///
    /// # Errors
    /// As [`Pageyard::new`].
    pub fn with_observer(
        map: &MemoryMap<'_>,
        config: Config,
        percpu: P,
        observer: O,
        metadata: Metadata<'m>,
    ) -> Result<Pageyard<'m, P, O>, MapError> {
        Pageyard::with_clearer(map, config, percpu, observer, (), metadata)
    }
}

impl<'m, P: PerCpu, O: Observer, C: Clear> Pageyard<'m, P, O, C> {
    /// Makes an instance with an observer, `()` if there is none, that serves requests for zeros: `clearer` writes them
    /// where the block is not known to hold some.
    ///
    /// # Errors
    /// As [`Pageyard::new`]; [`MapError::CannotClear`] where the configuration asks for zeros and `clearer` writes
    /// none.
    pub fn with_clearer(
        map: &MemoryMap<'_>,
        config: Config,
        percpu: P,
        observer: O,
        clearer: C,
        metadata: Metadata<'m>,
    ) -> Result<Pageyard<'m, P, O, C>, MapError> {
        if !C::ACTIVE && (config.init_on_alloc || config.init_on_free) {
            return Err(MapError::CannotClear);
        }
        let parts = Pageyard::<P>::opened(map, &config, metadata)?;
        Self::assemble(parts, config, percpu, observer, clearer)
    }

    /// Makes an instance of its parts. Not inlined, so that it is not on the stack while they are made.
    #[inline(never)]
    fn assemble(
        parts: Parts<'m>,
        config: Config,
        percpu: P,
        observer: O,
        clearer: C,
    ) -> Result<Pageyard<'m, P, O, C>, MapError> {
        // Of equally large zones, the lowest.
        let largest = parts.zones.iter().rev().max_by_key(|p| p.pageblocks.span.managed);
        let main = largest.ok_or(MapError::NoFrames)?;
        Ok(Pageyard {
            percpu,
            observer,
            clearer,
            zones: parts.zones,
            main,
            zonelists: Zonelists::new(parts.zones, main, parts.zonelists),
            counters: CpuGroups::of(parts.counters, COUNTER_WORDS),
            efforts: parts.efforts,
            bias_asks: parts.bias_asks,
            scratch_areas: parts.scratch_areas,
            zero_seen: parts.zero_seen,
            config,
            frames_bytes: parts.frames_bytes,
        })
    }

    /// Returns the handle of a CPU.
    ///
    /// # Errors
    /// [`BadRequest::NoSuchCpu`].
    pub fn cpu(&self, cpu: u32) -> Result<Cpu<'_, Self>, BadRequest> {
        let cpu = CpuId(cpu);
        if self.has_cpu(cpu) { Ok(Cpu::new(self, cpu)) } else { Err(BadRequest::NoSuchCpu) }
    }

    /// Returns how a CPU's lists are protected.
    #[must_use]
    pub fn percpu(&self) -> &P {
        &self.percpu
    }

    /// Returns the observer.
    #[must_use]
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Returns what clears frames.
    #[must_use]
    pub fn clearer(&self) -> &C {
        &self.clearer
    }

    /// Iterates over the zones that may serve a request of a CPU, best first.
    pub(crate) fn walk(
        &self,
        cpu: CpuId,
        request: &Request,
    ) -> impl Iterator<Item = &'m Zone<'m>> + use<'m, P, O, C> {
        let nodes = self.nodes(cpu, request);
        let walk = self.zonelists.walk(cpu, request.highest_zone);
        walk.filter(move |zone| nodes.allows(zone.pageblocks.span.node))
    }

    /// Returns the nodes that may serve a request: with `THIS_NODE`, that of the first zone of its walk that its mask
    /// allows, which is where a list hit is served from too.
    fn nodes(&self, cpu: CpuId, request: &Request) -> NodeMask {
        if !request.flags.contains(RequestFlags::THIS_NODE) {
            return request.nodes;
        }
        let mut walk = self.zonelists.walk(cpu, request.highest_zone).map(|zone| zone.pageblocks.span.node);
        walk.find(|node| request.nodes.allows(*node)).map_or(NodeMask(0), NodeMask::only)
    }

    /// Returns the zone that spans a frame, and the frame's number in it.
    pub(crate) fn zone_of(&self, pfn: Pfn) -> Option<(&'m Zone<'m>, FrameIdx)> {
        self.zonelists.zone_of(pfn)
    }

    /// Returns whether the instance has this CPU.
    #[inline(always)]
    pub(crate) fn has_cpu(&self, cpu: CpuId) -> bool {
        cpu.0 < self.config.cpus
    }

    /// Adds to a counter of a CPU.
    #[inline]
    pub(crate) fn count(&self, cpu: CpuId, counter: Counter, n: u64) {
        let _ = self.percpu.add(self.words_of(counter), cpu, n);
    }

    #[inline(always)]
    fn words_of(&self, counter: Counter) -> CpuWords<'_> {
        self.counters.at(counter as usize)
    }

    /// Adds to a zone's count of free frames, on a CPU.
    pub(crate) fn add_free(&self, zone: &Zone<'_>, cpu: CpuId, n: FrameDelta) {
        self.add_free_here(zone, cpu, n);
    }

    /// [`Pageyard::add_free`], inlined.
    #[inline(always)]
    pub(crate) fn add_free_here(&self, zone: &Zone<'_>, cpu: CpuId, n: FrameDelta) {
        let free = &zone.pageblocks.free;
        let Some(words) = free.withheld() else { return free.add(n) };
        if let Some(now) = self.percpu.add(words, cpu, n.wrapping())
            && free.is_too_much(now)
        {
            self.fold_free(zone, cpu, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn fold_free(&self, zone: &Zone<'_>, cpu: CpuId, now: u64) {
        let free = &zone.pageblocks.free;
        if let Some(words) = free.withheld() {
            free.fold(now, words, |words, n| self.percpu.add(words, cpu, n));
        }
    }

    /// Returns a counter, all CPUs together.
    pub(crate) fn counted(&self, counter: Counter) -> u64 {
        self.words_of(counter).sum()
    }
}
