//! Random operations, weighted by profiles that each provoke one kind of trouble.

use crate::naive::Naive;
use crate::op::Op;
use fastrand::Rng;
use pageyard::{CpuId, Frames, Migratetype, NodeMask, Order, Pfn, Request, RequestFlags, ZoneKind};

/// Weights of a random run. Shares are in thousandths of all operations unless they say otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The name.
    pub name: &'static str,
    /// How full memory is kept, in thousandths; above 1000 it runs into the wall.
    pub fill: u64,
    /// The orders asked for, each as often as it is listed.
    pub orders: &'static [u8],
    /// The migratetypes asked for, each as often as it is listed.
    pub types: &'static [Migratetype],
    /// Share of requests that may use every reserve.
    pub memalloc: u32,
    /// Share of requests that cannot wait and may use some reserves.
    pub atomic: u32,
    /// Wrong frees, wrong splits and bad requests.
    pub wrong: u32,
    /// Splits.
    pub split: u32,
    /// Bulk calls.
    pub bulk: u32,
    /// Claims by number.
    pub claim: u32,
    /// Drains.
    pub drain: u32,
}

use Migratetype::{Movable, Reclaimable, Unmovable};

const ALIKE: &[Migratetype] = &[Movable];
const MIXED: &[Migratetype] = &[Movable, Movable, Unmovable, Reclaimable];

/// The profiles of a random run.
pub const PROFILES: [Profile; 6] = [
    Profile {
        name: "single frames",
        fill: 600,
        orders: &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2],
        types: ALIKE,
        memalloc: 0,
        atomic: 0,
        wrong: 10,
        split: 2,
        bulk: 5,
        claim: 1,
        drain: 1,
    },
    Profile {
        name: "mixed orders",
        fill: 700,
        orders: &[0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10],
        types: MIXED,
        memalloc: 50,
        atomic: 20,
        wrong: 20,
        split: 20,
        bulk: 5,
        claim: 5,
        drain: 2,
    },
    Profile {
        name: "huge blocks",
        fill: 800,
        orders: &[9, 9, 9, 9, 10, 8, 7, 6, 3, 0, 0, 11, 12, 13],
        types: ALIKE,
        memalloc: 300,
        atomic: 0,
        wrong: 20,
        split: 100,
        bulk: 5,
        claim: 20,
        drain: 5,
    },
    Profile {
        name: "near the wall",
        fill: 1200,
        orders: &[0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 5, 9],
        types: MIXED,
        memalloc: 600,
        atomic: 50,
        wrong: 10,
        split: 10,
        bulk: 10,
        claim: 5,
        drain: 5,
    },
    Profile {
        name: "fallback and steal",
        fill: 900,
        orders: &[0, 0, 0, 0, 0, 1, 2, 3, 4],
        types: &[Movable, Unmovable, Reclaimable],
        memalloc: 200,
        atomic: 100,
        wrong: 5,
        split: 5,
        bulk: 5,
        claim: 2,
        drain: 10,
    },
    Profile {
        name: "all wrong",
        fill: 500,
        orders: &[0, 0, 1, 2, 3, 4, 9],
        types: MIXED,
        memalloc: 100,
        atomic: 20,
        wrong: 500,
        split: 30,
        bulk: 20,
        claim: 50,
        drain: 10,
    },
];

/// Where the numbers come from that a generator decides by.
pub trait Numbers {
    /// Returns a number below `end`, which is not 0.
    fn below(&mut self, end: u64) -> u64;

    /// Returns any number of 32 bits.
    fn any(&mut self) -> u32 {
        self.below(1 << 32) as u32
    }

    /// Returns one of several values.
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

impl Numbers for Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.u64(0..end)
    }
}

/// Numbers that somebody chose, a fuzzer for one: as many bytes each as its range takes, and zeros after the last byte.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    /// Reads the bytes from the first on.
    #[must_use]
    pub fn new(bytes: &'b [u8]) -> Bytes<'b> {
        Bytes(bytes)
    }

    /// Returns whether every byte was used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Numbers for Bytes<'_> {
    fn below(&mut self, end: u64) -> u64 {
        let width = (64 - (end - 1).leading_zeros()).div_ceil(8);
        let mut number = 0;
        for _ in 0..width {
            let Some((first, rest)) = self.0.split_first() else { break };
            self.0 = rest;
            number = number << 8 | u64::from(*first);
        }
        number % end
    }
}

/// Makes operations of one profile.
pub struct Generator<N = Rng> {
    /// Decides.
    pub numbers: N,
    profile: Profile,
}

impl<N: Numbers> Generator<N> {
    /// Makes a generator; the same numbers and machine give the same operations as long as the engine gives the same
    /// answers.
    #[must_use]
    pub fn new(profile: Profile, numbers: N) -> Generator<N> {
        Generator { numbers, profile }
    }

    /// Makes the next operation.
    pub fn next(&mut self, model: &Naive) -> Op {
        let p = self.profile;
        let mut roll = self.numbers.below(1000) as u32;
        let mut is = |share: u32| {
            let hit = roll < share;
            roll = roll.wrapping_sub(share);
            hit
        };
        let (wrong, split, bulk, claim, drain) =
            (is(p.wrong), is(p.split), is(p.bulk), is(p.claim), is(p.drain));
        let cpu = self.cpu(model);
        if wrong {
            return self.wrong(model, cpu);
        }
        if split {
            let to = Order::of(self.order_below(4));
            return Op::Split { held: self.numbers.any(), to };
        }
        if claim {
            return self.claim(model);
        }
        if drain {
            return if self.numbers.below(4) == 0 { Op::DrainAll } else { Op::Drain { cpu } };
        }
        let below = model.allocated.0 * 1000 < model.managed.0 * p.fill;
        let grow = self.numbers.below(100) < if below { 60 } else { 35 };
        match (grow, bulk) {
            (true, false) => Op::Alloc { cpu, request: self.request(model) },
            (false, false) => Op::Free { cpu, held: self.numbers.any() },
            (true, true) => {
                let order = Order::of(if self.numbers.below(8) == 0 { 1 } else { 0 });
                let request = Request { order, ..self.request(model) };
                Op::BulkAlloc { cpu, request, count: self.numbers.below(130) as u32 }
            }
            (false, true) => {
                let (held, count) = (self.numbers.any(), self.numbers.below(130) as u32);
                Op::BulkFree { cpu, held, count, spoiled: self.numbers.below(4) == 0 }
            }
        }
    }

    fn order_below(&mut self, end: u8) -> u8 {
        self.numbers.below(end.into()) as u8
    }

    fn cpu(&mut self, model: &Naive) -> CpuId {
        CpuId(self.numbers.below(model.cpus.into()) as u32)
    }

    fn request(&mut self, model: &Naive) -> Request {
        let p = self.profile;
        let order = Order::of(self.numbers.pick(p.orders)).min(model.largest);
        let mut request = Request::new(order, self.numbers.pick(p.types));
        let roll = self.numbers.below(1000) as u32;
        if roll < p.memalloc {
            request = request.with(RequestFlags::MEMALLOC);
        } else if roll < p.memalloc + p.atomic {
            request = request.with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
        }
        match self.numbers.below(256) {
            0..8 => request.highest_zone = ZoneKind::Dma32,
            8..10 => request.highest_zone = ZoneKind::Dma,
            10..14 => request.nodes = NodeMask(1 << self.numbers.below(2)),
            14..18 => request = request.with(RequestFlags::THIS_NODE),
            18..20 => request = request.with(RequestFlags::COLD),
            20..22 => request = request.with(RequestFlags::ZERO),
            _ => {}
        }
        request
    }

    fn claim(&mut self, model: &Naive) -> Op {
        let order = self.order(model);
        let misaligned = self.numbers.below(8) == 0;
        let pfn = if misaligned { self.pfn(model) } else { self.pfn(model).align_down(order) };
        let migratetype = self.numbers.pick(MIXED);
        Op::Claim { pfn, order, migratetype }
    }

    /// Picks a frame that some zone spans.
    fn pfn(&mut self, model: &Naive) -> Pfn {
        let zone = &model.zones()[self.numbers.below(model.zones().len() as u64) as usize];
        zone.span.start + Frames(self.numbers.below(zone.span.spanned.0))
    }

    /// Picks an order, small ones more often, sometimes one that the engine does not serve.
    fn order(&mut self, model: &Naive) -> Order {
        match self.numbers.below(32) {
            0 => Order::of(self.order_below(Order::MAX.get() + 1)),
            1..24 => Order::of(self.order_below(4)).min(model.largest),
            _ => Order::of(self.order_below(model.largest.get().min(10) + 1)),
        }
    }

    fn wrong(&mut self, model: &Naive, cpu: CpuId) -> Op {
        let held = self.numbers.any();
        let nobody = CpuId(model.cpus + (self.numbers.below(2) * self.numbers.below(1 << 30)) as u32);
        match self.numbers.below(12) {
            0 => Op::FreeTwice { cpu, held },
            1 => Op::FreeWrongOrder { cpu, held, order: self.order(model) },
            2 => Op::FreeInside { cpu, held, offset: self.numbers.any() },
            3 | 4 => {
                let (pfn, order) = (self.pfn(model), self.order(model));
                let aligned = self.numbers.below(4) > 0;
                Op::FreeAt { cpu, pfn: if aligned { pfn.align_down(order) } else { pfn }, order }
            }
            5 => {
                let order = self.order(model);
                let beyond = model.end().0 + self.numbers.below(4096);
                let pfn = self.numbers.pick(&[u64::MAX, u64::MAX << order.get(), 1 << 40, beyond]);
                Op::FreeAt { cpu, pfn: Pfn(pfn), order }
            }
            6 => Op::Free { cpu: nobody, held },
            7 => {
                let (from, to) = (self.order(model), Order::of(self.order_below(4)));
                Op::SplitAt { pfn: self.pfn(model).align_down(from), from, to: to.min(from) }
            }
            8 => Op::Split { held, to: Order::of(5 + self.order_below(Order::MAX.get() - 4)) },
            9 => self.claim(model),
            10 => Op::Drain { cpu: nobody },
            _ => {
                let mut request = self.request(model);
                let mut cpu = cpu;
                match self.numbers.below(4) {
                    0 => request.order = Order::MAX,
                    1 => request.migratetype = self.numbers.pick(&Migratetype::ALL[3..6]),
                    2 => request.nodes = NodeMask(1 << 63),
                    _ => cpu = nobody,
                }
                Op::Alloc { cpu, request }
            }
        }
    }
}
