//! Why requests failed, and which setting would change it: facts go in, causes come out.
//!
//! * `facts`: what is known of a host, from its log, its `/proc` or a recording; `answer`: what its zones say to a
//!   request;
//! * `rules`: from the one to the other, a rule for each cause; `report`: kinds of reports, and causes that a kind
//!   names by itself; `cause`: their names; `settings`: which kernels have which; `effect`: whether it mattered;
//! * `diagnosis`: causes of all failures together; `recording`: of a trace; `trial`: settings tried on it;
//! * `document`, `text`: what is printed.
//!
//! Nothing here asks a host anything.

mod answer;
mod cause;
mod diagnosis;
mod document;
mod effect;
mod facts;
mod recording;
mod report;
mod rules;
mod settings;
mod text;
mod trial;

pub use cause::{Cause, Finding, Setting};
pub use diagnosis::{CauseOfAll, Diagnosis, Failed, Served, Source};
pub use document::{
    CauseDocument, ConfidenceDocument, DoctorDocument, FailedDocument, PredictedDocument, ServedDocument,
};
pub use facts::{Asked, Facts, Pool, Spoilt, Zone};
pub use recording::of_trace;
pub use report::Report;
pub use rules::{Check, ZoneCheck};
pub use trial::{Change, Confidence, Predicted, try_settings};
