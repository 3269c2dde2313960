//! Which blocks are cheapest to empty, and which pageblocks are best filled: read from descriptors and bits.

use super::geometry::{BLOCK_FRAMES, BLOCK_ORDER, WORD_ORDER, WORDS};
use super::state::BlockState;
use super::tag::Tag;
use super::zone::Zone;
use crate::compaction::{Choice, Chooser, Mode, Plan};
use crate::migratetype::Migratetype;
use crate::units::{BlockId, Order, PageblockId};

/// Descriptors that are read to find an empty pageblock for a request that waits; the next choice reads the next ones.
const WINDOW: usize = 512;
/// The same in the background, which moves many and waits for nobody.
const BACKGROUND_WINDOW: usize = 8192;
/// Descriptors that are read at a time to find a pageblock to fill.
const TARGETS: usize = 64;
/// Pageblocks that a request's compaction looks into before it gives up: without waiting, and otherwise.
const FEW: u32 = 16;
/// Pageblocks that are tried to be filled before compaction says that there is none.
pub(crate) const TRIES: usize = 16;
const MANY: u32 = 256;

impl Zone<'_> {
    /// Chooses the block of `order`, at most a pageblock's, whose emptying moves the fewest frames.
    ///
    /// # Complexity
    /// It reads the descriptors of a window, and of the next ones where nothing in it is worth emptying; and the 512
    /// bits of each pageblock that it looks into.
    pub(crate) fn choose_source(
        &self,
        plan: &Plan,
        order: Order,
        chooser: &mut Chooser,
        next: impl Fn(usize) -> usize,
    ) -> Choice {
        let window = if plan.direct { WINDOW } else { BACKGROUND_WINDOW };
        let most = match (plan.thorough || !plan.direct, plan.mode) {
            (true, _) => 2 * self.frames.len() as u32 + FEW,
            (false, Mode::Async) => FEW,
            (false, _) => MANY,
        };
        loop {
            let Some(pageblock) = chooser.pageblock else {
                if chooser.visited >= most {
                    return Choice::Nothing;
                }
                let start = if plan.direct || self.frames.len() > window { next(window) } else { 0 };
                let Some(block) = self.emptiest(plan, start, window) else { return Choice::Nothing };
                chooser.visited += 1;
                if order.get() == BLOCK_ORDER {
                    return Choice::Block(BlockId { pfn: self.pfn(block << BLOCK_ORDER), order });
                }
                chooser.pageblock = Some(PageblockId((self.base >> BLOCK_ORDER) + block as u64));
                chooser.tried = [0; 4];
                continue;
            };
            let block = (pageblock.0 - (self.base >> BLOCK_ORDER)) as usize;
            if let Some(frame) = self.cheapest_inside(block, order.get(), chooser) {
                return Choice::Block(BlockId { pfn: self.pfn(frame), order });
            }
            // Nothing in it can be emptied until something is freed.
            self.transit(block, |s| (!s.is_skipped()).then(|| s.with_skip(true)));
            chooser.pageblock = None;
        }
    }

    /// Returns the pageblock with the most free frames, of those that are worth emptying: of the first `window` behind
    /// `start` that have one.
    fn emptiest(&self, plan: &Plan, start: usize, window: usize) -> Option<usize> {
        let len = self.frames.len();
        let best = |blocks: core::ops::Range<usize>| {
            let mut best = (0, None);
            for block in blocks {
                let s = self.frames.state(block);
                let movable = s.ty() == Migratetype::Movable as u8 || s.ty() == Migratetype::Cma as u8;
                if s.free() > best.0 && (movable || plan.thorough) && is_used(s) && !s.is_skipped() {
                    best = (s.free(), Some(block));
                }
            }
            best.1
        };
        let windows = |from: usize, to: usize| {
            (from..to).step_by(window.max(1)).find_map(|first| best(first..(first + window).min(to)))
        };
        windows(start, len).or_else(|| windows(0, start))
    }

    /// Returns the first frame of the cheapest block of `order` inside a pageblock, of those that were not tried: all its
    /// used frames are single ones, as far as tags say.
    fn cheapest_inside(&self, block: usize, order: u8, chooser: &mut Chooser) -> Option<usize> {
        let bits: [u64; WORDS] = core::array::from_fn(|w| self.frames.free_bits(block, w));
        chooser.examined += u64::from(BLOCK_FRAMES);
        let size = 1u32 << order;
        let used = |i: u32| {
            let at = i << order;
            if order >= WORD_ORDER {
                let words = (at >> WORD_ORDER) as usize..((at + size) >> WORD_ORDER) as usize;
                bits[words].iter().map(|w| w.count_zeros()).sum::<u32>()
            } else {
                let mask = (1u64 << size) - 1;
                size - ((bits[(at >> WORD_ORDER) as usize] >> (at & 63)) & mask).count_ones()
            }
        };
        loop {
            let tried = |i: u32, c: &Chooser| c.tried[(i / 64 % 4) as usize] >> (i % 64) & 1 != 0;
            let blocks = (0..BLOCK_FRAMES >> order).filter(|i| !tried(*i, chooser)).map(|i| (used(i), i));
            let (_, i) = blocks.filter(|(used, _)| *used > 0).min()?;
            chooser.tried[(i / 64 % 4) as usize] |= 1 << (i % 64);
            let first = (block << BLOCK_ORDER) + ((i << order) as usize);
            let single = |frame: usize| {
                let offset = frame as u32 & (BLOCK_FRAMES - 1);
                let free = bits[(offset >> WORD_ORDER) as usize] >> (offset & 63) & 1 != 0;
                free || matches!(
                    self.frames.tag(frame),
                    Tag::Allocated(Order::ZERO) | Tag::AllocatedZero(Order::ZERO)
                )
            };
            chooser.examined += u64::from(used(i));
            if (first..first + size as usize).all(single) {
                return Some(first);
            }
        }
    }

    /// Returns the pageblock that is best filled: one with a frame that cannot move, and otherwise the fullest of a few
    /// dozen. None that is free as a whole, or in a compactor's use.
    pub(crate) fn choose_target(&self, next: impl Fn(usize) -> usize) -> Option<usize> {
        let len = self.frames.len();
        let fits = |s: BlockState| {
            s.ty() == Migratetype::Movable as u8 && is_used(s) && s.free() > 0 && s.owner().is_none()
        };
        for _ in 0..len.div_ceil(TARGETS) {
            let start = next(TARGETS.min(len));
            let states = (start..start + TARGETS.min(len)).map(|b| (b % len, self.frames.state(b % len)));
            let worth = states.filter(|(_, s)| fits(*s));
            let best = worth.max_by_key(|(b, s)| (s.is_skipped(), BLOCK_FRAMES - s.free(), *b));
            if let Some((block, _)) = best {
                return Some(block);
            }
        }
        None
    }
}

/// Says whether a pageblock is partly used, and nobody else's.
fn is_used(s: BlockState) -> bool {
    !s.is_whole() && !s.is_huge() && !s.is_hole() && !s.is_isolated() && s.owner().is_none()
}
