//! The story of a run: what physical memory held at every moment of a recording, on the host and on engines that replay
//! it, for a page that shows it.
//!
//! A story has a *line* for the host itself, by the recording's own frames, and one for each engine. A line is the
//! state of every pageblock at each of about 2,000 *moments*, kept as changes, with the figures that the engine has
//! itself, markers of what happened, and who keeps pageblocks from becoming huge frames at the end ([`Blame`]).
//! `docs/design/story.md` has the format.

mod blame;
mod blame_report;
mod changes;
mod chunk;
mod class;
#[cfg(test)]
mod counted;
mod document;
mod frames;
mod host;
mod keyframes;
mod layout;
mod line;
mod mark;
mod marker;
mod moments;
mod opening;
mod owners;
mod pack;
mod page;
mod pageblock;
mod recorded;
mod replayed;
mod scene;
mod segments;
mod telling;
mod told;
mod two;

pub use blame::{Blame, Holder, LostPageblock, Share, Shares};
pub use blame_report::{BlameDocument, BlameReport, HolderDocument, LostPageblockDocument, blame};
pub use class::{Class, LostBy};
pub use document::{LineFiguresDocument, MapDocument};
pub use owners::{Owner, Owners, RecordingIndex};
pub use page::MARKER;
pub use told::{MOMENTS, Story, tell};
pub use two::tell_two;
