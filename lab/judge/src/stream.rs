//! Streams of operations: random, the same again for the same seed, and made so that every path of the allocator is
//! taken: memory fills and empties, types mix, requests that cannot wait meet an almost empty zone.

use crate::operation::{Kind, MOST_EXACT, Operation, PINNED, STUCK};
use crate::settings;
use fastrand::Rng;
use pageyard_guest::request::{
    COMPOUND, DIRECT, HIGH, KSWAPD, MAYFAIL, MEMALLOC, NOMEMALLOC, NORETRY, THIS_NODE, VICTIM,
};

/// The settings from which a stream is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Whatever else is the same, another seed is another stream.
    pub seed: u64,
    /// How many operations.
    pub operations: u32,
    /// Frames of the machine, which a phase fills to a share.
    pub frames: u64,
    /// Whether both CPUs take part.
    pub both_cpus: bool,
    /// Of a thousand requests, how many are in bulk.
    pub bulk: u32,
    /// Of a thousand requests, how many are for an exact number of frames.
    pub exact: u32,
    /// Whether some movable frames cannot be moved.
    pub pins: bool,
    /// Whether blocks of two frames may be compound pages. Linux 5.10 counts the second frame of one as movable: the
    /// 2 that says how many frames it has lies where another page's mapping does, and reads as a movable one.
    pub compound_pairs: bool,
}

/// A block that the stream believes to hold.
#[derive(Clone, Copy)]
struct HeldBlock {
    operation: u32,
    /// Of a bulk request: which of its frames.
    sub: Option<u16>,
    frames: u64,
}

/// A stretch of a stream with one mix.
struct Phase {
    left: u32,
    /// Frames to be held at most.
    target: u64,
    /// Of a hundred requests, how many are of order 0, and how many of orders up to 3.
    single: u32,
    small: u32,
    types: [u32; 3],
    cpu: u8,
    /// How blocks are chosen that are freed.
    frees: Frees,
}

#[derive(Clone, Copy)]
enum Frees {
    Newest,
    Oldest,
    Any,
}

struct Maker {
    rng: Rng,
    shape: Shape,
    operations: Vec<Operation>,
    held: Vec<HeldBlock>,
    bulks: Vec<u32>,
    frames: u64,
}

/// Makes a stream.
#[must_use]
pub fn make(shape: Shape) -> Vec<Operation> {
    let mut maker = Maker {
        rng: Rng::with_seed(shape.seed),
        shape,
        operations: Vec::with_capacity(shape.operations as usize),
        held: Vec::new(),
        bulks: Vec::new(),
        frames: 0,
    };
    while maker.operations.len() < shape.operations as usize {
        let phase = maker.phase();
        maker.fill(phase);
    }
    maker.operations.truncate(shape.operations as usize);
    maker.operations
}

impl Maker {
    fn chance(&mut self, of_thousand: u32) -> bool {
        self.rng.u32(0..1000) < of_thousand
    }

    fn phase(&mut self) -> Phase {
        // Compaction has most to do where memory is nearly full, and most of it can be moved.
        let (shares, mixes) = match self.shape.pins {
            true => (
                &[50, 80, 90, 95, 98, 100, 105],
                &[[10, 80, 10], [15, 75, 10], [20, 70, 10], [5, 95, 0], [34, 33, 33]],
            ),
            false => (
                &[5, 20, 50, 80, 95, 100, 105],
                &[[10, 80, 10], [40, 30, 30], [80, 10, 10], [5, 95, 0], [34, 33, 33]],
            ),
        };
        let (share, types) = (shares[self.rng.usize(0..7)], mixes[self.rng.usize(0..5)]);
        Phase {
            left: self.rng.u32(200..4000),
            target: self.shape.frames * share / 100,
            single: [95, 60, 30, 5][self.rng.usize(0..4)],
            small: [3, 25, 50][self.rng.usize(0..3)],
            types,
            cpu: self.rng.u8(0..2),
            frees: [Frees::Newest, Frees::Oldest, Frees::Any][self.rng.usize(0..3)],
        }
    }

    fn fill(&mut self, mut phase: Phase) {
        while phase.left > 0 {
            phase.left -= 1;
            if self.shape.both_cpus && self.chance(20) {
                phase.cpu ^= 1;
            }
            let cpu = if self.shape.both_cpus { phase.cpu } else { 0 };
            match self.rng.u32(0..2000) {
                0..2 => self.operations.push(Operation::new(Kind::Drain, cpu, 0)),
                2..4 => self.operations.push(Operation::new(Kind::Drain, cpu, 1)),
                4..12 => self.operations.push(Operation::new(Kind::Tick, cpu, 0)),
                12..30 => {
                    let node = self.rng.u32(0..2);
                    self.operations.push(Operation::new(Kind::KswapdEnds, cpu, node));
                }
                30..40 => self.give_up(cpu),
                40..43 => self.set_watermarks(cpu),
                _ => {
                    // Towards the target, and back and forth once there.
                    let room = self.frames < phase.target;
                    let frees = if room { 250 } else { 650 };
                    if self.chance(frees) { self.free(&phase, cpu) } else { self.request(&phase, cpu) }
                }
            }
        }
    }

    fn give_up(&mut self, cpu: u8) {
        if let Some(held) = self.pick(Frees::Any) {
            match held.sub {
                None => self.operations.push(Operation::new(Kind::GiveUp, cpu, held.operation)),
                Some(_) => self.free_one(held, cpu),
            }
        }
    }

    /// Chooses among the values that sets of settings begin with.
    fn set_watermarks(&mut self, cpu: u8) {
        let mut pick = |of: &[u64]| of[self.rng.usize(0..of.len())];
        let (min_free, scale) = (pick(&settings::MIN_FREE_KBYTES), pick(&settings::SCALE_FACTORS));
        let boost = pick(&settings::BOOST_FACTORS);
        self.operations.push(Operation {
            sub: scale as u16,
            gives: (boost / 10) as u16,
            ..Operation::new(Kind::SetWatermarks, cpu, min_free as u32)
        });
    }

    fn pick(&mut self, frees: Frees) -> Option<HeldBlock> {
        let last = self.held.len().checked_sub(1)?;
        let place = match frees {
            Frees::Newest => last,
            Frees::Oldest => self.rng.usize(0..=last.min(16)),
            Frees::Any => self.rng.usize(0..=last),
        };
        let held = self.held.swap_remove(place);
        self.frames -= held.frames;
        Some(held)
    }

    fn free(&mut self, phase: &Phase, cpu: u8) {
        if !self.bulks.is_empty() && self.chance(20) {
            let place = self.rng.usize(0..self.bulks.len());
            let bulk = self.bulks.swap_remove(place);
            let (gone, kept): (Vec<HeldBlock>, Vec<HeldBlock>) =
                self.held.iter().partition(|h| h.operation == bulk);
            self.held = kept;
            self.frames -= gone.iter().map(|h| h.frames).sum::<u64>();
            self.operations.push(Operation::new(Kind::FreeBulk, cpu, bulk));
        } else if let Some(held) = self.pick(phase.frees) {
            self.free_one(held, cpu);
        }
    }

    fn free_one(&mut self, held: HeldBlock, cpu: u8) {
        let from = self.operations[held.operation as usize];
        let frag = from.order == 0 || from.flags & COMPOUND != 0;
        let kind = if frag && self.chance(150) { Kind::FreeFrag } else { Kind::Free };
        let sub = held.sub.unwrap_or(0);
        self.operations.push(Operation { sub, ..Operation::new(kind, cpu, held.operation) });
    }

    fn order(&mut self, phase: &Phase) -> u8 {
        let n = self.rng.u32(0..100);
        if n < phase.single {
            0
        } else if n < phase.single + phase.small {
            self.rng.u8(1..4)
        } else {
            [4, 4, 5, 5, 6, 7, 8, 9, 9, 9, 10][self.rng.usize(0..11)]
        }
    }

    /// How hard a request tries: most as the kernel's own code and user pages do, some as interrupts do.
    fn flags(&mut self) -> u16 {
        let flags = match self.rng.u32(0..100) {
            0..40 => DIRECT | KSWAPD,
            40..48 => DIRECT | KSWAPD | NORETRY,
            48..54 => DIRECT | KSWAPD | MAYFAIL,
            54..74 => HIGH | KSWAPD,
            74..84 => KSWAPD,
            84..88 => 0,
            88..93 => HIGH | DIRECT | KSWAPD,
            93..95 => HIGH,
            95..97 => MEMALLOC | DIRECT | KSWAPD,
            97..98 => MEMALLOC | HIGH | KSWAPD,
            _ => DIRECT,
        };
        match self.rng.u32(0..100) {
            0..5 => flags | NOMEMALLOC,
            5..8 => flags | VICTIM,
            8 => flags | NOMEMALLOC | VICTIM,
            _ => flags,
        }
    }

    fn request(&mut self, phase: &Phase, cpu: u8) {
        let of_thousand = self.rng.u32(0..1000);
        let kind = match of_thousand.checked_sub(self.shape.bulk) {
            None => Kind::AllocBulk,
            Some(n) if n < self.shape.exact => Kind::AllocExact,
            _ => Kind::Alloc,
        };
        let singles = kind.asks_for_frames();
        let order = if singles { 0 } else { self.order(phase) };
        let n = self.rng.u32(0..phase.types.iter().sum());
        let migratetype = match n {
            n if n < phase.types[0] => 0,
            n if n < phase.types[0] + phase.types[1] => 1,
            _ => 2,
        };
        let mut flags = self.flags();
        let mut nodes = 0;
        match self.rng.u32(0..100) {
            0..4 => flags |= THIS_NODE,
            4..8 if kind != Kind::AllocExact => nodes = self.rng.u8(1..4),
            _ => {}
        }
        let whole = order != 1 || self.shape.compound_pairs;
        if migratetype != 1 && !singles && self.chance(200) && whole {
            flags |= COMPOUND;
        }
        if self.shape.pins && migratetype == 1 && order > 0 && self.chance(700) {
            flags |= COMPOUND;
        }
        if self.shape.pins && migratetype == 1 && (order == 0 || flags & COMPOUND != 0) {
            match self.rng.u32(0..100) {
                0..3 => flags |= PINNED,
                3..5 => flags |= STUCK,
                _ => {}
            }
        }
        let zone = match self.rng.u32(0..100) {
            0..3 => 0,
            3..18 => 1,
            18..50 if migratetype == 1 && kind != Kind::AllocExact => 3,
            _ => 2,
        };
        let gives = if flags & DIRECT != 0 && self.chance(300) { self.rng.u16(1..5) } else { 0 };
        let counts = match self.shape.pins {
            true => &[1, 8, 32, 64, 128, 256, 384, 512],
            false => &[1, 2, 3, 8, 16, 64, 100, 128],
        };
        let count = match kind {
            Kind::AllocBulk => counts[self.rng.usize(0..8)],
            // As many small ones as large ones.
            Kind::AllocExact => {
                let most = MOST_EXACT >> self.rng.u32(0..10);
                self.rng.u32(1..=most)
            }
            _ => 0,
        };
        let operation = self.operations.len() as u32;
        self.operations.push(Operation {
            kind,
            cpu,
            order,
            migratetype,
            flags,
            zone,
            nodes,
            arg: count,
            sub: 0,
            gives,
        });
        if singles {
            self.bulks.push(operation);
            let subs = 0..count as u16;
            self.held.extend(subs.map(|sub| HeldBlock { operation, sub: Some(sub), frames: 1 }));
            self.frames += u64::from(count);
        } else {
            self.held.push(HeldBlock { operation, sub: None, frames: 1 << order });
            self.frames += 1 << order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_again_and_names_only_what_happened() {
        let shape = Shape {
            seed: 1,
            operations: 20_000,
            frames: 100_000,
            both_cpus: true,
            bulk: 30,
            exact: 30,
            pins: true,
            compound_pairs: true,
        };
        let stream = make(shape);
        assert_eq!(stream, make(shape));
        assert_ne!(stream, make(Shape { seed: 2, ..shape }));
        let mut freed = std::collections::HashSet::new();
        for (n, op) in stream.iter().enumerate().filter(|(_, op)| op.refers()) {
            assert!((op.arg as usize) < n);
            assert!(freed.insert((op.arg, op.sub, op.kind == Kind::FreeBulk)), "{n}");
        }
    }
}
