//! A desk for each CPU: memory to sort frames in on their way between lists and zones, when there are more of them than a
//! stack should hold. Whoever finds it taken does with less.

use super::frames::Masks;
use super::geometry::{BATCH, BLOCK_FRAMES, BLOCK_ORDER, WORD_FRAMES, WORD_ORDER, WORDS};
use super::sync::{A32, Acquire, Carver, Relaxed, Release, Zeroable};
use core::cell::UnsafeCell;
use core::marker::PhantomData;

/// Groups that frames are sorted into at a time: pageblocks of a gibibyte.
const GROUPS: usize = if cfg!(loom) { 2 } else { 512 };
/// The same where there is no desk.
const FEW_GROUPS: usize = if cfg!(loom) { 2 } else { 64 };

/// Words of a cache line.
const LINE_A32: usize = 16;

/// Memory that whoever has taken a desk writes to.
#[repr(transparent)]
struct Plain<T>(UnsafeCell<T>);

// SAFETY: it is reached only through a `Desk`, of which there is one at a time.
unsafe impl<T: Send> Sync for Plain<T> {}

// SAFETY: an integer, for which every bit pattern is a value.
unsafe impl Zeroable for Plain<u32> {
    #[cfg(any(loom, shuttle))]
    fn zero() -> Self {
        Plain(UnsafeCell::new(0))
    }
}

// SAFETY: an integer, for which every bit pattern is a value.
unsafe impl Zeroable for Plain<u16> {
    #[cfg(any(loom, shuttle))]
    fn zero() -> Self {
        Plain(UnsafeCell::new(0))
    }
}

/// The desks of all CPUs.
pub(crate) struct Desks<'m> {
    /// 1 while a CPU's desk is taken.
    taken: &'m [A32],
    items: &'m [Plain<u32>],
    links: &'m [Plain<u16>],
    heads: &'m [Plain<u16>],
    /// Items that a desk holds; 0 where there are none.
    room: usize,
}

impl<'m> Desks<'m> {
    /// Carves desks for `cpus` CPUs, each with room for so many items; none where a stack has as much.
    pub(crate) fn carve(carver: &mut Carver<'m>, cpus: usize, room: usize) -> Desks<'m> {
        let room = if room > BATCH { room } else { 0 };
        let heads = if room > 0 { GROUPS } else { 0 };
        Desks {
            taken: carver.zeroed(cpus * LINE_A32),
            items: carver.zeroed(cpus * room),
            links: carver.zeroed(cpus * room),
            heads: carver.zeroed(cpus * heads),
            room,
        }
    }

    /// Takes a CPU's desk, unless somebody has it or there is none.
    pub(crate) fn take(&self, cpu: usize) -> Option<Desk<'_>> {
        if self.room == 0 {
            return None;
        }
        let taken = &self.taken[cpu * LINE_A32];
        // ORDER: Acquire pairs with the Release of the drop: whoever had it is done with it.
        taken.compare_exchange(0, 1, Acquire, Relaxed).ok()?;
        Some(Desk {
            taken,
            items: self.items[cpu * self.room..][..self.room].as_ptr(),
            links: self.links[cpu * self.room..][..self.room].as_ptr(),
            heads: self.heads[cpu * GROUPS..][..GROUPS].as_ptr(),
            room: self.room,
            memory: PhantomData,
        })
    }
}

/// A desk, until it is dropped.
pub(crate) struct Desk<'a> {
    taken: &'a A32,
    items: *const Plain<u32>,
    links: *const Plain<u16>,
    heads: *const Plain<u16>,
    room: usize,
    memory: PhantomData<&'a mut [u32]>,
}

impl Desk<'_> {
    /// Returns what lies on it.
    pub(crate) fn sheet(&mut self) -> Sheet<'_> {
        // SAFETY: 1. The pointers are to the first of `room` items, as many links, and `GROUPS` heads, of initialised
        //            memory that allows changes through shared references (`Plain`).
        //         2. They are this desk's only, and nobody else has it until it is dropped; the borrow of `self` keeps
        //            it from being lent twice.
        unsafe {
            Sheet {
                items: core::slice::from_raw_parts_mut(self.items.cast_mut().cast(), self.room),
                links: core::slice::from_raw_parts_mut(self.links.cast_mut().cast(), self.room),
                heads: core::slice::from_raw_parts_mut(self.heads.cast_mut().cast(), GROUPS),
            }
        }
    }
}

impl Drop for Desk<'_> {
    fn drop(&mut self) {
        // ORDER: Release pairs with the Acquire in `take`.
        self.taken.store(0, Release);
    }
}

/// What a stack holds instead.
pub(crate) struct Lap {
    items: [u32; BATCH],
    links: [u16; BATCH],
    heads: [u16; FEW_GROUPS],
}

impl Lap {
    pub(crate) const fn new() -> Lap {
        Lap { items: [0; BATCH], links: [0; BATCH], heads: [0; FEW_GROUPS] }
    }

    /// Returns what lies on it.
    pub(crate) fn sheet(&mut self) -> Sheet<'_> {
        Sheet { items: &mut self.items, links: &mut self.links, heads: &mut self.heads }
    }
}

/// Room for items, and for sorting as many.
pub(crate) struct Sheet<'a> {
    pub(crate) items: &'a mut [u32],
    links: &'a mut [u16],
    heads: &'a mut [u16],
}

/// The end of a chain.
const END: u16 = u16::MAX;

/// Changes from one pageblock to another among items, one for so many, above which sorting them is cheaper than a
/// transition for each.
const FEW_CHANGES: usize = 16;

impl Sheet<'_> {
    /// Calls `give` with each pageblock that the first `n` items, blocks of `order`, are of, and all their frames in it.
    ///
    /// Items that come in few runs are taken as they come, and a pageblock may then come twice. Others are linked first,
    /// by their pageblocks' numbers; pageblocks far from each other may share a chain, which is then followed for each.
    pub(crate) fn by_pageblock(&mut self, n: usize, order: u8, mut give: impl FnMut(usize, &Masks)) {
        let items = &self.items[..n];
        let changes = items.windows(2).filter(|w| w[0] >> BLOCK_ORDER != w[1] >> BLOCK_ORDER).count();
        let ones = u64::MAX >> (64 - (1u32 << order));
        let add = |masks: &mut Masks, item: u32| {
            let offset = item & (BLOCK_FRAMES - 1);
            masks[(offset >> WORD_ORDER) as usize & (WORDS - 1)] |= ones << (offset & (WORD_FRAMES - 1));
        };
        if changes <= n / FEW_CHANGES {
            let mut masks = [0; WORDS];
            for (i, item) in items.iter().enumerate() {
                add(&mut masks, *item);
                let block = item >> BLOCK_ORDER;
                if items.get(i + 1).is_none_or(|next| next >> BLOCK_ORDER != block) {
                    give(block as usize, &masks);
                    masks = [0; WORDS];
                }
            }
            return;
        }
        let links = &mut self.links[..n];
        let (groups, bits) = (self.heads.len() - 1, self.heads.len().trailing_zeros());
        self.heads.fill(END);
        for (i, (item, link)) in items.iter().zip(links.iter_mut()).enumerate() {
            let block = (item >> BLOCK_ORDER) as usize;
            let head = &mut self.heads[(block ^ block >> bits) & groups];
            *link = *head;
            *head = i as u16;
        }
        for head in self.heads.iter() {
            let mut chain = *head;
            while chain != END {
                let block = items[usize::from(chain)] >> BLOCK_ORDER;
                let (mut masks, mut others, mut at) = ([0; WORDS], END, chain);
                while at != END {
                    let (item, next) = (items[usize::from(at)], links[usize::from(at)]);
                    if item >> BLOCK_ORDER == block {
                        add(&mut masks, item);
                    } else {
                        links[usize::from(at)] = others;
                        others = at;
                    }
                    at = next;
                }
                give(block as usize, &masks);
                chain = others;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_desk_is_taken_once_at_a_time() {
        let mut memory = [0u8; 8192];
        let mut carver = Carver::of(&mut memory);
        let desks = Desks::carve(&mut carver, 2, 100);
        assert!(carver.fits());
        let first = desks.take(1).unwrap();
        assert!(desks.take(1).is_none() && desks.take(0).is_some());
        drop(first);
        assert_eq!(desks.take(1).unwrap().sheet().items.len(), 100);
        assert!(Desks::carve(&mut carver, 2, BATCH).take(0).is_none(), "a stack has as much");
    }

    #[test]
    fn items_come_together_by_pageblock_whatever_their_order() {
        let mut lap = Lap::new();
        let mut sheet = lap.sheet();
        // Five pageblocks, two of which share a chain, in turn; then all of one.
        for blocks in [[3, 7, 3 + 65, 500, 8], [9; 5]] {
            for (i, item) in sheet.items.iter_mut().enumerate() {
                *item = blocks[i % 5] << BLOCK_ORDER | (i as u32 * 8);
            }
            let (mut seen, mut frames) = ([0; 5], 0);
            let n = sheet.items.len();
            sheet.by_pageblock(n, 3, |block, masks| {
                let at = blocks.iter().position(|b| *b as usize == block).unwrap();
                seen[at] += 1;
                for i in (0..n).filter(|i| blocks[i % 5] as usize == block) {
                    assert_eq!(masks[i / 8] >> (i % 8 * 8) & 0xff, 0xff);
                }
                frames += masks.iter().map(|m| m.count_ones()).sum::<u32>();
            });
            assert_eq!(frames, 8 * n as u32);
            assert_eq!(seen, if blocks[1] == 9 { [1, 0, 0, 0, 0] } else { [1; 5] });
        }
    }
}
