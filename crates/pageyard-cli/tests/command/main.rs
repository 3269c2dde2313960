//! The command as a user meets it.

mod limits;
mod recording;
mod schemas;
mod verbs;
