//! Stock Linux kernels in guests: booted under an emulator, told what to do through a file, and read when they end.
//!
//! | file | what it has |
//! |---|---|
//! | [`request`] | a request as a guest's module reads it |
//! | [`exchange`] | the file through which a replaying guest is told its steps, and answers |
//! | [`guest`] | the emulator's command, the end of a guest that makes no progress, why one failed |
//! | [`replay`] | a guest that takes all its memory and replays |
#![forbid(unsafe_code)]

pub mod exchange;
pub mod guest;
pub mod replay;
pub mod request;
