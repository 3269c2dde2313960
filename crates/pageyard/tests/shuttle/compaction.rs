//! Compaction beside everything else: frees, allocations, isolation, drains, another compaction.
//!
//! The owner of movable frames keeps its books in memory that the scheduler does not know of, one step with the call
//! around it. A frame that is handed out, moved to or freed has exactly one owner at each step.

use crate::common::{BLOCK, Block, Machine, PAGEBLOCK, explore_some};
use pageyard::Migratetype::{Movable, Unmovable};
use pageyard::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard::engine::Internals;
use pageyard::reclaim::{Reclaim, Reclaimed, Shortage};
use pageyard::{
    CompactorId, CpuId, CpuSet, Cx, Frames, Order, PageAllocator, PageblockId, Pfn, PressureAllocator,
    Request, ZoneId,
};
use shuttle::rand::Rng;
use shuttle::thread;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Schedules of each kind: these are long.
const SCHEDULES: usize = 300;

/// The owner of single frames that can be moved.
pub struct Owner {
    pub m: Arc<Machine>,
    /// Its frames, and whether each is isolated.
    held: Mutex<BTreeMap<u64, bool>>,
    /// Frames moved, of all schedules of a model.
    moves: Arc<AtomicU64>,
}

impl Owner {
    /// Makes an owner of some frames of each of the pageblocks.
    pub fn of(m: &Arc<Machine>, frames: impl IntoIterator<Item = u64>, moves: &Arc<AtomicU64>) -> Arc<Owner> {
        let held = frames.into_iter().map(|pfn| (m.exact(pfn, 0).unwrap().0.0, false)).collect();
        Arc::new(Owner { m: m.clone(), held: Mutex::new(held), moves: moves.clone() })
    }

    fn keep(&self, (pfn, order): Block) {
        assert_eq!(order, 0);
        assert!(self.held.lock().unwrap().insert(pfn.0, false).is_none());
    }

    /// Frees one of its frames, unless that is being moved.
    fn free_one(&self, cpu: u32, n: usize) {
        let taken = {
            let mut held = self.held.lock().unwrap();
            let still: Vec<u64> =
                held.iter().filter(|(_, isolated)| !**isolated).map(|(pfn, _)| *pfn).collect();
            let pfn = still.get(n % still.len().max(1)).copied();
            pfn.inspect(|pfn| assert_eq!(held.remove(pfn), Some(false)))
        };
        if let Some(pfn) = taken {
            self.m.free(cpu, (Pfn(pfn), 0));
        }
    }

    /// Checks that compaction left nothing behind, and everything else.
    pub fn end(&self, pageblocks: u64, mut held: Vec<Block>) {
        for block in (0..pageblocks).map(PageblockId) {
            assert!(self.m.engine.lease_pageblock(block, CompactorId(99)), "{block:?} is not leased");
            assert!(self.m.engine.unlease_pageblock(block));
        }
        for (pfn, isolated) in std::mem::take(&mut *self.held.lock().unwrap()) {
            assert!(!isolated, "frame {pfn} was moved or put back");
            held.push((Pfn(pfn), 0));
        }
        self.m.end(held);
    }
}

impl Reclaim for Owner {
    fn reclaim(&self, cx: &Cx, _: &Shortage) -> Reclaimed {
        self.free_one(cx.cpu.0, 0);
        Reclaimed { scanned: Frames(1), freed: Frames(1) }
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        Frames(self.held.lock().unwrap().len() as u64)
    }
}

// SAFETY: its books are its only references to frames, and a move changes them in one step.
unsafe impl Migrate for Owner {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, _: Mode) -> Result<Pfn, Busy> {
        match self.held.lock().unwrap().get_mut(&pfn.0) {
            Some(isolated) if !*isolated => {
                *isolated = true;
                Ok(pfn)
            }
            _ => Err(Busy::Pinned),
        }
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, _: Mode) -> Result<(), MigrateError> {
        let mut held = self.held.lock().unwrap();
        if from.0 % 7 == 3 {
            return Err(MigrateError::Refused);
        }
        assert_eq!(held.remove(&from.0), Some(true));
        assert!(held.insert(to.0, false).is_none(), "{to:?} was in use");
        self.m.own((to, 0));
        self.m.disown((*from, 0));
        self.moves.fetch_add(1, Relaxed);
        Ok(())
    }

    fn putback(&self, from: Pfn) {
        *self.held.lock().unwrap().get_mut(&from.0).expect("it stayed the owner's") = false;
    }
}

/// A few frames in use in each of some pageblocks, the first with the fewest.
pub fn scattered(pageblocks: u64) -> impl Iterator<Item = u64> {
    (0..pageblocks).flat_map(|block| (0..3 + block).map(move |n| block * PAGEBLOCK + 61 * n + 5))
}

pub fn compact_all(o: &Owner, cpu: u32) -> Vec<Block> {
    o.m.engine.compact_zone_with(&Cx::on(CpuId(cpu)), ZoneId(0), o).unwrap();
    Vec::new()
}

/// Asks for a block that there is none of, so that the request compacts.
fn request(o: &Owner, cpu: u32, order: u8) -> Vec<Block> {
    let request = Request::new(Order::of(order), Movable);
    let got = o.m.engine.alloc_with(&Cx::on(CpuId(cpu)), &request, o);
    got.ok().map(|pfn| o.m.own((pfn, order))).into_iter().collect()
}

/// Runs the calls beside a compaction: allocations, frees, bulk calls, drains, isolation.
pub fn calls(o: &Owner, cpu: u32, n: usize) -> Vec<Block> {
    let mut rng = shuttle::rand::thread_rng();
    let mut held: Vec<Block> = Vec::new();
    for _ in 0..n {
        match rng.gen_range(0..8) {
            0 => o.m.movable(cpu, 0).into_iter().for_each(|block| o.keep(block)),
            1 => held.extend(o.m.alloc(cpu, rng.gen_range(0..4), Unmovable)),
            2 => o.m.bulk(cpu, 9, Movable).into_iter().for_each(|block| o.keep(block)),
            3 => {
                o.m.engine.drain(CpuSet::All);
            }
            4 => {
                let block = PageblockId(rng.gen_range(0..3));
                if o.m.engine.isolate(&Cx::on(CpuId(0)), block) {
                    o.m.engine.drain(CpuSet::All);
                    assert!(o.m.engine.restore(&Cx::on(CpuId(0)), block), "no other thread restores it");
                }
            }
            5 => held.extend(o.m.movable(cpu, [1, 4, 7][rng.gen_range(0..3)])),
            _ => o.free_one(cpu, rng.gen_range(0..64)),
        }
    }
    held
}

pub type Part = fn(&Owner) -> Vec<Block>;

fn run(name: &str, pcp: bool, parts: &'static [Part]) {
    run_on(3, name, pcp, parts);
}

/// Runs parts on a machine of so many pageblocks.
fn run_on(pageblocks: u64, name: &str, pcp: bool, parts: &'static [Part]) {
    let moves = Arc::new(AtomicU64::new(0));
    let all = moves.clone();
    explore_some(name, SCHEDULES, move || {
        let m = Machine::new(pageblocks, pcp);
        let o = Owner::of(&m, scattered(pageblocks), &moves);
        let threads: Vec<_> = parts
            .iter()
            .map(|part| {
                let o = o.clone();
                thread::spawn(move || part(&o))
            })
            .collect();
        let held = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        o.end(pageblocks, held);
    });
    println!("{name}: {} frames moved", all.load(Relaxed));
    assert!(all.load(Relaxed) > 0, "{name}: something was moved");
}

#[test]
fn all_of_a_zone_beside_other_calls() {
    for pcp in [false, true] {
        run("compaction of a zone", pcp, &[|o| compact_all(o, 0), |o| calls(o, 1, 6), |o| calls(o, 2, 6)]);
    }
}

#[test]
fn two_compactions_of_one_zone() {
    run("two compactions", true, &[|o| compact_all(o, 0), |o| compact_all(o, 1), |o| calls(o, 2, 4)]);
}

#[test]
fn requests_that_compact_for_one_another() {
    run(
        "requests that compact",
        true,
        &[|o| request(o, 0, BLOCK), |o| request(o, 1, BLOCK), |o| request(o, 2, 8), |o| calls(o, 3, 4)],
    );
}

#[test]
fn a_compaction_of_pageblocks_that_are_isolated_and_drained() {
    let isolates: Part = |o| {
        for block in [1, 0, 2].map(PageblockId) {
            if o.m.engine.isolate(&Cx::on(CpuId(0)), block) {
                o.m.engine.drain(CpuSet::All);
                o.m.engine.drain(CpuSet::One(CpuId(1)));
                assert!(o.m.engine.restore(&Cx::on(CpuId(0)), block));
            }
        }
        Vec::new()
    };
    let parts: &'static [Part] =
        Box::leak(Box::new([isolates, |o: &Owner| compact_all(o, 0), |o: &Owner| calls(o, 1, 6)]));
    run("isolation and compaction", true, parts);
}

#[test]
fn a_run_of_pageblocks_beside_other_calls() {
    run_on(
        6,
        "a run of pageblocks",
        true,
        &[|o| request(o, 0, BLOCK + 1), |o| request(o, 1, BLOCK), |o| calls(o, 2, 6)],
    );
}
