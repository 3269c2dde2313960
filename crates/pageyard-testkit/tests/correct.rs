//! A correct allocator passes.

mod toy;

use toy::{BuildToy, Fault};

pageyard_testkit::suite!(BuildToy(Fault::None), random_ops = 1_000_000);
