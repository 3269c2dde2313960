//! State of each frame and each pageblock: tags, bits and descriptors, and the indexes derived from them.
//!
//! From the bottom up: `type_code` numbers migratetypes; `tag` and `descriptor` are packed values with pure
//! transitions, `holes` those of pageblocks without managed frames; `watch` rereads a descriptor; `row` tells eight
//! neighbours whose tags share a word; `bias` decides how tags are won; `frame_map` holds them; `hint` keeps what a
//! descriptor says of its largest run; `stretch` maps a range of frames to bits; `tree` and `index` find pageblocks
//! that can serve a request; `cpu_words` are per-CPU counters; `count` is the sum of free frames. For tests, `damage`
//! flips bits, and `properties` says what holds of every tag, descriptor and bias.

pub(super) mod bias;
pub(super) mod count;
pub(super) mod cpu_words;
pub(super) mod damage;
pub(super) mod descriptor;
pub(super) mod frame_map;
pub(super) mod hint;
#[cfg(not(pageyard_loom))]
pub(super) mod holes;
pub(super) mod index;
#[cfg(all(any(test, kani), not(pageyard_loom), not(pageyard_shuttle)))]
mod properties;
pub(super) mod row;
pub(super) mod stretch;
pub(super) mod tag;
pub(super) mod tree;
pub(super) mod type_code;
pub(super) mod watch;
