//! Helpers that the tests of `pageyard` and of `pageyard-lab` share.
//!
//! | file | what it has |
//! |---|---|
//! | [`numbers`] | the numbers of a text |
//! | [`schemas`] | documents beside the schemas of `docs/schemas`, and those beside the types |
//! | [`figures`] | a text beside its document: every number that it prints is there |
//! | [`program`] | a command that is run: its document, its refusal, its text |
//!
//! Everything here panics where a check fails: that is how a test fails.
#![forbid(unsafe_code)]

pub mod figures;
pub mod numbers;
pub mod program;
pub mod schemas;
