//! A session: an engine and the naive model side by side, every answer judged.

use crate::engine::{Build, Verdict};
use crate::judge;
use crate::naive::Naive;
use crate::op::Op;
use crate::tally::Tally;
use crate::{check, maps};
use pageyard::{
    AllocError, BlockId, ClaimError, Counter, CpuId, CpuSet, Cx, FreeError, Migratetype, Nanos, Order,
    PAGEBLOCK_ORDER, PageAllocator, Pfn, Region, Request,
};

/// How often a request is repeated if the zones' state does not justify its refusal.
///
/// The first time, frames may have been in other CPUs' lists. After that an engine may still give back one reserved
/// pageblock with each refusal, so the reason that it gives holds for the state before that.
const MOST_ATTEMPTS: u32 = 16;

/// An engine, what the model thinks of it, and the blocks that the test holds.
pub struct Session<E> {
    /// The engine.
    pub engine: E,
    /// The model.
    pub model: Naive,
    /// The blocks held.
    pub held: Vec<BlockId>,
    /// The events so far.
    pub tally: Tally,
    pfns: Vec<Pfn>,
    refusals: Vec<(Pfn, FreeError)>,
}

/// Runs operations on a new engine, frees what is left, and demands that everything merges again.
///
/// # Panics
/// When an answer or a count is wrong. A list that a random run printed is replayed this way.
pub fn replay<B: Build>(build: &B, regions: &[Region], cpus: u32, ops: &[Op]) {
    let mut session = Session::new(build, regions, cpus);
    for (at, op) in ops.iter().enumerate() {
        session.apply(*op).unwrap_or_else(|e| panic!("{}: operation {at}, {op:?}: {e}", build.name()));
    }
    session.finish().unwrap_or_else(|e| panic!("{}: at the end: {e}", build.name()));
}

impl<E: PageAllocator> Session<E> {
    /// Builds an engine and a model of the same machine.
    ///
    /// # Panics
    /// When the memory map is refused.
    #[must_use]
    pub fn new<B: Build<Engine = E>>(build: &B, regions: &[Region], cpus: u32) -> Session<E> {
        let map = maps::checked(regions);
        let engine = build.build(&map, cpus).unwrap_or_else(|e| panic!("{}: {e}", build.name()));
        let mut model = Naive::new(&map, cpus, build.largest_order());
        model.strands = build.strands_reserved_blocks();
        let (held, pfns, refusals) = (Vec::new(), Vec::new(), Vec::new());
        Session { engine, model, held, tally: Tally::default(), pfns, refusals }
    }

    fn cx(&self, cpu: CpuId) -> Cx {
        Cx { now: Nanos(self.tally.ops * 1000), ..Cx::on(cpu) }
    }

    /// Runs one operation and judges the answer.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn apply(&mut self, op: Op) -> Verdict {
        self.tally.ops += 1;
        match op {
            Op::Alloc { cpu, request } => self.alloc(cpu, &request).map(|_| ()),
            Op::Free { cpu, held } => {
                self.pick(held).map_or(Ok(()), |at| self.free_held(cpu, at).map(|_| ()))
            }
            Op::FreeTwice { cpu, held } => self.pick(held).map_or(Ok(()), |at| {
                let BlockId { pfn, order } = self.held[at];
                match self.free_held(cpu, at)? {
                    Ok(()) => self.free_at(cpu, pfn, order).map(|_| ()),
                    Err(_) => Ok(()),
                }
            }),
            Op::FreeWrongOrder { cpu, held, order } => self.pick(held).map_or(Ok(()), |at| {
                let block = self.held[at];
                let next = order.larger().unwrap_or(Order::ZERO);
                let order = if order == block.order { next } else { order };
                self.free_at(cpu, block.pfn, order).map(|_| ())
            }),
            Op::FreeInside { cpu, held, offset } => self.pick(held).map_or(Ok(()), |at| {
                let BlockId { pfn, order } = self.held[at];
                if order == Order::ZERO {
                    return Ok(());
                }
                let inside = Pfn(pfn.0 + 1 + u64::from(offset) % (order.frames().0 - 1));
                // The largest order that can start there and is not the block's own.
                let order = Order::of((inside.0.trailing_zeros() as u8).min(order.get() - 1));
                self.free_at(cpu, inside, order).map(|_| ())
            }),
            Op::FreeAt { cpu, pfn, order } if judge::free(&self.model, Some(cpu), pfn, order).is_ok() => {
                Ok(())
            }
            Op::FreeAt { cpu, pfn, order } => self.free_at(cpu, pfn, order).map(|_| ()),
            Op::Split { held, to } => {
                self.pick(held).map_or(Ok(()), |at| self.split_held(at, to).map(|_| ()))
            }
            Op::SplitAt { pfn, from, to } if judge::split(&self.model, pfn, from, to).is_ok() => Ok(()),
            Op::SplitAt { pfn, from, to } => self.split_at(pfn, from, to).map(|_| ()),
            Op::BulkAlloc { cpu, request, count } => self.bulk_alloc(cpu, &request, count).map(|_| ()),
            Op::BulkFree { cpu, held, count, spoiled } => self.bulk_free(cpu, held, count, spoiled),
            Op::Claim { pfn, order, migratetype } => self.claim(pfn, order, migratetype).map(|_| ()),
            Op::Drain { cpu } => {
                self.drain(CpuSet::One(cpu));
                Ok(())
            }
            Op::DrainAll => {
                self.drain(CpuSet::All);
                Ok(())
            }
            Op::Check => self.check(),
        }
    }

    fn pick(&self, held: u32) -> Option<usize> {
        (held as usize).checked_rem(self.held.len())
    }

    fn take(&mut self, cpu: CpuId, request: &Request, pfn: Pfn) -> Verdict {
        judge::granted(&self.model, cpu, request, pfn)?;
        self.model
            .take(pfn, request.order)
            .map_err(|e| format!("{request:?} was granted what it cannot have: {e}"))?;
        self.held.push(BlockId { pfn, order: request.order });
        self.tally.allocs += 1;
        Ok(())
    }

    /// Allocates a block and holds it; a refusal is an answer, if it is justified.
    ///
    /// # Errors
    /// Says what is wrong with the answer.
    pub fn alloc(&mut self, cpu: CpuId, request: &Request) -> Verdict<Result<Pfn, AllocError>> {
        let cx = self.cx(cpu);
        let mut answer = self.engine.alloc(&cx, request);
        for attempt in 0.. {
            let Err(why) = answer else { break };
            let Err(wrong) = judge::refused(&self.engine, &self.model, cpu, request, why) else { break };
            if attempt == MOST_ATTEMPTS {
                return Err(format!("after a drain, {wrong}"));
            }
            self.drain(CpuSet::All);
            self.tally.after_drain += u64::from(attempt == 0);
            answer = self.engine.alloc(&cx, request);
        }
        match answer {
            Ok(pfn) => self.take(cpu, request, pfn)?,
            Err(why) => self.tally.refused(why),
        }
        Ok(answer)
    }

    /// Frees a held block by its place in the list; another block takes that place.
    ///
    /// # Errors
    /// Says what is wrong with the answer.
    pub fn free_held(&mut self, cpu: CpuId, at: usize) -> Verdict<Result<(), FreeError>> {
        let BlockId { pfn, order } = self.held[at];
        let answer = self.free_at(cpu, pfn, order)?;
        if answer.is_ok() {
            self.held.swap_remove(at);
            self.model.give(pfn, order);
            self.tally.frees += 1;
        }
        Ok(answer)
    }

    /// Frees anything; where that is right, the caller takes it from the model.
    fn free_at(&mut self, cpu: CpuId, pfn: Pfn, order: Order) -> Verdict<Result<(), FreeError>> {
        let expected = judge::free(&self.model, Some(cpu), pfn, order);
        let answer = self.engine.free(&self.cx(cpu), pfn, order);
        expected.judge(answer, || format!("free of frame {pfn} with order {order} on {cpu:?}"))?;
        if let Err(why) = answer {
            self.tally.wrong_free(why);
        }
        Ok(answer)
    }

    /// Frees what must not be freed.
    ///
    /// # Errors
    /// Says what is wrong with the answer.
    pub fn free_wrong(&mut self, cpu: CpuId, pfn: Pfn, order: Order) -> Verdict<FreeError> {
        match self.free_at(cpu, pfn, order)? {
            Ok(()) => {
                Err(format!("the test meant a wrong free, and frame {pfn} with order {order} is not one"))
            }
            Err(why) => Ok(why),
        }
    }

    /// Splits a held block by its place in the list; its parts take its place and the end of the list.
    ///
    /// # Errors
    /// Says what is wrong with the answer.
    pub fn split_held(&mut self, at: usize, to: Order) -> Verdict<Result<(), FreeError>> {
        let BlockId { pfn, order: from } = self.held[at];
        let answer = self.split_at(pfn, from, to)?;
        if answer.is_ok() {
            self.model.split(pfn, from, to);
            self.held[at].order = to;
            let parts = (1..1 << (from.get() - to.get())).map(|n| Pfn(pfn.0 + (n << to.get())));
            self.held.extend(parts.map(|pfn| BlockId { pfn, order: to }));
            self.tally.splits += 1;
        }
        Ok(answer)
    }

    /// Splits anything; where that is right, the caller does so in the model.
    ///
    /// # Errors
    /// Says what is wrong with the answer.
    pub fn split_at(&mut self, pfn: Pfn, from: Order, to: Order) -> Verdict<Result<(), FreeError>> {
        let expected = judge::split(&self.model, pfn, from, to);
        let answer = self.engine.split(&Cx::on(CpuId(0)), pfn, from, to);
        expected.judge(answer, || format!("split of frame {pfn} from order {from} to {to}"))?;
        if let Err(why) = answer {
            self.tally.wrong_free(why);
        }
        Ok(answer)
    }

    /// Claims a block by its number and holds it.
    ///
    /// # Errors
    /// Says what is wrong with the answer.
    pub fn claim(&mut self, pfn: Pfn, order: Order, as_type: Migratetype) -> Verdict<Result<(), ClaimError>> {
        let expected = judge::claim(&self.model, pfn, order);
        let mut answer = self.engine.claim_exact(&Cx::on(CpuId(0)), pfn, order, as_type);
        if answer == Err(ClaimError::NotFree) && expected.is_ok() {
            // Part of it may have been in a list.
            self.drain(CpuSet::All);
            self.tally.after_drain += 1;
            answer = self.engine.claim_exact(&Cx::on(CpuId(0)), pfn, order, as_type);
        }
        // Reserved pageblocks that were given back may lie side by side unmerged, as in Linux.
        let may_be_unmerged =
            || order > PAGEBLOCK_ORDER && self.engine.stats()[Counter::HighatomicReserve] > 0;
        if answer != Err(ClaimError::NotFree) || !expected.is_ok() || !may_be_unmerged() {
            expected.judge(answer, || format!("claim of frame {pfn} with order {order}"))?;
        }
        match answer {
            Ok(()) => {
                self.model.take(pfn, order)?;
                self.held.push(BlockId { pfn, order });
                self.tally.claims += 1;
            }
            Err(why) => self.tally.wrong_claim(why),
        }
        Ok(answer)
    }

    /// Allocates several blocks in one call and holds them; returns how many.
    ///
    /// # Errors
    /// Says what is wrong: a granted block, or stopping early although one more was available.
    pub fn bulk_alloc(&mut self, cpu: CpuId, request: &Request, count: u32) -> Verdict<usize> {
        const UNTOUCHED: Pfn = Pfn(u64::MAX - 1);
        let mut out = core::mem::take(&mut self.pfns);
        out.clear();
        out.resize(count as usize, UNTOUCHED);
        let got = self.engine.alloc_bulk(&self.cx(cpu), request, &mut out);
        if got > out.len() {
            return Err(format!("a bulk allocation of {count} returned {got} blocks"));
        }
        for pfn in &out[..got] {
            self.take(cpu, request, *pfn)?;
        }
        self.tally.bulk_allocs += got as u64;
        let full = got == out.len();
        self.pfns = out;
        if !full {
            self.tally.bulk_partial += 1;
            // A refusal may itself free something, a reserve for one, so that the next request is granted.
            let justified = judge::may_refuse(&self.engine, &self.model, cpu, request);
            let before = self.tally.after_drain;
            let one_more = self.alloc(cpu, request)?.is_ok() && self.tally.after_drain == before;
            if one_more && !justified {
                return Err(format!(
                    "a bulk allocation returned {got} of {count} blocks, and one more was available"
                ));
            }
        }
        Ok(got)
    }

    fn bulk_free(&mut self, cpu: CpuId, held: u32, count: u32, spoiled: bool) -> Verdict {
        let Some(start) = self.pick(held) else { return Ok(()) };
        let mut pfns = core::mem::take(&mut self.pfns);
        pfns.clear();
        let mut at = start;
        while at < self.held.len() && pfns.len() < count as usize {
            if self.held[at].order == Order::ZERO {
                pfns.push(self.held.swap_remove(at).pfn);
            } else {
                at += 1;
            }
        }
        let right = pfns.len();
        if spoiled {
            let inside = self.held.iter().take(16).find(|b| b.order > Order::ZERO);
            pfns.extend(inside.map(|b| b.pfn));
            pfns.extend(inside.map(|b| Pfn(b.pfn.0 + 1)));
            pfns.push(self.model.end());
            pfns.push(Pfn(u64::MAX));
            pfns.extend_from_within(..right.min(1));
        }
        let verdict = self.free_all(cpu, &pfns, right);
        self.pfns = pfns;
        verdict
    }

    /// Frees single frames in one call, of which the first `right` are held in the model and no more in the list.
    fn free_all(&mut self, cpu: CpuId, pfns: &[Pfn], right: usize) -> Verdict {
        let mut refusals = core::mem::take(&mut self.refusals);
        refusals.clear();
        self.engine.free_bulk(&self.cx(cpu), pfns, Order::ZERO, &mut |pfn, why| refusals.push((pfn, why)));
        if self.model.has_cpu(cpu) {
            pfns[..right].iter().for_each(|pfn| self.model.give(*pfn, Order::ZERO));
            self.tally.frees += right as u64;
            self.tally.bulk_frees += right as u64;
        } else {
            self.held.extend(pfns[..right].iter().map(|pfn| BlockId { pfn: *pfn, order: Order::ZERO }));
        }
        let mut verdict = Ok(());
        let wrong = if self.model.has_cpu(cpu) { &pfns[right..] } else { pfns };
        for pfn in wrong {
            let told = refusals.iter().position(|(refused, _)| refused == pfn);
            let answer = told.map_or(Ok(()), |at| Err(refusals.swap_remove(at).1));
            let expected = judge::free(&self.model, Some(cpu), *pfn, Order::ZERO);
            verdict = verdict.and(expected.judge(answer, || format!("bulk free of frame {pfn}")));
            if let Err(why) = answer {
                self.tally.wrong_free(why);
            }
        }
        if let Some((pfn, why)) = refusals.first() {
            verdict =
                verdict.and(Err(format!("bulk free refused frame {pfn}, or refused it twice: {why:?}")));
        }
        self.refusals = refusals;
        verdict
    }

    /// Returns the frames in lists to their zones.
    pub fn drain(&mut self, cpus: CpuSet) {
        self.engine.drain(cpus);
        self.tally.drains += 1;
    }

    /// Compares the engine's books with the model's.
    ///
    /// # Errors
    /// Names the first count that differs.
    pub fn check(&mut self) -> Verdict {
        self.tally.checks += 1;
        check::books(&self.engine, &self.model)
    }

    /// Frees every held block and demands that all of it merges.
    ///
    /// # Errors
    /// Says what is wrong with the first wrong answer or count.
    pub fn finish(&mut self) -> Verdict {
        self.check()?;
        let mut cpu = 0;
        while let Some(last) = self.held.len().checked_sub(1) {
            self.free_held(CpuId(cpu % self.model.cpus), last)?
                .map_err(|e| format!("a held block was refused: {e}"))?;
            cpu += 1;
        }
        self.tally.checks += 1;
        check::all_free(&self.engine, &self.model)
    }
}
