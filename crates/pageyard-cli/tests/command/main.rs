//! The command as a user meets it.

mod limits;
mod numbers;
mod printed;
mod recording;
mod schemas;
mod verbs;
