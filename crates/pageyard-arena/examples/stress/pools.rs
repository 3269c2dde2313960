//! A storm of packet buffers: three pools of pages and an owner of fragments over one engine, whose threads take pages,
//! batches and fragments, give them back in every way there is, hand them to each other, and contest addresses.
//!
//! Any thread becomes a pool's consumer while there is none. The memory is short, so that the engine refuses, and the
//! rings are small, so that pages go back to the engine.
//!
//! Rules: no 64 bytes have two owners, by a record that shares nothing with the pools; of several threads that take
//! back one address one wins; what is not out is refused; a page that was nowhere when its consumer was killed is
//! recovered, and no other; all frames are free once everything came back.

use fastrand::Rng;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    BlockId, Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard,
    Pageyard, PerCpu, Pfn, PhysAddr, Region, Request, ZoneKind,
};
use pageyard_packets::{
    FragConfig, FragPages, Fragment, GetError, PageFrag, PagePool, PoolBatch, PoolConfig, PoolConsumer,
    PoolPage, PutError, Refused, UseTable,
};
use pageyard_testkit::storm::{self, Make, Naming, Plan, Variant};
use std::alloc::Layout;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The memory, by turns: a pageblock, of which threads want more than there is, and four.
const FRAMES: [u64; 2] = [512, 2048];
const MOST_FRAMES: u64 = FRAMES[1];
/// The pools: orders of their pages, and places in their rings.
const POOLS: [(u8, u32); 3] = [(0, 64), (2, 16), (2, 16)];
/// The pool whose pages' addresses are contested. A thread that is late may take back the address of a page that has
/// been out once more since. So no address of this pool is a thread's own, and no page of it is carved: its last
/// fragment could not be told from the page.
const CONTESTED: usize = 2;
/// Operations of a thread in a round.
const CALLS: u64 = 20_000;
/// Attempts of a thread in a duel for one address.
const DUEL: u32 = 500;
/// Parcels that a thread keeps at most, and blocks.
const KEPT: usize = 24;
/// Parcels that wait for another thread at most.
const WAITING: usize = 64;
/// Bytes that have one owner in the record.
const GRAIN: u64 = 64;

/// Owners in the record that are no thread: of free bytes, of an address that threads contest, and of a page that was
/// dropped.
const NOBODY: u32 = 0;
const ANYBODY: u32 = u32::MAX;
const DROPPED: u32 = u32::MAX - 1;

type Yard<P> = OwnedPageyard<P>;
type Pool<'e, P> = PagePool<'e, &'e Pageyard<'static, P>>;
type Page<'p, 'e, P> = PoolPage<'p, 'e, &'e Pageyard<'static, P>>;
type Batch<'p, 'e, P> = PoolBatch<'p, 'e, &'e Pageyard<'static, P>>;
type Consumer<'p, 'e, P> = PoolConsumer<'p, 'e, &'e Pageyard<'static, P>>;
type OfPool<'p, 'e, P> = Fragment<'p, Pool<'e, P>>;
type OfCache<'p, 'e, P> = Fragment<'p, FragPages<'e, &'e Pageyard<'static, P>>>;

pageyard_testkit::totals! {
    /// The totals of a storm.
    pub struct Pools {
        /// Rounds, and operations.
        pub rounds: u64,
        pub operations: u64,
        /// Pages taken, one by one or in batches, and requests that were refused.
        pub pages: u64,
        pub refused: u64,
        /// Fragments carved.
        pub fragments: u64,
        /// Pages, batches and fragments that another thread got.
        pub handed_over: u64,
        /// Addresses that were contested, those taken and lent again in duels, and attempts that lost.
        pub contested: u64,
        pub duels: u64,
        pub lost: u64,
        /// Wrong calls, each of which was refused.
        pub wrong: u64,
        /// Pages that came back through a ring, and that found it full.
        pub through_rings: u64,
        pub rings_full: u64,
        /// Pools closed while others gave back, and pages recovered from killed consumers.
        pub closed: u64,
        pub recovered: u64,
    }
}

/// Who owns each 64 bytes.
struct Record(Vec<AtomicU32>);

impl Record {
    fn new() -> Record {
        Record((0..Frames(MOST_FRAMES).as_bytes() / GRAIN).map(|_| AtomicU32::new(NOBODY)).collect())
    }

    /// Gives bytes to an owner; `from` says from which they may come.
    ///
    /// Relaxed: each exchange sees the last one of the same word, and who may make it next is what is tried.
    fn give(&self, bytes: &Range<u64>, from: impl Fn(u32) -> bool, to: u32) {
        for word in &self.0[(bytes.start / GRAIN) as usize..bytes.end.div_ceil(GRAIN) as usize] {
            let owner = word.swap(to, Relaxed);
            assert!(from(owner), "{bytes:#x?} were {owner:#x}'s when they became {to:#x}'s");
        }
    }

    /// Notes that a thread got bytes.
    fn got(&self, bytes: &Range<u64>, me: u32) {
        self.give(bytes, |owner| owner == NOBODY || owner == DROPPED, me);
    }

    /// Notes that a thread took back an address that was anybody's.
    fn won(&self, bytes: &Range<u64>, me: u32) {
        self.give(bytes, |owner| owner == ANYBODY || owner == DROPPED, me);
    }

    /// Notes that a thread is about to give bytes to somebody else.
    fn gives(&self, bytes: &Range<u64>, me: u32, to: u32) {
        self.give(bytes, |owner| owner == me, to);
    }
}

fn bytes_of(pfn: Pfn, order: Order) -> Range<u64> {
    let start = pfn.address().0;
    start..start + order.frames().as_bytes()
}

fn bytes_of_page<P: PerCpu>(page: &Page<'_, '_, P>) -> Range<u64> {
    bytes_of(page.pfn(), page.order())
}

/// A page, a batch or a fragment, to be kept or handed over.
#[expect(clippy::large_enum_variant, reason = "a batch is handed over as it is")]
enum Parcel<'p, 'e, P: PerCpu> {
    Page(Page<'p, 'e, P>),
    Batch(Batch<'p, 'e, P>),
    OfPool(OfPool<'p, 'e, P>),
    OfCache(OfCache<'p, 'e, P>),
}

impl<P: PerCpu> Parcel<'_, '_, P> {
    /// Calls `f` with the bytes of each part.
    fn each(&self, mut f: impl FnMut(&Range<u64>)) {
        let of_fragment = |at: PhysAddr, len: usize| at.0..at.0 + len as u64;
        match self {
            Parcel::Page(page) => f(&bytes_of_page(page)),
            Parcel::Batch(batch) => batch.pfns().for_each(|pfn| f(&bytes_of(pfn, batch.pool().order()))),
            Parcel::OfPool(fragment) => f(&of_fragment(fragment.address(), fragment.len())),
            Parcel::OfCache(fragment) => f(&of_fragment(fragment.address(), fragment.len())),
        }
    }
}

/// The state that the threads of a round share.
struct Shared<'p, 'e, P: PerCpu> {
    yard: &'e Pageyard<'static, P>,
    /// CPUs that its threads may name.
    cpus: u32,
    pools: &'p [Pool<'e, P>; POOLS.len()],
    fragments: &'p FragPages<'e, &'e Pageyard<'static, P>>,
    record: Record,
    waiting: Mutex<Vec<(u32, Parcel<'p, 'e, P>)>>,
    /// Addresses that anybody may take back; 0 where there is none. Threads duel for the first.
    contested: [AtomicU64; 4],
}

/// A thread of a round.
struct Thread<'s, 'p, 'e, P: PerCpu> {
    shared: &'s Shared<'p, 'e, P>,
    me: u32,
    naming: Naming,
    rng: Rng,
    consumers: [Option<Consumer<'p, 'e, P>>; POOLS.len()],
    cache: PageFrag<'p, 'e, &'e Pageyard<'static, P>>,
    kept: Vec<Parcel<'p, 'e, P>>,
    blocks: Vec<BlockId>,
    did: Pools,
}

impl<'s, 'p, 'e, P: PerCpu> Thread<'s, 'p, 'e, P> {
    fn new(shared: &'s Shared<'p, 'e, P>, me: u32, naming: Naming, seed: u64) -> Self {
        Thread {
            shared,
            me,
            naming,
            rng: Rng::with_seed(seed ^ u64::from(me)),
            consumers: [None, None, None],
            cache: shared.fragments.cache(),
            kept: Vec::new(),
            blocks: Vec::new(),
            did: Pools::default(),
        }
    }

    fn run(mut self) -> Pools {
        for call in 0..CALLS {
            match self.rng.u8(..) {
                0..=7 => self.become_consumer(),
                8..=10 => self.leave(),
                11 if call > CALLS * 9 / 10 => self.close(),
                12..=31 => self.hand_over(),
                32..=51 => self.take_over(),
                52..=61 => self.contest(),
                62..=69 => self.take_back(),
                70..=71 => self.duel(),
                72..=76 => self.call_wrongly(),
                77..=86 => self.take_block(),
                87..=96 => self.free_block(),
                97..=116 => self.carve(),
                117..=136 => self.carve_of_pool(),
                137..=156 => self.take_batch(),
                157..=186 => self.take_page(),
                _ => self.give_back(),
            }
        }
        self.end()
    }

    /// Gives everything back.
    fn end(mut self) -> Pools {
        while !self.kept.is_empty() {
            self.give_back();
        }
        while !self.blocks.is_empty() {
            self.free_block();
        }
        let cx = self.cx();
        self.cache.drain(&cx);
        self.did.operations = CALLS;
        self.did
    }

    /// Names a CPU.
    fn cx(&mut self) -> Cx {
        let cpu = if self.naming == Naming::Own { self.me - 1 } else { self.rng.u32(..self.shared.cpus) };
        Cx::on(CpuId(cpu))
    }

    /// Keeps what it got, and gives something back where that is too much.
    fn keep(&mut self, parcel: Parcel<'p, 'e, P>) {
        parcel.each(|bytes| self.shared.record.got(bytes, self.me));
        self.kept.push(parcel);
        if self.kept.len() > KEPT {
            self.give_back();
        }
    }

    fn refused(&mut self, why: &GetError) {
        assert!(matches!(why, GetError::Alloc(_) | GetError::Closed), "{why:?}");
        self.did.refused += 1;
        for _ in 0..4 {
            self.give_back();
        }
    }

    /// Takes out one of what it keeps.
    fn one(&mut self) -> Option<Parcel<'p, 'e, P>> {
        let n = self.kept.len();
        (n > 0).then(|| self.kept.swap_remove(self.rng.usize(..n)))
    }

    /// Takes out a page that it keeps.
    fn one_page(&mut self) -> Option<Page<'p, 'e, P>> {
        let at = self.kept.iter().position(|parcel| matches!(parcel, Parcel::Page(_)))?;
        let Parcel::Page(page) = self.kept.swap_remove(at) else { unreachable!("it is a page") };
        Some(page)
    }

    // Consumers.

    fn become_consumer(&mut self) {
        let nth = self.rng.usize(..POOLS.len());
        if self.consumers[nth].is_none() {
            self.consumers[nth] = self.shared.pools[nth].consumer();
        }
    }

    fn leave(&mut self) {
        self.consumers[self.rng.usize(..POOLS.len())] = None;
    }

    /// Closes a pool. What is out comes back later.
    fn close(&mut self) {
        let (nth, cx) = (self.rng.usize(..POOLS.len()), self.cx());
        if self.rng.u8(..8) == 0
            && let Some(consumer) = self.consumers[nth].take()
        {
            consumer.close(&cx);
            self.did.closed += 1;
        }
    }

    fn take_page(&mut self) {
        let (nth, cx) = (self.rng.usize(..POOLS.len()), self.cx());
        let Some(consumer) = &mut self.consumers[nth] else { return };
        match consumer.get(&cx) {
            Ok(page) => {
                self.did.pages += 1;
                self.keep(Parcel::Page(page));
            }
            Err(why) => self.refused(&why),
        }
    }

    fn take_batch(&mut self) {
        let (nth, cx) = (self.rng.usize(..POOLS.len()), self.cx());
        let most = if self.rng.bool() { PoolConfig::BATCH } else { self.rng.usize(1..16) };
        let Some(consumer) = &mut self.consumers[nth] else { return };
        match consumer.get_bulk(&cx, most) {
            Ok(batch) => {
                self.did.pages += batch.len() as u64;
                self.keep(Parcel::Batch(batch));
            }
            Err(why) => self.refused(&why),
        }
    }

    fn layout(&mut self, most: u64) -> Layout {
        let size = GRAIN * self.rng.u64(1..=most / GRAIN);
        Layout::from_size_align(size as usize, GRAIN as usize).expect("a size and a power of two")
    }

    fn carve_of_pool(&mut self) {
        let (nth, cx, layout) = (self.rng.usize(..CONTESTED), self.cx(), self.layout(2048));
        let Some(consumer) = &mut self.consumers[nth] else { return };
        match consumer.frag(&cx, layout) {
            Ok(fragment) => {
                self.did.fragments += 1;
                self.keep(Parcel::OfPool(fragment));
            }
            Err(why) => self.refused(&why),
        }
    }

    fn carve(&mut self) {
        let (cx, layout) = (self.cx(), self.layout(4096));
        match self.cache.alloc(&cx, layout) {
            Ok(fragment) => {
                self.did.fragments += 1;
                self.keep(Parcel::OfCache(fragment));
            }
            Err(why) => self.refused(&GetError::Alloc(why)),
        }
    }

    // Other threads.

    fn hand_over(&mut self) {
        let Some(parcel) = self.one() else { return };
        let mut waiting = self.shared.waiting.lock().expect("no thread panics while it has the lock");
        if waiting.len() < WAITING {
            waiting.push((self.me, parcel));
        } else {
            self.kept.push(parcel);
        }
    }

    fn take_over(&mut self) {
        let parcel = self.shared.waiting.lock().expect("no thread panics while it has the lock").pop();
        let Some((from, parcel)) = parcel else { return };
        parcel.each(|bytes| self.shared.record.gives(bytes, from, self.me));
        self.did.handed_over += 1;
        self.kept.push(parcel);
    }

    /// Makes the address of a page anybody's.
    fn contest(&mut self) {
        let Some(page) = self.one_page() else { return };
        let slot = &self.shared.contested[self.rng.usize(..4)];
        if self.nth(page.pool()) != CONTESTED || slot.load(Relaxed) != 0 {
            self.kept.push(Parcel::Page(page));
            return;
        }
        self.shared.record.gives(&bytes_of_page(&page), self.me, ANYBODY);
        self.did.contested += 1;
        // Where two threads do this at once, the address that is overwritten is out until the round ends.
        slot.store(page.into_raw().0, Relaxed);
    }

    /// Takes the same address back again and again, and lends it again.
    fn duel(&mut self) {
        let slot = &self.shared.contested[0];
        for _ in 0..DUEL {
            let at = slot.load(Relaxed);
            let taken = (at != 0).then(|| self.shared.pools[CONTESTED].take_raw(PhysAddr(at)));
            match taken {
                Some(Ok(page)) => {
                    let start = page.pfn().address().0;
                    let first = start..start + GRAIN;
                    self.shared.record.won(&first, self.me);
                    self.shared.record.gives(&first, self.me, ANYBODY);
                    slot.store(page.into_raw().0, Relaxed);
                    self.did.duels += 1;
                }
                Some(Err(_)) => self.did.lost += 1,
                None => std::hint::spin_loop(),
            }
        }
    }

    /// Takes back an address that is anybody's.
    fn take_back(&mut self) {
        let slot = &self.shared.contested[self.rng.usize(1..4)];
        let at = slot.load(Relaxed);
        if at == 0 {
            return;
        }
        // Half of them come late.
        if self.rng.bool() {
            self.give_back();
            std::thread::yield_now();
        }
        let taken = self.shared.pools[CONTESTED].take_raw(PhysAddr(at));
        let _ = slot.compare_exchange(at, 0, Relaxed, Relaxed);
        let Ok(page) = taken else {
            self.did.lost += 1;
            return;
        };
        self.shared.record.won(&bytes_of_page(&page), self.me);
        self.kept.push(Parcel::Page(page));
    }

    // Giving back.

    fn give_back(&mut self) {
        let Some(parcel) = self.one() else { return };
        let cx = self.cx();
        let how = self.rng.u8(..8);
        // A fragment that is dropped stays in use, so none is.
        let is_dropped = how == 0 && matches!(parcel, Parcel::Page(_) | Parcel::Batch(_));
        let to = if is_dropped { DROPPED } else { NOBODY };
        parcel.each(|bytes| self.shared.record.gives(bytes, self.me, to));
        match parcel {
            Parcel::Page(page) => self.give_page(&cx, page, how),
            Parcel::Batch(batch) => self.give_batch(&cx, batch, how),
            Parcel::OfPool(fragment) => self.give_fragment(&cx, fragment, how),
            Parcel::OfCache(fragment) if how < 4 => {
                let at = fragment.into_raw();
                self.shared.fragments.put_raw(&cx, at).expect("the fragment was in use");
            }
            Parcel::OfCache(fragment) => fragment.put(&cx).expect("the fragment was in use"),
        }
    }

    /// Returns which of the pools it is.
    fn nth(&self, pool: &Pool<'e, P>) -> usize {
        let it = self.shared.pools.iter().position(|other| std::ptr::eq(pool, other));
        it.expect("it is one of the storm's")
    }

    fn give_page(&mut self, cx: &Cx, page: Page<'p, 'e, P>, how: u8) {
        let nth = self.nth(page.pool());
        match (how, &mut self.consumers[nth]) {
            (0, _) => drop(page),
            (1..=3, Some(consumer)) => consumer.put(cx, page).expect("the page was its holder's"),
            (4, _) if nth != CONTESTED => {
                self.shared.pools[nth].put_raw(cx, page.into_raw()).expect("the address was out");
            }
            (5, _) => {
                let order = page.order();
                self.shared.yard.free(cx, page.release(), order).expect("the block was its holder's");
            }
            (6, _) if page.order() == Order::ZERO => {
                let whole = self.shared.fragments.whole(page.release(), Order::ZERO);
                whole.expect("a frame of the table").put(cx).expect("the fragment was in use");
            }
            _ => page.put(cx).expect("the page was its holder's"),
        }
    }

    fn give_batch(&mut self, cx: &Cx, mut batch: Batch<'p, 'e, P>, how: u8) {
        let nth = self.nth(batch.pool());
        match (how, &mut self.consumers[nth]) {
            (0, _) => drop(batch),
            (1..=3, Some(consumer)) => consumer.put_bulk(cx, batch).expect("the pages were their holder's"),
            (4, consumer) if nth != CONTESTED => {
                let raw: Vec<_> = std::iter::from_fn(|| batch.pop()).map(PoolPage::into_raw).collect();
                let mut wrong = |at, why| panic!("the address {at:?} was out: {why}");
                match consumer {
                    Some(consumer) => consumer.put_raw_bulk(cx, &raw, &mut wrong),
                    None => self.shared.pools[nth].put_raw_bulk(cx, &raw, &mut wrong),
                }
            }
            (5, _) => {
                while let Some(page) = batch.pop() {
                    page.put(cx).expect("the page was its holder's");
                }
            }
            _ => batch.put(cx).expect("the pages were their holder's"),
        }
    }

    fn give_fragment(&mut self, cx: &Cx, fragment: OfPool<'p, 'e, P>, how: u8) {
        let nth = usize::from(how) % CONTESTED;
        let refused = match &mut self.consumers[nth] {
            Some(consumer) if how < 4 => consumer.put_frag(cx, fragment),
            _ => fragment.put(cx),
        };
        // The other pool's consumer refuses it.
        if let Err(Refused { why, item }) = refused {
            assert_eq!(why, PutError::WrongOwner);
            item.put(cx).expect("the fragment was in use");
        }
    }

    // Wrong calls.

    fn call_wrongly(&mut self) {
        let (cx, pools) = (self.cx(), self.shared.pools);
        let outside = PhysAddr(Frames(MOST_FRAMES).as_bytes() + self.rng.u64(..1 << 30));
        assert!(pools[0].put_raw(&cx, outside).is_err() && pools[CONTESTED].take_raw(outside).is_err());
        // A page that a thread holds is out under no address.
        if let Some(page) = self.one_page() {
            let at = page.pfn().address();
            assert!(pools.iter().all(|pool| pool.put_raw(&cx, at).is_err()), "{page:?} is held");
            assert!(pools.iter().all(|pool| pool.take_raw(at).is_err()), "{page:?} is held");
            assert!(self.shared.fragments.put_raw(&cx, at).is_err(), "{page:?} is held");
            self.kept.push(Parcel::Page(page));
        }
        self.did.wrong += 1;
    }

    // Blocks of the engine's.

    fn take_block(&mut self) {
        let (cx, order) = (self.cx(), Order::of(self.rng.u8(..4)));
        if self.blocks.len() < KEPT
            && let Ok(pfn) = self.shared.yard.alloc(&cx, &Request::new(order, Migratetype::Movable))
        {
            self.shared.record.got(&bytes_of(pfn, order), self.me);
            self.blocks.push(BlockId { pfn, order });
        }
    }

    fn free_block(&mut self) {
        let cx = self.cx();
        if let Some(BlockId { pfn, order }) = self.blocks.pop() {
            self.shared.record.gives(&bytes_of(pfn, order), self.me, NOBODY);
            self.shared.yard.free(&cx, pfn, order).expect("the block was this thread's");
        }
    }
}

/// Runs it until the plan ends it.
///
/// # Panics
/// Where a rule is broken.
pub fn run<P: PerCpu>(plan: &Plan, variant: &Variant<'_, P>) -> Pools {
    let Make::Pageyard(percpu) = variant.make else { unreachable!("pools are over Pageyard's engine") };
    storm::rounds(plan, variant.name, |turn, total: &mut Pools| {
        let threads = variant.threads.unwrap_or(plan.threads);
        let cpus = if variant.naming == Naming::Own { threads } else { variant.cpus };
        let frames = FRAMES[turn.number as usize % FRAMES.len()];
        let yard = yard(Frames(frames), cpus, percpu());
        *total += round(&yard, variant, (threads, cpus), turn.seed);
        false
    })
}

fn yard<P: PerCpu>(frames: Frames, cpus: u32, percpu: P) -> Yard<P> {
    let regions = [Region::managed(Pfn(0), frames, NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).expect("one region is a map");
    let config = Config::new(cpus);
    let watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..config.watermark };
    Pageyard::owned(&map, Config { watermark, ..config }, percpu).expect("there is memory for metadata")
}

fn round<P: PerCpu>(
    yard: &Yard<P>,
    variant: &Variant<'_, P>,
    (threads, cpus): (u32, u32),
    seed: u64,
) -> Pools {
    let (yard, mut did) = (&**yard, Pools { rounds: 1, ..Pools::default() });
    let (enter, naming) = (variant.enter, variant.naming);
    {
        let table = UseTable::of(yard).expect("the engine has frames");
        let pools = POOLS.map(|(order, ring)| {
            let request = Request::new(Order::of(order), Migratetype::Unmovable);
            PagePool::owned(yard, &table, PoolConfig { request, ring }, ()).expect("a pool")
        });
        let fragments = FragPages::new(yard, &table, FragConfig::new()).expect("an owner of fragments");
        let shared = Shared {
            yard,
            cpus,
            pools: &pools,
            fragments: &fragments,
            record: Record::new(),
            waiting: Mutex::new(Vec::new()),
            contested: Default::default(),
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = (1..=threads)
                .map(|me| {
                    let shared = &shared;
                    scope.spawn(move || {
                        let _guard = enter();
                        Thread::new(shared, me, naming, seed).run()
                    })
                })
                .collect();
            let ended: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
            let each = ended.into_iter().map(|did| did.expect("no thread of the storm panics"));
            each.for_each(|one| did += one);
        });
        finish(shared, seed, &mut did);
    }
    yard.drain(CpuSet::All);
    let census = yard.audit().expect("the audit finds nothing wrong");
    assert_eq!(census.allocated, Frames::ZERO, "everything came back");
    assert_eq!(census.free + census.cached, census.managed, "no frame is lost");
    did
}

/// Gives back what waited, kills the consumers, and closes the pools.
fn finish<P: PerCpu>(shared: Shared<'_, '_, P>, seed: u64, did: &mut Pools) {
    let cx = Cx::on(CpuId(0));
    for (_, parcel) in shared.waiting.into_inner().expect("no thread panics while it has the lock") {
        match parcel {
            Parcel::Page(page) => page.put(&cx).expect("the page was its holder's"),
            Parcel::Batch(batch) => batch.put(&cx).expect("the pages were their holder's"),
            Parcel::OfPool(fragment) => fragment.put(&cx).expect("the fragment was in use"),
            Parcel::OfCache(fragment) => fragment.put(&cx).expect("the fragment was in use"),
        }
    }
    let mut rng = Rng::with_seed(seed);
    for pool in shared.pools {
        // Pages that the threads left under their addresses, and no page that a consumer carves.
        let mut left = Vec::new();
        pool.visit_in_use(&mut |at, _| left.push(at));
        left.into_iter().filter_map(|at| pool.take_raw(at).ok()).for_each(|page| {
            page.put(&cx).expect("the page was its holder's");
        });
        let mut consumer = pool.consumer().expect("every thread has ended");
        let lost =
            (0..rng.usize(..6)).filter(|_| consumer.get(&cx).map(std::mem::forget).is_ok()).count() as u64;
        std::mem::forget(consumer);
        // SAFETY: the former consumer was forgotten, on this thread.
        let mut heir = unsafe { pool.consumer_of_the_dead() }.expect("it has no consumer now");
        // SAFETY: no thread is left, so no one has a page, and nothing else runs.
        assert_eq!(unsafe { heir.recover(&cx) }, lost, "what the consumer had is found, and nothing else");
        did.recovered += lost;
        let stats = pool.stats();
        did.through_rings += stats.recycle_ring;
        did.rings_full += stats.recycle_ring_full;
        assert_eq!(heir.close(&cx), 0, "every page came back");
    }
}
