//! Who has each frame, and who had it before.
//!
//! * `stacks`: stacks as they are captured, and by their names.
//! * `table`: which blocks are live, and what is known of freed frames.
//! * `watch`: [`Owner`], the observer.
//! * `report`: what it says: [`Report`], [`FrameHistory`]; `page_owner`: the same as Linux writes it.

mod page_owner;
mod report;
mod stacks;
mod table;
mod watch;

pub use report::{FrameHistory, FreedBlock, Holder, LiveBlock, Moment, Report};
pub use watch::{Owner, OwnerKnobs, tagged};
