//! Packet buffers: fragments and pools of two allocators that share nothing, and addresses of anything.

use super::draw::Draw;
use super::engine::{conserved, made, single};
use pageyard::{Cx, Pageyard, Pfn, PhysAddr, TryLock};
use pageyard_packets::{
    FragConfig, FragPages, Fragment, PagePool, PoolBatch, PoolConfig, PoolPage, UseTable, Values,
};
use std::alloc::Layout;

type Yard = Pageyard<'static, TryLock>;
type Frags<'t, 'y> = FragPages<'t, &'y Yard>;

/// The pages and fragments held. Each is used once, except through its address.
#[derive(Default)]
struct Held<'o, 't, 'y> {
    fragments: Vec<Fragment<'o, Frags<'t, 'y>>>,
    pages: Vec<PoolPage<'o, 't, &'y Yard, ()>>,
    batches: Vec<PoolBatch<'o, 't, &'y Yard, ()>>,
    /// Addresses of things that are in use, or were.
    addresses: Vec<PhysAddr>,
}

/// Makes the calls of fragments and pools.
///
/// # Panics
/// Where a call does, or the allocator lost a frame.
pub fn pools(bytes: &[u8]) {
    let mut draw = Draw::new(bytes, 8 * 512);
    let (yard, other) = (made(true), made(true));
    let (yard, other): (&Yard, &Yard) = (&yard, &other);
    {
        // The table lacks the last pageblock, and another has frames that there are not.
        let table = UseTable::owned(Pfn(0)..Pfn(7 * 512), Values::Kept).expect("a table");
        let wide = UseTable::owned(Pfn(100)..Pfn(1 << 16), Values::None).expect("a table");
        calls(&mut draw, yard, other, [&table, &wide]);
    }
    conserved(yard);
    conserved(other);
}

fn calls(draw: &mut Draw<'_>, yard: &Yard, other: &Yard, tables: [&UseTable<'static>; 2]) {
    made_of_anything(draw, yard);
    let mut request = single();
    request.order = draw.order();
    let config = FragConfig { request };
    let Ok(frags) = FragPages::new(yard, tables[0], config) else { return };
    let Ok(others) = FragPages::new(other, tables[1], FragConfig::new()) else { return };
    let config = PoolConfig { request, ring: 1 << (draw.byte() % 4) };
    let Ok(pool) = PagePool::owned(yard, tables[0], config, ()) else { return };
    let (mut cache, mut foreign) = (frags.cache(), others.cache());
    let mut consumer = pool.consumer().expect("the first");
    assert!(pool.consumer().is_none());
    let mut held = Held::default();
    while !draw.is_empty() {
        let (cx, at) = (draw.cx(), address(draw, &held.addresses));
        let layout = layout(draw);
        match draw.byte() % 19 {
            0 | 1 => {
                draw.call(("PageFrag::alloc", cx, layout));
                let cache = if draw.flag() { &mut cache } else { &mut foreign };
                if let Ok(fragment) = cache.alloc(&cx, layout) {
                    held.addresses.push(fragment.address());
                    held.fragments.push(fragment);
                }
            }
            2 => give(draw, &cx, &mut held.fragments, |cx, fragment| match fragment.put(cx) {
                Ok(()) => None,
                Err(refused) => Some(refused.item),
            }),
            3 => {
                draw.call(("FragPages::put_raw", cx, at));
                let _ = if draw.flag() { frags.put_raw(&cx, at) } else { others.put_raw(&cx, at) };
            }
            4 => {
                draw.call(("FragPages::whole", at, request.order));
                let order = draw.order();
                held.fragments.extend(frags.whole(at.pfn(), order));
                let _ = (frags.uses_of(draw.pfn()), others.uses_of(draw.pfn()));
            }
            5 => {
                draw.call(("PageFrag::drain", cx));
                cache.drain(&cx);
                foreign.drain(&cx);
            }
            6 | 7 => {
                draw.call(("PoolConsumer::get", cx));
                if let Ok(page) = consumer.get(&cx) {
                    held.addresses.push(page.pfn().address());
                    held.pages.push(page);
                }
            }
            8 => give(draw, &cx, &mut held.pages, |cx, page| match page.put(cx) {
                Ok(()) => None,
                Err(refused) => Some(refused.item),
            }),
            9 => give(draw, &cx, &mut held.pages, |cx, page| match consumer.put(cx, page) {
                Ok(()) => None,
                Err(refused) => Some(refused.item),
            }),
            10 => {
                draw.call(("put_raw of a pool", cx, at));
                let _ = if draw.flag() { pool.put_raw(&cx, at) } else { consumer.put_raw(&cx, at) };
            }
            11 => {
                draw.call(("PoolConsumer::frag, put_frag", cx, layout));
                if let Ok(fragment) = consumer.frag(&cx, layout) {
                    held.addresses.push(fragment.address());
                    let _ = consumer.put_frag(&cx, fragment);
                }
            }
            12 => {
                draw.call("PoolConsumer::get_bulk");
                if let Ok(batch) = consumer.get_bulk(&cx, usize::from(draw.byte())) {
                    held.addresses.extend(batch.pfns().map(Pfn::address));
                    held.batches.push(batch);
                }
            }
            13 => give(draw, &cx, &mut held.batches, |cx, batch| match batch.put(cx) {
                Ok(()) => None,
                Err(refused) => Some(refused.item),
            }),
            14 => give(draw, &cx, &mut held.batches, |cx, batch| match consumer.put_bulk(cx, batch) {
                Ok(()) => None,
                Err(refused) => Some(refused.item),
            }),
            15 => {
                draw.call(("PagePool::put_raw_bulk, take_raw", cx, at));
                pool.put_raw_bulk(&cx, &[at, at, PhysAddr(!at.0)], &mut |_, _| ());
                held.pages.extend(pool.take_raw(at));
            }
            16 => {
                draw.call("PoolBatch::pop, push");
                let (mut one, mut two) = (held.batches.pop(), held.batches.pop());
                if let (Some(one), Some(two)) = (&mut one, &mut two)
                    && let Some(page) = one.pop()
                {
                    held.pages.extend(two.push(page).err());
                }
                held.batches.extend(one.into_iter().chain(two));
            }
            17 => {
                draw.call("drop");
                if draw.flag() { drop(held.pages.pop()) } else { drop(held.batches.pop()) }
            }
            18 => {
                draw.call("reports");
                let _ = (pool.pages(), pool.stats(), pool.is_closed());
                pool.visit_in_use(&mut |_, _| ());
            }
            _ => {
                // It leaves its pool, and is the allocator's to take back.
                if let Some(page) = held.pages.pop() {
                    let order = page.order();
                    let pfn = page.release();
                    draw.call(("PoolPage::release, free", cx, pfn, order));
                    let _ = yard.free(&cx, pfn, order);
                }
            }
        }
    }
    draw.call("close");
    cache.drain(&Cx::on(pageyard::CpuId(0)));
    consumer.close(&draw.cx());
}

/// Gives one of several things back; keeps what is refused.
fn give<T>(draw: &mut Draw<'_>, cx: &Cx, held: &mut Vec<T>, put: impl FnOnce(&Cx, T) -> Option<T>) {
    if !held.is_empty() {
        let nth = usize::from(draw.byte()) % held.len();
        draw.call(("put", cx, nth));
        let one = held.swap_remove(nth);
        held.extend(put(cx, one));
    }
}

fn address(draw: &mut Draw<'_>, known: &[PhysAddr]) -> PhysAddr {
    match known.len() {
        n if n > 0 && draw.byte() < 180 => known[usize::from(draw.byte()) % n],
        _ => PhysAddr(draw.number(8 * 512).wrapping_mul(4096).wrapping_add(u64::from(draw.byte()))),
    }
}

fn layout(draw: &mut Draw<'_>) -> Layout {
    let (bytes, align) = (draw.number(9000), 1_usize << (draw.byte() % 63));
    Layout::from_size_align(bytes as usize, align).unwrap_or(Layout::new::<[u8; 1664]>())
}

/// Tables and pools of any size, which are values or errors.
fn made_of_anything(draw: &mut Draw<'_>, yard: &Yard) {
    let (range, order, ring) = (draw.pfn()..draw.pfn(), draw.order(), draw.number(4096) as u32);
    draw.call(("UseTable, PagePool of", &range, order, ring));
    let _ = UseTable::bytes(&range, Values::Kept);
    if range.end.0.saturating_sub(range.start.0) < 1 << 20
        && let Ok(table) = UseTable::owned(range, Values::Kept)
    {
        let mut config = PoolConfig { ring, ..PoolConfig::new() };
        config.request.order = order;
        if let Ok(pool) = PagePool::owned(yard, &table, config, ())
            && let Some(mut consumer) = pool.consumer()
        {
            let cx = draw.cx();
            if let Ok(page) = consumer.get(&cx) {
                let _ = page.put(&cx);
            }
            consumer.close(&Cx::on(pageyard::CpuId(0)));
        }
    }
}
