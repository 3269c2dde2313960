//! Long-lived data that compaction may move: a frame behind a handle, in its place only while it is pinned.
//!
//! * `owned`: [`Handle`] and its pins, [`Pinned`] and [`PinnedMut`].
//! * `moves`: `Mover`, which moves an arena's frames for its own compactions, and
//!   [`Arena::compact`](crate::Arena::compact).
//! * `background`: [`Background`], a thread that does so now and then; [`BackgroundBuilder`], how often and how far.
//!
//! The slots behind handles are in `slots`. The protocol and its proof: `docs/design/arena.md`.

mod background;
mod moves;
mod owned;

pub use background::{Background, BackgroundBuilder, BackgroundReport};
pub use owned::{Handle, Pinned, PinnedMut};

#[cfg(test)]
mod tests;
