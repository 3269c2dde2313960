//! Why requests failed, and which setting would change it: facts go in, causes come out.
//!
//! * `facts`: what is known of a host, from its log, its `/proc` or a recording; `answer`: what its zones say to a
//!   request;
//! * `rules`: from the one to the other, a rule for each cause; `cause`: their names, and settings;
//! * `diagnosis`: causes of all failures together; `recording`: of a trace; `trial`: settings tried on it;
//! * `document`, `text`: what is printed.
//!
//! Nothing here asks a host anything.

mod answer;
mod cause;
mod diagnosis;
mod document;
mod facts;
mod recording;
mod rules;
mod text;
mod trial;

pub use cause::{Cause, Finding, Setting};
pub use diagnosis::{CauseOfAll, Diagnosis, Failed, Served, Source};
pub use document::{
    CauseDocument, ConfidenceDocument, DoctorDocument, FailedDocument, PredictedDocument, ServedDocument,
};
pub use facts::{Asked, Facts, Pool, Spoilt, Zone};
pub use recording::of_trace;
pub use trial::{Change, Confidence, Predicted, try_settings};
