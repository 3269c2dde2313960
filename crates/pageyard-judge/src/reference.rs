//! The reference, opened in a kernel's state, carries out a stream.

use crate::kernel_state::{Computed, KernelState};
use crate::operation::{Answer, Kind, Operation};
use pageyard_core::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard_core::reclaim::{PressureAllocator, Priority, Reclaim, Reclaimed, Shortage};
use pageyard_core::{
    CpuId, CpuSet, Cx, Frames, FreeError, MapError, MemoryMap, NodeId, Order, PageAllocator, Pfn, Topology,
    ZoneId,
};
use pageyard_linux::{Config, LinuxAllocator, OpeningError};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;

/// The CPUs that take part, and the node of each.
const CPUS: [NodeId; 2] = [NodeId(0), NodeId(1)];

/// Why the reference cannot be opened in a kernel's state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// The zones make no map.
    Map(MapError),
    /// The lists contradict one another.
    Opening(OpeningError),
    /// What the reference computes from the settings is not what the kernel computed: the zone, and both.
    Computed(ZoneId, Box<Computed>, Box<Computed>),
    /// A zone spans other frames.
    Span(ZoneId),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Map(e) => write!(f, "the kernel's zones make no map: {e}"),
            OpenError::Opening(e) => write!(f, "the kernel's lists contradict one another: {e}"),
            OpenError::Computed(zone, ours, theirs) => {
                write!(f, "of zone {} the reference computes {ours:?}, the kernel {theirs:?}", zone.0)
            }
            OpenError::Span(zone) => write!(f, "zone {} spans other frames in the kernel", zone.0),
        }
    }
}

impl std::error::Error for OpenError {}

/// The reference, and what the operations hold of it.
pub struct Reference {
    allocator: LinuxAllocator,
    /// By operation: the blocks that it got and still holds.
    held: Vec<Vec<Option<Pfn>>>,
    orders: Vec<Order>,
    offers: Offers,
}

/// Blocks that can be reclaimed.
struct Offers {
    /// First come, first freed.
    blocks: RefCell<VecDeque<(Pfn, Order)>>,
    /// How many the present request frees each time.
    gives: Cell<u16>,
    /// How often the present request reclaimed.
    rounds: Cell<u16>,
    /// The zones asked for in the present round.
    asked: RefCell<Vec<ZoneId>>,
    reclaimable: Vec<Frames>,
}

impl Reference {
    /// Makes a reference with the settings of `config`, in the state of a kernel.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(state: &KernelState, config: &Config) -> Result<Reference, OpenError> {
        let regions = state.regions();
        let map = MemoryMap::new(&regions).map_err(OpenError::Map)?;
        let map = map.with_topology(Topology { cpus: &CPUS, distances: &[] });
        let allocator = LinuxAllocator::new(&map, config).map_err(OpenError::Map)?;
        for ((id, span), zone) in map.zones().zip(&state.zones) {
            if (span.start, span.spanned) != (zone.start, zone.spanned) {
                return Err(OpenError::Span(id));
            }
            let Some(ours) = computed(&allocator, id) else { return Err(OpenError::Span(id)) };
            if ours != zone.computed {
                return Err(OpenError::Computed(id, Box::new(ours), Box::new(zone.computed.clone())));
            }
        }
        allocator.open(&state.opening()).map_err(OpenError::Opening)?;
        let offers = Offers {
            blocks: RefCell::default(),
            gives: Cell::new(0),
            rounds: Cell::new(0),
            asked: RefCell::default(),
            reclaimable: state.zones.iter().map(|z| Frames(z.reclaimable)).collect(),
        };
        Ok(Reference { allocator, held: Vec::new(), orders: Vec::new(), offers })
    }

    /// Returns the allocator.
    #[must_use]
    pub fn allocator(&self) -> &LinuxAllocator {
        &self.allocator
    }

    /// Returns how often the last request reclaimed.
    #[must_use]
    pub fn reclaims(&self) -> u16 {
        self.offers.rounds.get()
    }

    /// Returns what zones and lists count now, folded into a number.
    #[must_use]
    pub fn counts(&self) -> u32 {
        let mut sum = 0u32;
        self.allocator.counts(|n| sum = (sum ^ n as u32).wrapping_mul(0x9e37_79b1).wrapping_add(1));
        sum
    }

    /// Carries out the next operation of the stream.
    pub fn carry_out(&mut self, op: &Operation) -> Answer {
        let cx = Cx::on(op.cpu());
        let mut got = Vec::new();
        let answer = match op.kind {
            Kind::Alloc => {
                let block = self.alloc(&cx, op);
                got.push(block);
                Answer::Block(block.map(|pfn| pfn.0))
            }
            Kind::AllocBulk => {
                let mut out = vec![Pfn(0); op.arg.min(512) as usize];
                let n = self.allocator.alloc_pages_bulk_with(&cx, &op.request(), &self.helpers(op), &mut out);
                got.extend(out[..n].iter().copied().map(Some));
                Answer::Bulk(out[..n].iter().map(|pfn| pfn.0).collect())
            }
            Kind::Free | Kind::FreeFrag | Kind::FreeBulk => self.free(&cx, op),
            Kind::Drain => {
                let cpus = if op.arg == 0 { CpuSet::All } else { CpuSet::One(cx.cpu) };
                PageAllocator::drain(&self.allocator, cpus);
                Answer::Done
            }
            Kind::Tick => {
                self.allocator.vmstat_tick_of(cx.cpu);
                Answer::Done
            }
            Kind::KswapdEnds => {
                self.allocator.reclaim_ends(NodeId(op.arg as _));
                Answer::Done
            }
            Kind::GiveUp => {
                if let Some(block) = self.held[op.arg as usize][0].take() {
                    let order = self.orders[op.arg as usize];
                    self.offers.blocks.borrow_mut().push_back((block, order));
                }
                Answer::Done
            }
        };
        self.held.push(got);
        self.orders.push(Order::of(if op.kind == Kind::AllocBulk { 0 } else { op.order }));
        answer
    }

    fn alloc(&self, cx: &Cx, op: &Operation) -> Option<Pfn> {
        self.allocator.alloc_with(cx, &op.request(), &self.helpers(op)).ok()
    }

    /// Returns what a request can count on.
    fn helpers(&self, op: &Operation) -> Helping<'_> {
        self.offers.gives.set(op.gives);
        self.offers.rounds.set(0);
        self.offers.asked.borrow_mut().clear();
        Helping { offers: &self.offers, allocator: &self.allocator }
    }

    fn free(&mut self, cx: &Cx, op: &Operation) -> Answer {
        let from = op.arg as usize;
        let order = self.orders[from];
        let blocks = match op.kind {
            Kind::FreeBulk => &mut self.held[from][..],
            _ => match self.held[from].get_mut(usize::from(op.sub)) {
                Some(one) => std::slice::from_mut(one),
                None => return Answer::Done,
            },
        };
        let gone: Vec<Pfn> = blocks.iter_mut().filter_map(Option::take).collect();
        let mut answer = Answer::Done;
        let mut refuse = |pfn: Pfn, why: FreeError| answer = Answer::Refused(format!("frame {pfn}: {why}"));
        match op.kind {
            Kind::FreeBulk => PageAllocator::free_bulk(&self.allocator, cx, &gone, order, &mut refuse),
            kind => {
                for pfn in gone {
                    let freed = match kind {
                        Kind::FreeFrag => self.allocator.free_frag(cx, pfn, order),
                        _ => PageAllocator::free(&self.allocator, cx, pfn, order),
                    };
                    freed.unwrap_or_else(|why| refuse(pfn, why));
                }
            }
        }
        answer
    }
}

/// What the reference computed for a zone.
fn computed(allocator: &LinuxAllocator, zone: ZoneId) -> Option<Computed> {
    let stats = PageAllocator::zone_stats(allocator, zone)?;
    let lists =
        (0..CPUS.len() as u32).filter_map(|cpu| PageAllocator::pcp_stats(allocator, zone, CpuId(cpu)));
    Some(Computed {
        managed: stats.span.managed.0,
        marks: [stats.watermarks.min.0, stats.watermarks.low.0, stats.watermarks.high.0],
        protection: std::array::from_fn(|k| stats.protection[k].0),
        lists: lists.map(|l| [l.batch, l.high_min, l.high_max]).collect(),
    })
}

/// Frees offered blocks, as many as the present request says, once each time that it reclaims.
struct Helping<'a> {
    offers: &'a Offers,
    allocator: &'a LinuxAllocator,
}

impl Reclaim for Helping<'_> {
    fn reclaim(&self, cx: &Cx, shortage: &Shortage) -> Reclaimed {
        if shortage.priority != Priority::START {
            return Reclaimed::default();
        }
        // Each time it looks at the request's zones, one after another; the first begins a round.
        let mut asked = self.offers.asked.borrow_mut();
        let begins = asked.is_empty() || asked.contains(&shortage.zone);
        if begins {
            asked.clear();
        }
        asked.push(shortage.zone);
        if !begins {
            return Reclaimed::default();
        }
        self.offers.rounds.set(self.offers.rounds.get() + 1);
        let mut freed = Frames::ZERO;
        for _ in 0..self.offers.gives.get() {
            let Some((pfn, order)) = self.offers.blocks.borrow_mut().pop_front() else { break };
            if PageAllocator::free(self.allocator, cx, pfn, order).is_ok() {
                freed += order.frames();
            }
        }
        Reclaimed { scanned: freed, freed }
    }

    fn reclaimable(&self, zone: ZoneId) -> Frames {
        self.offers.reclaimable.get(zone.index()).copied().unwrap_or_default()
    }
}

// SAFETY: it never moves anything.
unsafe impl Migrate for Helping<'_> {
    type Isolated = Infallible;

    fn isolate(&self, _: Pfn, _: Mode) -> Result<Infallible, Busy> {
        Err(Busy::Pinned)
    }

    fn migrate(&self, from: &mut Infallible, _: Pfn, _: Mode) -> Result<(), MigrateError> {
        match *from {}
    }

    fn putback(&self, from: Infallible) {
        match from {}
    }
}
