//! Which blocks are cheapest to empty, and which pageblocks are best filled: read from descriptors and bits.

use super::hints::{ChoiceHints, Cursor};
use super::pageblocks::Pageblocks;
use crate::engine::geometry::{
    BLOCK_FRAMES, BLOCK_ORDER, BlockIdx, FrameIdx, WORD_FRAMES, WORD_ORDER, WORDS,
};
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::index::Bins;
use crate::engine::map::tag::Tag;
use crate::engine::map::tree::SearchEffort;
use pageyard_core::compaction::{Choice, Chooser, Goal, Mode, Plan};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{BlockId, Order};

const _: () = assert!(WORDS <= Chooser::WORDS, "a chooser has room for the words of a pageblock");

/// Descriptors that are read to find a pageblock to empty for a request that waits; the next choice reads the next
/// ones.
const WINDOW: usize = 512;
/// The same in the background, which moves many frames and delays no request.
const BACKGROUND_WINDOW: usize = 8192;
/// Descriptors that are read at a time to find a pageblock to fill.
const TARGETS: usize = 64;
/// Pageblocks that compaction tries to fill before it says that there is none.
pub(crate) const TRIES: usize = 16;
/// Pageblocks that a request's asynchronous compaction looks into before it gives up: it must be short.
const FEW: u32 = 16;
/// The same where the request waits for more.
const MANY: u32 = 256;
/// Blocks of a pageblock that can turn out to be stuck before it is left: one may be a lone pin.
const STUCK: u32 = 2;

impl Pageblocks<'_> {
    /// Chooses the block of `order`, at most a pageblock's, whose emptying moves few frames.
    ///
    /// A pageblock is chosen by its descriptor, and stays chosen while it has frames enough; a block inside it is
    /// chosen by its bits, from the first word that has one no more expensive than the pageblock's average, and only
    /// then from all.
    ///
    /// # Complexity
    /// It reads the descriptors of a window, and of the next ones where nothing in it is worth emptying; and, as a
    /// rule, one word of bits.
    pub(crate) fn choose_source(
        &self,
        plan: &Plan,
        order: Order,
        chooser: &mut Chooser,
        state: &ChoiceHints,
    ) -> Choice {
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
                let last = state.source().filter(|_| chooser.visited == 0 && order.get() < BLOCK_ORDER);
                let Some(block) = self.emptiest(plan, order, last.map(|(block, _)| block), state) else {
                    return Choice::Nothing;
                };
                chooser.visited += 1;
                if order.get() == BLOCK_ORDER {
                    return Choice::Block(BlockId { pfn: self.pfn(block.first_frame()), order });
                }
                let pageblock = Some(self.pfn(block.first_frame()).pageblock());
                let word = last.filter(|(b, _)| *b == block).map_or(0, |(_, word)| word);
                let (part, resumed) = (word >> (order.get().max(WORD_ORDER) - WORD_ORDER), word > 0);
                let Chooser { visited, examined, .. } = *chooser;
                *chooser = Chooser { pageblock, part, resumed, visited, examined, ..Chooser::default() };
                continue;
            };
            let Some(block) = self.block_of(pageblock) else {
                // Notes of another zone's.
                chooser.pageblock = None;
                continue;
            };
            let hopeless = chooser.stuck >= STUCK && !plan.thorough;
            if !hopeless && let Some(frame) = self.cheap_inside(block, order.get(), chooser, state) {
                return Choice::Block(BlockId { pfn: self.pfn(frame), order });
            }
            if hopeless || !chooser.resumed {
                // Nothing in it can be emptied until something is freed.
                self.transit(block, |s| (!s.is_skipped()).then(|| s.with_skip(true)));
            }
            chooser.pageblock = None;
        }
    }

    /// Returns the pageblock with the most free frames of those worth emptying, from the first window that has one.
    ///
    /// For a part of a pageblock, a pageblock of the request's own type goes first where half of the block is free in
    /// one piece, as far as the descriptor says: emptying it spoils no pageblock of another type. Within each kind, the
    /// `last` one that was chosen goes first while it has enough frames. Whole pageblocks are sought among movable
    /// ones.
    fn emptiest(
        &self,
        plan: &Plan,
        order: Order,
        last: Option<BlockIdx>,
        state: &ChoiceHints,
    ) -> Option<BlockIdx> {
        let (len, window) = (self.frames.len(), if plan.direct { WINDOW } else { BACKGROUND_WINDOW });
        let wants = match plan.goal {
            Goal::Block(_, m) => m,
            Goal::Everything | Goal::Score(_) => Migratetype::Movable,
        };
        let part = order.get() < BLOCK_ORDER;
        let any = plan.thorough || (plan.direct && part);
        let worth = |s: BlockState| {
            let serves = match s.migratetype() {
                Migratetype::Movable => true,
                Migratetype::Cma => wants == Migratetype::Movable,
                m => any && m.is_requested(),
            };
            s.free() > 0 && serves && is_used(s) && !s.is_skipped()
        };
        let enough = |s: BlockState| u64::from(s.free()) >= order.frames().0;
        let last = last.filter(|b| b.get() < len && enough(self.frames.state(*b)));
        let best = |blocks: core::ops::Range<usize>| {
            let blocks = BlockIdx::new(blocks.start).run(blocks.len());
            let states = blocks.map(|b| (self.frames.state(b), b)).filter(|(s, _)| worth(*s));
            let half = |s: BlockState| s.fit().is_some_and(|fit| fit + 1 >= order.get());
            let own = |s: BlockState| part && s.migratetype() == wants && half(s);
            states.max_by_key(|(s, b)| (own(*s), Some(*b) == last, s.free(), len - b.get())).map(|(_, b)| b)
        };
        let start = match last {
            Some(block) => block.get() - block.get() % window,
            None if plan.direct || len > window => state.next(Cursor::Source, len, window),
            None => 0,
        };
        let windows = |from: usize, to: usize| {
            (from..to).step_by(window).find_map(|first| best(first..(first + window).min(to)))
        };
        windows(start, len).or_else(|| windows(0, start))
    }

    /// Returns the first frame of a cheap block of `order` inside a pageblock, of those that were not tried: all its
    /// used frames are single ones, as far as tags say.
    fn cheap_inside(
        &self,
        block: BlockIdx,
        order: u8,
        chooser: &mut Chooser,
        state: &ChoiceHints,
    ) -> Option<FrameIdx> {
        let (size, part) = (1u32 << order, order.max(WORD_ORDER));
        let (parts, inside, words) =
            (1 << (BLOCK_ORDER - part), 1u32 << (part - order), 1 << (part - WORD_ORDER));
        let average = (size * (BLOCK_FRAMES - self.frames.state(block).free())) >> BLOCK_ORDER;
        while chooser.pass < 2 && !(chooser.resumed && chooser.pass > 0) {
            if chooser.part >= parts {
                (chooser.part, chooser.pass) = (0, chooser.pass + 1);
                continue;
            }
            let (first, read) = ((chooser.part * words) as usize, 1u64 << chooser.part);
            if chooser.read & read == 0 {
                for w in first..first + words as usize {
                    chooser.words[w] = self.frames.free_bits(block, w);
                }
                chooser.read |= read;
                chooser.examined = chooser.examined.saturating_add(1 << part);
            }
            let bits = chooser.words;
            let used = |i: u32| {
                let at = i << order;
                if order >= WORD_ORDER {
                    bits[first..first + words as usize].iter().map(|w| w.count_zeros()).sum::<u32>()
                } else {
                    size - (bits[first] >> (at & (WORD_FRAMES - 1)) & ((1u64 << size) - 1)).count_ones()
                }
            };
            let most = if chooser.pass == 0 { average.clamp(1, size - 1) } else { size };
            let cheap = |c: &Chooser| {
                let tried = |i: u32| c.tried[(i / 64 % 4) as usize] >> (i % 64) & 1 != 0;
                let blocks = (c.part * inside..(c.part + 1) * inside).filter(|i| !tried(*i));
                blocks.map(|i| (used(i), i)).filter(|(used, _)| (1..=most).contains(used)).min()
            };
            while let Some((_, i)) = cheap(chooser) {
                chooser.tried[(i / 64 % 4) as usize] |= 1 << (i % 64);
                let start = block.frame(i << order);
                if self.all_single(start, order, &bits, chooser) {
                    // The next one begins where something is left, and after what was stuck.
                    let part = chooser.part + u32::from(chooser.stuck > 0 || cheap(chooser).is_none());
                    state.set_source(block, part * words);
                    return Some(start);
                }
            }
            chooser.part += 1;
        }
        None
    }

    /// Says whether the used frames of a block are single ones, as far as tags say.
    fn all_single(&self, start: FrameIdx, order: u8, bits: &[u64], chooser: &mut Chooser) -> bool {
        for frame in start.run(1 << order) {
            if bits[frame.word()] >> frame.bit() & 1 != 0 {
                continue;
            }
            chooser.examined = chooser.examined.saturating_add(1);
            if !matches!(
                self.frames.tag(frame),
                Tag::Allocated(Order::ZERO) | Tag::AllocatedZero(Order::ZERO)
            ) {
                return false;
            }
        }
        true
    }

    /// Returns the best pageblock to fill: one with a frame that cannot move, or else the fullest of a few dozen; never
    /// one that is free as a whole or in a compactor's use.
    ///
    /// Pageblocks of other types come last, as they do for a request for a movable frame.
    pub(crate) fn choose_target(&self, next: impl Fn(usize) -> usize) -> Option<BlockIdx> {
        let movable = Migratetype::Movable;
        let types = core::iter::once(&movable).chain(movable.fallbacks());
        types.copied().find_map(|m| self.fullest(m, &next))
    }

    /// Returns one of a single type.
    fn fullest(&self, m: Migratetype, next: impl Fn(usize) -> usize) -> Option<BlockIdx> {
        let len = self.frames.len();
        let indexed =
            self.index.find(m as u8, Bins::fitting(0), BlockIdx::new(0), &mut SearchEffort::default());
        // The index does not have those that CPUs work on, and in a small zone these are all: one look at some is worth
        // it.
        let looks = if indexed.is_some() { len.div_ceil(TARGETS) } else { 1 };
        let fits = |s: BlockState| s.ty() == m as u8 && is_used(s) && s.free() > 0 && s.owner().is_none();
        for _ in 0..looks {
            let start = next(TARGETS.min(len));
            let states = (start..start + TARGETS.min(len))
                .map(|b| BlockIdx::new(b % len))
                .map(|b| (b, self.frames.state(b)));
            let worth = states.filter(|(_, s)| fits(*s));
            let best = worth.max_by_key(|(b, s)| (s.is_skipped(), BLOCK_FRAMES - s.free(), *b));
            if let Some((block, _)) = best {
                return Some(block);
            }
        }
        None
    }
}

/// Says whether a pageblock is partly used and in no other compactor's use.
fn is_used(s: BlockState) -> bool {
    !s.is_whole() && !s.is_huge() && !s.is_hole() && !s.is_isolated() && s.owner().is_none()
}
