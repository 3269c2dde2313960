//! The replay's book: which block of the engine stands for which recorded block.

use crate::bitmap::FrameSet;
use crate::engine::LabEngine;
use pageyard::{BlockId, Frames, FreeError, Order, Pfn, block};

/// The largest order that a recorded block can have.
const LARGEST: Order = Order::of(10);

const NONE: u8 = 0;
const UNSERVED: u8 = 0x80;

/// What a recorded block is in the replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The engine's block at this frame stands for it.
    Held(Pfn),
    /// The engine refused the request for it.
    Unserved,
}

/// The book. Recorded blocks are named by their first frame and order.
pub struct Ledger {
    /// For each recorded frame that starts a block: the engine's frame.
    engine: Vec<u32>,
    /// For each recorded frame: 1 + the order of the block that starts here, or [`NONE`]; [`UNSERVED`] may be set.
    order: Vec<u8>,
    /// First frames of blocks that a row allocated and none freed. A free of a part that is not the first, and an
    /// allocation that covers other blocks' first frames, leave it alone: that is how recordings are counted.
    heads: FrameSet,
    /// The engine's frames that stand for something.
    taken: FrameSet,
    /// How many those are.
    pub held_frames: u64,
    /// Frames that the engine handed out while they stood for something.
    pub double_frames: u64,
    /// Blocks that were freed in parts.
    pub splits: u64,
}

impl Ledger {
    /// Makes an empty book for a machine whose frames end at `end`.
    pub fn new(end: Pfn) -> Ledger {
        let frames = end.0 as usize;
        Ledger {
            engine: vec![0; frames],
            order: vec![NONE; frames],
            heads: FrameSet::new(end),
            taken: FrameSet::new(end),
            held_frames: 0,
            double_frames: 0,
            splits: 0,
        }
    }

    /// Says whether the book has the frame at all.
    pub fn covers(&self, pfn: Pfn, order: Order) -> bool {
        pfn.0.checked_add(order.frames().0).is_some_and(|end| end <= self.order.len() as u64)
    }

    /// Enters a block of the opening state.
    pub fn open(&mut self, pfn: Pfn, order: Order) {
        self.put(pfn, order, Entry::Held(pfn));
        self.take(pfn, order);
    }

    /// Enters a block that an event allocated; returns `false` where the engine handed out frames that were taken.
    pub fn allocate(&mut self, pfn: Pfn, order: Order, entry: Entry) -> bool {
        self.put(pfn, order, entry);
        match entry {
            Entry::Held(at) => self.take(at, order) == 0,
            Entry::Unserved => true,
        }
    }

    fn put(&mut self, pfn: Pfn, order: Order, entry: Entry) {
        let i = pfn.0 as usize;
        (self.engine[i], self.order[i]) = match entry {
            Entry::Held(at) => (at.0 as u32, 1 + order.get()),
            Entry::Unserved => (0, UNSERVED | (1 + order.get())),
        };
    }

    fn take(&mut self, at: Pfn, order: Order) -> u64 {
        let already = self.taken.insert(at, order.frames());
        self.held_frames += order.frames().0 - already;
        self.double_frames += already;
        already
    }

    /// Returns the entry of the block that starts at `pfn`, if one does.
    fn entry(&self, pfn: Pfn) -> Option<(Order, Entry)> {
        let raw = self.order[pfn.0 as usize];
        let order = Order::new((raw & !UNSERVED).checked_sub(1)?)?;
        let entry = match raw & UNSERVED {
            0 => Entry::Held(Pfn(u64::from(self.engine[pfn.0 as usize]))),
            _ => Entry::Unserved,
        };
        Some((order, entry))
    }

    /// Finds the block that holds a frame.
    fn holder(&self, pfn: Pfn) -> Option<(BlockId, Entry)> {
        block::holders(pfn, LARGEST).find_map(|b| {
            let (order, entry) = self.entry(b.pfn)?;
            (order >= b.order).then_some((BlockId { pfn: b.pfn, order }, entry))
        })
    }

    /// Takes everything out of the book that the block covers, splitting what reaches beyond it; `each` gets the
    /// parts.
    ///
    /// # Errors
    /// [`FreeError`] where the engine refuses to split.
    pub fn remove<E: LabEngine + ?Sized>(
        &mut self,
        engine: &E,
        pfn: Pfn,
        order: Order,
        mut each: impl FnMut(BlockId, Entry),
    ) -> Result<(), FreeError> {
        let end = pfn + order.frames();
        let mut at = pfn;
        while at < end {
            let Some((b, entry)) = self.holder(at) else {
                at = Pfn(at.0 + 1);
                continue;
            };
            if b.pfn < pfn || b.order > order {
                self.halve(engine, b, entry)?;
                continue;
            }
            self.order[b.pfn.0 as usize] = NONE;
            if let Entry::Held(frame) = entry {
                self.taken.remove(frame, b.order.frames());
                self.held_frames -= b.order.frames().0;
            }
            each(b, entry);
            at = b.pfn + b.order.frames();
        }
        Ok(())
    }

    /// Splits a block in two, in the engine and in the book.
    fn halve<E: LabEngine + ?Sized>(
        &mut self,
        engine: &E,
        b: BlockId,
        entry: Entry,
    ) -> Result<(), FreeError> {
        let Some(half) = b.order.smaller() else { return Ok(()) };
        let upper = match entry {
            Entry::Held(at) => {
                engine.split(at, b.order, half)?;
                Entry::Held(at + half.frames())
            }
            Entry::Unserved => Entry::Unserved,
        };
        self.put(b.pfn, half, entry);
        self.put(b.pfn + half.frames(), half, upper);
        self.splits += 1;
        Ok(())
    }

    /// Notes that a row allocates a block here; says whether an earlier row did and none freed it.
    pub fn note_alloc(&mut self, pfn: Pfn) -> bool {
        self.heads.insert(pfn, Frames(1)) > 0
    }

    /// Notes that a row frees a block here; says whether an earlier row allocated it.
    pub fn note_free(&mut self, pfn: Pfn) -> bool {
        let known = self.heads.contains(pfn);
        self.heads.remove(pfn, Frames(1));
        known
    }
}
