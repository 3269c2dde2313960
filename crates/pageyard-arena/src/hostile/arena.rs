//! Blocks, pages and handles of two arenas: what one writes, no other reads.

use super::draw::Draw;
use crate::arena::{Arena, Block, Blocks, Pages};
use crate::backing::{Backing, Mapping, PageSize};
use crate::clear::{Clearer, Primitive};
use crate::handle::Handle;
use crate::purge::PurgeLimits;
use pageyard::{Frames, PAGE_SIZE, TryLock};

type Locked = Arena<TryLock>;

/// Bytes of an arena.
const BYTES: usize = 4 << 20;

/// Bytes with one owner, and what the owner wrote into each frame.
enum Owned<'a> {
    Block(Block<&'a Arena<TryLock>>),
    Blocks(Blocks<&'a Arena<TryLock>>),
    Pages(Pages<&'a Arena<TryLock>>),
    Handle(Handle<&'a Arena<TryLock>>),
}

impl Owned<'_> {
    /// Calls `each` with the bytes of each part.
    fn each(&mut self, each: &mut dyn FnMut(&mut [u8])) {
        match self {
            Owned::Block(block) => each(block),
            Owned::Blocks(blocks) => blocks.iter_mut().for_each(each),
            Owned::Pages(pages) => each(pages),
            Owned::Handle(handle) => each(&mut handle.pin_mut()),
        }
    }

    fn write(&mut self, stamp: u64) {
        self.each(&mut |bytes| {
            for frame in bytes.chunks_exact_mut(PAGE_SIZE as usize) {
                frame[..8].copy_from_slice(&stamp.to_ne_bytes());
                frame[PAGE_SIZE as usize - 8..].copy_from_slice(&stamp.to_ne_bytes());
            }
        });
    }

    /// # Panics
    /// Where another owner wrote to it.
    fn check(&mut self, stamp: u64) {
        self.each(&mut |bytes| {
            for frame in bytes.chunks_exact(PAGE_SIZE as usize) {
                let ends = [&frame[..8], &frame[PAGE_SIZE as usize - 8..]];
                assert!(ends.iter().all(|end| **end == stamp.to_ne_bytes()), "a frame has two owners");
            }
        });
    }
}

/// The blocks that are held, each with its stamp.
type Held<'a> = Vec<(u64, Owned<'a>)>;

/// Makes the calls of arenas.
///
/// # Panics
/// Where a call does, a frame is lost or has two owners, or zeros are none.
pub fn arena(bytes: &[u8]) {
    let mut draw = Draw::new(bytes, BYTES as u64 / PAGE_SIZE);
    let (first, second) = (made(&mut draw), made(&mut draw));
    {
        let (mut held, mut stamp) = (Held::new(), 0);
        while !draw.is_empty() {
            let (arena, other) = if draw.flag() { (&first, &second) } else { (&second, &first) };
            match draw.byte() % 3 {
                0 | 1 => owners(arena, other, &mut draw, &mut held, &mut stamp),
                _ => memory(arena, &mut draw),
            }
        }
        held.iter_mut().for_each(|(stamp, owned)| owned.check(*stamp));
    }
    for arena in [first, second] {
        let census = arena.audit().unwrap_or_else(|why| panic!("{why}"));
        assert!(census.is_conserved() && census.allocated == Frames(0), "{census:?}");
    }
}

fn made(draw: &mut Draw<'_>) -> Locked {
    let clearer = Clearer::only(Primitive::Memset).expect("every processor has it");
    let builder = Arena::builder().clearer(clearer);
    let written = || {
        let mut mapping = Mapping::new(BYTES, Backing::AnonymousBase).expect("memory");
        mapping.as_bytes_mut().iter_mut().step_by(PAGE_SIZE as usize).for_each(|byte| {
            byte.write(7);
        });
        mapping
    };
    let builder = match draw.byte() % 3 {
        0 => builder.size(BYTES).backing(Backing::AnonymousBase),
        1 => builder.size(BYTES).backing(Backing::Memfd(PageSize::Base)),
        _ => builder.memory(written()),
    };
    builder.build_locked().expect("an arena")
}

fn owners<'a>(
    arena: &'a Locked,
    other: &'a Locked,
    draw: &mut Draw<'_>,
    held: &mut Held<'a>,
    stamp: &mut u64,
) {
    let mut owned: Vec<Owned<'a>> = Vec::new();
    let mut zeros = false;
    match draw.byte() % 14 {
        0 => {
            let request = draw.request();
            draw.call(("alloc_as", request));
            zeros = request.flags.contains(pageyard::RequestFlags::ZERO);
            owned.extend(arena.alloc_as(&request).map(Owned::Block));
        }
        1 => {
            let order = draw.order();
            draw.call(("alloc_zeroed", order));
            zeros = true;
            owned.extend(arena.alloc_zeroed(order).map(Owned::Block));
        }
        2 => {
            let (order, count) = (draw.order(), draw.number(40) as usize);
            zeros = draw.flag();
            draw.call(("alloc_bulk", order, count, zeros));
            let blocks =
                if zeros { arena.alloc_bulk_zeroed(order, count) } else { arena.alloc_bulk(order, count) };
            owned.push(Owned::Blocks(blocks));
        }
        3 => {
            let (bytes, align, request) = (draw.number(1 << 16) as usize, draw.order(), draw.request());
            draw.call(("alloc_bytes_as", bytes, align, request));
            zeros = request.flags.contains(pageyard::RequestFlags::ZERO);
            owned.extend(arena.alloc_bytes_as(bytes, align, &request).map(Owned::Pages));
        }
        4 | 5 => {
            draw.call("alloc_movable");
            owned.extend(arena.alloc_movable(draw.order()).map(Owned::Handle));
        }
        6 => {
            draw.call("compact");
            arena.compact();
        }
        7 => {
            let order = draw.order();
            draw.call(("alloc_compacting", order));
            owned.extend(arena.alloc_compacting(order).map(Owned::Block));
        }
        8 => {
            let at = draw.frames();
            draw.call(("split_at", at));
            if let Some((was, mut one)) = take(draw, held) {
                one.check(was);
                owned.extend(split(one, at));
            }
        }
        10 => {
            let range = draw.number(1 << 17) as usize..draw.number(u64::MAX) as usize;
            draw.call(("discard", &range));
            let nth = usize::from(draw.byte()) % held.len().max(1);
            if let Some((was, one)) = held.get_mut(nth) {
                one.check(*was);
                let _ = match one {
                    Owned::Block(block) => block.discard(range),
                    Owned::Pages(pages) => pages.discard(range),
                    _ => Ok(Frames::ZERO),
                };
                one.write(*was);
            }
        }
        11 => {
            draw.call("through an address");
            if let Some((was, one)) = take(draw, held) {
                held.push((was, through_an_address(arena, other, one)));
            }
        }
        9 => {
            draw.call("was_zeroed, in use");
            let nth = usize::from(draw.byte()) % held.len().max(1);
            if let Some((was, one)) = held.get_mut(nth) {
                one.check(*was);
                if let Owned::Block(block) = one {
                    let _ = block.was_zeroed();
                }
            }
        }
        _ => {
            draw.call("drop");
            if let Some((was, mut one)) = take(draw, held) {
                one.check(was);
            }
        }
    }
    for mut one in owned {
        if zeros {
            one.each(&mut |bytes| assert!(bytes.iter().all(|byte| *byte == 0), "not zeros"));
        }
        *stamp += 1;
        one.write(*stamp);
        held.push((*stamp, one));
    }
}

fn take<'a>(draw: &mut Draw<'_>, held: &mut Held<'a>) -> Option<(u64, Owned<'a>)> {
    let nth = usize::from(draw.byte()) % held.len().max(1);
    (nth < held.len()).then(|| held.swap_remove(nth))
}

/// Gives an owner up and takes it back from what is left of it.
///
/// # Panics
/// Where it does not come back, or another arena has it.
fn through_an_address<'a>(arena: &'a Locked, other: &'a Locked, one: Owned<'a>) -> Owned<'a> {
    // SAFETY: each came from one of the arenas, and only that one takes it back.
    unsafe {
        match one {
            Owned::Block(block) => {
                let at = block.into_raw();
                let back = Block::from_raw_in(arena, at).or_else(|| Block::from_raw_in(other, at));
                Owned::Block(back.expect("a block begins there"))
            }
            Owned::Pages(pages) => {
                let (at, bytes) = pages.into_raw();
                let back = Pages::from_raw_in(arena, at, bytes);
                Owned::Pages(back.or_else(|| Pages::from_raw_in(other, at, bytes)).expect("they lie there"))
            }
            one => one,
        }
    }
}

fn split(one: Owned<'_>, at: Frames) -> Vec<Owned<'_>> {
    let pages = match one {
        Owned::Block(block) => Pages::from(block),
        Owned::Pages(pages) => pages,
        other => return vec![other],
    };
    match pages.split_at(at) {
        Ok((head, rest)) => vec![Owned::Pages(head), Owned::Pages(rest)],
        Err(pages) => vec![Owned::Pages(pages)],
    }
}

fn memory(arena: &Locked, draw: &mut Draw<'_>) {
    let (pfn, frames, most) = (draw.pfn(), draw.frames(), draw.frames());
    match draw.byte() % 3 {
        0 => {
            let limits = PurgeLimits { least: draw.order(), reserve: frames, most };
            draw.call(("purge_as", limits));
            let _ = arena.purge_as(&limits);
        }
        1 => {
            let node = draw.number(1024) as u32;
            draw.call(("addresses", pfn, frames, node));
            let is_its_own = pfn < pageyard::Pfn(BYTES as u64 / PAGE_SIZE);
            assert_eq!(arena.address_of(pfn).is_some(), is_its_own);
            let _ = (arena.mapping().resident(pfn, frames), arena.stats());
            if node > 0 {
                let _ = arena.mapping().bind(node);
            }
        }
        _ => {
            draw.call(("not built", frames, most));
            let bytes = draw.number(u64::MAX - 1) as usize;
            let _ = Mapping::new(bytes.saturating_add(1 << 50), Backing::AnonymousBase).map(drop);
        }
    }
}
