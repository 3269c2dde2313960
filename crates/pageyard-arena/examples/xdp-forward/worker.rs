//! A worker: a process that receives from one queue, routes and sends; or takes completions; or both.
//!
//! Whatever it holds in its hands, and every call of an allocator, may be lost with it when it is killed; what it has
//! in rings may not. So it does one thing after the other, each with one store that makes it happen, and stops for the
//! supervisor only with empty hands.

use crate::board::{Board, Calls, Order, Slot, Who, Worker};
use crate::clock::{Clock, ticks};
use crate::failure::Failure;
use crate::frames::{BATCH, Frames, Store};
use crate::packet;
use crate::rig::{Queue, Rig};
use crate::socket::CHUNK;
use pageyard::Pfn;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::compiler_fence;
use std::time::Duration;

/// A call that takes longer was interrupted: the slowest ones that were not take a few microseconds.
const DISTURBED: Duration = Duration::from_micros(20);
/// How long a worker with nothing to do sleeps, in microseconds.
const NAP_MICROS: u32 = 100;

/// A worker's share of the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It receives and sends, and takes completions.
    Both,
    /// It receives and sends.
    Receive,
    /// It takes completions.
    Complete,
}

/// A worker's fixtures.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// Its number.
    pub worker: Worker,
    /// Its queue.
    pub queue: u32,
    /// Its share of the work.
    pub role: Role,
    /// The fixtures that all runs share.
    pub rig: &'a Rig,
    /// The board on which processes communicate.
    pub board: &'a Board,
    /// The allocator.
    pub store: &'a dyn Store,
    /// The clock.
    pub clock: Clock,
}

/// Works until the supervisor says that it is to end.
///
/// # Errors
/// The kernel's error if a send fails for good.
pub fn work(job: &Job<'_>) -> Result<(), Failure> {
    loop {
        let mut hands = Hands::new(job);
        while job.board.order() == Order::Run {
            hands.round()?;
        }
        // The allocator may be made anew while this worker stands still.
        drop(hands);
        if job.board.order() == Order::End {
            let took = clock_gettime(ClockId::ProcessCPUTime);
            let nanos = took.tv_sec as u64 * 1_000_000_000 + took.tv_nsec as u64;
            job.board.slots[job.worker.index()].cpu.store(nanos, Relaxed);
            return Ok(());
        }
        job.board.park(Who::Worker(job.worker));
    }
}

/// A worker at work.
struct Hands<'a> {
    job: Job<'a>,
    queue: &'a Queue,
    slot: &'a Slot,
    frames: Box<dyn Frames>,
    limit: u64,
    /// Frames between a ring and the allocator.
    held: [Pfn; BATCH],
}

impl<'a> Hands<'a> {
    fn new(job: &Job<'a>) -> Hands<'a> {
        Hands {
            job: *job,
            queue: &job.rig.queues[job.queue as usize],
            slot: &job.board.slots[job.worker.index()],
            frames: job.store.open(job.worker),
            limit: job.clock.ticks_of(DISTURBED),
            held: [Pfn(0); BATCH],
        }
    }

    /// Does what there is to do, or sleeps.
    fn round(&mut self) -> Result<(), Failure> {
        let mut done = false;
        if self.job.role != Role::Complete {
            done |= self.refill();
            done |= self.forward()?;
        }
        if self.job.role != Role::Receive {
            done |= self.complete();
        }
        match (done, self.job.role) {
            (true, _) => {}
            (false, Role::Complete) => std::thread::sleep(Duration::from_micros(u64::from(NAP_MICROS))),
            (false, _) => self.queue.input.wait(NAP_MICROS),
        }
        Ok(())
    }

    /// Gives the kernel frames to fill: as many as the RX ring has room for, so that it never finds that full.
    fn refill(&mut self) -> bool {
        let (fill, rx) = (&self.queue.input.fill, &self.queue.input.rx);
        let (at, entries) = (fill.produced(), self.job.rig.sizes.entries);
        let wanted = entries - at.wrapping_sub(rx.consumed()).min(entries);
        if wanted < BATCH as u32 {
            return false;
        }
        let got = self.get();
        if got == 0 {
            self.slot.empty.store(self.slot.empty.load(Relaxed) + 1, Relaxed);
            return false;
        }
        for (frame, n) in self.held[..got].iter().zip(0..) {
            fill.write(at.wrapping_add(n), frame.0 * CHUNK);
        }
        fill.publish(at.wrapping_add(got as u32));
        true
    }

    /// Moves packets from the RX ring to the TX ring and has them sent.
    fn forward(&mut self) -> Result<bool, Failure> {
        let (rx, tx, sent) = (&self.queue.input.rx, &self.queue.output.tx, &self.queue.output.completion);
        let (from, at) = (rx.consumed(), tx.produced());
        // No more on their way than the completion ring has room for.
        let room =
            self.job.rig.sizes.entries - at.wrapping_sub(sent.consumed()).min(self.job.rig.sizes.entries);
        let most = rx.len().min(room).min(BATCH as u32);
        let mut routed = 0;
        while routed < most {
            let packet = rx.read(from.wrapping_add(routed));
            // SAFETY: it is in the ring that this worker consumes, and was not given back.
            let Some(bytes) = (unsafe { self.job.rig.memory.bytes_of(packet.addr, packet.len) }) else {
                break;
            };
            let index = from.wrapping_add(routed);
            let record = u64::from(index) << 32 | u64::from(packet::changeable(bytes));
            // ORDER: Release after the packet before, and a fence before this one: a worker that is killed leaves a
            //        record of the packet that it was changing. The partner is the supervisor, which has waited for it.
            self.slot.routing.store(record, Release);
            compiler_fence(Release);
            if !packet::route(bytes) {
                break;
            }
            let options = XdpDescOptions::empty();
            tx.write(at.wrapping_add(routed), XdpDesc { addr: packet.addr, len: packet.len, options });
            routed += 1;
        }
        if routed > 0 {
            self.commit(from.wrapping_add(routed), at.wrapping_add(routed), routed);
        } else if most > 0 {
            self.drop_foreign(from);
        }
        if tx.len() > 0 {
            self.queue.output.kick().map_err(|why| Failure::because("sending", why))?;
        }
        Ok(most > 0)
    }

    /// Makes a move from RX to TX happen.
    fn commit(&self, rx_to: u32, tx_to: u32, packets: u32) {
        let moving = &self.slot.moving;
        moving.tx_to.store(tx_to, Relaxed);
        moving.rx_to.store(rx_to, Relaxed);
        // ORDER: Release, here and below, keeps the stores of this process in this order. Its partner is the
        //        supervisor, which reads them after it has waited for the process.
        moving.packets.store(packets, Release);
        self.queue.output.tx.publish(tx_to);
        self.queue.input.rx.release(rx_to);
        moving.packets.store(0, Release);
    }

    /// Takes a packet of somebody else's out of the RX ring.
    fn drop_foreign(&mut self, at: u32) {
        let packet = self.queue.input.rx.read(at);
        self.held[0] = Pfn(packet.addr / CHUNK);
        self.queue.input.rx.release(at.wrapping_add(1));
        self.slot.foreign.store(self.slot.foreign.load(Relaxed) + 1, Relaxed);
        self.put(1);
    }

    /// Gives frames back whose packets were sent.
    fn complete(&mut self) -> bool {
        let completion = &self.queue.output.completion;
        let (at, count) = (completion.consumed(), completion.len().min(BATCH as u32));
        for n in 0..count {
            self.held[n as usize] = Pfn(completion.read(at.wrapping_add(n)) / CHUNK);
        }
        completion.release(at.wrapping_add(count));
        if count > 0 {
            self.put(count as usize);
        }
        count > 0
    }

    fn get(&mut self) -> usize {
        self.slot.in_call.store(1, Relaxed);
        let began = ticks();
        let got = self.frames.get(&mut self.held);
        let took = ticks().wrapping_sub(began);
        self.slot.in_call.store(0, Relaxed);
        self.note(&self.slot.get, got, took);
        got
    }

    fn put(&mut self, count: usize) {
        self.slot.in_call.store(1, Relaxed);
        let began = ticks();
        self.frames.put(&self.held[..count]);
        let took = ticks().wrapping_sub(began);
        self.slot.in_call.store(0, Relaxed);
        self.note(&self.slot.put, count, took);
    }

    fn note(&self, calls: &Calls, frames: usize, took: u64) {
        calls.add(frames as u64, took.saturating_sub(self.job.clock.cost), self.limit);
    }
}
