//! A replay as steps for a guest: written down beforehand, since in an open loop which calls are made does not depend
//! on what came of those before. Frames are still those of the recording.

use super::refusals::OnHost;
use super::walk::Calls;
use crate::ledger::{Ledger, Stand};
use pageyard::{AllocError, CpuId, CpuSet, Cx, FreeError, Order, PageAllocator, Pfn, Request};
use pageyard_guest::exchange::{NO_FRAME, Step, StepKind};
use pageyard_guest::request::{COMPOUND, GuestRequest};
use pageyard_linux::LinuxAllocator;
use pageyard_trace::Event;
use std::sync::Mutex;

/// The origin of the block that a place of the plan names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BlockOrigin {
    /// The block that the opening holds here.
    Opening(Pfn),
    /// The block that a step got, from this frame of it on.
    Step(u32, u32),
}

/// The steps, shared by what writes them: the rows' calls, and the clock through the engine.
#[derive(Default)]
pub struct Steps(Mutex<Vec<Step>>);

impl Steps {
    /// Adds a step; returns its number.
    pub fn add(&self, step: Step) -> u32 {
        let mut steps = self.0.lock().unwrap_or_else(|e| e.into_inner());
        steps.push(step);
        steps.len() as u32 - 1
    }

    /// Returns the steps.
    pub fn take(&self) -> Vec<Step> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(|e| e.into_inner()))
    }
}

/// Writes calls down as steps.
pub struct KernelPlan<'a> {
    steps: &'a Steps,
    places: Vec<BlockOrigin>,
}

impl<'a> KernelPlan<'a> {
    /// Makes a plan that adds to `steps`.
    pub fn new(steps: &'a Steps) -> KernelPlan<'a> {
        KernelPlan { steps, places: Vec::new() }
    }

    /// Names a block of the opening state.
    pub fn hold(&mut self, pfn: Pfn) -> Stand {
        self.place(BlockOrigin::Opening(pfn))
    }

    fn place(&mut self, place: BlockOrigin) -> Stand {
        self.places.push(place);
        Stand(self.places.len() as u32 - 1)
    }

    fn ask(&mut self, cx: &Cx, request: &Request) -> u32 {
        self.steps.add(step_of(cx, request))
    }
}

impl Calls for KernelPlan<'_> {
    fn alloc(
        &mut self,
        cx: &Cx,
        request: &Request,
        row: &Event,
        ledger: &mut Ledger,
    ) -> Result<(), AllocError> {
        let step = self.ask(cx, request);
        let place = self.place(BlockOrigin::Step(step, 0));
        ledger.put(Pfn(row.pfn), request.order, place);
        Ok(())
    }

    fn alloc_refused(&mut self, cx: &Cx, request: &Request, _: &Event) -> Result<(), AllocError> {
        let step = self.ask(cx, request);
        self.steps.add(Step::new(StepKind::Free, cx.cpu.0 as u16, request.order.get(), step, 0));
        Ok(())
    }

    /// A plan is not refused anything: the kernel's answers tell what is.
    fn refused(&mut self, _: &Cx, _: &Request, _: &Event, _: &AllocError, _: OnHost) {}

    fn free(&mut self, cx: &Cx, stand: Stand, order: Order) {
        let (kind, arg, offset) = match self.places[stand.0 as usize] {
            BlockOrigin::Opening(pfn) => (StepKind::FreeAt, pfn.0 as u32, 0),
            BlockOrigin::Step(step, offset) => (StepKind::Free, step, offset),
        };
        self.steps.add(Step::new(kind, cx.cpu.0 as u16, order.get(), arg, offset));
    }

    /// A part of a block can be freed in a guest as it is: only the names differ.
    fn halve(&mut self, _: &Cx, stand: Stand, order: Order) -> Result<(Stand, Stand), FreeError> {
        let half = order.smaller().ok_or(FreeError::Misaligned)?.frames();
        let upper = match self.places[stand.0 as usize] {
            BlockOrigin::Opening(pfn) => BlockOrigin::Opening(pfn + half),
            BlockOrigin::Step(step, offset) => BlockOrigin::Step(step, offset + half.0 as u32),
        };
        Ok((stand, self.place(upper)))
    }
}

fn step_of(cx: &Cx, request: &Request) -> Step {
    Step {
        migratetype: request.migratetype.index().min(2) as u8,
        zone: request.highest_zone as u8,
        flags: GuestRequest::flags_of(request),
        ..Step::new(StepKind::Alloc, cx.cpu.0 as u16, request.order.get(), 0, 0)
    }
}

/// Returns what a step asks of an allocator here.
pub fn request_of(step: &Step) -> Request {
    let Step { order, migratetype, zone, .. } = *step;
    // A block of several frames is one page, as in any replay.
    let flags = step.flags | COMPOUND;
    GuestRequest { order, migratetype, flags, zone, nodes: 0 }.request()
}

/// Lets the reference carry the steps out, in the state that it is in; returns what each got, as a guest answers.
pub fn carried_out(reference: &LinuxAllocator, steps: &[Step]) -> Vec<u32> {
    carried_out_with(reference, steps, &mut |_, _| ())
}

/// The same; `before` is called with each step and its number before it is carried out.
pub fn carried_out_with(
    reference: &LinuxAllocator,
    steps: &[Step],
    before: &mut dyn FnMut(usize, &Step),
) -> Vec<u32> {
    let mut answers = vec![0; steps.len()];
    for (n, step) in steps.iter().enumerate() {
        before(n, step);
        let cx = Cx::on(CpuId(u32::from(step.cpu)));
        let order = Order::of(step.order);
        match step.kind {
            StepKind::Alloc => {
                let got = reference.alloc(&cx, &request_of(step));
                answers[n] = got.map_or(NO_FRAME, |pfn| pfn.0 as u32);
            }
            StepKind::Free => {
                let got = answers[step.arg as usize];
                if got != NO_FRAME {
                    free_part(reference, &cx, Pfn(u64::from(got + step.offset)), order);
                }
            }
            StepKind::FreeAt => free_part(reference, &cx, Pfn(u64::from(step.arg)), order),
            StepKind::Drain => _ = PageAllocator::drain(reference, CpuSet::All),
            StepKind::Tick => reference.vmstat_tick_of(cx.cpu),
            StepKind::KswapdEnds => reference.kswapd_tick(),
            StepKind::Sample => {}
        }
    }
    answers
}

/// Frees a block that is held, or a part of one, which is cut out of it first.
fn free_part(reference: &LinuxAllocator, cx: &Cx, pfn: Pfn, order: Order) {
    let held = |order: Order| (Pfn(pfn.0 & !(order.frames().0 - 1)), order);
    let holder = order.up_to(Order::of(10)).map(held).find(|(at, o)| reference.order_of(*at) == Some(*o));
    let Some((mut at, mut size)) = holder else { return };
    while size > order
        && let Some(half) = size.smaller()
        && PageAllocator::split(reference, cx, at, size, half).is_ok()
    {
        if pfn >= at + half.frames() {
            at = at + half.frames();
        }
        size = half;
    }
    // What the ledger holds can be freed; a frame that the reference does not hold was never given.
    let _ = PageAllocator::free(reference, cx, pfn, order);
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::{Frames, MemoryMap, Migratetype, NodeId, Region, RequestFlags, ZoneKind};
    use pageyard_linux::Config;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let atomic = RequestFlags::HIGH | RequestFlags::NON_BLOCKING;
        for flags in [RequestFlags::empty(), atomic, atomic | RequestFlags::NO_RESERVE, RequestFlags::NORETRY]
        {
            let request = Request::new(Order::of(3), Migratetype::Reclaimable).with(flags);
            assert_eq!(request_of(&step_of(&Cx::on(CpuId(1)), &request)), request);
        }
    }

    #[test]
    fn a_part_of_what_a_step_got_is_freed_where_the_guest_would_free_it() {
        let steps = Steps::default();
        let mut plan = KernelPlan::new(&steps);
        let cx = Cx::on(CpuId(0));
        let step = plan.ask(&cx, &Request::new(Order::of(4), Migratetype::Movable));
        let block = plan.place(BlockOrigin::Step(step, 0));
        let (lower, upper) = plan.halve(&cx, block, Order::of(4)).unwrap();
        let (_, last) = plan.halve(&cx, upper, Order::of(3)).unwrap();
        plan.free(&cx, last, Order::of(2));
        plan.free(&cx, lower, Order::of(3));
        let opened = plan.hold(Pfn(512));
        let (_, upper) = plan.halve(&cx, opened, Order::of(1)).unwrap();
        plan.free(&cx, upper, Order::ZERO);
        let steps = steps.take();
        let freed: Vec<_> = steps[1..].iter().map(|s| (s.kind, s.arg, s.offset, s.order)).collect();
        assert_eq!(
            freed,
            [(StepKind::Free, 0, 12, 2), (StepKind::Free, 0, 0, 3), (StepKind::FreeAt, 513, 0, 0)]
        );

        let regions = [Region::managed(Pfn(0), Frames(1 << 14), NodeId(0), ZoneKind::Normal)];
        let map = MemoryMap::new(&regions).unwrap();
        let reference = LinuxAllocator::new(&map, &Config::preset("linux-6.12").unwrap()).unwrap();
        let held = |r: &LinuxAllocator| PageAllocator::audit(r).unwrap().allocated.0;
        let answers = carried_out(&reference, &steps[..3]);
        assert_ne!(answers[0], NO_FRAME);
        assert_eq!(held(&reference), 16 - 4 - 8);
    }
}
