//! A mixed load: blocks of several orders, taken and given back in bursts, from a zone that stays half full.
//!
//! * `sequence`: the calls, made once from a fixed seed; `memory`: the frames behind an allocator of numbers;
//! * `work`: the blocks that are held from sample to sample, and the loop.

pub(crate) mod sequence;
pub(crate) mod work;
