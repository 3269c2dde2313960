//! A hypervisor's memory: guest memory as pieces of an arena, a balloon that can take any frame, and free pages that
//! the guest reports. Each guest owns its pieces and shares the arena with the others.
//!
//!     cargo run --release -p pageyard-arena --example balloon

use pageyard::{AllocError, Frames, Order, PAGE_SIZE, Request};
use pageyard_arena::backing::{Backing, BackingError, PageSize};
use pageyard_arena::purge::PurgeLimits;
use pageyard_arena::{Arena, Pages};
use std::collections::BTreeMap;
use std::sync::Arc;

type Host = Arc<Arena>;

/// A guest's memory: its pieces, by their first guest frame.
struct Guest {
    host: Host,
    ram: BTreeMap<u64, Pages<Host>>,
}

fn zeros(host: &Host, order: Order) -> Result<Pages<Host>, AllocError> {
    let bytes = (order.frames().0 * PAGE_SIZE) as usize;
    Pages::alloc_in(host.clone(), bytes, order, &Request::order(0).movable().zeroed())
}

/// Splits a piece in front of a frame of it; each part may be empty.
fn split(pages: Pages<Host>, at: u64) -> (Option<Pages<Host>>, Option<Pages<Host>>) {
    match pages.split_at(Frames(at)) {
        Ok((head, tail)) => (Some(head), Some(tail)),
        Err(all) if at == 0 => (None, Some(all)),
        Err(all) => (Some(all), None),
    }
}

impl Guest {
    fn boot(host: &Host, frames: u64) -> Result<Guest, AllocError> {
        let huge = Order::HUGE.frames().0 as usize;
        let pieces = (0..frames).step_by(huge).map(|gfn| Ok((gfn, zeros(host, Order::HUGE)?)));
        Ok(Guest { host: host.clone(), ram: pieces.collect::<Result<_, AllocError>>()? })
    }

    /// Returns the piece that contains a guest frame, and the frame's offset in it.
    fn piece(&mut self, gfn: u64) -> Option<(&mut Pages<Host>, u64)> {
        let (first, pages) = self.ram.range_mut(..=gfn).next_back()?;
        let at = gfn - first;
        (at < pages.frames().0).then_some((pages, at))
    }

    fn write(&mut self, gfn: u64) {
        if let Some((pages, at)) = self.piece(gfn) {
            pages[(at * PAGE_SIZE) as usize] = 1;
        }
    }

    /// The balloon takes a frame from the guest: it is free in the arena.
    fn inflate(&mut self, gfn: u64) -> bool {
        let Some((_, at)) = self.piece(gfn) else { return false };
        let Some(pages) = self.ram.remove(&(gfn - at)) else { return false };
        let (head, rest) = split(pages, at);
        self.ram.extend(head.map(|head| (gfn - at, head)));
        if let Some(rest) = rest {
            let (taken, tail) = split(rest, 1);
            self.ram.extend(tail.map(|tail| (gfn + 1, tail)));
            drop(taken);
        }
        true
    }

    /// The guest gets a frame of zeros back.
    fn deflate(&mut self, gfn: u64) -> Result<(), AllocError> {
        self.ram.insert(gfn, zeros(&self.host, Order::ZERO)?);
        Ok(())
    }

    /// The guest says that it does not need what is in these frames: the host takes the memory behind them.
    fn report_free(&mut self, gfn: u64, frames: Frames) -> Result<Frames, BackingError> {
        let Some((pages, at)) = self.piece(gfn) else { return Ok(Frames::ZERO) };
        let start = (at * PAGE_SIZE) as usize;
        pages.discard(start..start + (frames.0 * PAGE_SIZE) as usize)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host: Host =
        Arc::new(Arena::builder().size(512 << 20).backing(Backing::Memfd(PageSize::Base)).build()?);
    let frames = (256 << 20) / PAGE_SIZE;
    let mut guest = Guest::boot(&host, frames)?;
    (0..frames).for_each(|gfn| guest.write(gfn));
    // Every second frame of the first half, as a balloon scatters them.
    let taken = (0..frames / 2).step_by(2).filter(|gfn| guest.inflate(*gfn)).count();
    let given = host.purge_as(&PurgeLimits { least: Order::ZERO, ..PurgeLimits::default() })?;
    println!("the balloon took {taken} frames, and the host has {given:?} of them");
    (0..frames / 2).step_by(4).try_for_each(|gfn| guest.deflate(gfn))?;
    let reported = guest.report_free(frames / 2, Order::HUGE.frames())?;
    println!("the guest reported {reported:?} free");
    drop(guest);
    println!("after the guest's end: {:?}", host.audit()?);
    Ok(())
}
