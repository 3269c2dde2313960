//! The results of a run: where packets and frames ended, which processes were killed, and what the allocator took.

use crate::board::{Board, Calls};
use crate::failure::Failure;
use crate::net;
use crate::rig::{Queue, Rig};
use crate::socket::Socket;
use crate::survey::{Balance, Places};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Packets, by where they ended.
#[derive(Clone, Copy, Default, Debug)]
pub struct Packets {
    /// Sent by the source.
    pub sent: u64,
    /// Dropped by the source's device for want of room at the router.
    pub at_source: u64,
    /// Dropped by the router's kernel for want of a frame on the fill ring, or of room on the RX ring.
    pub at_rx: u64,
    /// Taken out of the RX ring because this program had not sent them; not among those sent.
    pub foreign: u64,
    /// Routed.
    pub routed: u64,
    /// Dropped by the router's outgoing device.
    pub at_output: u64,
    /// Dropped by the sink's kernel for want of a frame.
    pub at_sink: u64,
    /// Arrived at the sink as they should.
    pub arrived: u64,
    /// Arrived with a header or payload that is not theirs, which must not be.
    pub damaged: u64,
    /// Arrived twice or out of order, which must not be.
    pub disordered: u64,
    /// Sent, and in none of these places.
    pub unexplained: i64,
}

/// One worker that was killed, and what it took to go on.
#[derive(Clone, Copy, Debug)]
pub struct Killed {
    /// Whether it was inside of an allocator's call.
    pub in_call: bool,
    /// Frames that its hands, or the allocator's call, had: recovered.
    pub stranded: u32,
    /// From the time when it had ended until workers went on.
    pub recovery: Duration,
}

/// Calls of an allocator, over all workers.
#[derive(Clone, Copy, Default, Debug)]
pub struct Timed {
    /// Frames that moved undisturbed.
    pub frames: u64,
    /// Ticks that took.
    pub ticks: u64,
    /// Calls that were disturbed.
    pub disturbed: u64,
    /// Frames that moved in those.
    pub disturbed_frames: u64,
}

impl Timed {
    /// Returns ticks a frame.
    pub fn per_frame(&self) -> f64 {
        self.ticks as f64 / self.frames.max(1) as f64
    }

    /// Adds the calls of all workers up.
    pub fn of<'a>(calls: impl Iterator<Item = &'a Calls>) -> Timed {
        calls.fold(Timed::default(), |sum, calls| Timed {
            frames: sum.frames + calls.frames.load(Relaxed),
            ticks: sum.ticks + calls.ticks.load(Relaxed),
            disturbed: sum.disturbed + calls.disturbed.load(Relaxed),
            disturbed_frames: sum.disturbed_frames + calls.disturbed_frames.load(Relaxed),
        })
    }
}

/// The results of a run.
#[derive(Debug)]
pub struct ForwardReport {
    /// From the first packet until the last one was through.
    pub took: Duration,
    /// The packets.
    pub packets: Packets,
    /// Where frames were at the end.
    pub places: Places,
    /// The allocator's stock at the end.
    pub balance: Balance,
    /// Frames that an allocator would have handed out twice after a worker was killed, which must not be.
    pub doubly_owned: u32,
    /// Times that a worker found no frame.
    pub empty: u64,
    /// Workers that were killed.
    pub killed: Vec<Killed>,
    /// Processor time of the workers, in the kernel too, but for those that were killed.
    pub cpu: Duration,
    /// Calls for frames.
    pub get: Timed,
    /// Calls that gave frames back.
    pub put: Timed,
    /// The share of frames that came back through a pool's ring, where there is one; since the last worker was killed.
    pub through_ring: Option<f64>,
    /// Cache lines that went from one worker to another, where they were counted.
    pub lines: Option<u64>,
}

impl ForwardReport {
    /// Returns whether every frame is where it should be and every packet that arrived was right.
    pub fn is_sound(&self) -> bool {
        let Places { kernel, twice, strange, .. } = self.places;
        let frames =
            self.balance.missing + self.balance.doubly_owned + self.doubly_owned + kernel + twice + strange;
        frames == 0 && self.packets.damaged == 0 && self.packets.disordered == 0
    }
}

/// The kernel's counts, over all queues.
#[derive(Clone, Copy)]
pub struct Counts {
    routed: u64,
    at_source: u64,
    at_rx: u64,
    at_output: u64,
    at_sink: u64,
}

impl Counts {
    /// Reads them. The calling thread is in the router's namespace afterwards.
    ///
    /// # Errors
    /// Where the kernel does not say.
    pub fn read(rig: &Rig) -> Result<Counts, Failure> {
        let dropped = |of: &dyn Fn(&Queue) -> &Socket| {
            rig.queues.iter().try_fold(0, |sum, queue| {
                let counted = of(queue)
                    .statistics()
                    .map_err(|why| Failure::because("reading a socket's counts", why))?;
                Ok(sum + counted.rx_dropped + counted.rx_ring_full.unwrap_or(0))
            })
        };
        let counts = Counts {
            routed: rig.queues.iter().map(|queue| u64::from(queue.output.tx.produced())).sum(),
            at_source: net::dropped_by_device(&rig.network.source, net::FROM)?,
            at_rx: dropped(&|queue| &queue.input)?,
            at_output: net::dropped_by_device(&rig.network.router, net::OUT)?,
            at_sink: dropped(&|queue| &queue.to)?,
        };
        Ok(counts)
    }
}

impl Packets {
    /// Adds up what processes and the kernel have counted during a run.
    pub fn of(board: &Board, before: &Counts, after: &Counts) -> Packets {
        let (sent, arrived) = (&board.sent, &board.arrived);
        let sum = |of: &dyn Fn(usize) -> u64| (0..sent.len()).map(of).sum::<u64>();
        let mut packets = Packets {
            sent: sum(&|queue| sent[queue].packets.load(Relaxed)),
            at_source: after.at_source - before.at_source,
            at_rx: after.at_rx - before.at_rx,
            foreign: board.slots.iter().map(|slot| slot.foreign.load(Relaxed)).sum(),
            routed: after.routed - before.routed,
            at_output: after.at_output - before.at_output,
            at_sink: after.at_sink - before.at_sink,
            arrived: sum(&|queue| arrived[queue].packets.load(Relaxed)),
            damaged: sum(&|queue| arrived[queue].damaged.load(Relaxed)),
            disordered: sum(&|queue| arrived[queue].disordered.load(Relaxed)),
            unexplained: 0,
        };
        let ended = packets.at_source
            + packets.at_rx
            + packets.at_output
            + packets.at_sink
            + packets.arrived
            + packets.damaged
            + packets.disordered;
        packets.unexplained = packets.sent as i64 - ended as i64;
        packets
    }
}
