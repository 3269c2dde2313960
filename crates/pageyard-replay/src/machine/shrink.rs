//! A smaller machine: frames that nothing in the trace touches are removed, so that it runs short of memory.

use super::{Machine, Opening, Start};
use crate::error::ReplayError;
use pageyard::{Frames, Migratetype, PAGE_SIZE, Pfn};

/// Says which states are meant.
type Which = fn(Start) -> bool;

impl Machine {
    /// Removes frames until `memory` bytes are left.
    ///
    /// First those that no event names: free ones, then held ones. If that is not enough, free ones that events do
    /// name: the engine returns frames of its own choice, so they are only names in the replay's ledger.
    /// Of each kind the longest runs go first.
    ///
    /// # Errors
    /// [`ReplayError::Memory`] where the machine has less, or more is in use that the trace frees.
    pub fn shrink(&mut self, opening: &Opening, memory: u64) -> Result<Frames, ReplayError> {
        let managed = self.managed();
        let want = memory / PAGE_SIZE;
        let mib = |frames: u64| (frames * PAGE_SIZE) >> 20;
        let fail = |why| Err(ReplayError::Memory { asked: memory >> 20, why });
        if want > managed.0 {
            return fail(format!("the recorded machine had {} MiB", mib(managed.0)));
        }
        let mut away = managed.0 - want;
        let mut runs = Vec::new();
        let free: Which = |s| s == Start::Free;
        let movable: Which = |s| s.held_as() == Some(Migratetype::Movable);
        let held: Which = |s| s == Start::Held;
        for (is, named) in [(free, false), (movable, false), (held, false), (free, true)] {
            let mut of_state = self.runs_of(opening, is, named);
            of_state.sort_by_key(|(pfn, frames)| std::cmp::Reverse((*frames, *pfn)));
            runs.extend(of_state);
        }
        let possible: u64 = runs.iter().map(|(_, frames)| frames.0).sum();
        if possible < away {
            let least = mib(managed.0 - possible) + 1;
            return fail(format!("{least} MiB are in use at the start that the trace frees, and must stay"));
        }
        let taken = away;
        self.made_smaller |= taken > 0;
        for (pfn, frames) in runs {
            if away == 0 {
                break;
            }
            // The upper end of the run, so that the rest stays aligned at its lower end.
            let n = frames.0.min(away);
            let from = Pfn(pfn.0 + frames.0 - n);
            self.start[from.0 as usize..(from.0 + n) as usize].fill(Start::Unmanaged);
            away -= n;
        }
        Ok(Frames(taken))
    }

    /// Finds the runs of frames in these states that events name, or that none names.
    fn runs_of(&self, opening: &Opening, is: Which, named: bool) -> Vec<(Pfn, Frames)> {
        let mut runs = Vec::new();
        for (start, frames, of_state) in self.runs(Pfn(0), self.end(), is) {
            if !of_state {
                continue;
            }
            let end = start.0 + frames.0;
            let mut from = start.0;
            for f in start.0..=end {
                if f == end || opening.touched.contains(Pfn(f)) != named {
                    if f > from {
                        runs.push((Pfn(from), Frames(f - from)));
                    }
                    from = f + 1;
                }
            }
        }
        runs
    }
}
