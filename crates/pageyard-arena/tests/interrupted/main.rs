//! Every sequence, interrupted before each of its instructions.
//!
//! The program finds its own sequences by their descriptors and decodes their instructions. For each instruction it
//! writes a breakpoint over it and runs the operation: the thread stops exactly there, a signal handler runs *there and
//! then* and does something awkward, and the operation goes on. Afterwards every item must be where it belongs, and the
//! operation must have happened once or not at all. That the place was hit is seen from where the kernel sends the
//! thread when the handler returns: to the sequence's abort handler.

mod operations;
mod places;
mod trap;

use operations::{Machine, Operation};
use places::{Place, places};
use std::collections::BTreeMap;
use std::sync::Mutex;
use trap::Action;

/// Breakpoints are in the program's text, so one test uses them at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Finds for each sequence an operation that runs into it.
fn reached(places: &[Place]) -> BTreeMap<usize, Operation> {
    let mut found = BTreeMap::new();
    let mut sequences: Vec<_> = places.iter().map(|p| p.sequence).collect();
    sequences.dedup();
    for sequence in sequences {
        let first = places.iter().find(|p| p.sequence == sequence).expect("it has instructions");
        let hits = |op: &&Operation| {
            let mut machine = Machine::new();
            trap::arm(first, places, Action::Nothing);
            machine.run(**op);
            trap::disarm() > 0
        };
        if let Some(op) = Operation::ALL.iter().find(hits) {
            found.insert(sequence, *op);
        }
    }
    found
}

/// Interrupts every sequence before every instruction with `action`, and lets `judge` look at each outcome.
fn interrupt_everywhere(action: Action, judge: impl Fn(&Place, &Machine, Operation)) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    trap::install();
    operations::cpus();
    operations::pin(0);
    let places = places();
    let reached = reached(&places);
    let (mut hit, mut missed) = (0, Vec::new());
    for place in &places {
        let Some(op) = reached.get(&place.sequence) else {
            missed.push(place.sequence);
            continue;
        };
        // Some instructions are on one path only: other operations reach the rest.
        let mut there = false;
        for op in std::iter::once(op).chain(Operation::ALL) {
            let mut machine = Machine::new();
            trap::arm(place, &places, action);
            machine.run(*op);
            let hits = trap::disarm();
            operations::pin(0);
            if hits > 0 {
                there = true;
                hit += 1;
                machine.conserves_items(place, *op, action);
                judge(place, &machine, *op);
                break;
            }
        }
        // Where every attempt is interrupted, the code after a sequence is never reached.
        assert!(there || action == Action::Always, "{place}: no operation came by");
    }
    missed.dedup();
    let sequences = reached.len();
    println!("{action:?}: {hit} places in {sequences} sequences interrupted; {} more copies", missed.len());
    // Pop, push, both in bulk, the spill, the move of the count, the floor, both ways to win a tag and eight of them,
    // and counting, each at least once.
    let kinds: std::collections::BTreeSet<_> = reached.values().map(|op| op.kind()).collect();
    assert_eq!(kinds.len(), operations::KINDS, "{kinds:?}");
    // The compiler may keep copies of a sequence that nothing here runs into: they differ by their registers only.
    let shape = |sequence: usize| -> Vec<_> {
        places.iter().filter(|p| p.sequence == sequence).map(|p| p.mnemonic).collect()
    };
    let run: std::collections::BTreeSet<_> = reached.keys().map(|s| shape(*s)).collect();
    assert!(missed.iter().all(|s| run.contains(&shape(*s))), "a sequence was not run");
}

#[test]
fn a_signal_whose_handler_uses_the_same_list() {
    for action in [
        Action::PopAndPush,
        Action::PopAndKeep,
        Action::PushAnother,
        Action::Fill,
        Action::Drain,
        Action::FreeTwin,
    ] {
        interrupt_everywhere(action, |place, machine, op| {
            machine.happened_once(place, op);
            assert_eq!(
                trap::restarted(),
                !place.after,
                "{place}: the handler returned to {:?}",
                trap::returned()
            );
            let aborts = machine.rseq.counts().aborts;
            // The floor's stacks do not count.
            assert!(op.of_stack() || place.after || aborts > 0, "{place}: no abort counted");
        });
    }
}

#[test]
fn a_move_to_another_cpu() {
    if operations::cpus() < 2 {
        println!("skipped: there is one CPU");
        return;
    }
    interrupt_everywhere(Action::Migrate, |place, machine, op| {
        machine.happened_once(place, op);
        // Before the last instruction has run nothing has happened, so the other CPU's list is used.
        machine.used_only(if place.after { 0 } else { 1 }, place, op);
    });
}

#[test]
fn a_fork() {
    interrupt_everywhere(Action::Fork, |place, machine, op| {
        machine.happened_once(place, op);
        assert_eq!(trap::child_failed(), None, "{place}: what the child says");
    });
}

#[test]
fn an_end_of_the_thread() {
    interrupt_everywhere(Action::Exit, |place, machine, op| {
        if !place.after {
            machine.did_nothing(place, op);
        }
    });
}

#[test]
fn an_interruption_of_every_attempt() {
    interrupt_everywhere(Action::Always, |place, machine, op| {
        if !place.after && !op.of_stack() {
            machine.did_nothing(place, op);
            let counts = machine.rseq.counts();
            // Eight tags are then won one by one, and not in a sequence at last.
            let falls_back = counts.fallbacks > 0 || op.frees_eight();
            assert!(falls_back && counts.aborts >= 8, "{place}: {counts:?}");
        }
    });
}
