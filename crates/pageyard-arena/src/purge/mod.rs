//! Free memory given back to the host: by hand, now and then, and when memory is short.
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! use pageyard::Frames;
//! use pageyard_arena::{Arena, purge};
//! use std::{sync::Arc, time::Duration};
//!
//! let arena = Arc::new(Arena::builder().size(64 << 20).build_locked()?);
//! arena.purge(Frames(u64::MAX))?; // free pageblocks go back to the host, and are zeros
//! let purger = arena.purger().every(Duration::from_secs(10)).reserve(16 << 20); // leaves 16 MiB in memory
//! let purger = purger.on_pressure(purge::of_this_host()?).start()?; // pressure stall information, or MemAvailable
//! println!("{} frames were given back", purger.report().given);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * `pass`: [`Arena::purge`](crate::Arena::purge), one pass over the free blocks of 2 MiB, or of [`PurgeLimits`].
//! * `pressure`: [`Pressure`], what says that memory is short: [`Stall`], the kernel's pressure stall information;
//!   [`Available`], what the kernel counts as available.
//! * `purger`: [`Purger`], a thread that purges; [`PurgerBuilder`], how often and how much.

mod pass;
mod pressure;
mod purger;

pub use pass::PurgeLimits;
pub use pressure::{Available, Pressure, Stall, of_this_host};
pub use purger::{PurgeReport, Purger, PurgerBuilder};

#[cfg(test)]
mod tests;
