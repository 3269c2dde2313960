//! Whose frame is whose, for frames that compaction may move: a slot for each handle, and which of them are free.
//!
//! * `slot`: `Slot`, what is known of a handle, in one word; its transitions are pure.
//! * `head`: the list of free slots, in one word; `table`: the slots, and whose frame is whose.
//!
//! The protocol and its proof: `docs/design/arena.md`.

mod head;
mod slot;
mod table;

pub(crate) use slot::Slot;
pub(crate) use table::{SlotId, Table};

#[cfg(test)]
mod head_model;
#[cfg(test)]
mod model;
