//! When compaction holds back: too many frames are isolated, or another task wants the CPU.

use crate::common::{CX, bare, give, normal, sound, take};
use crate::scripted_zone::direct;
use pageyard_core::compaction::{Busy, Listed, Migrate, MigrateError, Mode, Outcome, Step};
use pageyard_core::{CpuSet, Frames, Migratetype, Order, PageAllocator, Pfn, ZoneId};
use pageyard_linux::compaction::{Compactor, compact_for_request};
use pageyard_linux::{Config, LinuxAllocator};
use std::cell::{Cell, RefCell};

const ZONE: ZoneId = ZoneId(0);
const M: Migratetype = Migratetype::Movable;

/// Owns every frame that is in use, and moves any.
#[derive(Default)]
struct Owner {
    /// Frames in its lists; each wait brings one back.
    listed: Option<u64>,
    isolated: Cell<u64>,
    waits: Cell<u32>,
    /// Whether it is worth waiting.
    patient: bool,
    /// After so many questions the CPU is wanted.
    calm: Cell<u32>,
    asked: Cell<u32>,
    moves: Cell<u32>,
    back: Cell<u32>,
    steps: RefCell<Vec<Step>>,
}

// SAFETY: nothing refers to a frame.
unsafe impl Migrate for Owner {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, _: Mode) -> Result<Pfn, Busy> {
        self.asked.set(self.asked.get() + 1);
        Ok(pfn)
    }

    fn migrate(&self, _: &mut Pfn, _: Pfn, _: Mode) -> Result<(), MigrateError> {
        self.moves.set(self.moves.get() + 1);
        Ok(())
    }

    fn listed(&self, zone: ZoneId) -> Option<Listed> {
        assert_eq!(zone, ZONE);
        let isolated = Frames(self.isolated.get());
        self.listed.map(|listed| Listed { listed: Frames(listed), isolated })
    }

    fn wait_for_isolated(&self) -> bool {
        self.waits.set(self.waits.get() + 1);
        self.isolated.set(self.isolated.get().saturating_sub(1));
        self.patient
    }

    fn must_yield(&self) -> bool {
        let left = self.calm.get();
        self.calm.set(left.saturating_sub(1));
        left == 0
    }

    fn step(&self, step: Step) {
        self.steps.borrow_mut().push(step);
    }

    fn putback(&self, _: Pfn) {
        self.back.set(self.back.get() + 1);
    }
}

/// A zone of which every other frame is free.
fn comb(config: Config) -> LinuxAllocator {
    let a = normal(8192, &bare(config));
    for _ in 0..16 {
        let block = take(&a, 9, M);
        a.split(&CX, block, Order::of(9), Order::ZERO).unwrap();
        (0..512).step_by(2).for_each(|n| give(&a, Pfn(block.0 + n), 0));
    }
    a.drain(CpuSet::All);
    a
}

/// Compacts for a request of order 9.
fn compact(a: &LinuxAllocator, owner: &Owner, mode: Mode) -> Outcome {
    let outcome = Compactor::new(a, owner, &CX, direct(9, mode)).unwrap().run();
    sound(a);
    outcome
}

/// An owner whose CPU no other task wants.
fn calm() -> Owner {
    Owner { calm: Cell::new(u32::MAX), ..Owner::default() }
}

#[test]
fn a_compaction_that_does_not_wait_ends_where_too_many_are_isolated() {
    // Of 320 frames: more than a half, a half, more than a sixteenth, a sixteenth.
    let presets = [Config::linux_4_6(), Config::linux_6_1(), Config::linux_6_12()];
    for (isolated, ends) in
        [(161, [true, true, true]), (160, [false, false, true]), (21, [false, false, true]), (20, [false; 3])]
    {
        for (config, ends) in presets.clone().into_iter().zip(ends) {
            let name = config.name;
            let a = comb(config);
            let owner = Owner { listed: Some(320), isolated: Cell::new(isolated), ..calm() };
            let outcome = compact(&a, &owner, Mode::Async);
            assert_eq!(outcome == Outcome::Contended, ends, "{name}, {isolated}: {outcome:?}");
            assert_eq!(owner.asked.get() == 0, ends, "{name}, {isolated}");
            assert_eq!(owner.waits.get(), 0);
        }
    }
    // Where they are not counted, any number may be isolated; and where there is no limit.
    assert_eq!(compact(&comb(Config::linux_6_12()), &calm(), Mode::Async), Outcome::Success);
    let mut config = Config::linux_6_12();
    config.set("compaction.isolated_limit", "off").unwrap();
    let owner = Owner { listed: Some(320), isolated: Cell::new(320), ..calm() };
    assert_eq!(compact(&comb(config), &owner, Mode::Async), Outcome::Success);
}

#[test]
fn one_that_waits_goes_on_when_enough_came_back_and_ends_when_it_is_told_to() {
    let crowd = |patient| Owner { listed: Some(320), isolated: Cell::new(25), patient, ..calm() };
    let owner = crowd(true);
    assert_eq!(compact(&comb(Config::linux_6_12()), &owner, Mode::SyncLight), Outcome::Success);
    assert_eq!(owner.waits.get(), 5, "until 20 were left");
    let owner = crowd(false);
    assert_eq!(compact(&comb(Config::linux_6_12()), &owner, Mode::SyncLight), Outcome::Contended);
    assert_eq!((owner.waits.get(), owner.asked.get()), (1, 0));
    // An owner that always asks to wait, and where nothing comes back, does not keep it for ever.
    let owner = Owner { isolated: Cell::new(1 << 40), ..crowd(true) };
    assert_eq!(compact(&comb(Config::linux_6_12()), &owner, Mode::SyncLight), Outcome::Contended);
    assert_eq!(owner.waits.get(), 1024);
}

#[test]
fn until_5_0_a_cpu_that_is_wanted_ends_an_asynchronous_compaction() {
    let hasty = |calm| Owner { calm: Cell::new(calm), ..Owner::default() };
    for (config, mode, ends) in [
        (Config::linux_4_10(), Mode::Async, true),
        (Config::linux_4_10(), Mode::SyncLight, false),
        (Config::linux_6_1(), Mode::Async, false),
    ] {
        let (name, a, owner) = (config.name, comb(config), hasty(0));
        assert_eq!(compact(&a, &owner, mode) == Outcome::Contended, ends, "{name}, {mode:?}");
        assert_eq!(owner.moves.get() == 0, ends, "{name}, {mode:?}");
    }
    // At the 32nd frame of a pageblock, half of them in use, and when it looks for free ones: what was isolated goes
    // back.
    for (calm, asked) in [(1, 16), (2, 32)] {
        let owner = hasty(calm);
        assert_eq!(compact(&comb(Config::linux_4_10()), &owner, Mode::Async), Outcome::Contended);
        assert_eq!((owner.asked.get(), owner.moves.get(), owner.back.get()), (asked, 0, asked));
    }
}

#[test]
fn a_request_whose_cpu_is_wanted_compacts_no_other_zone() {
    // Too much is isolated: so it ends in a zone, and would go on to the next.
    let begun = |wanted: bool, mode| {
        let mut config = Config::linux_6_1();
        config.set("compaction.deferral", "off").unwrap();
        let a = comb(config);
        let owner = Owner { listed: Some(0), isolated: Cell::new(9), ..calm() };
        owner.calm.set(if wanted { 0 } else { u32::MAX });
        let tried = compact_for_request(&a, &owner, &CX, direct(9, mode), [ZONE, ZONE].into_iter());
        assert_eq!(tried.outcome, Some(Outcome::Contended));
        owner.steps.borrow().iter().filter(|step| matches!(step, Step::Begun { .. })).count()
    };
    assert_eq!((begun(false, Mode::Async), begun(true, Mode::Async)), (2, 1));
    assert_eq!(begun(true, Mode::SyncLight), 2);
}
