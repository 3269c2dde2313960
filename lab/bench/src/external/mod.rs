//! Rows that another program or another machine measured, to stand beside this machine's: `--external FILE.json`.
//!
//! * `file`: a file of rows; `row`: a row, checked; `compare`: whether its machine is like this one;
//! * `note`: a result's remark on them; `uml`: rows of Linux itself, under User Mode Linux.
//!
//! A file is a document as `--json` prints it, of which `schema`, `machine` and `rows` are read:
//! `docs/design/json.md`.

mod compare;
mod file;
mod note;
mod row;
pub(crate) mod uml;

pub use file::External;
pub use note::ExternalNote;
pub(crate) use row::{ExternalRow, Key, Kind};
