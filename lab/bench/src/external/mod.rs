//! Rows that another program or another machine measured, to stand beside this machine's: `--external FILE.json`.
//!
//! * `file`: a file of rows; `row`: a row, checked; `compare`: whether its machine is like this one; `note`: what a result says of it.
//!
//! A file is a document as `--json` prints it, of which `schema`, `machine` and `rows` are read: `docs/design/json.md`.

mod compare;
mod file;
mod note;
mod row;

pub use file::External;
pub use note::ExternalNote;
pub(crate) use row::{ExternalRow, Key, Kind, read as read_row};
