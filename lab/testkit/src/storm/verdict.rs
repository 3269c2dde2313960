//! The checks at the end of a round, while nothing runs: first with blocks held, then with everything free.

use super::fault::Rule;
use super::kinds::Kind;
use super::oracle::{self, Owner};
use super::shared::Shared;
use super::watched::Way;
use super::worker::Left;
use crate::naive::{Naive, Zone};
use pageyard::reclaim::NoHelp;
use pageyard::{
    AllocError, BlockId, Census, Counter, CpuId, CpuSet, Cx, MemoryMap, Migratetype, NodeMask, Order, PerCpu,
    Pfn, Request, RequestFlags, ZoneKind,
};

/// Who calls while nothing runs.
const CX: Cx = Cx::on(CpuId(0));

/// Judges a round and frees everything.
pub(super) fn judge<P: PerCpu>(shared: &Shared<'_, P>, left: &[Left], map: &MemoryMap<'_>) {
    let mut held: Vec<(Owner, BlockId)> = left.iter().flat_map(|l| l.held.iter().copied()).collect();
    for (at, pfn, rests) in shared.movers.contents() {
        if !rests {
            shared.wrong(Rule::PutBack, Some(pfn.0), || {
                format!("frame {pfn:#x?} of the shared owner is still isolated")
            });
        }
        held.push((oracle::slot(at), BlockId { pfn, order: Order::ZERO }));
    }
    let live: u64 = held.iter().map(|(_, block)| block.order.frames().0).sum();
    assert_eq!(live, shared.oracle.owned(), "the storm's own books do not agree");
    let Some(census) = audit(shared, "with blocks held") else { return };
    count(shared, &census, live);
    told(shared, &held);
    for block in left.iter().flat_map(|l| &l.isolated) {
        shared.ranges.open(*block);
        if !shared.subject.restore(&CX, *block) {
            shared.wrong(Rule::Isolation, Some(block.start().0), || {
                format!("pageblock {block} was isolated and is not any more")
            });
        }
    }
    shared.subject.drain(CpuSet::All);
    let mut model = Naive::new(map, shared.cpus, shared.largest);
    for (_, block) in &held {
        if let Err(why) = model.take(block.pfn, block.order) {
            shared.wrong(Rule::Owners, Some(block.pfn.0), || why);
            return;
        }
    }
    if shared.subject.is_pageyard() {
        free_is_free(shared, &model);
        requests_count_once(shared);
    }
    for (owner, block) in held {
        model.give(block.pfn, block.order);
        if !shared.give(owner, 0, &CX, block) {
            return;
        }
        if shared.watched.is_some_and(|w| matches!(w.way, Way::Cleared { on_free: true, .. }))
            && let Some(dirty) = shared.oracle.first_dirty(block)
        {
            shared.wrong(Rule::Zeros, Some(dirty), || format!("{block:?} was not cleared when it was freed"));
        }
    }
    told(shared, &[]);
    all_is_free(shared, &model);
}

/// Compares the observer's table with the blocks that are held.
fn told<P: PerCpu>(shared: &Shared<'_, P>, held: &[(Owner, BlockId)]) {
    let Some(watched) = shared.watched.filter(|w| w.way == Way::Observed) else { return };
    if let Some((_, block)) = held.iter().find(|(_, block)| !watched.is_live(*block)) {
        shared.wrong(Rule::Told, Some(block.pfn.0), || format!("{block:?} is held, and was not told to be"));
    }
    if watched.live() != held.len() {
        let (live, held) = (watched.live(), held.len());
        shared.wrong(Rule::Told, None, || format!("{held} blocks are held, and {live} were told to be"));
    }
}

fn audit<P: PerCpu>(shared: &Shared<'_, P>, when: &str) -> Option<Census> {
    match shared.subject.audit() {
        Ok(census) => Some(census),
        Err(why) => {
            shared.wrong(Rule::Audit, Some(why.pfn.0), || format!("{when}: {why}"));
            None
        }
    }
}

/// Compares the engine's counts with the frames that are held.
fn count<P: PerCpu>(shared: &Shared<'_, P>, census: &Census, live: u64) {
    if !census.is_conserved() || census.allocated.0 != live || census.managed.0 != shared.machine.managed() {
        shared.wrong(Rule::Census, None, || format!("{live} frames are held, but {census:?}"));
    }
    let stats = shared.subject.stats();
    let (allocated, freed) = (stats[Counter::Pgalloc], stats[Counter::Pgfree]);
    if allocated.wrapping_sub(freed) != live {
        shared.wrong(Rule::Counters, None, || {
            let off = allocated as i128 - freed as i128 - i128::from(live);
            format!(
                "pgalloc {allocated} less pgfree {freed} is {off} off from the {live} frames held; \
                 pgmigrate_success is {}",
                stats[Counter::PgmigrateSuccess]
            )
        });
    }
}

/// Returns a request that a zone must serve if it has a block.
fn of_zone(zone: &Zone, order: Order) -> Request {
    Request {
        highest_zone: zone.span.kind,
        nodes: NodeMask::only(zone.span.node),
        ..Request::new(order, Migratetype::Movable).with(RequestFlags::MEMALLOC)
    }
}

/// Allocates a block from a zone. Each request that fails gives back one pageblock that is reserved for high-order
/// requests.
fn ask<P: PerCpu>(shared: &Shared<'_, P>, zone: &Zone, order: Order) -> Result<Pfn, AllocError> {
    let reserved = shared.subject.stats()[Counter::HighatomicReserve];
    let mut answer = shared.subject.alloc(&CX, &of_zone(zone, order));
    for _ in 0..reserved {
        if answer.is_ok() {
            break;
        }
        answer = shared.subject.alloc(&CX, &of_zone(zone, order));
    }
    answer
}

/// Demands the largest free blocks of each zone, with blocks held and all lists empty.
fn free_is_free<P: PerCpu>(shared: &Shared<'_, P>, model: &Naive) {
    for zone in model.zones().iter().filter(|z| z.span.kind <= ZoneKind::Movable) {
        let fits = |order: &Order| zone.fitting(*order).next();
        let Some(largest) = Order::ZERO.up_to(shared.merges_to()).take_while(|o| fits(o).is_some()).last()
        else {
            continue;
        };
        for order in [largest, Order::of(largest.get() / 2)] {
            match ask(shared, zone, order) {
                Ok(pfn) if !model.is_free(pfn, order) => {
                    return shared.wrong(Rule::Owners, Some(pfn.0), || {
                        format!(
                            "frame {pfn:#x?}, order {order}, was handed out although not all of it is free"
                        )
                    });
                }
                Ok(pfn) => {
                    if let Err(why) = shared.subject.free(&CX, pfn, order) {
                        shared.wrong(Rule::RightFree, Some(pfn.0), || format!("order {order}: {why}"));
                    }
                    shared.oracle.fill(BlockId { pfn, order }, true);
                }
                Err(why) => {
                    let pfn = fits(&order).map(|p| p.0);
                    shared.wrong(Rule::Free, pfn, || {
                        format!("zone {} has a free block of order {order} here, but: {why}", zone.id)
                    });
                }
            }
        }
        shared.subject.drain(CpuSet::All);
    }
}

/// Makes requests that are refused, and checks how they are counted.
fn requests_count_once<P: PerCpu>(shared: &Shared<'_, P>) {
    let names = [Counter::AllocSlow, Counter::KswapdWake, Counter::AllocFail];
    let look = || names.map(|c| shared.subject.stats()[c]);
    for order in [Order::MAX, Order::of(9), Order::of(3)] {
        let request = Request::new(order, Migratetype::Movable);
        for help in [false, true] {
            if help && !shared.mix.has(Kind::Direct) {
                continue;
            }
            let before = look();
            let answer = match help {
                true => shared.subject.alloc_with(&CX, &request, &NoHelp),
                false => shared.subject.alloc(&CX, &request),
            };
            let after = look();
            let more: [u64; 3] = core::array::from_fn(|i| after[i] - before[i]);
            if let Ok(pfn) = answer {
                shared.oracle.fill(BlockId { pfn, order }, true);
                if let Err(why) = shared.subject.free(&CX, pfn, order) {
                    shared.wrong(Rule::RightFree, Some(pfn.0), || format!("order {order}: {why}"));
                }
            } else if more != [1, 1, 1] {
                let call = if help { "alloc_with" } else { "alloc" };
                shared.wrong(Rule::Requests, None, || {
                    format!(
                        "one refused {call} of order {order} was counted {more:?} times as allocslow, \
                         kswapd_wake and allocfail"
                    )
                });
            }
        }
    }
}

/// With everything free: audit, counters, merging; and every frame can be allocated in blocks as large as the layout
/// allows. Linux keeps reserves from requests that Pageyard gives them to, so other engines are not asked for those.
fn all_is_free<P: PerCpu>(shared: &Shared<'_, P>, model: &Naive) {
    shared.subject.drain(CpuSet::All);
    let Some(census) = audit(shared, "with everything free") else { return };
    count(shared, &census, 0);
    if census.free != census.managed {
        shared.wrong(Rule::Census, None, || format!("everything was freed and drained, but {census:?}"));
    }
    if shared.area.is_none()
        && let Err(why) = shared.subject.all_free(model)
    {
        shared.wrong(Rule::Merged, None, || why);
    }
    if shared.subject.is_pageyard() {
        all_is_taken(shared, model);
    }
}

/// Allocates everything in blocks as large as the layout allows, and frees it.
fn all_is_taken<P: PerCpu>(shared: &Shared<'_, P>, model: &Naive) {
    let mut taken: Vec<(Pfn, Order)> = Vec::new();
    for zone in model.zones().iter().filter(|z| z.span.kind <= ZoneKind::Movable) {
        let merged = zone.merged(shared.merges_to());
        for order in Order::ZERO.up_to(shared.merges_to()).rev() {
            for n in 0..merged[order.index()] {
                // Another zone of the node may serve it as well: then this one's turn comes with the next.
                match ask(shared, zone, order) {
                    Ok(pfn) => taken.push((pfn, order)),
                    Err(why) => {
                        shared.wrong(Rule::Merged, Some(zone.span.start.0), || {
                            let all = merged[order.index()];
                            format!(
                                "zone {} is free, but block {n} of {all} of order {order}: {why}",
                                zone.id
                            )
                        });
                        return;
                    }
                }
            }
        }
    }
    for (pfn, order) in &taken {
        if let Err(why) = model
            .is_free(*pfn, *order)
            .then_some(())
            .ok_or("it is not free".to_owned())
            .and(shared.subject.free(&CX, *pfn, *order).map_err(|e| e.to_string()))
        {
            return shared
                .wrong(Rule::RightFree, Some(pfn.0), || format!("frame {pfn:#x?}, order {order}: {why}"));
        }
    }
    shared.subject.drain(CpuSet::All);
    if let Some(census) = audit(shared, "after everything was allocated and freed")
        && census.free != census.managed
    {
        shared.wrong(Rule::Census, None, || format!("everything was freed and drained, but {census:?}"));
    }
}
