//! The host's refusals, each with the setting to change.

use super::kind::PageSize;
use thiserror::Error;

/// Why memory could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BackingError {
    /// No bytes were asked for.
    #[error("an arena of 0 bytes holds no frame; ask for at least one page")]
    Empty,
    /// More than an address space or an engine can name.
    #[error("{bytes} bytes are more than this process can address")]
    TooLarge {
        /// The size asked for.
        bytes: usize,
    },
    /// More than this process may use.
    #[error(
        "{bytes} bytes are more than the {limit} that {whose} allows this process; ask for less, or raise that limit"
    )]
    BeyondMemory {
        /// The size asked for.
        bytes: u64,
        /// The memory that the process may use.
        limit: u64,
        /// Whose limit it is: `the host's memory`, or a file.
        whose: &'static str,
    },
    /// Too few reserved huge pages are free.
    #[error(
        "{} needed and {free} free: write a number {} higher to {setting}",
        huge_pages(*needed, *size), needed.saturating_sub(*free)
    )]
    HugePages {
        /// How many the arena needs.
        needed: u64,
        /// How many are free.
        free: u64,
        /// Of which size.
        size: PageSize,
        /// The file that reserves them.
        setting: String,
    },
    /// This kernel or processor has no huge pages of that size.
    #[error("this host has no huge pages of {} MiB: {setting} does not exist", size.bytes() >> 20)]
    NoSuchPages {
        /// The size.
        size: PageSize,
        /// The folder that would be there.
        setting: String,
    },
    /// The node does not exist, or this process may not use its memory.
    #[error(
        "memory cannot be bound to node {node}: {why}; the nodes are listed in /sys/devices/system/node/online"
    )]
    Node {
        /// The node.
        node: u32,
        /// The kernel's answer.
        why: String,
    },
    /// A limit of this process.
    #[error("the kernel refuses {what} ({why}): {setting}")]
    Refused {
        /// Which call.
        what: &'static str,
        /// The kernel's answer.
        why: String,
        /// The setting to change.
        setting: &'static str,
    },
    /// Memory that the caller handed over does not begin and end at frames.
    #[error("memory at {address:#x} of {bytes} bytes does not begin and end at frames of 4096 bytes")]
    Misaligned {
        /// Where it begins.
        address: usize,
        /// Its size.
        bytes: usize,
    },
}

/// Counts huge pages, with the verb that follows.
fn huge_pages(n: u64, size: PageSize) -> String {
    let size = if size == PageSize::Huge1G { "1 GiB" } else { "2 MiB" };
    if n == 1 { format!("1 huge page of {size} is") } else { format!("{n} huge pages of {size} are") }
}
