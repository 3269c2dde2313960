//! Long-lived data that compaction may move: a frame behind a handle, in its place only while it is pinned.
//!
//! * `slot`: `Slot`, what is known of a handle, in one word; its transitions are pure.
//! * `head`: the list of free slots, in one word; `table`: the slots, and whose frame is whose.
//! * `owned`: [`Handle`] and its pins, [`Pinned`] and [`PinnedMut`].
//! * `moves`: `Mover`, which moves an arena's frames for its own compactions, and [`Arena::compact`](crate::Arena::compact).
//! * `background`: [`Background`], a thread that does so now and then.
//!
//! The protocol and its proof: `docs/design/arena.md`.

mod background;
mod head;
mod moves;
mod owned;
mod slot;
mod table;

pub use background::Background;
pub use owned::{Handle, Pinned, PinnedMut};

pub(crate) use table::Table;

#[cfg(test)]
mod head_model;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
