//! Measures the engine's compaction on 16 GiB with a random half free and no free huge block: what the background
//! recovers, how much it moves, and how long a request for a huge block waits. Contents are not copied.
//!
//! ```text
//! cargo run --release -p pageyard --example compact
//! ```

use pageyard::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard::reclaim::{Reclaim, Reclaimed, Shortage};
use pageyard::{
    Config, CpuId, CpuSet, Cx, Exclusive, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator,
    Pageyard, Pfn, PressureAllocator, Region, Request, RequestFlags, ZoneId, ZoneKind,
};
use std::cell::RefCell;
use std::time::Instant;

const CX: Cx = Cx::on(CpuId(0));
const PAGEBLOCKS: u64 = 8192;
const FRAMES: u64 = PAGEBLOCKS * 512;
const HUGE: Order = Order::of(9);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    NotMine,
    Movable,
    Isolated,
    Pinned,
}

/// Knows of each frame whether it is its own, and whether it may move.
struct Owner(RefCell<Vec<Frame>>);

// SAFETY: it keeps no reference to any frame.
unsafe impl Migrate for Owner {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, _: Mode) -> Result<Pfn, Busy> {
        let frame = &mut self.0.borrow_mut()[pfn.0 as usize];
        match *frame {
            Frame::Movable => {
                *frame = Frame::Isolated;
                Ok(pfn)
            }
            Frame::NotMine => Err(Busy::Gone),
            Frame::Isolated | Frame::Pinned => Err(Busy::Pinned),
        }
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, _: Mode) -> Result<(), MigrateError> {
        let frames = &mut self.0.borrow_mut();
        frames[from.0 as usize] = Frame::NotMine;
        frames[to.0 as usize] = Frame::Movable;
        Ok(())
    }

    fn putback(&self, from: Pfn) {
        self.0.borrow_mut()[from.0 as usize] = Frame::Movable;
    }
}

impl Reclaim for Owner {
    fn reclaim(&self, _: &Cx, _: &Shortage) -> Reclaimed {
        Reclaimed::default()
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        Frames::ZERO
    }
}

/// A number that depends on another as if by chance.
fn mix(n: u64) -> u64 {
    let x = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 32
}

/// Returns the frames an optimal plan recovers and the frames it moves: pin-free pageblocks, the emptiest first, while
/// others have room.
fn optimum(frames: &[Frame]) -> (u64, u64) {
    let used = |block: &[Frame]| block.iter().filter(|f| **f != Frame::NotMine).count() as u64;
    let blocks: Vec<(u64, bool)> =
        frames.chunks(512).map(|b| (used(b), b.contains(&Frame::Pinned))).collect();
    let mut room: u64 = blocks.iter().map(|(used, _)| 512 - used).sum();
    let mut free: Vec<u64> = blocks.iter().filter(|(_, pins)| !pins).map(|(used, _)| *used).collect();
    free.sort_unstable();
    let mut plan = (0, 0);
    for used in free {
        if room < 512 {
            break;
        }
        room -= 512;
        plan = (plan.0 + 1, plan.1 + used);
    }
    plan
}

fn huge_free(engine: &impl PageAllocator) -> u64 {
    let blocks = engine.zone_stats(ZoneId(0)).map(|z| z.blocks_by_order()).unwrap_or_default();
    (9..blocks.len()).map(|o| blocks[o] << (o - 9)).sum()
}

fn measure(name: &str, pinned: impl Fn(u64) -> bool) -> Result<(), Box<dyn std::error::Error>> {
    let regions = [Region::managed(Pfn(0), Frames(FRAMES), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions)?;
    let config = Config::new(1);
    let fill = || -> Result<_, Box<dyn std::error::Error>> {
        // SAFETY: this program has one thread, and makes one call at a time.
        let engine = Pageyard::owned(&map, config, unsafe { Exclusive::by_instance() })?;
        let request = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::MEMALLOC);
        let mut frames = vec![Frame::NotMine; FRAMES as usize];
        while let Ok(pfn) = engine.alloc(&CX, &request) {
            frames[pfn.0 as usize] = if pinned(pfn.0) { Frame::Pinned } else { Frame::Movable };
        }
        for pfn in 0..FRAMES {
            if frames[pfn as usize] == Frame::Movable && mix(pfn ^ 1 << 50) & 1 == 0 {
                engine.free(&CX, Pfn(pfn), Order::ZERO)?;
                frames[pfn as usize] = Frame::NotMine;
            }
        }
        engine.drain(CpuSet::All);
        Ok((engine, Owner(RefCell::new(frames))))
    };

    let (engine, owner) = fill()?;
    let (allowed, least) = optimum(&owner.0.borrow());
    let start = Instant::now();
    let (_, work) = engine.compact_zone_with(&CX, ZoneId(0), &owner)?;
    let took = start.elapsed();
    let got = huge_free(&engine);
    println!(
        "{name}: free huge blocks: pins allow {allowed}, recovered {got} ({:.1} %)",
        100.0 * got as f64 / allowed as f64
    );
    println!(
        "  moved {} frames, an optimal plan {least} ({:.3} times); examined {}; {:.0} ms",
        work.moved,
        work.moved as f64 / least as f64,
        work.examined(),
        took.as_secs_f64() * 1e3
    );
    engine.audit()?;

    let (engine, owner) = fill()?;
    let request = Request::new(HUGE, Migratetype::Movable);
    let (mut times, mut failed) = (Vec::new(), 0);
    for _ in 0..2000 {
        let start = Instant::now();
        let got = engine.alloc_with(&CX, &request, &owner);
        times.push(start.elapsed().as_nanos() as u64);
        failed += u64::from(got.is_err());
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    println!(
        "  a request for a huge block: median {:.0} us, p99 {:.0} us, longest {:.0} us; {failed} of {} failed",
        at(0.5),
        at(0.99),
        at(1.0),
        times.len()
    );
    engine.audit()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    measure("0.135 % of frames pinned, spread", |pfn| mix(pfn) % 100_000 < 135)?;
    measure("pins in 10 % of pageblocks", |pfn| {
        mix((pfn / 512) ^ (1 << 40)).is_multiple_of(10) && pfn % 64 == 3
    })
}
