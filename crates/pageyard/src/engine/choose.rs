//! Which blocks are cheapest to empty, and which pageblocks are best filled: read from descriptors and bits.

use super::geometry::{BLOCK_FRAMES, BLOCK_ORDER, WORD_ORDER, WORDS};
use super::index::Shelves;
use super::state::BlockState;
use super::tag::Tag;
use super::tree::Effort;
use super::zone::Zone;
use crate::compaction::{Choice, Chooser, Goal, Mode, Plan};
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
    /// Chooses the block of `order`, at most a pageblock's, whose emptying moves few frames.
    ///
    /// A pageblock is chosen by its descriptor, a block inside it by its bits, a word at a time: the first word with a
    /// block that is no dearer than the pageblock's average, and only then all others.
    ///
    /// # Complexity
    /// It reads the descriptors of a window, and of the next ones where nothing in it is worth emptying; and one word of
    /// each pageblock that it looks into, as a rule.
    pub(crate) fn choose_source(
        &self,
        plan: &Plan,
        order: Order,
        chooser: &mut Chooser,
        next: impl Fn(usize, usize) -> usize,
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
                let len = self.frames.len();
                let start = if plan.direct || len > window { next(1, window) % len } else { 0 };
                let Some(block) = self.emptiest(plan, order, start, window) else { return Choice::Nothing };
                chooser.visited += 1;
                if order.get() == BLOCK_ORDER {
                    return Choice::Block(BlockId { pfn: self.pfn(block << BLOCK_ORDER), order });
                }
                chooser.pageblock = Some(PageblockId((self.base >> BLOCK_ORDER) + block as u64));
                // Not always at the same word: what cannot move there would be met each time.
                (chooser.tried, chooser.from, chooser.steps) = ([0; 4], next(2, 1) as u32, 0);
                continue;
            };
            let block = (pageblock.0 - (self.base >> BLOCK_ORDER)) as usize;
            if let Some(frame) = self.cheap_inside(block, order.get(), chooser) {
                return Choice::Block(BlockId { pfn: self.pfn(frame), order });
            }
            // Nothing in it can be emptied until something is freed.
            self.transit(block, |s| (!s.is_skipped()).then(|| s.with_skip(true)));
            chooser.pageblock = None;
        }
    }

    /// Returns the pageblock with the most free frames, of those that are worth emptying: of the first `window` behind
    /// `start` that have one.
    ///
    /// For a part of a pageblock, one of the request's own type goes first if it has frames enough for the block: what is
    /// emptied there spoils no pageblock of another type. Whole pageblocks are sought among movable ones.
    fn emptiest(&self, plan: &Plan, order: Order, start: usize, window: usize) -> Option<usize> {
        let len = self.frames.len();
        let wants = match plan.goal {
            Goal::Block(_, m) => m,
            Goal::Everything | Goal::Score(_) => Migratetype::Movable,
        };
        let any = plan.thorough || (plan.direct && order.get() < BLOCK_ORDER);
        let serves = |s: BlockState| match s.migratetype() {
            Migratetype::Movable => true,
            Migratetype::Cma => wants == Migratetype::Movable,
            m => any && m.is_requested(),
        };
        let best = |blocks: core::ops::Range<usize>| {
            let worth = |s: BlockState| s.free() > 0 && serves(s) && is_used(s) && !s.is_skipped();
            let states = blocks.map(|b| (self.frames.state(b), b)).filter(|(s, _)| worth(*s));
            let own = |s: BlockState| s.migratetype() == wants && u64::from(s.free()) >= order.frames().0;
            states.max_by_key(|(s, b)| (own(*s), s.free(), len - b)).map(|(_, b)| b)
        };
        let windows = |from: usize, to: usize| {
            (from..to).step_by(window.max(1)).find_map(|first| best(first..(first + window).min(to)))
        };
        windows(start, len).or_else(|| windows(0, start))
    }

    /// Returns the first frame of a cheap block of `order` inside a pageblock, of those that were not tried: all its used
    /// frames are single ones, as far as tags say.
    fn cheap_inside(&self, block: usize, order: u8, chooser: &mut Chooser) -> Option<usize> {
        let (size, part) = (1u32 << order, order.max(WORD_ORDER));
        let (parts, inside) = (1 << (BLOCK_ORDER - part), 1u32 << (part - order));
        let average = (size * (BLOCK_FRAMES - self.frames.state(block).free())).div_ceil(BLOCK_FRAMES);
        while chooser.steps < 2 * parts {
            let most = if chooser.steps < parts { average } else { size };
            let at = (chooser.from + chooser.steps) % parts;
            let first = at << (part - WORD_ORDER);
            let mut bits = [0; WORDS];
            for (w, word) in bits.iter_mut().enumerate().take(1 << (part - WORD_ORDER)) {
                *word = self.frames.free_bits(block, first as usize + w);
            }
            chooser.examined += 1 << part;
            let used = |i: u32| {
                let offset = i << order;
                if order >= WORD_ORDER {
                    bits.iter().take(1 << (order - WORD_ORDER)).map(|w| w.count_zeros()).sum::<u32>()
                } else {
                    size - (bits[0] >> offset & ((1u64 << size) - 1)).count_ones()
                }
            };
            loop {
                let tried = |i: u32| chooser.tried[(i / 64 % 4) as usize] >> (i % 64) & 1 != 0;
                let blocks = (0..inside).filter(|i| !tried(at * inside + i)).map(|i| (used(i), i));
                let Some((_, i)) = blocks.filter(|(used, _)| (1..=most).contains(used)).min() else { break };
                let i = at * inside + i;
                chooser.tried[(i / 64 % 4) as usize] |= 1 << (i % 64);
                let start = (block << BLOCK_ORDER) + ((i << order) as usize);
                if self.all_single(start, order, &bits, chooser) {
                    return Some(start);
                }
            }
            chooser.steps += 1;
        }
        None
    }

    /// Says whether the used frames of a block are single ones, as far as tags say. `bits` are those of its word, or of its
    /// words.
    fn all_single(&self, start: usize, order: u8, bits: &[u64; WORDS], chooser: &mut Chooser) -> bool {
        let first = start & ((1 << order.max(WORD_ORDER)) - 1);
        for n in 0..1usize << order {
            let at = first + n;
            if bits[at >> WORD_ORDER] >> (at & ((1 << WORD_ORDER) - 1)) & 1 != 0 {
                continue;
            }
            chooser.examined += 1;
            let tag = self.frames.tag(start + n);
            if !matches!(tag, Tag::Allocated(Order::ZERO) | Tag::AllocatedZero(Order::ZERO)) {
                return false;
            }
        }
        true
    }

    /// Returns the pageblock that is best filled: one with a frame that cannot move, and otherwise the fullest of a few
    /// dozen. None that is free as a whole, or in a compactor's use.
    ///
    /// Pageblocks of other types come last, as they do for whoever asks for a movable frame.
    pub(crate) fn choose_target(&self, next: impl Fn(usize) -> usize) -> Option<usize> {
        let movable = Migratetype::Movable;
        let types = core::iter::once(&movable).chain(movable.fallbacks());
        types.copied().find_map(|m| self.fullest(m, &next))
    }

    fn fullest(&self, m: Migratetype, next: impl Fn(usize) -> usize) -> Option<usize> {
        let len = self.frames.len();
        self.index.find(m as u8, Shelves::fitting(0), 0, &mut Effort::default())?;
        let fits =
            |s: BlockState| s.ty() == m as u8 && is_used(s) && s.free() > 0 && s.owner().is_none();
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
