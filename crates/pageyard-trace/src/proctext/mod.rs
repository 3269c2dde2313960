//! The texts in which Linux reports its page allocator, read into structures. Any text gives a structure or an error
//! that names the line: other kernels have other fields, a file may be cut short, and a trace may come from anywhere.
//! Unknown fields are skipped; numbers that no memory could have are refused, so that arithmetic on what was read does
//! not overflow.

mod buddyinfo;
mod line;
mod pagetypeinfo;
mod vmstat;
mod zoneinfo;

pub use buddyinfo::{Buddyinfo, BuddyinfoZone};
pub use pagetypeinfo::{FreeBlocks, Pagetypeinfo, PagetypeinfoZone};
pub use vmstat::{Vmstat, balloon};
pub use zoneinfo::{Pageset, Zoneinfo, ZoneinfoZone};
