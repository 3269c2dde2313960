//! Packets through three threads: one receives, one works on them, one sends. Buffers pass from thread to thread in
//! bursts of 64, and go back to their pool where they are dropped.
//!
//!     cargo run --release -p pageyard-arena --example pipeline

use pageyard_arena::pool::{Buffers, PoolConfig};
use pageyard_arena::{Arena, ArenaRef};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

/// Bursts that are sent on, of 64 buffers each.
const BURSTS: u64 = 100_000;

/// The most bursts that wait between two threads.
const ON_THE_WAY: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arena = Arena::builder().size(64 << 20).build()?;
    let pool = arena.pool(PoolConfig { ring: 4096, ..PoolConfig::new() })?;
    let mut queue = pool.consumer().ok_or("the pool has a consumer")?;
    let (received, work) = sync_channel(ON_THE_WAY);
    let (done, send) = sync_channel(ON_THE_WAY);
    let start = Instant::now();
    let sum = std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..BURSTS {
                let Ok(mut burst) = queue.get_bulk(PoolConfig::BATCH) else { return };
                burst.iter_mut().for_each(|packet| packet[..8].copy_from_slice(&number.to_ne_bytes()));
                if received.send(burst).is_err() {
                    return;
                }
            }
        });
        scope.spawn(move || route(work, &done));
        scope.spawn(move || transmit(send)).join()
    });
    let (packets, seconds) = (BURSTS * PoolConfig::BATCH as u64, start.elapsed().as_secs_f64());
    let sum = sum.map_err(|_| "a thread panicked")?;
    println!("{packets} packets, {:.1} ns each, checksum {sum:#x}", 1e9 * seconds / packets as f64);
    println!("{:?}", pool.stats());
    Ok(())
}

/// Changes a byte of each packet.
fn route<'p, A: ArenaRef + Sync>(work: Receiver<Buffers<'p, A>>, done: &SyncSender<Buffers<'p, A>>) {
    for mut burst in work {
        burst.iter_mut().for_each(|packet| packet[8] = packet[0] ^ 0x55);
        if done.send(burst).is_err() {
            return;
        }
    }
}

/// Adds up what it sends; the buffers of each burst go back together when it is dropped.
fn transmit<A: ArenaRef + Sync>(send: Receiver<Buffers<'_, A>>) -> u64 {
    let mut sum = 0_u64;
    for mut burst in send {
        sum = burst.iter_mut().fold(sum, |sum, packet| sum.wrapping_add(u64::from(packet[8])));
    }
    sum
}
