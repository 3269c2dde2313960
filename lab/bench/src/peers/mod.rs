//! Peers: the alternatives, each with its best settings.
//!
//! * `buddy`: an allocator of frames from a registry, in this process;
//! * `malloc`: general allocators, each in a separate process, so that none replaces another or this one's;
//! * `mempool`: DPDK's pools, in a small C program that is compiled when they are there;
//! * `remote`: a process that holds an allocator, and the protocol with it; `serve`: its other side;
//! * `uml`: rows of Linux itself, measured separately.

mod buddy;
mod malloc;
mod mempool;
mod remote;
mod serve;
pub(super) mod uml;

use crate::harness::subject::Subject;
pub(super) use buddy::{BuddyBare, BuddyLocked};
pub use serve::serve;
use std::path::Path;

/// Fails unless a file holds rows of Linux itself.
///
/// # Errors
/// Why not, in one sentence.
pub fn check_uml(file: &Path) -> Result<(), String> {
    uml::read(Some(file)).map(drop)
}

/// A peer by name: the subject, or why there is none.
pub(super) type Peer = (&'static str, Result<Box<dyn Subject>, String>);

/// Starts the peers that live in separate processes.
pub(super) fn outside(command: Option<&Path>, cpus: &[usize]) -> Vec<Peer> {
    let mut peers = of_any_size(command, cpus);
    peers.push(dpdk(cpus));
    peers
}

/// Starts DPDK's pools.
pub(super) fn dpdk(cpus: &[usize]) -> Peer {
    (mempool::NAME, mempool::start(cpus))
}

/// Starts those of them that serve blocks of any size.
pub(super) fn of_any_size(command: Option<&Path>, cpus: &[usize]) -> Vec<Peer> {
    malloc::PEERS.iter().map(|p| (p.name, malloc::start(p, command, cpus))).collect()
}

/// Returns the names of the peers.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let buddies = ["buddy_system_allocator", "buddy_system_allocator-locked"];
    malloc::PEERS.iter().map(|p| p.name).chain(buddies).chain([mempool::NAME, uml::NAME])
}
