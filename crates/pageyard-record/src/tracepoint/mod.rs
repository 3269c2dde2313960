//! The kernel's tracepoints: their layouts, what their bytes mean, and their order in time.
//!
//! [`crate::record`] and [`crate::import`] get the same bytes from different places, so what follows is shared: a
//! [`Decoder`] turns bytes into entries, a [`Sorter`] orders them within bounded memory, and a [`Sink`] writes them on
//! its own thread.

mod decode;
mod entry;
mod expression;
mod follow;
mod format;
mod gfp;
mod known;
mod sink;
mod sorter;
mod spill;

pub(crate) use decode::{Decoder, NumberHasher, Skipped, common_flags};
pub(crate) use entry::Entry;
pub(crate) use format::{Format, MAX_FORMAT_BYTES};
pub(crate) use gfp::gfp_bits;
pub(crate) use known::{Known, REQUIRED, Tracepoint, WANTED};
pub(crate) use sink::Sink;
pub(crate) use sorter::Sorter;
