//! A correct allocator passes.

use crate::first_fit::{BuildFirstFit, Fault};

pageyard_testkit::suite!(BuildFirstFit(Fault::None), random_ops = 1_000_000);
