//! An owner of frames for tests of reclaim and compaction: it holds blocks, gives some up, lets some be moved, and
//! misbehaves when a test asks it to.

use pageyard::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard::reclaim::{Reclaim, Reclaimed, Shortage};
use pageyard::{
    BlockId, Cx, Frames, FreeError, Migratetype, Order, PageAllocator, Pfn, Request, RequestFlags, ZoneId,
};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A fault planted in an owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It refuses to move anything.
    Refuses,
    /// It always says "again".
    Again,
    /// Every third move fails.
    FailsHalfway,
    /// Every fourth frame is freed between its isolation and its move.
    FreesUnderUs,
    /// The fifth move panics.
    Panics,
    /// Reclaim says that it freed what was wanted, and frees nothing.
    Lies,
    /// Reclaim frees and takes the same frames again.
    Churns,
}

/// The use of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// It can be moved.
    Movable,
    /// It can be moved, and given up.
    Cache,
    /// Neither.
    Pinned,
}

#[derive(Clone, Copy, Debug)]
struct OwnedBlock {
    order: Order,
    content: u64,
    of: Use,
    isolated: bool,
}

/// The owner of some of an engine's frames. Each has a content that must survive every move.
pub struct Owner<'e, E> {
    engine: &'e E,
    held: Mutex<HashMap<u64, OwnedBlock>>,
    next: AtomicU64,
    moves: AtomicU64,
    /// Blocks of several frames that were moved.
    blocks: AtomicU64,
    /// The planted fault.
    pub fault: Fault,
}

impl<'e, E: PageAllocator> Owner<'e, E> {
    /// Makes an owner that holds nothing.
    pub fn new(engine: &'e E, fault: Fault) -> Self {
        let (next, moves, blocks) = Default::default();
        Owner { engine, held: Mutex::default(), next, moves, blocks, fault }
    }

    /// Returns how many blocks of several frames were moved.
    pub fn moved_blocks(&self) -> u64 {
        self.blocks.load(Ordering::SeqCst)
    }

    /// Takes a block that was allocated into its books.
    pub fn keep(&self, pfn: Pfn, order: Order, of: Use) {
        let content = self.next.fetch_add(1, Ordering::SeqCst);
        let held = OwnedBlock { order, content, of, isolated: false };
        let before = self.held.lock().unwrap().insert(pfn.0, held);
        assert!(before.is_none(), "{pfn} was handed out twice");
    }

    /// Allocates single frames until none is left, reserves included; `of` says what each is for. Returns how many.
    pub fn fill(&self, cx: &Cx, mut of: impl FnMut(Pfn) -> Use) -> u64 {
        let request = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::MEMALLOC);
        let mut n = 0;
        while let Ok(pfn) = self.engine.alloc(cx, &request) {
            self.keep(pfn, Order::ZERO, of(pfn));
            n += 1;
        }
        n
    }

    /// Frees a block that it holds, unless it is being moved; returns whether it did.
    ///
    /// # Panics
    /// When the engine refuses.
    pub fn free(&self, cx: &Cx, pfn: Pfn) -> bool {
        let mut held = self.held.lock().unwrap();
        let Some(block) = held.get(&pfn.0).filter(|h| !h.isolated).copied() else { return false };
        held.remove(&pfn.0);
        drop(held);
        self.engine.free(cx, pfn, block.order).unwrap();
        true
    }

    /// Frees every block that `which` picks.
    pub fn free_if(&self, cx: &Cx, which: impl Fn(Pfn) -> bool) {
        let mut all: Vec<Pfn> =
            self.held.lock().unwrap().keys().map(|p| Pfn(*p)).filter(|p| which(*p)).collect();
        all.sort_unstable();
        all.into_iter().for_each(|pfn| {
            self.free(cx, pfn);
        });
    }

    /// Returns the blocks that it holds, and its frames.
    pub fn frames(&self) -> u64 {
        self.held.lock().unwrap().values().map(|h| h.order.frames().0).sum()
    }

    /// Returns the first frames of the blocks that it holds.
    pub fn pfns(&self) -> Vec<Pfn> {
        self.held.lock().unwrap().keys().map(|pfn| Pfn(*pfn)).collect()
    }

    /// Returns the frame of one of its blocks, the `n`th of some order that changes.
    pub fn any(&self, n: usize) -> Option<Pfn> {
        let held = self.held.lock().unwrap();
        let n = n.checked_rem(held.len())?;
        held.keys().nth(n).map(|pfn| Pfn(*pfn))
    }

    /// Checks that every frame is accounted for and that no content was lost.
    ///
    /// # Panics
    /// When one is not.
    pub fn check(&self, pinned: &[Pfn]) {
        let census = self.engine.audit().unwrap();
        assert!(census.is_conserved(), "{census:?}");
        assert_eq!(
            census.allocated,
            Frames(self.frames()),
            "frames that only the books or only the engine knows of"
        );
        let held = self.held.lock().unwrap();
        assert!(held.values().all(|h| !h.isolated), "every isolated frame was moved or put back");
        let mut contents: Vec<u64> = held.values().map(|h| h.content).collect();
        contents.sort_unstable();
        contents.dedup();
        assert_eq!(contents.len(), held.len(), "no content is in two places");
        assert!(pinned.iter().all(|p| held.contains_key(&p.0)), "a pinned frame stays where it is");
    }
}

impl<E: PageAllocator> Reclaim for Owner<'_, E> {
    fn reclaim(&self, cx: &Cx, shortage: &Shortage) -> Reclaimed {
        let zones: Vec<_> =
            shortage.zones.iter().filter_map(|zone| Some(self.engine.zone_stats(zone)?.span)).collect();
        let spans = |pfn: &Pfn| zones.iter().any(|z| z.spans(*pfn));
        if self.fault == Fault::Lies {
            return Reclaimed { scanned: shortage.want, freed: shortage.want };
        }
        let mut cache: Vec<Pfn> = {
            let held = self.held.lock().unwrap();
            held.iter()
                .filter(|(_, h)| h.of == Use::Cache && !h.isolated)
                .map(|(p, _)| Pfn(*p))
                .filter(spans)
                .collect()
        };
        cache.sort_unstable();
        let mut freed = 0;
        for pfn in cache.iter().take(shortage.want.0 as usize) {
            freed += u64::from(self.free(cx, *pfn));
        }
        if self.fault == Fault::Churns {
            let request = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::MEMALLOC);
            for _ in 0..freed {
                if let Ok(pfn) = self.engine.alloc(cx, &request) {
                    self.keep(pfn, Order::ZERO, Use::Cache);
                }
            }
        }
        Reclaimed { scanned: Frames(cache.len() as u64), freed: Frames(freed) }
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        if self.fault == Fault::Lies {
            return Frames(1 << 40);
        }
        Frames(self.held.lock().unwrap().values().filter(|h| h.of == Use::Cache).count() as u64)
    }
}

// SAFETY: its books are its only references to frames, and a move changes them in one step.
unsafe impl<E: PageAllocator> Migrate for Owner<'_, E> {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<Pfn, Busy> {
        self.isolate_block(BlockId { pfn, order: Order::ZERO }, mode)
    }

    fn isolate_block(&self, block: BlockId, _: Mode) -> Result<Pfn, Busy> {
        let mut held = self.held.lock().unwrap();
        let here = held.get_mut(&block.pfn.0).ok_or(Busy::Gone)?;
        if here.of == Use::Pinned || here.isolated || here.order != block.order {
            return Err(Busy::Pinned);
        }
        here.isolated = true;
        Ok(block.pfn)
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, _: Mode) -> Result<(), MigrateError> {
        let n = self.moves.fetch_add(1, Ordering::SeqCst) + 1;
        match self.fault {
            Fault::Refuses => return Err(MigrateError::Refused),
            Fault::Again => return Err(MigrateError::Again),
            Fault::FailsHalfway if n.is_multiple_of(3) => return Err(MigrateError::Refused),
            Fault::Panics if n == 5 => panic!("the owner panics, as the test asked"),
            Fault::FreesUnderUs if n.is_multiple_of(4) => {
                let gone = self.held.lock().unwrap().remove(&from.0);
                let order = gone.map_or(Order::ZERO, |block| block.order);
                let freed: Result<(), FreeError> = self.engine.free(&Cx::default(), *from, order);
                freed.unwrap();
                return Err(MigrateError::Gone);
            }
            _ => {}
        }
        let mut held = self.held.lock().unwrap();
        let mut block = held.remove(&from.0).ok_or(MigrateError::Gone)?;
        block.isolated = false;
        assert!(to.is_aligned(block.order), "a block of order {} at frame {to}", block.order);
        self.blocks.fetch_add(u64::from(block.order > Order::ZERO), Ordering::SeqCst);
        let before = held.insert(to.0, block);
        assert!(before.is_none(), "frame {to} was in use already");
        Ok(())
    }

    fn putback(&self, from: Pfn) {
        if let Some(block) = self.held.lock().unwrap().get_mut(&from.0) {
            block.isolated = false;
        }
    }
}
