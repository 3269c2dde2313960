//! The lab: allocators are put to work on recorded and made-up load, and what they do is measured.
//!
//! * [`engine`]: the engines by name, and what the lab wants of one beyond [`pageyard::PageAllocator`];
//! * [`machine`]: the host that a trace was recorded on, as a memory map and an opening state;
//! * [`bench`]: what a frame costs, beside peers and floors;
//! * [`experiment`]: a document's table, beside what this machine measures;
//! * [`replay`]: a trace re-executed on an engine, and the report of it;
//! * [`workload`]: owners of frames that can be moved and given up, and load on them.
#![deny(unsafe_code)]

pub mod bench;
pub mod engine;
pub mod experiment;
pub mod machine;
pub mod replay;

mod bitmap;
mod error;
mod latency;
mod limits;
pub mod text;
pub mod workload;
mod yard;

pub use error::LabError;
pub use pageyard::Order;
