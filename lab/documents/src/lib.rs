//! Helpers that the tests of `pageyard` and of `pageyard-lab` share.
//!
//! | file | what it has |
//! |---|---|
//! | [`numbers`] | the numbers of a text |
//! | [`schemas`] | documents beside the schemas of `docs/schemas`, and those beside the types |
//! | [`figures`] | a text beside its document: every number that it prints is there |
//! | [`program`] | a command that is run: its document, its refusal, its text |
//! | [`pages`] | pages of Markdown: prose, code blocks, code spans |
//! | [`links`] | links of pages, to files, headings and pictures |
//! | [`commands`] | commands that pages and help texts show, beside the parsers that take them |
//! | [`transcripts`] | commands that a page shows with their output, run again |
//!
//! Everything here panics where a check fails: that is how a test fails.
#![forbid(unsafe_code)]

pub mod commands;
pub mod figures;
pub mod links;
pub mod numbers;
pub mod pages;
pub mod program;
pub mod schemas;
pub mod transcripts;
