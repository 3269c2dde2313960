//! Helpers that panic: nothing is lost, and nothing has two owners.

use crate::common::{CX, bare, normal, request, sound};
use pageyard_core::compaction::{Busy, Migrate, MigrateError, Mode, Step};
use pageyard_core::reclaim::{PressureAllocator, Reclaim, Reclaimed, Shortage};
use pageyard_core::{CpuSet, Cx, Frames, Migratetype::Movable, Order, PageAllocator, Pfn, Request, ZoneId};
use pageyard_linux::{Config, LinuxAllocator};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

/// The panic message of a helper.
const WORD: &str = "a helper panics, as the test asked";

/// An owner of single frames that can all be moved; it panics when it is told of the `at`th step.
struct Owner {
    held: RefCell<BTreeSet<u64>>,
    told: Cell<u64>,
    at: u64,
}

impl Reclaim for Owner {
    fn reclaim(&self, _: &Cx, _: &Shortage) -> Reclaimed {
        Reclaimed::default()
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        Frames::ZERO
    }
}

// SAFETY: its set is its only reference to frames.
unsafe impl Migrate for Owner {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, _: Mode) -> Result<Pfn, Busy> {
        if self.held.borrow_mut().remove(&pfn.0) { Ok(pfn) } else { Err(Busy::Pinned) }
    }

    fn migrate(&self, _: &mut Pfn, to: Pfn, _: Mode) -> Result<(), MigrateError> {
        assert!(self.held.borrow_mut().insert(to.0), "{to:?} has an owner already");
        Ok(())
    }

    fn step(&self, _: Step) {
        self.told.set(self.told.get() + 1);
        if self.told.get() == self.at {
            panic_any(WORD);
        }
    }

    fn putback(&self, from: Pfn) {
        assert!(self.held.borrow_mut().insert(from.0), "{from:?} has an owner already");
    }
}

/// Lets a request compact, with a panic at the `at`th step; returns how many steps there were, and whether it got its
/// block.
fn compacts(config: &Config, at: u64) -> (u64, bool) {
    let a: LinuxAllocator = normal(1 << 13, &bare(config.clone()));
    let mut all = Vec::new();
    while let Ok(pfn) = a.alloc(&CX, &request(0, Movable)) {
        all.push(pfn);
    }
    let (keep, free): (Vec<Pfn>, Vec<Pfn>) = all.into_iter().partition(|pfn| pfn.0 % 16 == 5);
    free.into_iter().for_each(|pfn| a.free(&CX, pfn, Order::ZERO).unwrap());
    a.drain(CpuSet::All);
    let held = keep.iter().map(|pfn| pfn.0).collect();
    let owner = Owner { held: RefCell::new(held), told: Cell::new(0), at };
    let got =
        catch_unwind(AssertUnwindSafe(|| a.alloc_with(&CX, &Request::new(Order::of(9), Movable), &owner)));
    let got = match got {
        Ok(got) => got.ok(),
        Err(why) => {
            assert_eq!(why.downcast_ref::<&str>(), Some(&WORD), "{}", config.name);
            None
        }
    };
    let census = a.audit().unwrap();
    let mine = owner.held.borrow().len() as u64 + got.map_or(0, |_| 512);
    assert_eq!(census.allocated, Frames(mine), "{}, step {at}", config.name);
    assert!(census.is_conserved(), "{}, step {at}: {census:?}", config.name);
    owner.held.borrow().iter().for_each(|pfn| a.free(&CX, Pfn(*pfn), Order::ZERO).unwrap());
    sound(&a);
    (owner.told.get(), got.is_some())
}

#[test]
fn a_helper_that_panics_at_any_step_of_a_compaction_loses_no_frame() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&WORD) {
            usual(info);
        }
    }));
    for name in ["linux-4.6", "linux-6.1", "linux-6.12"] {
        let config = Config::preset(name).unwrap();
        let (steps, got) = compacts(&config, 0);
        assert!(steps > 3 && got, "{name}: {steps} steps");
        for at in 1..=steps {
            compacts(&config, at);
        }
    }
}
