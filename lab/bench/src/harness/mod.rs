//! The harness: what every benchmark and experiment measures with. Lowest first; each uses only those before it.
//!
//! * `clock`: the clock; `team`: threads that stay, each on its own CPU, and how a thread is pinned; `costs`: what the
//!   machine's own operations cost;
//! * `machine`: the machine, and what else used it; `samples`: the samples of a row; `noise`: what disturbed one;
//!   `moves`: blocks between lists and zone;
//! * `sampler`: subjects take turns, sample by sample; `pattern`: the order in which a batch is given back;
//! * `allocator`: what the timed loops call; `load`: what a sample does, and what it took; `loops`, `handover`: the
//!   loops; `divided`: recorded calls on the CPUs that made them; `subject`: an allocator under its name, of which a
//!   benchmark sees no more;
//! * `floors`: what no checked allocator can be faster than; `variants`: constructors that demand a promise; `engines`:
//!   the engines, by name; `paged`: any of them as an `allocator`;
//! * `mixed`: a load of several orders in bursts: its calls, and what is held from sample to sample;
//! * `cell`: one setting measured on many subjects, beside a pair that must agree.

pub(crate) mod allocator;
pub(crate) mod bias;
pub(crate) mod cell;
pub(crate) mod clock;
pub mod costs;
pub(crate) mod divided;
pub(crate) mod engines;
pub(crate) mod floors;
pub(crate) mod handover;
pub(crate) mod load;
pub(crate) mod locked;
mod loops;
pub mod machine;
pub(crate) mod memory;
pub(crate) mod mixed;
pub(crate) mod moves;
pub(crate) mod noise;
pub(crate) mod paged;
pub(crate) mod pattern;
pub(crate) mod sampler;
pub(crate) mod samples;
pub(crate) mod subject;
pub(crate) mod team;
mod variants;
