//! Memory is filled before the test begins: by the load, and by the kernel's own memory, which grows meanwhile.

use super::settings::Settings;
use crate::engine::ReplayEngine;
use crate::workload::load::Load;
use crate::workload::object::Role;
use crate::workload::owners::Owners;
use pageyard::{Counter, CpuId, Cx, Migratetype, Nanos, Order, PAGE_SIZE, PressureAllocator, Request};

/// Steps in which memory is filled, by round of the load.
const FILL_STEPS: u64 = 64;

/// The most rounds until memory has to have run short.
const FILL_ROUNDS: u64 = 64;

/// Runs the load until memory is short, and beyond; the kernel's own memory grows meanwhile.
pub(super) fn fill<E: PressureAllocator + ReplayEngine>(
    load: &mut Load<'_, '_, E>,
    owners: &Owners<'_, E>,
    settings: &Settings,
) {
    let managed = settings.memory / PAGE_SIZE;
    let mut growth = Growth { owners, settings, rng: fastrand::Rng::with_seed(managed), slab: 0, tables: 0 };
    let step = load.round_ns() / FILL_STEPS + 1;
    let mut settled = None;
    for n in 0..FILL_ROUNDS * FILL_STEPS {
        load.run_until(load.now() + step);
        let full = growth.grow(load.now(), owners.held_frames().0 as f64 / managed as f64);
        let stats = owners.engine().stats();
        if settled.is_none() && full && stats[Counter::PgstealKswapd] + stats[Counter::PgstealDirect] > 0 {
            settled = Some(n + (settings.settle * FILL_STEPS as f64) as u64);
        }
        if settled.is_some_and(|end| n >= end) {
            return;
        }
    }
}

/// Kernel memory that outlives the load.
struct Growth<'a, 'e, E: ?Sized> {
    owners: &'a Owners<'e, E>,
    settings: &'a Settings,
    rng: fastrand::Rng,
    slab: u64,
    tables: u64,
}

impl<E: PressureAllocator + ReplayEngine> Growth<'_, '_, E> {
    /// Brings kernel memory to its share of what is in use; says whether all of it is there.
    fn grow(&mut self, now: u64, used: f64) -> bool {
        let managed = (self.settings.memory / PAGE_SIZE) as f64;
        // All of it is there a little before memory is full.
        let part = (used / 0.9).min(1.0);
        let cx = Cx { now: Nanos(now), ..Cx::on(CpuId(self.rng.u32(0..2))) };
        let mut all = part >= 1.0;
        for (role, share) in [(Role::Slab, self.settings.slab), (Role::PageTable, self.settings.tables)] {
            let want = (share * part * managed) as u64;
            loop {
                let have = if role == Role::Slab { &mut self.slab } else { &mut self.tables };
                if *have >= want {
                    break;
                }
                let m = match role == Role::Slab && self.rng.bool() {
                    true => Migratetype::Reclaimable,
                    false => Migratetype::Unmovable,
                };
                if self.owners.alloc_lasting(&cx, &Request::new(Order::ZERO, m), role).is_err() {
                    all = false;
                    break;
                }
                *have += 1;
            }
        }
        all
    }
}
