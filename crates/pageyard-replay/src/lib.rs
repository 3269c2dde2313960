//! Replays: a recorded machine, the engines on which a recording is re-executed, and the results.
//!
//! * [`beside`]: two recordings beside each other;
//! * [`compare`]: settings beside each other, from several opening states;
//! * [`engine`]: the engines by name, and what a replay needs of one beyond [`pageyard::PageAllocator`];
//! * [`fleet`]: many hosts, from the rows that each of them wrote;
//! * [`machine`]: the host that a trace was recorded on, as a memory map and an opening state;
//! * [`replay`]: a trace re-executed on an engine, the prediction of where it ends, and the report of it;
//! * [`snapshot_cost`]: what a snapshot of a recorded guest has to keep;
//! * [`story`]: a run as a page that shows memory at every moment, and who keeps pageblocks from becoming huge frames;
//! * [`what_if`]: a recording replayed with a setting changed, and how often such predictions were right;
//! * [`doctor`]: why requests failed, from what is known of a host, and which setting would change it;
//! * [`workload`]: owners of frames that can be moved and given up, and load on them.
#![deny(unsafe_code)]

pub mod beside;
pub mod compare;
pub mod doctor;
pub mod engine;
pub mod fleet;
pub mod machine;
pub mod replay;
pub mod snapshot_cost;
pub mod story;
pub mod text;
pub mod what_if;
pub mod workload;

mod bitmap;
mod by_number;
mod drawn;
mod error;
mod kept;
pub mod latency;
mod ledger;
mod limits;
mod memo;
mod page;
mod rows;

pub use error::ReplayError;
pub use pageyard::Order;
