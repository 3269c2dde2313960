//! Who holds frames: requests of one kind by one thread, or what the snapshot says of frames from before the recording.

use super::class::Class;
use pageyard::{Context, GfpMap};
use pageyard_trace::FrameKind;
use pageyard_trace::failures::GfpNames;
use std::collections::HashMap;

/// Owners that are told apart. If a file invents more threads, those of the rest are put together.
const MOST: usize = 1 << 16;

/// The thread of owners whose threads are put together.
const ANY_THREAD: u32 = u32::MAX;

/// A holder of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// It held them before the recording: what the snapshot says they are.
    Before(FrameKind, Class),
    /// It asked for them.
    Asked {
        /// The kernel's gfp bits.
        gfp: u32,
        /// The context that the CPU was in, by [`Context::ALL`].
        context: u8,
        /// The thread, or any of those that are put together.
        tid: u32,
        /// The class of the frames, as compaction sees them.
        class: Class,
    },
}

impl Owner {
    /// Returns the gfp flags by name, where it asked.
    #[must_use]
    pub fn gfp(&self, map: &GfpMap) -> Option<String> {
        match self {
            Owner::Before(..) => None,
            Owner::Asked { gfp, .. } => Some(GfpNames::new(*gfp, map).to_string()),
        }
    }

    /// Returns the thread, where that is known.
    #[must_use]
    pub fn thread(&self) -> Option<u32> {
        match self {
            Owner::Asked { tid, .. } if *tid != ANY_THREAD => Some(*tid),
            _ => None,
        }
    }

    /// Returns the thread that asked as it is named in texts.
    #[must_use]
    pub fn thread_name(&self) -> String {
        self.thread().map_or_else(|| "other threads".to_owned(), |tid| format!("thread {tid}"))
    }

    /// Returns what the CPU was doing, where that is known.
    #[must_use]
    pub fn context(&self) -> Option<&'static str> {
        match self {
            Owner::Before(..) => None,
            Owner::Asked { context, .. } => Context::ALL.get(usize::from(*context)).map(|c| c.name()),
        }
    }

    /// Returns what its frames are to compaction.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Owner::Before(_, class) | Owner::Asked { class, .. } => *class,
        }
    }

    /// Says what it is, in a few words.
    #[must_use]
    pub fn label(&self, map: &GfpMap) -> String {
        match self {
            Owner::Before(FrameKind::None, _) => words(FrameKind::None).to_owned(),
            Owner::Before(kind, _) => format!("{}, from before the recording", words(*kind)),
            Owner::Asked { gfp, .. } => {
                let context = self.context().unwrap_or("unknown");
                format!("{}, {context}, {}", GfpNames::new(*gfp, map), self.thread_name())
            }
        }
    }
}

/// Says what frames of a kind hold.
fn words(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Slab => "slab",
        FrameKind::PageTable => "page tables",
        FrameKind::Anon => "anonymous memory",
        FrameKind::File => "page cache",
        FrameKind::HugeTlb => "huge pages set aside",
        FrameKind::None => "not there, or never the allocator's",
        _ => "other kernel memory",
    }
}

/// Owners by number.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    numbers: HashMap<Owner, u32>,
    all: Vec<Owner>,
    /// The owner that was asked for last: most requests come in rows.
    last: Option<(Owner, u32)>,
    /// Whether threads had to be put together.
    pub crowded: bool,
}

impl Owners {
    /// Returns an owner's number.
    pub fn number(&mut self, owner: Owner) -> u32 {
        if let Some((last, number)) = self.last
            && last == owner
        {
            return number;
        }
        let number = self.find(owner);
        self.last = Some((owner, number));
        number
    }

    fn find(&mut self, mut owner: Owner) -> u32 {
        if let Some(number) = self.numbers.get(&owner) {
            return *number;
        }
        if let Owner::Asked { tid, .. } = &mut owner
            && self.all.len() >= MOST
        {
            *tid = ANY_THREAD;
            self.crowded = true;
            if let Some(number) = self.numbers.get(&owner) {
                return *number;
            }
        }
        let number = self.all.len() as u32;
        self.all.push(owner);
        self.numbers.insert(owner, number);
        number
    }

    /// Returns the owner of a number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&Owner> {
        self.all.get(number as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::super::blame::{Blame, Holder, LostPageblock};
    use super::super::class::LostBy;
    use super::*;

    /// They once counted as held from before the recording.
    #[test]
    fn threads_that_are_put_together_asked_during_the_recording() {
        let mut owners = Owners::default();
        let asked = |tid| Owner::Asked { gfp: 0, context: 0, tid, class: Class::Unmovable };
        let numbers: Vec<u32> = (0..MOST as u32 + 2).map(|tid| owners.number(asked(tid))).collect();
        assert!(owners.crowded && numbers[MOST] == MOST as u32 && numbers[MOST + 1] == MOST as u32);
        assert_eq!(owners.number(asked(7)), 7, "who was there is told apart still");
        let holder = |owner| Holder {
            owner,
            order: Some(0),
            blocks: 1,
            frames: 1,
            since_ns: Some(1),
            first_pfn: u64::from(owner),
        };
        let holders = vec![holder(7), holder(MOST as u32)];
        let (since_ns, reason) = (Some(1), LostBy::OwnType);
        let lost = vec![LostPageblock { number: 0, first_pfn: 0, since_ns, reason, holders }];
        let blame = Blame { pageblocks: 1, free: 0, lost };
        let shares = blame.shares(&owners, &GfpMap::from_names([]));
        let names: Vec<&str> = shares.thread.iter().map(|share| share.name.as_str()).collect();
        assert_eq!(names, ["other threads", "thread 7"]);
    }
}
