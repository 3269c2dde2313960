//! Both ends of the way: the process that sends packets, and the one that counts them.

use crate::board::{Board, Order, Who};
use crate::failure::Failure;
use crate::packet::{self, Number, Wrong};
use crate::rig::Rig;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Packets that are sent, or received, at a time.
const BATCH: u32 = 64;
/// How long the source waits for packets to get through before it counts them as lost on the way.
///
/// More than it takes to bring a worker to the instruction that it is killed at, and others to a stand.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long an end with nothing to do sleeps.
const NAP: Duration = Duration::from_micros(50);

fn more(word: &AtomicU64, n: u64) {
    word.store(word.load(Relaxed) + n, Relaxed);
}

/// Sends numbered packets on every queue, until the quota is reached; then waits for the end.
///
/// A packet's number is its place in the TX ring since the program began. On each queue no more than a window of
/// packets is between the source and the router.
///
/// # Errors
/// The kernel's error if a send fails for good.
pub fn send(rig: &Rig, board: &Board) -> Result<(), Failure> {
    let mut progress: Vec<_> = rig.queues.iter().map(|_| (0, Instant::now())).collect();
    loop {
        match board.order() {
            Order::End => return Ok(()),
            Order::Pause => {
                board.park(Who::Source);
            }
            Order::Run => {
                let mut sent = 0;
                for (queue, progress) in (0..).zip(&mut progress) {
                    sent += send_some(rig, board, queue, progress)?;
                }
                if sent == 0 {
                    std::thread::sleep(NAP);
                }
            }
        }
    }
}

/// Sends up to a batch on one queue; returns how many. `progress` is what the router had received when that last
/// changed.
fn send_some(rig: &Rig, board: &Board, queue: u32, progress: &mut (u32, Instant)) -> Result<u32, Failure> {
    let (way, counts) = (&rig.queues[queue as usize], &board.sent[queue as usize]);
    let (tx, sent) = (&way.from.tx, &way.from.completion);
    let (at, entries) = (tx.produced(), rig.sizes.entries);
    let received = way.input.rx.consumed();
    if received != progress.0 {
        *progress = (received, Instant::now());
    }
    let on_the_way = |gone: u64| at.wrapping_sub(received).wrapping_sub(gone as u32) as i32;
    let gone = counts.given_up.load(Relaxed);
    let mut open = rig.sizes.window as i32 - on_the_way(gone);
    if open <= 0 && progress.1.elapsed() > PATIENCE {
        counts.given_up.store(gone + on_the_way(gone) as u64, Relaxed);
        open = rig.sizes.window as i32;
    }
    let left = board.quota.load(Relaxed).saturating_sub(counts.packets.load(Relaxed));
    let free = entries.saturating_sub(at) + sent.len();
    let count = BATCH.min(open.max(0) as u32).min(free).min(tx.room()).min(left.min(64) as u32);
    for n in 0..count {
        let index = at.wrapping_add(n);
        // The first packets have a frame each; later ones take what was completed.
        let addr = if index < entries { rig.own_address(queue, index) } else { take(sent) };
        // SAFETY: the frame was never sent, or its sending was completed.
        if let Some(bytes) = unsafe { rig.source_memory.bytes_of(addr, rig.sizes.packet) } {
            packet::write_number(bytes, Number { queue, sequence: u64::from(index) });
        }
        tx.write(index, XdpDesc { addr, len: rig.sizes.packet, options: XdpDescOptions::empty() });
    }
    tx.publish(at.wrapping_add(count));
    more(&counts.packets, u64::from(count));
    if tx.len() > 0 {
        way.from.kick().map_err(|why| Failure::because("sending packets", why))?;
    }
    Ok(count)
}

fn take(completion: &crate::ring::Ring<u64>) -> u64 {
    let at = completion.consumed();
    let address = completion.read(at);
    completion.release(at.wrapping_add(1));
    address
}

/// Takes packets in on every queue, checks each and counts it, until the end.
pub fn receive(rig: &Rig, board: &Board) {
    while board.order() != Order::End {
        let received: u32 = (0..rig.sizes.queues).map(|queue| receive_some(rig, board, queue)).sum();
        if received == 0 {
            std::thread::sleep(NAP);
        }
    }
}

/// Takes up to a batch in on one queue; returns how many. Frames go straight back to the kernel.
fn receive_some(rig: &Rig, board: &Board, queue: u32) -> u32 {
    let (way, counts) = (&rig.queues[queue as usize], &board.arrived[queue as usize]);
    let (rx, fill) = (&way.to.rx, &way.to.fill);
    let (from, at) = (rx.consumed(), fill.produced());
    let count = rx.len().min(BATCH);
    for n in 0..count {
        let got = rx.read(from.wrapping_add(n));
        // SAFETY: it is in the ring that this process consumes, and was not given back.
        let bytes = unsafe { rig.sink_memory.bytes_of(got.addr, got.len) };
        match bytes.map_or(Err(Wrong::Damaged), |bytes| packet::arrived(bytes)) {
            Ok(number) => {
                let next = counts.next.load(Relaxed);
                let right = number.queue == queue && number.sequence >= next;
                more(if right { &counts.packets } else { &counts.disordered }, 1);
                counts.next.store(next.max(number.sequence + 1), Relaxed);
            }
            Err(Wrong::Foreign) => more(&counts.foreign, 1),
            Err(Wrong::Damaged) => more(&counts.damaged, 1),
        }
        fill.write(at.wrapping_add(n), got.addr);
    }
    rx.release(from.wrapping_add(count));
    fill.publish(at.wrapping_add(count));
    count
}
