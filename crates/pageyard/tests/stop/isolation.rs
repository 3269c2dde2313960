//! A call that is stopped anywhere while a pageblock is isolated and all lists are drained leaves nothing of it in a
//! list, unless it was stopped while it used one: then the drain says so, and another drain, once the call goes on, is
//! complete.

use crate::common::{Blocks, Call, Engine, Ground, alone, cx, machine, movable, steps_of, stopped};
use pageyard::engine::Internals;
use pageyard::{CpuSet, Migratetype, Order, PageAllocator, PageblockId, Pfn};

/// Takes single frames on CPU 0.
fn singles(g: &Ground<'_>, n: usize) -> Blocks {
    (0..n).map(|_| (g.engine.alloc(&cx(0), &movable(0)).unwrap(), Order::ZERO)).collect()
}

fn free_all(g: &Ground<'_>, blocks: Blocks) -> Blocks {
    for (pfn, order) in blocks {
        g.engine.free(&cx(0), pfn, order).unwrap();
    }
    Vec::new()
}

const FREE: Call<'static> = Call { name: "a free", prepare: &|g| singles(g, 1), run: &free_all };
const FREE_PAIR: Call<'static> = Call {
    name: "a free of order 1",
    prepare: &|g| vec![(g.engine.alloc(&cx(0), &movable(1)).unwrap(), Order::of(1))],
    run: &free_all,
};
/// More than a list holds, so that it spills.
const SPILL: Call<'static> = Call { name: "frees that spill", prepare: &|g| singles(g, 20), run: &free_all };
const BULK: Call<'static> = Call {
    name: "a bulk free",
    prepare: &|g| singles(g, 7),
    run: &|g, blocks| {
        let pfns: Vec<_> = blocks.iter().map(|(pfn, _)| *pfn).collect();
        g.engine.free_bulk(&cx(0), &pfns, Order::ZERO, &mut |pfn, why| panic!("{pfn:?}: {why}"));
        Vec::new()
    },
};
const REFILL: Call<'static> = Call { name: "a refill", prepare: &|_| Vec::new(), run: &|g, _| singles(g, 1) };

/// Returns the pageblock where CPU 0 gets and frees single frames.
fn where_it_works(call: &Call<'_>) -> PageblockId {
    let engine = machine();
    let ground = Ground::new(&engine);
    let mut blocks = (call.prepare)(&ground);
    if blocks.is_empty() {
        blocks = (call.run)(&ground, blocks);
    }
    blocks[0].0.pageblock()
}

/// Takes all that lists hold, and some more, on every CPU; returns what lies in the pageblock.
fn handed_out_of(engine: &Engine, out: PageblockId, held: &mut Blocks) -> Vec<Pfn> {
    for (cpu, order, ty) in (0..3).flat_map(|cpu| (0..4).map(move |k| (cpu, k, Migratetype::Movable))) {
        for _ in 0..12 {
            let got = engine.alloc(&cx(cpu), &crate::common::request(order, ty));
            held.extend(got.ok().map(|pfn| (pfn, Order::of(order))));
        }
    }
    held.iter().map(|(pfn, _)| *pfn).filter(|pfn| pfn.pageblock() == out).collect()
}

/// Stops a call before each of its steps, isolates its pageblock and drains all lists, and lets it go on.
fn stop_while_isolated(call: Call<'_>) {
    let _guard = alone();
    let out = where_it_works(&call);
    let (mut leaks, mut completed) = (Vec::new(), 0);
    let steps = steps_of(&call);
    for at in 1..=steps {
        let engine = machine();
        let ground = Ground::new(&engine);
        let (mut held, complete) = stopped(&ground, &[(call, at)], true, || {
            assert!(engine.isolate(&cx(0), out));
            engine.drain(CpuSet::All).is_complete()
        });
        completed += u64::from(complete);
        if !complete {
            // It was stopped while it used a list, and the drain said so.
            assert!(engine.drain(CpuSet::All).is_complete(), "nothing is stopped any more");
        }
        // What the call itself got it had claimed before the pageblock was isolated, or elsewhere.
        let mut later = Vec::new();
        if !handed_out_of(&engine, out, &mut later).is_empty() {
            leaks.push(at);
        }
        assert!(engine.restore(&cx(0), out));
        held.extend(later);
        ground.judge(held, &format!("{} before step {at}", call.name));
    }
    // A call that has locked a list, as a free has for six of its nine steps, makes the drain incomplete; before and
    // after that it is complete. The test must reach both.
    assert!((1..steps).contains(&completed), "{completed} of {steps} drains were complete");
    println!("{}: {completed} of {steps} drains were complete", call.name);
    assert!(
        leaks.is_empty(),
        "{}, stopped before steps {leaks:?} of {steps}: then frames of the isolated pageblock are handed out",
        call.name
    );
}

#[test]
fn a_free_that_is_stopped() {
    stop_while_isolated(FREE);
}

#[test]
fn a_free_of_several_frames_that_is_stopped() {
    stop_while_isolated(FREE_PAIR);
}

#[test]
fn a_spill_that_is_stopped() {
    stop_while_isolated(SPILL);
}

#[test]
fn a_bulk_free_that_is_stopped() {
    stop_while_isolated(BULK);
}

#[test]
fn a_refill_that_is_stopped() {
    stop_while_isolated(REFILL);
}
