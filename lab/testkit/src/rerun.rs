//! Reruns part of a list of operations, each on the block that it was about in the whole list.
//!
//! An operation names a held block by its place among those that are held. Leaving operations out moves blocks to other
//! places, so a shorter list would do something else. Here each operation keeps the block that it was about; where that
//! block does not exist any more, the operation is left out as well.

use crate::engine::{Build, Verdict};
use crate::op::Op;
use crate::session::Session;
use crate::shrink::quietly;
use pageyard::{PageAllocator, Pfn, Region};
use std::collections::HashMap;

/// A block by the step that made it, and which of that step's blocks it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Made {
    step: usize,
    nth: usize,
}

/// An operation of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The operation.
    pub op: Op,
    /// Its number in the first list, by which its blocks are known.
    number: usize,
    /// The held block that it is about, once it has run.
    about: Option<Made>,
}

impl Step {
    /// Numbers the operations of a first list.
    pub fn number(ops: &[Op]) -> Vec<Step> {
        ops.iter().enumerate().map(|(number, op)| Step { op: *op, number, about: None }).collect()
    }

    /// Returns the step with a simpler operation, or `None` where that changes nothing.
    pub fn with(mut self, simpler: impl FnOnce(&mut Op)) -> Option<Step> {
        let before = self.op;
        simpler(&mut self.op);
        let changed = self.op != before;
        let place = |mut op: Op| op.held_mut().copied();
        if place(self.op) != place(before) {
            // It names another block now.
            self.about = None;
        }
        changed.then_some(self)
    }
}

/// The outcome of some steps.
pub struct Rerun {
    /// Those that ran, each naming the place where its block lay; the last is the one that failed, if one did.
    pub ran: Vec<Step>,
    /// The first fault.
    pub fault: Option<String>,
}

/// Runs steps on a new engine, up to the first fault.
pub fn rerun<B: Build>(build: &B, regions: &[Region], cpus: u32, steps: &[Step]) -> Rerun {
    let mut ran = Vec::with_capacity(steps.len());
    let outcome = quietly(|| {
        let session = Session::new(build, regions, cpus);
        let mut run = Run { session, at: HashMap::new(), owner: HashMap::new() };
        for step in steps {
            if let Some(step) = run.place(*step) {
                ran.push(step);
                run.apply(step)?;
            }
        }
        run.session.finish()
    });
    let verdict = outcome.map_err(|panic| format!("a panic: {panic}")).and_then(|verdict| verdict);
    Rerun { ran, fault: verdict.err() }
}

struct Run<E> {
    session: Session<E>,
    /// Where each block began.
    at: HashMap<Made, Pfn>,
    /// The last block that began at a frame.
    owner: HashMap<Pfn, Made>,
}

impl<E: PageAllocator> Run<E> {
    /// Finds the block that a step is about; `None` where there is no such block.
    fn place(&self, mut step: Step) -> Option<Step> {
        let held = &self.session.held;
        let Some(place) = step.op.held_mut() else { return Some(step) };
        let found = match step.about {
            None => (*place as usize).checked_rem(held.len())?,
            Some(made) => {
                let pfn = *self.at.get(&made).filter(|pfn| self.owner.get(*pfn) == Some(&made))?;
                let before = *place as usize;
                let unmoved = held.get(before).is_some_and(|block| block.pfn == pfn);
                if unmoved { before } else { held.iter().position(|block| block.pfn == pfn)? }
            }
        };
        *place = found as u32;
        step.about = self.owner.get(&held[found].pfn).copied();
        Some(step)
    }

    fn apply(&mut self, step: Step) -> Verdict {
        let before = self.session.held.len();
        self.session.apply(step.op)?;
        for (nth, block) in self.session.held.iter().skip(before).enumerate() {
            let made = Made { step: step.number, nth };
            self.at.insert(made, block.pfn);
            self.owner.insert(block.pfn, made);
        }
        Ok(())
    }
}
