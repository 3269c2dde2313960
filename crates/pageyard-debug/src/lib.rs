//! Observers for a page allocator that misbehaves, or whose callers do: [`Owner`] says who has each frame, who freed it
//! last and what was never freed; [`Faults`] makes allocations fail, so that a caller's way out is tried before memory
//! runs out. Frames that are written to after they were freed are found by an arena's
//! `ArenaBuilder::poison`, in `pageyard-arena`.
//!
//! An engine takes an observer as a type parameter, and a pair of them as one. Without one its code is the same as if
//! there were none.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use pageyard::{Order, PageAllocator};
//! use pageyard_arena::Arena;
//! use pageyard_debug::{FaultKnobs, Faults, Owner, tagged};
//! use std::sync::Arc;
//!
//! let owner = Arc::new(Owner::default());
//! let faults = Arc::new(Faults::new(FaultKnobs { min_order: Order::of(4), ..FaultKnobs::default() }));
//! let arena = Arena::builder().size(8 << 20).observer((owner.clone(), faults.clone())).build_locked()?;
//!
//! let page = tagged("receive ring", || arena.alloc(Order::ZERO))?;
//! assert!(arena.alloc(Order::HUGE).is_err(), "on purpose");
//! let who = owner.frame(page.pfn()).live.unwrap();
//! assert_eq!(who.allocated.tag, Some("receive ring"));
//! assert_eq!(owner.leaks().unwrap().blocks, 1); // still held
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * [`faults`]: allocations that fail on purpose; `no_std`, lock-free.
//! * [`owner`] (feature `std`, on by default): a table of who has what, behind a lock.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

pub mod faults;
#[cfg(feature = "std")]
pub mod owner;

pub use faults::{FaultKnobs, Faults, KnobError};
#[cfg(feature = "std")]
pub use owner::{FrameHistory, Holder, Moment, Owner, OwnerKnobs, Report, tagged};
