//! Pageyard's pools of pages: one for each queue, over one engine. The worker that receives from a queue is its pool's
//! consumer; frames come back to the consumer's cache from that worker, and through the pool's ring from any other.
//!
//! Everything lies in shared memory: the engine, the table of uses, the pools and their rings. A page goes through the
//! kernel's rings by its address, the raw form that a descriptor has room for: the pool notes that it is in use, and
//! checks that when it comes back.

use super::engine::{Engine, Yard, request};
use super::lines::Lines;
use super::{BATCH, Frames, Store, User};
use crate::board::Worker;
use crate::shared;
use pageyard::{CpuId, CpuSet, Cx, Metadata, Order, Pfn, PhysAddr};
use pageyard_packets::{PacketsError, PagePool, PoolConfig, PoolConsumer, UseTable, Values};
use std::io;
use std::ptr::NonNull;

type Pool = PagePool<'static, &'static Yard>;
type Consumer = PoolConsumer<'static, 'static, &'static Yard>;

/// Frames whose marks in the table of uses are one cache line.
const USES: usize = 64;
/// Slots in a cache line of a ring.
const SLOTS: u64 = 16;

/// The pools.
#[derive(Clone, Copy)]
pub struct Pools {
    engine: Engine,
    queues: u32,
    frames: u32,
    /// Whether pages are marked while they are out, and checked when they come back.
    checks: bool,
    /// The table of uses, and its memory.
    uses: NonNull<UseTable<'static>>,
    uses_memory: (NonNull<u8>, usize),
    /// The pools, by queue; and their rings, one behind the other.
    pools: NonNull<Pool>,
    rings: (NonNull<u8>, usize),
    /// Lines of the table of uses.
    lines: Lines,
}

fn refused(why: PacketsError) -> io::Error {
    io::Error::other(why.to_string())
}

impl Pools {
    /// Makes them for so many frames, over all queues; `checks`: pages are marked while they are out, and checked when
    /// they come back.
    ///
    /// # Errors
    /// Where there is no memory for them.
    pub fn new(frames: u32, queues: u32, checks: bool, counts: bool) -> io::Result<Pools> {
        let uses_bytes = UseTable::bytes(&Pools::range(frames), Values::None).map_err(refused)?;
        let ring_bytes = Pool::bytes(&Pools::config(frames)).map_err(refused)?;
        let pools = Pools {
            engine: Engine::new(frames, 2 * queues, false)?,
            queues,
            frames,
            checks,
            uses: shared::bytes(size_of::<UseTable<'static>>())?.cast(),
            uses_memory: (shared::bytes(uses_bytes)?, uses_bytes),
            pools: shared::bytes(queues as usize * size_of::<Pool>())?.cast(),
            rings: (shared::bytes(queues as usize * ring_bytes)?, ring_bytes),
            lines: Lines::new((frames as usize).div_ceil(USES), counts)?,
        };
        pools.make()?;
        Ok(pools)
    }

    fn range(frames: u32) -> std::ops::Range<Pfn> {
        Pfn(0)..Pfn(u64::from(frames))
    }

    /// A ring has room for every frame: what is given back never goes to the engine, unless a slot is missed.
    fn config(frames: u32) -> PoolConfig {
        PoolConfig { request: request(), ring: frames.next_power_of_two() }
    }

    /// Makes all of it anew, with every frame in the engine; no one uses it.
    fn make(&self) -> io::Result<()> {
        self.engine.make()?;
        let (at, bytes) = self.uses_memory;
        let uses =
            UseTable::new(Pools::range(self.frames), Values::None, fresh(at, bytes)).map_err(refused)?;
        // SAFETY: the memory is its own, aligned to a page, and mapped for good; the last one has nothing to drop.
        let uses: &'static UseTable<'static> = unsafe {
            self.uses.write(uses);
            self.uses.as_ref()
        };
        for queue in 0..self.queues as usize {
            let (at, bytes) = self.rings;
            // SAFETY: each queue has a ring's bytes there.
            let ring = fresh(unsafe { at.add(queue * bytes) }, bytes);
            let pool = Pool::new(self.engine.yard(), uses, Pools::config(self.frames), (), ring);
            // SAFETY: as above.
            unsafe { self.pools.add(queue).write(pool.map_err(refused)?) };
        }
        Ok(())
    }

    fn pool(&self, queue: u32) -> &'static Pool {
        // SAFETY: there are so many, `make` wrote them, and they stay mapped; a worker that holds on to one while it is
        // made anew stands still.
        unsafe { self.pools.add(queue as usize).as_ref() }
    }

    /// Returns a queue's consumer. There is no other now.
    fn consumer(&self, queue: u32) -> Option<Consumer> {
        // SAFETY: workers that stand still have dropped theirs, and of those that were killed nothing is left.
        unsafe { self.pool(queue).consumer_of_the_dead() }
    }

    /// Makes the frames that a queue has pages of its pool: for a moment no other frame is in the engine.
    fn adopt(&self, queue: u32, users: &[User]) {
        let others =
            || (0..).zip(users).filter(|(_, user)| **user != Some(queue)).map(|(frame, _)| Pfn(frame));
        others().filter(|frame| !self.is_out(*frame)).for_each(|frame| self.engine.claim(frame));
        let supervisor = self.engine.supervisor();
        if let Some(mut consumer) = self.consumer(queue) {
            while let Ok(page) = consumer.get(&supervisor) {
                // Kept by its address: the queue's rings have it.
                let _ = if self.checks { page.into_raw() } else { page.into_address() };
            }
        }
        for frame in others().filter(|frame| users[frame.0 as usize].is_none_or(|user| user > queue)) {
            let freed = self.engine.yard().free(&supervisor, frame, Order::ZERO);
            freed.expect("it was claimed above");
        }
        // What the supervisor's list has kept of them is for everybody.
        self.engine.yard().drain(CpuSet::All);
    }

    fn is_out(&self, frame: Pfn) -> bool {
        self.engine.yard().order_of(frame).is_some()
    }
}

/// Zeroes memory and lends it for good.
fn fresh(at: NonNull<u8>, bytes: usize) -> Metadata<'static> {
    // SAFETY: it is mapped for the rest of the program, and what lay there before is used no more.
    Metadata::zeroed(unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), bytes) })
}

impl Store for Pools {
    fn rebuild(&self, users: &[User]) {
        self.make().expect("it was made with this size before");
        (0..self.queues).for_each(|queue| self.adopt(queue, users));
        self.lines.reset();
    }

    fn drain(&self) -> Vec<Pfn> {
        for consumer in (0..self.queues).filter_map(|queue| self.consumer(queue)) {
            consumer.close(&self.engine.supervisor());
        }
        self.engine.drain()
    }

    fn open(&self, worker: Worker) -> Box<dyn Frames> {
        let pool = self.pool(worker.0 % self.queues);
        // One that takes completions gives frames back and takes none.
        let consumer = (worker.0 < self.queues).then(|| pool.consumer()).flatten();
        Box::new(Side {
            pool,
            consumer,
            cx: Cx::on(CpuId(worker.0)),
            checks: self.checks,
            worker,
            lines: self.lines,
        })
    }

    fn lines(&self) -> Option<u64> {
        // A slot's line goes to the worker that fills it and back to the one that empties it, and the ring's tail with
        // each batch.
        let through_rings: u64 = (0..self.queues).map(|queue| self.pool(queue).stats().recycle_ring).sum();
        self.lines.handed().map(|uses| uses + 2 * through_rings / SLOTS)
    }

    fn through_ring(&self) -> Option<f64> {
        let pools = (0..self.queues).map(|queue| self.pool(queue).stats());
        let (ring, cache) =
            pools.fold((0, 0), |sum, pool| (sum.0 + pool.recycle_ring, sum.1 + pool.recycle_cached));
        Some(ring as f64 / (ring + cache).max(1) as f64)
    }
}

/// A worker's side.
struct Side {
    pool: &'static Pool,
    consumer: Option<Consumer>,
    cx: Cx,
    checks: bool,
    worker: Worker,
    lines: Lines,
}

impl Side {
    #[inline]
    fn count(&self, frames: &[Pfn]) {
        // Without marks, no one touches the table.
        if self.lines.counts() && self.checks {
            frames.iter().for_each(|frame| self.lines.touch(self.worker, frame.0 as usize / USES));
        }
    }
}

impl Frames for Side {
    fn get(&mut self, out: &mut [Pfn]) -> usize {
        let Some(consumer) = &mut self.consumer else { return 0 };
        let got = if self.checks {
            let mut raw = [PhysAddr(0); BATCH];
            let got = consumer.get_raw_bulk(&self.cx, &mut raw[..out.len()]).unwrap_or(0);
            out.iter_mut().zip(&raw[..got]).for_each(|(frame, at)| *frame = at.pfn());
            got
        } else {
            let Ok(mut batch) = consumer.get_bulk(&self.cx, out.len()) else { return 0 };
            let (got, pages) = (batch.len(), std::iter::from_fn(|| batch.pop()));
            out.iter_mut().zip(pages).for_each(|(frame, page)| *frame = page.into_address().pfn());
            got
        };
        self.count(&out[..got]);
        got
    }

    fn put(&mut self, frames: &[Pfn]) {
        if self.checks {
            let mut raw = [PhysAddr(0); BATCH];
            let raw = &mut raw[..frames.len()];
            raw.iter_mut().zip(frames).for_each(|(at, frame)| *at = frame.address());
            // A page that is refused shows in the count of frames.
            let wrong = &mut |_, _| {};
            match &mut self.consumer {
                Some(consumer) => consumer.put_raw_bulk(&self.cx, raw, wrong),
                None => self.pool.put_raw_bulk(&self.cx, raw, wrong),
            }
        } else {
            let mut batch = self.pool.batch();
            for frame in frames {
                // SAFETY: the kernel hands each descriptor back once, and those that it had were made addresses in
                // `get` or by the supervisor.
                let page = unsafe { self.pool.from_address(frame.address()) };
                // At most a batch of them, all this pool's.
                let _ = batch.push(page);
            }
            // Pages that are refused show in the count of frames.
            let _ = match &mut self.consumer {
                Some(consumer) => consumer.put_bulk(&self.cx, batch),
                None => batch.put(&self.cx),
            };
        }
        self.count(frames);
    }
}
