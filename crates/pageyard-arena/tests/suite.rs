//! The suite that every engine must pass, on restartable sequences.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../../pageyard/tests/engine_common/mod.rs"]
mod engine_common;

use engine_common::Owned;
use pageyard::{Config, MapError, MemoryMap, Order};
use pageyard_arena::rseq::Rseq;
use pageyard_testkit::Build;

/// The threads of a case run on the CPUs that there are, whatever CPU their calls name.
struct Restartable;

impl Build for Restartable {
    type Engine = Owned<Rseq>;

    fn name(&self) -> String {
        "pageyard".to_owned()
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<Self::Engine, MapError> {
        Owned::new(map, Config::new(cpus), Rseq::new().expect("this host has restartable sequences"))
    }

    fn largest_order(&self) -> Order {
        Order::MAX
    }
}

mod rseq {
    pageyard_testkit::suite!(super::Restartable, random_ops = 4_000_000);
}
