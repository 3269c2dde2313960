//! `pageyard-lab router`: a host that forwards packets, simulated event by event, with frames that are real.
//!
//! * `settings`, `parameters`, `config`: what the host is; the parameters by name; a file of them;
//! * `time`, `queue`: whole picoseconds, and which event is next;
//! * `traffic`: packet sizes and arrivals; `rx`, `tx`: rings and the qdisc; `coalesce`: interrupts; `cpu`: NAPI;
//! * `memory`: the cache and what memory carries; `frames`: an allocator's frames and the headers in them;
//! * `host`: the simulation; `run`: a setting, and what it took; `count`, `report`: what is counted, and what that
//!   comes to;
//! * `throughput`: the highest rate without loss; `sweep`, `series`: rings and coalescing, as tables;
//! * `claims`: what a mailing list's thread said of one router.
//!
//! A model with chosen parameters does not judge any real router: it shows what follows from the parameters, and how
//! far.

pub mod claims;
mod coalesce;
mod config;
mod count;
mod cpu;
mod frames;
mod host;
mod memory;
mod parameters;
mod queue;
mod report;
mod run;
mod rx;
mod series;
mod settings;
mod sweep;
mod throughput;
mod time;
mod traffic;
mod tx;

pub use config::read_config;
pub use parameters::{PARAMETERS, Parameter};
pub use report::RouterFigures;
pub use run::{Effort, Routed, route};
pub use series::write_series;
pub use settings::RouterSettings;
pub use sweep::{RingRule, RouterSweep, Smallest, SweepRow, sweep};
pub use throughput::{Around, Throughput, throughput};

#[cfg(test)]
pub(crate) mod test;
