//! What happened on one host in one window of time, as a row: the form in which many hosts are compared.
//!
//! Rows lie in `FOLDER/date=2026-11-28/host=web-17/NAME.parquet`, a layout that readers of Parquet know how to divide.
//! Every number is there in every row. What a host cannot tell has a 0 for what it would be divided by: `sampled_ms`
//! for all that the kernel's own texts say, `pageblocks` for what pageblocks hold.

mod date;
mod file;
mod row;
mod window;

pub use date::date;
pub use file::{FleetFile, fleet_files, path_of, read_rows, write_rows};
pub use row::{FleetNumber, FleetRow};
pub use window::{FleetWindow, rows_of_trace};
