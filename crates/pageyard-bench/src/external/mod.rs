//! Rows that another program or another machine measured, to stand beside this machine's: `--external FILE.json`.
//!
//! * `fields`: what a row says, checked; `rows`: the rows of each benchmark; `file`: a file of them;
//! * `compare`: whether its machine is like this one; `note`: what a result says of it.
//!
//! A file is a document as `--json` prints it, of which `schema`, `machine` and `rows` are read: `docs/design/json.md`.

mod compare;
mod fields;
mod file;
mod note;
mod rows;

pub(crate) use fields::Fields;
pub use file::External;
pub use note::ExternalNote;
pub(crate) use rows::Figures;
pub use rows::{CrossFigures, MixedFigures, SweepFigures};
