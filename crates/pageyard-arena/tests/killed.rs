//! Processes that share an instance's metadata are killed while they use it. A repair then leaves a sound instance,
//! which has lost nothing.
//!
//! In each round some processes allocate, free, split, drain and compact, and write down in shared memory what they
//! own. One, two or three of them are killed, each at a moment of its own, while the others go on; those that are left
//! end. Then the instance is repaired, and used again in the next round.
//!
//! `PAGEYARD_KILLS=200 cargo test -p pageyard-arena --test killed -- --nocapture`

use pageyard::compaction::{Busy, CLUSTER, Migrate, MigrateError, Mode};
use pageyard::reclaim::{Reclaim, Reclaimed, Shortage};
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    AllocError, AuditError, Census, ClaimError, Config, CpuId, CpuSet, Cx, Drained, Frames, FreeError,
    MemoryMap, Metadata, Migratetype, NodeId, Order, PageAllocator, Pageyard, PcpStats, Pfn,
    PressureAllocator, Region, Request, RequestFlags, Stats, TryLock, ZoneId, ZoneKind, ZoneStats,
};
use pageyard_packets::{PagePool, PoolConfig, UseTable};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Rounds of each number of kills, unless the environment says another.
const ROUNDS: u64 = 25;
/// Processes of a round.
const PROCESSES: usize = 3;
const PAGEBLOCKS: u64 = 256;
const FRAMES: usize = PAGEBLOCKS as usize * 512;
const CPUS: u32 = 2;
/// Blocks that a process owns at most, movable frames aside.
const HELD: usize = 96;
/// Movable frames that it owns at most.
const MOVABLE: usize = 64;
/// Frames of a bulk call.
const BULK: usize = 48;
/// Frames that a killed call may lose until the repair: 16 pageblocks, as a drain takes them (`docs/design/bounds.md`).
const PROMISED: u64 = 16 << 9;

type Yard<'m> = Pageyard<'m, TryLock>;

/// The call a process is making, which bounds the frames that a kill may leave live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum Doing {
    One = 1,
    Bulk,
    Split,
    Compaction,
    Drain,
}

impl Doing {
    /// Returns how many blocks a call that is killed may leave live that no one owns.
    fn batch(code: u32) -> u64 {
        match code {
            c if c == Doing::Bulk as u32 => BULK as u64,
            // The frames that it has claimed for what it moves, and the one that it has moved and not freed.
            c if c == Doing::Compaction as u32 => 2 * CLUSTER as u64,
            // What a split leaves is its owner's in the books all the time.
            c if c == Doing::Drain as u32 || c == Doing::Split as u32 => 0,
            _ => 1,
        }
    }
}

/// A process's blocks and its calls.
#[repr(C)]
struct Process {
    doing: AtomicU32,
    calls: AtomicU64,
    /// The movable frames that it owns, plus one; with [`ISOLATED`] while one is being moved.
    movable: [AtomicU64; MOVABLE],
}

const ISOLATED: u64 = 1 << 63;

/// State that all processes share beside the metadata: the owner of each frame.
#[repr(C)]
struct Books {
    ends: AtomicU32,
    /// Frames that were handed out while somebody owned them.
    doubles: AtomicU64,
    processes: [Process; PROCESSES],
    /// For each frame its owner, plus one; 2^8 times its order, plus one, where a block begins; and 2^16 times its
    /// slot, plus one, where it can be moved.
    owners: [AtomicU32; FRAMES],
}

impl Books {
    fn enter(&self, (pfn, order): (Pfn, Order), owner: usize, slot: Option<usize>) {
        let mark = owner as u32 + 1;
        let first = mark | (u32::from(order.get()) + 1) << 8 | slot.map_or(0, |s| s as u32 + 1) << 16;
        for (n, frame) in self.owners[pfn.0 as usize..][..1 << order.get()].iter().enumerate() {
            let before = frame.swap(if n == 0 { first } else { mark }, SeqCst);
            self.doubles.fetch_add(u64::from(before != 0), SeqCst);
        }
    }

    /// Makes two blocks of order `half` of the one at `pfn`, whose frames are their owner's all the time.
    fn divide(&self, pfn: Pfn, half: Order, owner: usize) {
        let first = (owner as u32 + 1) | ((u32::from(half.get()) + 1) << 8);
        for at in [pfn + half.frames(), pfn] {
            self.owners[at.0 as usize].store(first, SeqCst);
        }
    }

    /// Strikes a block off, its first frame last.
    fn strike(&self, (pfn, order): (Pfn, Order)) {
        for frame in self.owners[pfn.0 as usize..][..1 << order.get()].iter().rev() {
            frame.store(0, SeqCst);
        }
    }
}

/// Moves what processes let be moved.
struct Mover<'b>(&'b Books);

impl Mover<'_> {
    fn slot(&self, pfn: Pfn) -> Option<&AtomicU64> {
        let entry = self.0.owners[pfn.0 as usize].load(SeqCst);
        let slot = (entry >> 16).checked_sub(1)? as usize;
        Some(&self.0.processes[(entry & 0xff) as usize - 1].movable[slot])
    }
}

// SAFETY: the books are the only references to the frames, and change before a frame is given back.
unsafe impl Migrate for Mover<'_> {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, _: Mode) -> Result<Pfn, Busy> {
        let slot = self.slot(pfn).ok_or(Busy::Pinned)?;
        let isolated = slot.compare_exchange(pfn.0 + 1, (pfn.0 + 1) | ISOLATED, SeqCst, SeqCst);
        isolated.map(|_| pfn).map_err(|_| Busy::Gone)
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, _: Mode) -> Result<(), MigrateError> {
        let (old, new) = (&self.0.owners[from.0 as usize], &self.0.owners[to.0 as usize]);
        let slot = self.slot(*from).ok_or(MigrateError::Gone)?;
        self.0.doubles.fetch_add(u64::from(new.swap(old.load(SeqCst), SeqCst) != 0), SeqCst);
        // Before its owner can free the new one.
        old.store(0, SeqCst);
        slot.store(to.0 + 1, SeqCst);
        Ok(())
    }

    fn putback(&self, pfn: Pfn) {
        if let Some(slot) = self.slot(pfn) {
            let _ = slot.compare_exchange((pfn.0 + 1) | ISOLATED, pfn.0 + 1, SeqCst, SeqCst);
        }
    }
}

impl Reclaim for Mover<'_> {
    fn reclaim(&self, _: &Cx, _: &Shortage) -> Reclaimed {
        Reclaimed::default()
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        Frames(0)
    }
}

/// Memory that child processes share with this one, all zero.
struct Shared {
    at: *mut u8,
    bytes: usize,
}

impl Shared {
    fn new(bytes: usize) -> Shared {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping of its own.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Shared { at: at.cast(), bytes }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it is this mapping, and nothing that was lent of it is used any more.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

/// A process that uses the instance until it is told to end, or killed.
struct Worker<'b, 'm> {
    yard: &'b Yard<'m>,
    books: &'b Books,
    me: usize,
    rng: fastrand::Rng,
    held: [(Pfn, Order); HELD],
    len: usize,
}

impl Worker<'_, '_> {
    fn own(&self) -> &Process {
        &self.books.processes[self.me]
    }

    fn does(&self, what: Doing) {
        self.own().doing.store(what as u32, SeqCst);
    }

    fn keep(&mut self, block: (Pfn, Order)) {
        self.books.enter(block, self.me, None);
        self.held[self.len] = block;
        self.len += 1;
    }

    fn take_any(&mut self) -> (Pfn, Order) {
        let at = self.rng.usize(..self.len);
        self.len -= 1;
        self.held.swap(at, self.len);
        self.held[self.len]
    }

    fn work(&mut self) {
        while self.books.ends.load(SeqCst) == 0 {
            let cx = Cx::on(CpuId(self.rng.u32(..CPUS)));
            match self.rng.u32(..64) {
                0..24 => self.allocate(&cx),
                24..44 => self.free(&cx),
                44..48 => self.allocate_many(&cx),
                48..52 => self.free_many(&cx),
                52..56 => self.allocate_movable(&cx),
                56..59 => self.free_movable(&cx),
                59..61 => self.split(&cx),
                61 | 62 => {
                    self.does(Doing::Drain);
                    self.yard.drain(CpuSet::All);
                }
                _ => {
                    self.does(Doing::Compaction);
                    let _ = self.yard.compact_zone_with(&cx, ZoneId(0), &Mover(self.books));
                }
            }
            self.own().calls.fetch_add(1, SeqCst);
        }
    }

    fn allocate(&mut self, cx: &Cx) {
        let order = Order::of([0, 0, 0, 0, 1, 2, 3, 4, 6, 7, 8, 9, 10][self.rng.usize(..13)]);
        let request = Request::new(order, Migratetype::REQUESTED[self.rng.usize(..3)]);
        self.does(Doing::One);
        if self.len < HELD
            && let Ok(pfn) = self.yard.alloc(cx, &request)
        {
            self.keep((pfn, order));
        }
    }

    fn free(&mut self, cx: &Cx) {
        if self.len > 0 {
            let block = self.take_any();
            self.does(Doing::One);
            self.books.strike(block);
            let freed = self.yard.free(cx, block.0, block.1);
            self.books.doubles.fetch_add(u64::from(freed.is_err()), SeqCst);
        }
    }

    fn allocate_many(&mut self, cx: &Cx) {
        let mut pfns = [Pfn(0); BULK];
        let room = BULK.min(HELD - self.len);
        self.does(Doing::Bulk);
        let request = Request::new(Order::ZERO, Migratetype::Movable);
        let got = self.yard.alloc_bulk(cx, &request, &mut pfns[..room]);
        pfns[..got].iter().for_each(|pfn| self.keep((*pfn, Order::ZERO)));
    }

    fn free_many(&mut self, cx: &Cx) {
        let (mut pfns, mut n) = ([Pfn(0); BULK], 0);
        let mut at = 0;
        self.does(Doing::Bulk);
        while at < self.len && n < BULK {
            if self.held[at].1 == Order::ZERO {
                self.len -= 1;
                self.held.swap(at, self.len);
                (pfns[n], n) = (self.held[self.len].0, n + 1);
                self.books.strike(self.held[self.len]);
            } else {
                at += 1;
            }
        }
        let doubles = &self.books.doubles;
        self.yard.free_bulk(cx, &pfns[..n], Order::ZERO, &mut |_, _| {
            doubles.fetch_add(1, SeqCst);
        });
    }

    fn allocate_movable(&mut self, cx: &Cx) {
        let slot = self.rng.usize(..MOVABLE);
        self.does(Doing::One);
        if self.own().movable[slot].load(SeqCst) == 0
            && let Ok(pfn) = self.yard.alloc(cx, &Request::new(Order::ZERO, Migratetype::Movable))
        {
            self.books.enter((pfn, Order::ZERO), self.me, Some(slot));
            self.own().movable[slot].store(pfn.0 + 1, SeqCst);
        }
    }

    fn free_movable(&mut self, cx: &Cx) {
        let nth = self.rng.usize(..MOVABLE);
        let slot = &self.own().movable[nth];
        let pfn = slot.load(SeqCst);
        self.does(Doing::One);
        if pfn != 0 && pfn & ISOLATED == 0 && slot.compare_exchange(pfn, 0, SeqCst, SeqCst).is_ok() {
            self.books.strike((Pfn(pfn - 1), Order::ZERO));
            let freed = self.yard.free(cx, Pfn(pfn - 1), Order::ZERO);
            self.books.doubles.fetch_add(u64::from(freed.is_err()), SeqCst);
        }
    }

    /// Splits a block in two, which stay its own.
    fn split(&mut self, cx: &Cx) {
        if self.len == 0 || self.len == HELD {
            return;
        }
        let (pfn, order) = self.take_any();
        let Some(half) = order.smaller() else { return self.put_back((pfn, order)) };
        self.does(Doing::Split);
        let split = self.yard.split(cx, pfn, order, half);
        self.books.doubles.fetch_add(u64::from(split.is_err()), SeqCst);
        self.books.divide(pfn, half, self.me);
        self.put_back((pfn, half));
        self.put_back((pfn + half.frames(), half));
    }

    fn put_back(&mut self, block: (Pfn, Order)) {
        self.held[self.len] = block;
        self.len += 1;
    }
}

/// Forks a process that works.
fn fork(yard: &Yard<'_>, books: &Books, me: usize, seed: u64) -> libc::pid_t {
    let mut worker = Worker {
        yard,
        books,
        me,
        rng: fastrand::Rng::with_seed(seed),
        held: [(Pfn(0), Order::ZERO); HELD],
        len: 0,
    };
    // SAFETY: the child allocates nothing, takes no lock, and leaves by `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: it sets one flag of the calling process.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            worker.work();
            // SAFETY: it ends the process without what the parent does at its own end.
            unsafe { libc::_exit(0) }
        }
        pid => {
            assert!(pid > 0, "a process can be forked");
            pid
        }
    }
}

fn wait_for(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: it is a child of this process, which no one else waits for.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

/// The totals over the rounds.
#[derive(Default, Debug)]
struct Sum {
    rounds: u64,
    calls: u64,
    /// The inconsistencies that audits found before the repair.
    faults: BTreeMap<&'static str, u64>,
    lost: u64,
    most_lost: u64,
    orphans: u64,
    most_orphans: u64,
    cached: u64,
}

/// Runs a round: processes that work, of which some are killed, and a repair.
fn round(yard: &Yard<'_>, books: &Books, kills: usize, seed: u64, sum: &mut Sum) {
    let mut rng = fastrand::Rng::with_seed(seed);
    books.ends.store(0, SeqCst);
    books.owners.iter().for_each(|owner| owner.store(0, SeqCst));
    for process in &books.processes {
        process.calls.store(0, SeqCst);
        process.doing.store(0, SeqCst);
        process.movable.iter().for_each(|slot| slot.store(0, SeqCst));
    }
    let pids: Vec<_> = (0..PROCESSES).map(|me| fork(yard, books, me, rng.u64(..))).collect();
    while books.processes.iter().any(|p| p.calls.load(SeqCst) < 50) {
        std::thread::sleep(Duration::from_micros(50));
    }
    for pid in &pids[..kills] {
        std::thread::sleep(Duration::from_nanos(rng.u64(..1_000_000)));
        // SAFETY: it is a child of this process that has not been waited for.
        assert_eq!(unsafe { libc::kill(*pid, libc::SIGKILL) }, 0);
        assert!(libc::WIFSIGNALED(wait_for(*pid)));
    }
    std::thread::sleep(Duration::from_micros(200));
    books.ends.store(1, SeqCst);
    for pid in &pids[kills..] {
        let status = wait_for(*pid);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "seed {seed}: {status:#x}");
    }
    judge(yard, books, kills, seed, sum);
}

/// Repairs the instance, and checks that it is sound, that it has lost nothing, and that what is live is somebody's, or
/// in the hands of a call that was killed.
fn judge(yard: &Yard<'_>, books: &Books, kills: usize, seed: u64, sum: &mut Sum) {
    let when = format!("{kills} kills, seed {seed:#x}");
    assert_eq!(books.doubles.load(SeqCst), 0, "{when}: frames with two owners");
    if let Err(fault) = yard.audit() {
        *sum.faults.entry(fault.what).or_default() += 1;
    }
    let mut live = Vec::new();
    // SAFETY: the processes that used the instance have ended.
    let repaired = unsafe { yard.repair(|pfn, order| live.push((pfn, order))) };
    let census = yard.audit().unwrap_or_else(|fault| panic!("{when}, after the repair: {fault}"));
    assert!(census.is_conserved() && census.cached == Frames(0), "{when}: {census:?}");
    assert_eq!(census.free + census.allocated, Frames(FRAMES as u64), "{when}");
    let owned = |pfn: Pfn| books.owners[pfn.0 as usize].load(SeqCst) != 0;
    let orphans = live.iter().filter(|(pfn, _)| !owned(*pfn)).count() as u64;
    let may = books.processes[..kills].iter().map(|p| Doing::batch(p.doing.load(SeqCst))).sum::<u64>();
    assert!(orphans <= may, "{when}: {orphans} blocks are live that no one owns, {may} may be");
    check_owned(books, &live, kills, &when);
    assert!(repaired.lost.0 <= PROMISED * kills as u64, "{when}: {repaired:?}");
    for (pfn, order) in live {
        yard.free(&Cx::on(CpuId(0)), pfn, order)
            .unwrap_or_else(|why| panic!("{when}: {pfn}, {order:?}: {why}"));
    }
    yard.drain(CpuSet::All);
    let census = yard.audit().unwrap_or_else(|fault| panic!("{when}, after all was freed: {fault}"));
    assert_eq!(census.free, Frames(FRAMES as u64), "{when}: all of it can be allocated");
    let request = Request::new(Order::of(9), Migratetype::Movable)
        .with(RequestFlags::NON_BLOCKING | RequestFlags::MEMALLOC);
    let all = || yard.alloc(&Cx::on(CpuId(1)), &request).ok();
    let pageblocks: Vec<_> = std::iter::from_fn(all).collect();
    assert_eq!(pageblocks.len() as u64, PAGEBLOCKS, "{when}: every pageblock is found at once");
    pageblocks.into_iter().for_each(|pfn| yard.free(&Cx::on(CpuId(1)), pfn, Order::of(9)).unwrap());
    sum.rounds += 1;
    sum.calls += books.processes.iter().map(|p| p.calls.load(SeqCst)).sum::<u64>();
    sum.lost += repaired.lost.0;
    sum.most_lost = sum.most_lost.max(repaired.lost.0);
    sum.orphans += orphans;
    sum.most_orphans = sum.most_orphans.max(orphans);
    sum.cached += repaired.cached.0;
}

/// Checks that every block in the books is live, unless the call of a killed process was splitting it.
fn check_owned(books: &Books, live: &[(Pfn, Order)], kills: usize, when: &str) {
    let splits = books.processes[..kills].iter().filter(|p| p.doing.load(SeqCst) == Doing::Split as u32);
    let is_live = |pfn: u64| live.binary_search_by_key(&pfn, |(pfn, _)| pfn.0).is_ok();
    let entries = books.owners.iter().map(|owner| owner.load(SeqCst)).enumerate();
    let gone = entries.filter(|(at, entry)| entry >> 8 & 0xff != 0 && !is_live(*at as u64)).count();
    assert!(gone <= splits.count(), "{when}: {gone} blocks are owned and not live");
}

/// An allocator in whose `free` a thread dies once, before it reaches the instance or after it has left it.
struct Kills<'a> {
    yard: &'a Yard<'a>,
    dies: &'a AtomicU32,
}

/// When the next thread dies that frees a page: never, before, or after.
const NEVER: u32 = 0;
const BEFORE: u32 = 1;
const AFTER: u32 = 2;

impl Kills<'_> {
    /// Ends the calling thread at once, as a kill would, if it is to die now.
    fn die_if(&self, when: u32) {
        if self.dies.compare_exchange(when, NEVER, SeqCst, SeqCst).is_ok() {
            // SAFETY: it ends the thread, whose stack stays as it is: nothing that lies there is used by another.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
    }
}

// SAFETY: every call is the instance's.
unsafe impl PageAllocator for Kills<'_> {
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        self.yard.alloc(cx, request)
    }

    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.die_if(BEFORE);
        let freed = self.yard.free(cx, pfn, order);
        self.die_if(AFTER);
        freed
    }

    fn split(&self, cx: &Cx, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        self.yard.split(cx, pfn, from, to)
    }

    fn claim_exact(&self, cx: &Cx, pfn: Pfn, order: Order, ty: Migratetype) -> Result<(), ClaimError> {
        self.yard.claim_exact(cx, pfn, order, ty)
    }

    fn order_of(&self, pfn: Pfn) -> Option<Order> {
        self.yard.order_of(pfn)
    }

    fn drain(&self, cpus: CpuSet) -> Drained {
        self.yard.drain(cpus)
    }

    fn stats(&self) -> Stats {
        self.yard.stats()
    }

    fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        self.yard.zone_stats(zone)
    }

    fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        self.yard.pcp_stats(zone, cpu)
    }

    fn audit(&self) -> Result<Census, AuditError> {
        self.yard.audit()
    }
}

#[test]
fn a_page_whose_thread_is_killed_while_it_gives_it_to_the_allocator_is_recovered() {
    static DIES: AtomicU32 = AtomicU32::new(NEVER);
    for (when, found) in [(BEFORE, 1), (AFTER, 0)] {
        let regions = [Region::managed(Pfn(0), Frames(4096), NodeId(0), ZoneKind::Normal)];
        let map = MemoryMap::new(&regions).unwrap();
        // What a killed thread had on its stack is never given up.
        let yard = &*Box::leak(Box::new(Pageyard::owned(&map, Config::new(2), TryLock).unwrap()));
        let table = &*Box::leak(Box::new(UseTable::of(yard).unwrap()));
        let config = PoolConfig { ring: 1, ..PoolConfig::new() };
        let pool = PagePool::owned(Kills { yard, dies: &DIES }, table, config, ()).unwrap();
        let pool = &*Box::leak(Box::new(pool));
        let (here, there) = (Cx::on(CpuId(0)), Cx::on(CpuId(1)));
        let mut consumer = pool.consumer().unwrap();
        let (fills, last) = (consumer.get(&here).unwrap(), consumer.get(&here).unwrap());
        fills.put(&here).unwrap();
        let page = last.pfn();
        DIES.store(when, SeqCst);
        std::mem::forget(std::thread::spawn(move || last.put(&there)));
        while DIES.load(SeqCst) != NEVER {
            std::thread::yield_now();
        }
        // It has one instruction to go.
        std::thread::sleep(Duration::from_millis(50));
        let mut leaving = Vec::new();
        pool.visit_leaving(&mut |pfn| leaving.push(pfn));
        assert_eq!(leaving, [page]);
        assert_eq!(yard.order_of(page).is_some(), when == BEFORE);
        // SAFETY: no other thread uses the pool or the allocator any more.
        assert_eq!(unsafe { consumer.recover(&here) }, found);
        pool.visit_leaving(&mut |pfn| panic!("{pfn} has left"));
        assert_eq!(consumer.close(&here), 0, "no page is still out");
        yard.drain(CpuSet::All);
        assert_eq!(yard.audit().unwrap().allocated, Frames(0));
    }
}

fn kill_processes(kills: usize) {
    let rounds = std::env::var("PAGEYARD_KILLS").map_or(ROUNDS, |n| n.parse().unwrap());
    let regions = [Region::managed(Pfn(0), Frames(FRAMES as u64), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).unwrap();
    let watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..WatermarkKnobs::default() };
    // Lists so large that as many frames move at a time as ever do.
    let config = Config { watermark, percpu_pagelist_high_fraction: 8, ..Config::new(CPUS) };
    let bytes = Pageyard::<TryLock>::layout(&map, &config).unwrap().layout.size();
    let (memory, of_books) = (Shared::new(bytes), Shared::new(size_of::<Books>()));
    // SAFETY: 1. The mappings are that large, zero, and aligned to pages; zero is a value of every part of the books.
    //         2. They outlive what is made of them here, and in each child, which has the same mappings.
    let (metadata, books) = unsafe {
        let memory = std::slice::from_raw_parts_mut(memory.at, memory.bytes);
        (Metadata::assume_zeroed(memory), &*of_books.at.cast::<Books>())
    };
    let yard = Pageyard::new(&map, config, TryLock, metadata).unwrap();
    let mut sum = Sum::default();
    for n in 0..rounds {
        round(&yard, books, kills, (kills as u64) << 32 | n, &mut sum);
    }
    println!("{kills} kills: {sum:?}");
}

#[test]
fn one_process_is_killed() {
    kill_processes(1);
}

#[test]
fn two_processes_are_killed() {
    kill_processes(2);
}

#[test]
fn all_three_processes_are_killed() {
    kill_processes(3);
}
