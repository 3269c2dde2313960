//! The suite that every engine must pass, on restartable sequences.

use pageyard::{Config, MapError, MemoryMap, Order, OwnedPageyard, Pageyard};
use pageyard_arena::rseq::{BiasedRseq, Rseq};
use pageyard_testkit::Build;

/// The threads of a case run on the CPUs that there are, whatever CPU their calls name.
struct Restartable;

impl Build for Restartable {
    type Engine = OwnedPageyard<Rseq>;

    fn name(&self) -> String {
        "pageyard".to_owned()
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<Self::Engine, MapError> {
        Pageyard::owned(map, Config::new(cpus), Rseq::new().expect("this host has restartable sequences"))
    }

    fn largest_order(&self) -> Order {
        Order::MAX
    }
}

/// The same with pageblocks biased to CPUs.
struct Biased;

impl Build for Biased {
    type Engine = OwnedPageyard<BiasedRseq>;

    fn name(&self) -> String {
        "pageyard-biased".to_owned()
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<Self::Engine, MapError> {
        let rseq = Rseq::new().expect("this host has restartable sequences");
        Pageyard::owned(map, Config::new(cpus), rseq.biased())
    }

    fn largest_order(&self) -> Order {
        Order::MAX
    }
}

mod rseq {
    pageyard_testkit::suite!(super::Restartable, random_ops = 4_000_000);
}

mod biased {
    pageyard_testkit::suite!(super::Biased, random_ops = 2_000_000);
}
