//! Stock Linux kernels in guests: booted under an emulator, told what to do through a file, and read when they end.
//!
//! | file | what it has |
//! |---|---|
//! | [`request`] | a request as a guest's module reads it |
//! | [`exchange`] | the file through which a replaying guest is told its steps, and answers |
//! | [`emulator`] | the emulator's command |
//! | [`prepare`] | a kernel made ready: downloaded, or built from sources |
//! | [`initrd`] | a guest's initial file system |
//! | [`launch`] | a guest that runs a script, as the program `pageyard-guest` starts it |
//! | [`guest`] | a guest with an exchange, the end of one that makes no progress, why one failed |
//! | [`replay`] | a guest that takes all its memory and replays |
#![forbid(unsafe_code)]

pub mod emulator;
pub mod exchange;
pub mod guest;
pub mod initrd;
pub mod launch;
pub mod prepare;
pub mod replay;
pub mod request;
