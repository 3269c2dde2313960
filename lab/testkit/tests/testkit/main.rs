//! The suite's own test: an allocator without a fault passes, each planted fault is caught.

mod catches;
mod correct;
mod first_fit;
mod pasteable;
