//! Which blocks are cheapest to empty, and which pageblocks are best filled: read from descriptors and bits.

use super::hints::{ChoiceHints, Cursor};
use super::pageblocks::Pageblocks;
use crate::engine::geometry::{
    BLOCK_FRAMES, BLOCK_ORDER, BlockIdx, FrameIdx, PAGEBLOCK, WORD, WORD_FRAMES, WORD_ORDER, WORDS,
};
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::index::Bins;
use crate::engine::map::tree::SearchEffort;
use core::ops::Range;
use pageyard_core::compaction::Mode;
use pageyard_core::memmap::ZoneKind;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{CompactorId, Order};

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

/// Goal of a compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Goal {
    /// A free block for a request of this order and type.
    Block(Order, Migratetype),
    /// As many pageblocks that are free as a whole as there can be.
    Everything,
    /// A fragmentation score of at most this many percent.
    Score(u64),
}

/// Goal of a compaction of a zone, and the limits of its effort.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// The goal.
    pub(crate) goal: Goal,
    /// How much it may cost.
    pub(crate) mode: Mode,
    /// Whether a request waits for it.
    pub(crate) direct: bool,
    /// Who it is, among those that compact at the same time.
    pub(crate) by: CompactorId,
    /// The highest kind of zone that the request may use: what the zone keeps back depends on it.
    pub(crate) highest: ZoneKind,
    /// Whether the owner moves blocks of several frames.
    pub(crate) moves_blocks: bool,
}

impl Plan {
    /// Returns the order of the blocks that are emptied.
    pub(crate) fn order(&self) -> Order {
        match self.goal {
            Goal::Block(order, _) => order,
            Goal::Everything | Goal::Score(_) => PAGEBLOCK,
        }
    }

    /// Returns how many of a zone's pageblocks it may look into.
    pub(crate) fn most_visits(&self, len: usize) -> u32 {
        match (self.direct, self.mode) {
            (false, _) => 2 * len as u32 + FEW,
            (true, Mode::Async) => FEW,
            (true, _) => MANY,
        }
    }
}

/// Choices of one compaction so far, kept between two choices.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notes {
    /// The pageblock whose blocks are being tried.
    pageblock: Option<BlockIdx>,
    /// Which of its blocks were tried.
    tried: [u64; 4],
    /// Its words of bits, as far as they were read.
    words: [u64; WORDS],
    /// Which of its parts were read: a part is a word, or the words of one block.
    read: u64,
    /// Which part is being looked at.
    part: u32,
    /// How often all parts were looked at.
    pass: u32,
    /// Whether the search began after the parts that an earlier compaction was done with.
    resumed: bool,
    /// Blocks of it that turned out not to be movable.
    pub(crate) stuck: u32,
    /// Pageblocks that were looked into.
    pub(crate) visited: u32,
    /// Frames examined since it was last asked; a word of 64 bits counts as 64.
    pub(crate) examined: u64,
}

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
        notes: &mut Notes,
        state: &ChoiceHints,
    ) -> Option<FrameIdx> {
        loop {
            let Some(block) = notes.pageblock else {
                if notes.visited >= plan.most_visits(self.frames.len()) {
                    return None;
                }
                let last = state.source().filter(|_| notes.visited == 0 && order < PAGEBLOCK);
                let block = self.emptiest(plan, order, last.map(|(block, _)| block), state)?;
                notes.visited += 1;
                if order == PAGEBLOCK {
                    return Some(block.first_frame());
                }
                let word = last.filter(|(b, _)| *b == block).map_or(0, |(_, word)| word);
                let (part, resumed) = (word >> (order.max(WORD).get() - WORD_ORDER), word > 0);
                let Notes { visited, examined, .. } = *notes;
                *notes =
                    Notes { pageblock: Some(block), part, resumed, visited, examined, ..Notes::default() };
                continue;
            };
            let hopeless = notes.stuck >= STUCK;
            if !hopeless && let Some(frame) = self.cheap_inside(block, order, plan.moves_blocks, notes, state)
            {
                return Some(frame);
            }
            if hopeless || !notes.resumed {
                // Nothing in it can be emptied until something is freed.
                self.mark_stuck(block);
            }
            notes.pageblock = None;
        }
    }

    /// Notes that a pageblock holds something that does not move: it is not chosen until something in it is freed.
    pub(crate) fn mark_stuck(&self, block: BlockIdx) {
        self.transit(block, |s| (!s.is_hole() && !s.is_skipped()).then(|| s.with_skip(true)));
    }

    /// Forgets all such notes.
    pub(crate) fn forget_stuck(&self) {
        for block in self.frames.all() {
            self.transit(block, |s| s.is_skipped().then(|| s.with_skip(false)));
        }
    }

    /// Chooses the aligned run of pageblocks, a block of `order` above theirs, whose emptying moves the fewest frames.
    ///
    /// # Complexity
    /// It reads every descriptor of the zone.
    pub(crate) fn choose_run(&self, plan: &Plan, order: Order) -> Option<BlockIdx> {
        let blocks = 1usize << (order.get() - BLOCK_ORDER);
        let serves = |s: BlockState| match s.migratetype() {
            Migratetype::Movable => true,
            m => plan.mode != Mode::Async && m.is_requested(),
        };
        // What is in use as a whole, or more, is no single frame.
        let used = |s: BlockState| {
            let whole = s.is_whole() && !s.is_isolated() && s.owner().is_none();
            let fits = serves(s) && (whole || (is_used(s) && !s.is_skipped()));
            fits.then(|| u64::from(BLOCK_FRAMES - s.free()))
        };
        let cost = |first: BlockIdx| -> Option<u64> {
            first.run(blocks).map(|block| used(self.frames.state(block))).sum()
        };
        let starts = (self.index.first_run(order).get()..self.frames.len()).step_by(blocks);
        let runs = starts.take_while(|first| first + blocks <= self.frames.len()).map(BlockIdx::new);
        let costs = runs.filter_map(|first| Some((cost(first)?, first))).filter(|(cost, _)| *cost > 0);
        costs.min_by_key(|(cost, first)| (*cost, first.get())).map(|(_, first)| first)
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
        let part = order < PAGEBLOCK;
        let any = plan.direct && part;
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
        let best = |blocks: Range<usize>| {
            let blocks = BlockIdx::new(blocks.start).run(blocks.len());
            let states = blocks.map(|b| (self.frames.state(b), b)).filter(|(s, _)| worth(*s));
            let half = |s: BlockState| s.fit().is_some_and(|fit| fit + 1 >= order.get());
            let own = |s: BlockState| part && s.has_type(wants) && half(s);
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
    /// used frames are single ones, or of smaller blocks if `moves_blocks`, as far as tags say.
    fn cheap_inside(
        &self,
        block: BlockIdx,
        order: Order,
        moves_blocks: bool,
        notes: &mut Notes,
        state: &ChoiceHints,
    ) -> Option<FrameIdx> {
        let (size, part) = (1u32 << order.get(), order.max(WORD).get());
        let (parts, inside, words) =
            (1 << (BLOCK_ORDER - part), 1u32 << (part - order.get()), 1 << (part - WORD_ORDER));
        let average = (size * (BLOCK_FRAMES - self.frames.state(block).free())) >> BLOCK_ORDER;
        while notes.pass < 2 && !(notes.resumed && notes.pass > 0) {
            if notes.part >= parts {
                (notes.part, notes.pass) = (0, notes.pass + 1);
                continue;
            }
            let (first, read) = ((notes.part * words) as usize, 1u64 << notes.part);
            if notes.read & read == 0 {
                for w in first..first + words as usize {
                    notes.words[w] = self.frames.free_bits(block, w);
                }
                notes.read |= read;
                notes.examined = notes.examined.saturating_add(1 << part);
            }
            let bits = notes.words;
            let used = |i: u32| {
                let at = i << order.get();
                if order >= WORD {
                    bits[first..first + words as usize].iter().map(|w| w.count_zeros()).sum::<u32>()
                } else {
                    size - (bits[first] >> (at & (WORD_FRAMES - 1)) & ((1u64 << size) - 1)).count_ones()
                }
            };
            let most = if notes.pass == 0 { average.clamp(1, size - 1) } else { size };
            let cheap = |c: &Notes| {
                let tried = |i: u32| c.tried[(i / 64 % 4) as usize] >> (i % 64) & 1 != 0;
                let blocks = (c.part * inside..(c.part + 1) * inside).filter(|i| !tried(*i));
                blocks.map(|i| (used(i), i)).filter(|(used, _)| (1..=most).contains(used)).min()
            };
            while let Some((_, i)) = cheap(notes) {
                notes.tried[(i / 64 % 4) as usize] |= 1 << (i % 64);
                let start = block.frame(i << order.get());
                if self.all_move(start, order, moves_blocks, &bits, notes) {
                    // The next one begins where something is left, and after what was stuck.
                    let part = notes.part + u32::from(notes.stuck > 0 || cheap(notes).is_none());
                    state.set_source(block, part * words);
                    return Some(start);
                }
            }
            notes.part += 1;
        }
        None
    }

    /// Returns whether the used frames of a block are single ones, or of smaller blocks if `moves_blocks`, as far as
    /// tags say.
    fn all_move(
        &self,
        start: FrameIdx,
        order: Order,
        moves_blocks: bool,
        bits: &[u64],
        notes: &mut Notes,
    ) -> bool {
        let mut next = start;
        for frame in start.run(1 << order.get()) {
            if frame.get() < next.get() || bits[frame.word()] >> frame.bit() & 1 != 0 {
                continue;
            }
            notes.examined = notes.examined.saturating_add(1);
            match self.frames.tag(frame).allocated() {
                Some(Order::ZERO) => {}
                Some(inside) if moves_blocks && inside < order => {
                    next = frame.plus(inside.frames().0 as usize)
                }
                _ => return false,
            }
        }
        true
    }

    /// Returns the best pageblock to fill with blocks of `order`: one with a frame that cannot move, or else the
    /// fullest of a few dozen; never one that is free as a whole, in a compactor's use, or `emptied`.
    ///
    /// Pageblocks of other types come last, as they do for a request for a movable frame.
    pub(crate) fn choose_target(
        &self,
        order: Order,
        emptied: &Range<BlockIdx>,
        next: impl Fn(usize) -> usize,
    ) -> Option<BlockIdx> {
        let movable = Migratetype::Movable;
        let types = core::iter::once(&movable).chain(movable.fallbacks());
        types.copied().find_map(|m| self.fullest(m, order, emptied, &next))
    }

    /// Returns one of a single type.
    fn fullest(
        &self,
        m: Migratetype,
        order: Order,
        emptied: &Range<BlockIdx>,
        next: impl Fn(usize) -> usize,
    ) -> Option<BlockIdx> {
        let len = self.frames.len();
        let indexed =
            self.index.find(m, Bins::fitting(order), BlockIdx::new(0), &mut SearchEffort::default());
        // The index does not have those that CPUs work on, and in a small zone these are all: one look at some is worth
        // it.
        let looks = if indexed.is_some() { len.div_ceil(TARGETS) } else { 1 };
        let has_room = |s: BlockState| match order {
            Order::ZERO => s.free() > 0,
            _ => s.fit().is_some_and(|fit| fit >= order.get()),
        };
        let fits = |s: BlockState| s.has_type(m) && is_used(s) && has_room(s) && s.owner().is_none();
        for _ in 0..looks {
            let start = next(TARGETS.min(len));
            let states = (start..start + TARGETS.min(len))
                .map(|b| BlockIdx::new(b % len))
                .map(|b| (b, self.frames.state(b)));
            let worth = states.filter(|(b, s)| fits(*s) && !emptied.contains(b));
            let best = worth.max_by_key(|(b, s)| (s.is_skipped(), BLOCK_FRAMES - s.free(), *b));
            if let Some((block, _)) = best {
                return Some(block);
            }
        }
        None
    }
}

/// Returns whether a pageblock is partly used and in no other compactor's use.
fn is_used(s: BlockState) -> bool {
    !s.is_whole() && !s.is_huge() && !s.is_hole() && !s.is_isolated() && s.owner().is_none()
}
