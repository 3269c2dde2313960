//! Rows that another program or another machine measured, to stand beside this machine's: `--external FILE.json`.
//!
//! * `file`: a file of rows; `compare`: whether its machine is like this one; `note`: what a result says of it.
//!
//! A file is a document as `--json` prints it, of which `schema`, `machine` and `rows` are read: `docs/design/json.md`.

mod compare;
mod file;
mod note;

pub use file::External;
pub use note::ExternalNote;
