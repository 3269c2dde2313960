//! Whether an arena is the one that was built, or its copy in a child of a fork.

use crate::backing::{Backing, BackingError, Mapping};
use rustix::mm::{Advice, madvise};
use std::sync::atomic::{AtomicU8, Ordering};

/// A byte that is one, and zero in every child of a fork.
#[derive(Debug)]
pub(super) struct Alive(Mapping);

impl Alive {
    pub fn new() -> Result<Alive, BackingError> {
        let page = Mapping::new(1, Backing::AnonymousBase)?;
        // SAFETY: the page is this value's own.
        let advised = unsafe { madvise(page.start().as_ptr().cast(), page.bytes(), Advice::LinuxWipeOnFork) };
        advised.map_err(|why| BackingError::Refused {
            what: "to wipe a page in a child of a fork",
            why: why.to_string(),
            setting: "an arena needs Linux 4.14 or later",
        })?;
        let alive = Alive(page);
        // ORDER: Relaxed: whoever hands the arena to another thread orders this, too.
        alive.byte().store(1, Ordering::Relaxed);
        Ok(alive)
    }

    fn byte(&self) -> &AtomicU8 {
        // SAFETY: the page is mapped as long as this lives, and only used through this.
        unsafe { AtomicU8::from_ptr(self.0.start().as_ptr()) }
    }

    /// Returns whether it is the original.
    #[inline]
    pub fn is(&self) -> bool {
        // ORDER: Relaxed: a child has one thread, which saw the fork.
        self.byte().load(Ordering::Relaxed) == 1
    }
}
