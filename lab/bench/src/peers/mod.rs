//! Peers: the alternatives, each with its best settings.
//!
//! * `buddy`: an allocator of frames from a registry, in this process;
//! * `malloc`: general allocators, each in a separate process, so that none replaces another or this one's;
//! * `dpdk`: DPDK's pools and rings, in small C programs that are compiled when they are there;
//! * `simple`: a queue, a list and a bitmap, in this process; `library`: any allocator, from a shared library;
//! * `remote`: a process that holds an allocator, and the protocol with it; `serve`: its other side.

mod buddy;
mod dpdk;
mod library;
mod malloc;
mod remote;
mod serve;
mod simple;

use crate::harness::subject::Subject;
pub(super) use buddy::{BuddyBare, BuddyLocked};
pub use library::PeerLibrary;
pub use serve::serve;
pub(super) use simple::{LockedBitmap, LockedList, Queue};
use std::path::Path;

/// The name of the rows of Linux itself, which `bench/linux/run` measures.
pub(crate) const LINUX_UML: &str = "linux-uml";

/// A peer by name: the subject, or why there is none.
pub(super) type Peer = (&'static str, Result<Box<dyn Subject>, String>);

/// The names of those that live in this process.
const INSIDE: [&str; 5] = [
    "buddy_system_allocator",
    "buddy_system_allocator-locked",
    "bitmap-allocator-locked",
    "list-locked",
    "array-queue",
];

/// Starts the peers that live in separate processes.
pub(super) fn outside(command: Option<&Path>, cpus: &[usize]) -> Vec<Peer> {
    let mut peers = of_any_size(command, cpus);
    peers.push(dpdk(cpus));
    peers.push((dpdk::RING.name, dpdk::start(&dpdk::RING, cpus)));
    peers
}

/// Starts DPDK's pools.
pub(super) fn dpdk(cpus: &[usize]) -> Peer {
    (dpdk::MEMPOOL.name, dpdk::start(&dpdk::MEMPOOL, cpus))
}

/// Starts those of them that serve blocks of any size.
pub(super) fn of_any_size(command: Option<&Path>, cpus: &[usize]) -> Vec<Peer> {
    malloc::PEERS.iter().map(|p| (p.name, malloc::start(p, command, cpus))).collect()
}

/// Returns the names of those that live in separate processes.
pub(super) fn names_outside() -> impl Iterator<Item = &'static str> {
    malloc::PEERS.iter().map(|p| p.name).chain([dpdk::MEMPOOL.name, dpdk::RING.name])
}

/// Returns the names of the peers.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    names_outside().chain(INSIDE).chain([LINUX_UML])
}
