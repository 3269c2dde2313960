//! A storm has to find what it is for: engines whose lists are protected wrongly, each in one way.

use pageyard::engine::{CpuLists, DescriptorWatch, ListIdx, Pushed, Unchanged};
use pageyard::{Alone, CpuId, Exclusive, PerCpu, TryLock};
use pageyard_testkit::storm::{self, Kind, Make, Mix, Naming, Plan, Report, Rule, Variant};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A fault planted in the lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Now and then an item that was taken is put back as well.
    TakenTwice,
    /// Now and then an item that was freed is forgotten.
    Forgotten,
    /// Frees are not checked.
    Unchecked,
    /// A list that a CPU uses is not empty after a drain.
    NotDrained,
}

/// [`TryLock`] with a fault.
struct Faulty(Wrong, AtomicU64);

impl Faulty {
    fn now(&self, wrong: Wrong) -> bool {
        self.0 == wrong && self.1.fetch_add(1, Relaxed) % 500 == 499
    }
}

// SAFETY: it is not safe, which is what the storm has to find; only frame numbers are handed out, and no memory.
unsafe impl PerCpu for Faulty {
    const NAME: &'static str = "faulty";

    fn pop(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx) -> Option<u32> {
        let item = TryLock.pop(lists, cpu, list)?;
        if self.now(Wrong::TakenTwice)
            && let Some(list) = lists.get(cpu, list).filter(|l| l.try_lock())
        {
            let _ = list.extend(&[item]);
            list.unlock();
        }
        Some(item)
    }

    fn push(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        item: u32,
        watch: DescriptorWatch<'_>,
        win: impl FnOnce() -> bool,
    ) -> Pushed {
        if self.now(Wrong::Unchecked) {
            return TryLock.push(lists, cpu, list, item, watch, || true);
        }
        if self.now(Wrong::Forgotten) {
            return if win() { Pushed::Kept } else { Pushed::Lost };
        }
        TryLock.push(lists, cpu, list, item, watch, win)
    }

    fn pop_many(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        TryLock.pop_many(lists, cpu, list, out)
    }

    fn push_many(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        TryLock.push_many(lists, cpu, list, items, watch)
    }

    fn refill(
        &self,
        lists: CpuLists<'_>,
        cpu: CpuId,
        list: ListIdx,
        items: &[u32],
        watch: Unchanged<'_>,
    ) -> usize {
        TryLock.refill(lists, cpu, list, items, watch)
    }

    fn spill(&self, lists: CpuLists<'_>, cpu: CpuId, list: ListIdx, out: &mut [u32]) -> usize {
        TryLock.spill(lists, cpu, list, out)
    }

    fn drain(&self, lists: CpuLists<'_>, cpu: CpuId, give: impl FnMut(ListIdx, &mut [u32])) -> u32 {
        if self.0 == Wrong::NotDrained { 0 } else { TryLock.drain(lists, cpu, give) }
    }

    fn reaches_others(&self) -> bool {
        true
    }
}

/// Single blocks, wrong calls and contested frees: enough for these.
fn plan() -> Plan {
    let mix = Mix::parse("alloc,free,bulk,bulk-free,split,wrong,drain,contest,nodes,zeroed").unwrap();
    Plan { seed: 7, time: Duration::from_secs(60), rounds: 40, threads: 4, mix, ..Plan::default() }
}

fn storm_of(wrong: Wrong, plan: &Plan) -> Report {
    let make = || Faulty(wrong, AtomicU64::new(0));
    storm::run(plan, &Variant::new("faulty", Make::Pageyard(&make)))
}

/// Demands that a storm finds one of these rules broken.
#[track_caller]
fn broken(wrong: Wrong, rules: &[Rule]) {
    let report = storm_of(wrong, &plan());
    let Some(found) = report.faults.first() else { panic!("nothing was found in {report}") };
    // An engine that is built with debug assertions may see it first.
    assert!(rules.contains(&found.fault.rule) || found.fault.rule == Rule::Panics, "{found}");
}

#[test]
fn a_frame_that_a_list_hands_out_twice_is_found() {
    // Of two threads that have it, one may free it before the other has written down that it owns it.
    broken(Wrong::TakenTwice, &[Rule::Owners, Rule::RightFree, Rule::Audit]);
}

#[test]
fn a_frame_that_a_list_forgets_is_found() {
    broken(Wrong::Forgotten, &[Rule::Audit]);
}

#[test]
fn a_free_that_is_not_checked_is_found() {
    broken(Wrong::Unchecked, &[Rule::Contest, Rule::WrongCall, Rule::Owners, Rule::Audit, Rule::RightFree]);
}

#[test]
fn lists_that_are_not_drained_are_found() {
    broken(Wrong::NotDrained, &[Rule::Census, Rule::Merged, Rule::Free]);
}

/// Lists without protection that several threads use: what `Exclusive` asks its caller not to do.
#[test]
fn lists_that_two_threads_use_without_protection_are_found() {
    // SAFETY: it is not kept to, which is what the storm has to find; no memory is handed out.
    let make = || unsafe { Exclusive::by_instance() };
    let variant = Variant { cpus: 1, ..Variant::new("unprotected", Make::Pageyard(&make)) };
    let report = storm::run(&Plan { rounds: u64::MAX, ..plan() }, &variant);
    assert!(!report.faults.is_empty(), "nothing was found in {report}");
}

/// Rounds with everything; each machine has its turn.
fn all() -> Plan {
    Plan { seed: 7, time: Duration::from_secs(60), rounds: 28, threads: 4, ..Plan::default() }
}

fn is_strong(report: &Report) -> bool {
    report.watched > 2 && report.moves > 100
}

/// Runs a storm in which each thread has a CPU's lists for itself.
fn each_on_its_own(plan: &Plan) -> Report {
    // SAFETY: the storm's threads name their own CPU only, and no handler allocates.
    let make = || unsafe { Exclusive::by_cpu() };
    let variant = Variant { naming: Naming::Own, ..Variant::new("exclusive", Make::Pageyard(&make)) };
    let report = storm::run(plan, &variant);
    assert!(report.faults.is_empty(), "{}", report.faults[0]);
    report
}

#[test]
fn lists_that_each_thread_has_for_itself_are_not_accused() {
    let report = each_on_its_own(&all());
    assert!(is_strong(&report), "the storm was too weak: {report}");
}

/// Two threads that name one CPU lose counts, which a checked build notices.
#[test]
fn a_claim_by_number_names_the_cpu_of_its_thread() {
    let mix = Mix::parse("claim,free").unwrap();
    let report = each_on_its_own(&Plan { rounds: 100, mix, ..all() });
    assert!(report.kinds[Kind::Claim as usize] > 10_000, "the storm was too weak: {report}");
}

#[test]
fn lists_that_one_thread_has_are_not_accused() {
    // SAFETY: there is one thread, and no handler allocates.
    let make = || unsafe { Alone::by_instance() };
    let variant = Variant { threads: Some(1), ..Variant::new("alone", Make::Pageyard(&make)) };
    let report = storm::run(&all(), &variant);
    assert!(report.faults.is_empty(), "{}", report.faults[0]);
    assert!(is_strong(&report), "the storm was too weak: {report}");
}

#[test]
fn lists_that_are_right_are_not_accused() {
    let report = storm_of(Wrong::Nothing, &plan());
    assert!(report.faults.is_empty(), "{}", report.faults[0]);
    let contested = report.contested;
    assert!(contested > 100 && report.kinds[Kind::Wrong as usize] > 100, "the storm was too weak: {report}");
}
