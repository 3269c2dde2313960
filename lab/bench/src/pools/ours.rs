//! The project's pools: pages of a pool, by themselves and by their addresses; fragments of blocks and of a pool's
//! pages; and the engine itself, asked for each buffer.

use super::pool::{Inside, Measured, Pool, forever};
use crate::harness::engines::{map_of, on, one_zone};
use crate::harness::noise::Skipped;
use pageyard::{CpuId, Cx, Migratetype, Order, PageAllocator, Pfn, PhysAddr, Request};
use pageyard_packets::{
    FragConfig, FragPages, Fragment, PageFrag, PagePool, PoolBatch, PoolConfig, PoolConsumer, PoolPage,
    UseTable,
};
use pageyard_replay::engine::{AnyEngine, Engine, Visit};
use std::alloc::Layout;

/// The memory that the engine manages, in frames: 1 GiB.
const MEMORY: u64 = 1 << 18;

/// Slots of a pool's ring: as many pages as a benchmark has on their way, and some.
const RING: u32 = 4096;

/// A packet of an Ethernet frame's size, with what a stack puts before and after it.
const BUFFER: Layout = match Layout::from_size_align(2048, 64) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

fn cx(cpu: usize) -> Cx {
    Cx::on(CpuId(cpu as u32))
}

/// Makes all of them, over the engine as this host runs it best.
pub(super) fn all(skipped: &mut Vec<Skipped>) -> Vec<Box<dyn Measured>> {
    let engine = Engine::on_this_host(pageyard::Config::new(2));
    match on(&engine, &map_of(&one_zone(MEMORY)), Visitor) {
        Ok(all) => all,
        Err(why) => {
            skipped.push(Skipped { allocator: "pageyard", why: why.to_string() });
            Vec::new()
        }
    }
}

struct Visitor;

impl Visit for Visitor {
    type Output = Vec<Box<dyn Measured>>;

    fn visit<E: AnyEngine>(self, engine: E) -> Vec<Box<dyn Measured>> {
        let engine = forever(engine);
        let table = match UseTable::of(engine) {
            Ok(table) => forever(table),
            Err(_) => return Vec::new(),
        };
        let config = PoolConfig { ring: RING, ..PoolConfig::new() };
        let pool = || PagePool::owned(engine, table, config, ()).ok();
        let pages = FragPages::new(engine, table, FragConfig::new());
        let (Some(one), Some(two), Ok(pages)) = (pool(), pool(), pages) else { return Vec::new() };
        let pools = forever([one, two]);
        vec![
            Box::new(Inside { name: "page-pool", pool: forever(Pages(pools)) }),
            Box::new(Inside { name: "page-pool-bulk", pool: forever(Batches(pools)) }),
            Box::new(Inside { name: "page-pool-raw", pool: forever(RawPages(pools)) }),
            Box::new(Inside { name: "page-pool-raw-bulk", pool: forever(RawBatches(pools)) }),
            Box::new(Inside { name: "page-pool-frag", pool: forever(PoolFragments(pools)) }),
            Box::new(Inside { name: "page-frag", pool: forever(Fragments(forever(pages))) }),
            Box::new(Inside { name: "pageyard", pool: forever(Frames(engine)) }),
        ]
    }
}

/// A pool for each CPU.
type Pools<E> = &'static [PagePool<'static, &'static E>; 2];

type Consumer<E> = PoolConsumer<'static, 'static, &'static E>;

/// Pages, each given back once by its type.
struct Pages<E: PageAllocator + 'static>(Pools<E>);

impl<E: AnyEngine> Pool for Pages<E> {
    type Buffer = PoolPage<'static, 'static, &'static E>;
    type User = Consumer<E>;

    fn user(&'static self, cpu: usize) -> Option<Consumer<E>> {
        self.0[cpu].consumer()
    }

    #[inline(always)]
    fn get(&'static self, user: &mut Consumer<E>, cpu: usize) -> Option<Self::Buffer> {
        user.get(&cx(cpu)).ok()
    }

    #[inline(always)]
    fn put(&'static self, user: &mut Consumer<E>, cpu: usize, buffer: Self::Buffer) {
        // What is refused here shows as a page that is missing.
        let _ = user.put(&cx(cpu), buffer);
    }

    #[inline(always)]
    fn put_across(&'static self, _: &mut Option<Consumer<E>>, cpu: usize, buffer: Self::Buffer) {
        let _ = buffer.put(&cx(cpu));
    }
}

/// The same in batches of 64.
struct Batches<E: PageAllocator + 'static>(Pools<E>);

impl<E: AnyEngine> Pool for Batches<E> {
    const AT_A_TIME: usize = PoolConfig::BATCH;

    type Buffer = PoolBatch<'static, 'static, &'static E>;
    type User = Consumer<E>;

    fn user(&'static self, cpu: usize) -> Option<Consumer<E>> {
        self.0[cpu].consumer()
    }

    #[inline(always)]
    fn get(&'static self, user: &mut Consumer<E>, cpu: usize) -> Option<Self::Buffer> {
        user.get_bulk(&cx(cpu), PoolConfig::BATCH).ok().filter(PoolBatch::is_full)
    }

    #[inline(always)]
    fn put(&'static self, user: &mut Consumer<E>, cpu: usize, buffer: Self::Buffer) {
        let _ = user.put_bulk(&cx(cpu), buffer);
    }

    #[inline(always)]
    fn put_across(&'static self, _: &mut Option<Consumer<E>>, cpu: usize, buffer: Self::Buffer) {
        let _ = buffer.put(&cx(cpu));
    }
}

/// The same by their addresses, as descriptors have them: each return is checked.
struct RawPages<E: PageAllocator + 'static>(Pools<E>);

impl<E: AnyEngine> Pool for RawPages<E> {
    type Buffer = PhysAddr;
    type User = Consumer<E>;

    fn user(&'static self, cpu: usize) -> Option<Consumer<E>> {
        self.0[cpu].consumer()
    }

    #[inline(always)]
    fn get(&'static self, user: &mut Consumer<E>, cpu: usize) -> Option<PhysAddr> {
        user.get(&cx(cpu)).ok().map(PoolPage::into_raw)
    }

    #[inline(always)]
    fn put(&'static self, user: &mut Consumer<E>, cpu: usize, buffer: PhysAddr) {
        let _ = user.put_raw(&cx(cpu), buffer);
    }

    #[inline(always)]
    fn put_across(&'static self, _: &mut Option<Consumer<E>>, cpu: usize, buffer: PhysAddr) {
        let _ = self.0[0].put_raw(&cx(cpu), buffer);
    }
}

/// The same in batches of 64, whose order stays as it was.
struct RawBatches<E: PageAllocator + 'static>(Pools<E>);

impl<E: AnyEngine> Pool for RawBatches<E> {
    const AT_A_TIME: usize = PoolConfig::BATCH;

    type Buffer = [PhysAddr; PoolConfig::BATCH];
    type User = Consumer<E>;

    fn user(&'static self, cpu: usize) -> Option<Consumer<E>> {
        self.0[cpu].consumer()
    }

    #[inline(always)]
    fn get(&'static self, user: &mut Consumer<E>, cpu: usize) -> Option<Self::Buffer> {
        let mut buffer = [PhysAddr(0); PoolConfig::BATCH];
        let got = user.get_raw_bulk(&cx(cpu), &mut buffer);
        (got == Ok(buffer.len())).then_some(buffer)
    }

    #[inline(always)]
    fn put(&'static self, user: &mut Consumer<E>, cpu: usize, buffer: Self::Buffer) {
        user.put_raw_bulk(&cx(cpu), &buffer, &mut |_, _| {});
    }

    #[inline(always)]
    fn put_across(&'static self, _: &mut Option<Consumer<E>>, cpu: usize, buffer: Self::Buffer) {
        self.0[0].put_raw_bulk(&cx(cpu), &buffer, &mut |_, _| {});
    }
}

/// Fragments of a pool's pages.
struct PoolFragments<E: PageAllocator + 'static>(Pools<E>);

impl<E: AnyEngine> Pool for PoolFragments<E> {
    type Buffer = Fragment<'static, PagePool<'static, &'static E>>;
    type User = Consumer<E>;

    fn user(&'static self, cpu: usize) -> Option<Consumer<E>> {
        self.0[cpu].consumer()
    }

    #[inline(always)]
    fn get(&'static self, user: &mut Consumer<E>, cpu: usize) -> Option<Self::Buffer> {
        user.frag(&cx(cpu), BUFFER).ok()
    }

    #[inline(always)]
    fn put(&'static self, user: &mut Consumer<E>, cpu: usize, buffer: Self::Buffer) {
        let _ = user.put_frag(&cx(cpu), buffer);
    }

    #[inline(always)]
    fn put_across(&'static self, _: &mut Option<Consumer<E>>, cpu: usize, buffer: Self::Buffer) {
        let _ = buffer.put(&cx(cpu));
    }
}

/// Fragments of the engine's blocks.
struct Fragments<E: PageAllocator + 'static>(&'static FragPages<'static, &'static E>);

impl<E: AnyEngine> Pool for Fragments<E> {
    type Buffer = Fragment<'static, FragPages<'static, &'static E>>;
    type User = PageFrag<'static, 'static, &'static E>;

    fn user(&'static self, _: usize) -> Option<Self::User> {
        Some(self.0.cache())
    }

    #[inline(always)]
    fn get(&'static self, user: &mut Self::User, cpu: usize) -> Option<Self::Buffer> {
        user.alloc(&cx(cpu), BUFFER).ok()
    }

    #[inline(always)]
    fn put(&'static self, _: &mut Self::User, cpu: usize, buffer: Self::Buffer) {
        let _ = buffer.put(&cx(cpu));
    }

    #[inline(always)]
    fn put_across(&'static self, _: &mut Option<Self::User>, cpu: usize, buffer: Self::Buffer) {
        let _ = buffer.put(&cx(cpu));
    }

    fn end(&'static self, user: &mut Self::User, cpu: usize) {
        user.drain(&cx(cpu));
    }
}

/// The engine's single frames.
struct Frames<E: PageAllocator + 'static>(&'static E);

impl<E: AnyEngine> Pool for Frames<E> {
    type Buffer = Pfn;
    type User = ();

    fn user(&'static self, _: usize) -> Option<()> {
        Some(())
    }

    #[inline(always)]
    fn get(&'static self, (): &mut (), cpu: usize) -> Option<Pfn> {
        self.0.alloc(&cx(cpu), &Request::new(Order::ZERO, Migratetype::Unmovable)).ok()
    }

    #[inline(always)]
    fn put(&'static self, (): &mut (), cpu: usize, buffer: Pfn) {
        let _ = self.0.free(&cx(cpu), buffer, Order::ZERO);
    }

    #[inline(always)]
    fn put_across(&'static self, _: &mut Option<()>, cpu: usize, buffer: Pfn) {
        let _ = self.0.free(&cx(cpu), buffer, Order::ZERO);
    }
}
