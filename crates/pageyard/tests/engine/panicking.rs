//! An owner of frames whose callbacks panic, one of them in each run.

use pageyard::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard::engine::Internals;
use pageyard::reclaim::{Reclaim, Reclaimed, Shortage};
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    CompactorId, Config, CpuId, CpuSet, Cx, Frames, FreeError, MemoryMap, Migratetype, NodeId, Order,
    OwnedPageyard, PageAllocator, PageblockId, Pageyard, Pfn, Region, Request, RequestFlags, TryLock, ZoneId,
    ZoneKind,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

pub const CX: Cx = Cx::on(CpuId(0));
/// Pageblocks of a machine.
const PAGEBLOCKS: u64 = 6;
/// One frame in this many is in use at the start, so that no block of this size is free.
const SPARSE: usize = 16;
/// The panic message of a callback.
const WORD: &str = "a callback panics, as the test asked";

/// Makes a machine whose zone keeps nothing back.
pub fn machine(config: Config) -> OwnedPageyard<TryLock> {
    let regions = [Region::managed(Pfn(0), Frames(PAGEBLOCKS * 512), NodeId(0), ZoneKind::Normal)];
    let watermark =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config { watermark, ..config }, TryLock).unwrap()
}

/// Callbacks, by name.
pub const ISOLATE: &str = "before a frame is isolated";
pub const DROP: &str = "an isolated frame is dropped";
pub const MIGRATE: &str = "before a frame is moved";
pub const PUTBACK: &str = "after a frame was put back";
pub const RECLAIM: &str = "before reclaim";
pub const RECLAIMED: &str = "after reclaim";

/// An owner's record of one of its blocks.
#[derive(Clone, Copy, Debug)]
struct Held {
    order: Order,
    isolated: bool,
}

/// Counts callbacks, and panics at one of them.
struct Fuse {
    seen: Cell<u64>,
    at: u64,
    /// The callback that panicked.
    blown: Cell<Option<&'static str>>,
}

impl Fuse {
    fn callback(&self, what: &'static str) {
        let n = self.seen.get() + 1;
        self.seen.set(n);
        if n == self.at {
            self.blown.set(Some(what));
            std::panic::panic_any(WORD);
        }
    }
}

/// An owner of all memory but what is free. One thread uses it.
pub struct Keeper<'e> {
    engine: &'e OwnedPageyard<TryLock>,
    held: RefCell<BTreeMap<u64, Held>>,
    fuse: Rc<Fuse>,
    /// Frames that a bulk call has been given, which may be its own or free already.
    given: RefCell<Vec<Pfn>>,
}

/// An isolated frame, whose drop is a callback too.
pub struct Token {
    pfn: Pfn,
    fuse: Rc<Fuse>,
}

impl Drop for Token {
    fn drop(&mut self) {
        self.fuse.callback(DROP);
    }
}

impl<'e> Keeper<'e> {
    /// Makes an owner of a few frames everywhere, whose `at`th callback panics.
    fn new(engine: &'e OwnedPageyard<TryLock>, at: u64) -> Keeper<'e> {
        let fuse = Rc::new(Fuse { seen: Cell::new(0), at, blown: Cell::new(None) });
        let keeper = Keeper { engine, held: RefCell::default(), fuse, given: RefCell::default() };
        // By their numbers, so that no CPU works on a pageblock, which compaction would pass over.
        let mut random = fastrand::Rng::with_seed(11);
        for block in (0..PAGEBLOCKS * 512).step_by(SPARSE) {
            let pfn = Pfn(block + random.u64(..SPARSE as u64));
            engine.claim_exact(&Cx::on(CpuId(0)), pfn, Order::ZERO, Migratetype::Movable).unwrap();
            keeper.keep(pfn, Order::ZERO);
        }
        keeper
    }

    /// Makes an owner that never panics.
    pub fn full(engine: &'e OwnedPageyard<TryLock>) -> Keeper<'e> {
        Keeper::new(engine, 0)
    }

    /// Counts a callback that the test itself makes.
    pub fn callback(&self, what: &'static str) {
        self.fuse.callback(what);
    }

    /// Takes a block that was handed out into the books.
    pub fn keep(&self, pfn: Pfn, order: Order) {
        let frames = pfn.0..pfn.0 + order.frames().0;
        let mut held = self.held.borrow_mut();
        assert!(held.range(frames).next().is_none(), "{pfn:?}, order {order}, has two owners");
        held.insert(pfn.0, Held { order, isolated: false });
    }

    /// Takes all that is free.
    ///
    /// # Panics
    /// When something that it owns is handed out.
    pub fn takes_all(&self) {
        let request = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::MEMALLOC);
        while let Ok(pfn) = self.engine.alloc(&CX, &request) {
            self.keep(pfn, Order::ZERO);
        }
    }

    /// Returns a frame that it owns.
    pub fn any(&self) -> Pfn {
        Pfn(*self.held.borrow().keys().next().unwrap())
    }

    /// Hands frames to a bulk free.
    pub fn gives_up(&self, pfns: &[Pfn]) {
        *self.given.borrow_mut() = pfns.to_vec();
    }

    /// The bulk free ended: all of them are free.
    pub fn gave_up(&self) {
        let given = std::mem::take(&mut *self.given.borrow_mut());
        given.iter().for_each(|pfn| assert!(self.held.borrow_mut().remove(&pfn.0).is_some()));
    }

    /// After a panic in a bulk free: each frame is freed already or still the owner's.
    fn settle_given(&self) {
        for pfn in std::mem::take(&mut *self.given.borrow_mut()) {
            match self.engine.free(&CX, pfn, Order::ZERO) {
                Ok(()) | Err(FreeError::NotAllocated) => {}
                Err(why) => panic!("{pfn:?} of a bulk free: {why}"),
            }
            self.held.borrow_mut().remove(&pfn.0);
        }
    }

    /// Checks the engine against the books: by its own audit, by taking all that is free, and by giving everything
    /// back.
    pub fn judge(&self, when: &str) {
        self.settle_given();
        let engine = self.engine;
        let audit = || engine.audit().unwrap_or_else(|why| panic!("{when}: {why}"));
        let census = audit();
        assert!(census.is_conserved(), "{when}: {census:?}");
        let mine: u64 = self.held.borrow().values().map(|h| h.order.frames().0).sum();
        assert_eq!(census.allocated, Frames(mine), "{when}: frames in the engine's books and in the owner's");
        assert_eq!(census.isolated, Frames::ZERO, "{when}: no pageblock is isolated");
        let still = self.held.borrow().iter().filter(|(_, h)| h.isolated).count();
        assert_eq!(still, 0, "{when}: frames that were isolated and neither moved nor put back");
        for block in (0..PAGEBLOCKS).map(PageblockId) {
            assert!(engine.lease_pageblock(block, CompactorId(9)), "{when}: {block:?} is still leased");
            assert!(engine.unlease_pageblock(block));
        }
        // All that is free is handed out: a second owner is found.
        let all = catch_unwind(AssertUnwindSafe(|| self.takes_all()));
        assert!(all.is_ok(), "{when}: a frame has two owners");
        let census = audit();
        assert_eq!(census.allocated, census.managed, "{when}: every frame can be had: {census:?}");
        for (pfn, held) in std::mem::take(&mut *self.held.borrow_mut()) {
            let freed = engine.free(&CX, Pfn(pfn), held.order);
            freed.unwrap_or_else(|why| panic!("{when}: {pfn} is its owner's: {why}"));
        }
        engine.drain(CpuSet::All);
        let census = audit();
        assert_eq!(census.free, census.managed, "{when}: {census:?}");
        let blocks = engine.zone_stats(ZoneId(0)).unwrap().blocks_by_order();
        let whole: u64 = (9..blocks.len()).map(|order| blocks[order] << (order - 9)).sum();
        assert_eq!(whole, PAGEBLOCKS, "{when}: every pageblock is whole again");
    }
}

impl Reclaim for Keeper<'_> {
    fn reclaim(&self, cx: &Cx, _: &Shortage) -> Reclaimed {
        self.fuse.callback(RECLAIM);
        let single: Vec<_> = {
            let held = self.held.borrow();
            let free = held.iter().filter(|(_, h)| h.order == Order::ZERO && !h.isolated);
            free.map(|(pfn, _)| Pfn(*pfn)).take(3).collect()
        };
        for pfn in &single {
            self.engine.free(cx, *pfn, Order::ZERO).unwrap();
            self.held.borrow_mut().remove(&pfn.0);
        }
        self.fuse.callback(RECLAIMED);
        let n = Frames(single.len() as u64);
        Reclaimed { scanned: n, freed: n }
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        self.fuse.callback("reclaimable");
        Frames(self.held.borrow().len() as u64)
    }
}

// SAFETY: its books are its only references to frames. It panics before it has moved anything, or, in a drop, after a
// move that it reported.
unsafe impl Migrate for Keeper<'_> {
    type Isolated = Token;

    fn isolate(&self, pfn: Pfn, _: Mode) -> Result<Token, Busy> {
        self.fuse.callback(ISOLATE);
        // Some frames cannot be moved, in one pageblock only.
        if pfn.0 / 512 == 2 && pfn.0 % 512 == 300 {
            return Err(Busy::Pinned);
        }
        let mut all = self.held.borrow_mut();
        let held = all.get_mut(&pfn.0).filter(|h| h.order == Order::ZERO && !h.isolated);
        held.ok_or(Busy::Pinned)?.isolated = true;
        Ok(Token { pfn, fuse: self.fuse.clone() })
    }

    fn migrate(&self, from: &mut Token, to: Pfn, _: Mode) -> Result<(), MigrateError> {
        self.fuse.callback(MIGRATE);
        let n = self.fuse.seen.get();
        if n.is_multiple_of(13) {
            return Err(MigrateError::Again);
        }
        if n.is_multiple_of(29) {
            return Err(MigrateError::Refused);
        }
        let mut held = self.held.borrow_mut();
        if n.is_multiple_of(37) {
            // Freed by its owner meanwhile.
            held.remove(&from.pfn.0).expect("it is the owner's");
            drop(held);
            self.engine.free(&CX, from.pfn, Order::ZERO).unwrap();
            return Err(MigrateError::Gone);
        }
        let block = held.remove(&from.pfn.0).expect("it is the owner's");
        let before = held.insert(to.0, Held { isolated: false, ..block });
        assert!(before.is_none(), "{to:?} has an owner already");
        Ok(())
    }

    fn putback(&self, from: Token) {
        // It is in use again before anything can panic.
        if let Some(held) = self.held.borrow_mut().get_mut(&from.pfn.0) {
            held.isolated = false;
        }
        self.fuse.callback(PUTBACK);
    }
}

/// Runs a scenario once without a panic, and then once for each of its callbacks with a panic there. `kinds` are those
/// that must be among them.
pub fn at_every_callback(
    name: &str,
    kinds: &[&str],
    scenario: impl Fn(&OwnedPageyard<TryLock>, &Keeper<'_>),
) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&WORD) {
            usual(info);
        }
    }));
    let run = |at: u64| {
        let engine = machine(Config::new(2));
        let keeper = Keeper::new(&engine, at);
        let ended = catch_unwind(AssertUnwindSafe(|| scenario(&engine, &keeper)));
        if let Err(why) = ended
            && why.downcast_ref::<&str>() != Some(&WORD)
        {
            std::panic::resume_unwind(why);
        }
        let what = keeper.fuse.blown.get().unwrap_or("no callback panicked");
        keeper.judge(&format!("{name}, callback {at}, {what}"));
        (keeper.fuse.seen.get(), keeper.fuse.blown.get())
    };
    let (callbacks, _) = run(0);
    assert!(callbacks > 0, "{name}: something was called");
    let mut blown_of = BTreeMap::new();
    for at in 1..=callbacks {
        let (_, blown) = run(at);
        *blown_of.entry(blown.expect("the callback was reached")).or_insert(0) += 1;
    }
    println!("{name}: {callbacks} callbacks, {blown_of:?}");
    kinds.iter().for_each(|kind| assert!(blown_of.contains_key(kind), "{name}: there was {kind:?}"));
}
