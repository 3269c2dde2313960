//! Blocks that every thread frees or splits at once, while no thread takes memory: one of them succeeds.
//!
//! Since no thread takes memory meanwhile, every later free is certainly wrong: the block has no new owner.

use super::board::{Board, Entry};
use super::fault::Rule;
use super::kinds::Kind;
use super::shared::add;
use super::worker::Worker;
use pageyard::{BlockId, FreeError, Order, PerCpu, Pfn};
use std::sync::atomic::Ordering::SeqCst;

/// Blocks that a thread puts up.
const EACH: usize = 24;

impl<P: PerCpu> Worker<'_, '_, P> {
    /// Puts blocks up that every thread then frees.
    pub(super) fn contribute(&mut self, board: &Board) {
        self.cursor = 0;
        if !self.shared.mix.has(Kind::Contest) || self.shared.faults.any() {
            return;
        }
        let mut blocks = Vec::new();
        while blocks.len() < EACH
            && let Some(block) = self.let_go()
        {
            if !self.shared.disown(self.owner(), self.me, block) {
                return;
            }
            let zeroed = self.shared.mix.has(Kind::Zeroed) && self.rng.u8(..4) == 0;
            self.shared.oracle.fill(block, !zeroed);
            blocks.push((block, zeroed));
        }
        add(&self.shared.tally.contested, blocks.len() as u64);
        board.put_up(blocks);
    }

    /// Tries the next contested block, or one that was freed already.
    pub(super) fn contest(&mut self, board: &Board, call: u32) {
        let entries = board.entries();
        if call % 8 == 1 {
            self.free_again(entries);
        }
        let Some(entry) = entries.get(self.cursor) else { return };
        let block = entry.block;
        let cx = self.cx();
        let subject = &self.shared.subject;
        match self.rng.u8(..8) {
            0 if block.order > Order::ZERO => {
                let to = Order::of(self.rng.u8(..block.order.get()));
                let won = self.noted(Kind::Split, Some(block.pfn), block.order, |_| {
                    let won = subject.split(&cx, block.pfn, block.order, to).is_ok();
                    (won, None, won)
                });
                if won {
                    self.won_by_split(entry, to);
                }
            }
            1 if entry.zeroed => {
                self.one(entry, |_| subject.free_zeroed(&cx, block.pfn, block.order));
            }
            2 if block.order == Order::ZERO => return self.several(entries),
            _ => {
                self.one(entry, |_| subject.free(&cx, block.pfn, block.order));
            }
        }
        self.cursor += 1;
    }

    /// Tries the contested blocks that it has not tried.
    pub(super) fn finish_contest(&mut self, board: &Board) {
        while self.cursor < board.entries().len() && !self.shared.faults.any() {
            self.contest(board, 0);
        }
    }

    fn one(&mut self, entry: &Entry, free: impl FnOnce(&Self) -> Result<(), FreeError>) {
        let block = entry.block;
        let won = self.noted(Kind::Free, Some(block.pfn), block.order, |w| {
            let won = free(w).is_ok();
            (won, None, won)
        });
        if won {
            self.won(entry);
        }
    }

    fn won(&self, entry: &Entry) {
        let before = entry.wins.fetch_add(1, SeqCst);
        if before > 0 {
            let pfn = entry.block.pfn.0;
            self.shared.faults.say(Rule::Contest, Some(self.me), Some(pfn), || {
                format!("{} frees or splits of {:?} succeeded", before + 1, entry.block)
            });
        }
    }

    fn won_by_split(&mut self, entry: &Entry, to: Order) {
        entry.split.store(true, SeqCst);
        self.won(entry);
        let block = entry.block;
        if let Err((frame, found)) = self.shared.oracle.change(block, 0, self.owner()) {
            self.shared.faults.raise(Rule::Owners, self.me, frame, 0, found.into());
            return;
        }
        self.frames += block.order.frames().0;
        let parts = (0..block.order.frames().0).step_by(to.frames().0 as usize);
        self.held.extend(parts.map(|n| BlockId { pfn: Pfn(block.pfn.0 + n), order: to }));
    }

    /// Frees the next contested single frames in one call.
    fn several(&mut self, entries: &[Entry]) {
        let some = &entries[self.cursor..];
        let n = some.iter().take(12).take_while(|e| e.block.order == Order::ZERO).count();
        let some = &some[..n];
        let pfns: Vec<Pfn> = some.iter().map(|e| e.block.pfn).collect();
        let mut refused = Vec::new();
        let cx = self.cx();
        self.shared.subject.free_bulk(&cx, &pfns, |pfn, _| refused.push(pfn));
        for entry in some.iter().filter(|e| !refused.contains(&e.block.pfn)) {
            self.won(entry);
        }
        self.cursor += n;
    }

    /// Frees a block once more that was freed in this stretch.
    fn free_again(&mut self, entries: &[Entry]) {
        if entries.is_empty() {
            return;
        }
        let entry = &entries[self.rng.usize(..entries.len())];
        if entry.wins.load(SeqCst) == 0 || entry.split.load(SeqCst) {
            return;
        }
        let (block, cx) = (entry.block, self.cx());
        let answer = self.shared.subject.free(&cx, block.pfn, block.order);
        if answer != Err(FreeError::NotAllocated) {
            self.shared.faults.say(Rule::WrongCall, Some(self.me), Some(block.pfn.0), || {
                format!("the free of {block:?}, which is free, answered {answer:?}")
            });
        }
    }
}
