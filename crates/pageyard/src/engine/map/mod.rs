//! What is known of each frame and of each pageblock: tags, bits and descriptors, and what is derived from them.
//!
//! From the bottom up: `tag` and `descriptor` are packed values with pure transitions; `watch` rereads one of them;
//! `eight` is eight tags at once; `bias` says how tags are won; `frame_map` is where they lie, `stretch` which bits a
//! range of them is; `tree` and `index` say which pageblocks can serve what; `cpu_words` are what each CPU counts for
//! itself; `count` adds up what is free.

pub(super) mod bias;
pub(super) mod count;
pub(super) mod cpu_words;
pub(super) mod descriptor;
pub(super) mod eight;
pub(super) mod frame_map;
pub(super) mod index;
pub(super) mod stretch;
pub(super) mod tag;
pub(super) mod tree;
pub(super) mod watch;
