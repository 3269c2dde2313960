//! The results of the router as documents. Those of the other benchmarks are documents themselves.

mod router;

pub use router::RouterDocument;
