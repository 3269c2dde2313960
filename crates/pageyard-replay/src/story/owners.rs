//! Who holds frames: requests of one kind by one thread, or what the snapshot says of frames from before the recording.

use super::class::Class;
use crate::error::ReplayError;
use pageyard::{Context, GfpMap};
use pageyard_trace::failures::GfpNames;
use pageyard_trace::{FrameKind, ThreadNames, Trace};
use std::collections::HashMap;

/// Owners that are told apart. If a file invents more threads, those of the rest are put together.
const MOST: usize = 1 << 16;

/// The thread of owners whose threads are put together.
const ANY_THREAD: u32 = u32::MAX;

/// A recording of those that a story tells, by its place among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordingIndex(pub u8);

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
        /// The recording in which it asked.
        of: RecordingIndex,
        /// The class of the frames, as compaction sees them.
        class: Class,
    },
}

impl Owner {
    /// Returns the thread, where that is known.
    #[must_use]
    pub fn thread(&self) -> Option<u32> {
        match self {
            Owner::Asked { tid, .. } if *tid != ANY_THREAD => Some(*tid),
            _ => None,
        }
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

/// The facts of a recording that name its owners.
#[derive(Clone, Debug)]
struct Naming {
    /// The recording's name, where several are told.
    recording: Option<String>,
    threads: ThreadNames,
    /// Where its kernel keeps its gfp flags.
    gfp: GfpMap,
}

/// Owners by number.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    namings: Vec<Naming>,
    numbers: HashMap<Owner, u32>,
    all: Vec<Owner>,
    /// The owner that was asked for last: most requests come in rows.
    last: Option<(Owner, u32)>,
    /// Whether threads had to be put together.
    pub crowded: bool,
}

impl Owners {
    /// Makes those of some recordings, each with the gfp flags of its kernel.
    ///
    /// # Errors
    /// When the names of a recording's threads cannot be read.
    pub fn of(recordings: &[(&Trace, &GfpMap)]) -> Result<Owners, ReplayError> {
        let several = recordings.len() > 1;
        let namings = recordings.iter().map(|(trace, gfp)| {
            let recording = several.then(|| trace.name().to_owned());
            Ok(Naming { recording, threads: trace.thread_names()?, gfp: **gfp })
        });
        Ok(Owners { namings: namings.collect::<Result<_, ReplayError>>()?, ..Owners::default() })
    }

    fn naming(&self, of: RecordingIndex) -> Option<&Naming> {
        self.namings.get(usize::from(of.0))
    }

    /// Names a thread: as the kernel did where the recording kept that, or by its number. Threads of one name are one
    /// job to who asks whose frames they are.
    #[must_use]
    pub fn name_of(&self, of: RecordingIndex, tid: u32) -> String {
        let naming = self.naming(of);
        if let Some(name) = naming.and_then(|naming| naming.threads.get(tid)) {
            return name.to_owned();
        }
        let recording = naming.and_then(|naming| naming.recording.as_ref());
        recording.map_or_else(|| format!("thread {tid}"), |name| format!("thread {tid} of {name}"))
    }

    /// Names the thread that asked; `None` for frames from before the recording.
    #[must_use]
    pub fn thread(&self, owner: &Owner) -> Option<String> {
        match owner {
            Owner::Before(..) => None,
            Owner::Asked { tid: ANY_THREAD, .. } => Some("other threads".to_owned()),
            Owner::Asked { tid, of, .. } => Some(self.name_of(*of, *tid)),
        }
    }

    /// Returns the gfp flags by name, where it asked.
    #[must_use]
    pub fn gfp(&self, owner: &Owner) -> Option<String> {
        let Owner::Asked { gfp, of, .. } = owner else { return None };
        let none = GfpMap::from_names([]);
        Some(GfpNames::new(*gfp, self.naming(*of).map_or(&none, |naming| &naming.gfp)).to_string())
    }

    /// Says what an owner is, in a few words.
    #[must_use]
    pub fn label(&self, owner: &Owner) -> String {
        match owner {
            Owner::Before(FrameKind::None, _) => words(FrameKind::None).to_owned(),
            Owner::Before(kind, _) => format!("{}, from before the recording", words(*kind)),
            Owner::Asked { .. } => {
                let [gfp, thread] = [self.gfp(owner), self.thread(owner)].map(Option::unwrap_or_default);
                format!("{gfp}, {}, {thread}", owner.context().unwrap_or("unknown"))
            }
        }
    }

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
        let of = RecordingIndex::default();
        let asked = |tid| Owner::Asked { gfp: 0, context: 0, tid, of, class: Class::Unmovable };
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
        let shares = blame.shares(&owners);
        let names: Vec<&str> = shares.thread.iter().map(|share| share.name.as_str()).collect();
        assert_eq!(names, ["other threads", "thread 7"]);
    }
}
