//! Results as documents: those of the router and of STREAM. The results of the other benchmarks are documents
//! themselves.

mod router;
mod stream;

pub use router::RouterDocument;
pub use stream::StreamDocument;
