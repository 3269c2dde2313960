//! The protocol of the frame map as rules: what one atomic step may do, by what its thread knows.
//!
//! A [`Machine`] is the shared memory of a zone of two pageblocks (free bits, tags, descriptors), and beside it what no
//! memory holds: who has each frame, and how much each thread has reserved. A rule asks only for memory and for what
//! the stepping thread has itself. Whether rules that look no further keep two owners from one frame is for
//! [`Machine::apply`] and [`Machine::check`] to say.

use std::fmt::{self, Display};

pub const PAGEBLOCKS: usize = 2;
pub const THREADS: usize = 3;

/// Who has a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Holder {
    /// It is free.
    Nobody,
    /// A call of this thread: no caller has it.
    Thread(u8),
    /// A per-CPU list.
    List(u8),
    /// A caller, in a block whose first frame's tag says so.
    Caller,
}

/// A frame's tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Tag {
    Free,
    /// A live block of this order starts here.
    Allocated(u8),
    /// A block that is being split starts here.
    Splitting,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Whether its free bit says free.
    pub is_free: bool,
    pub tag: Tag,
    pub holder: Holder,
}

/// A descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pageblock {
    /// Free frames that no claim has reserved.
    pub counted: i16,
    pub is_huge: bool,
    pub is_isolated: bool,
    /// Its type.
    pub ty: u8,
    /// Lists, a bit each, that have been emptied of it since it was isolated: none may take its frames again.
    pub swept: u64,
}

/// One atomic step. Frames are numbered over both pageblocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A descriptor counts `n` fewer, for a claim; a steal gives it another type as well.
    Reserve {
        pageblock: usize,
        n: i16,
        ty: u8,
    },
    /// A descriptor's type changes, and nothing else.
    Convert {
        pageblock: usize,
        ty: u8,
    },
    /// A descriptor counts `n` more.
    Count {
        pageblock: usize,
        n: i16,
    },
    /// A free bit is taken, or several of one word, one step for each.
    Take {
        frame: usize,
    },
    /// A bit is given.
    Give {
        frame: usize,
    },
    /// A pageblock whose frames all count becomes one block.
    ClaimWhole {
        pageblock: usize,
    },
    /// It comes back as one.
    ReleaseWhole {
        pageblock: usize,
    },
    /// A tag says that a block is a caller's.
    HandOut {
        frame: usize,
        order: u8,
    },
    /// A free wins a tag.
    Win {
        frame: usize,
    },
    /// A split wins a tag.
    BeginSplit {
        frame: usize,
    },
    /// A bit of a pageblock that is one block is taken, to break it up.
    Mark {
        frame: usize,
    },
    /// The pageblock is no longer one block: its frames are those of a block that is being split.
    Shatter {
        pageblock: usize,
    },
    /// A list takes a block.
    Push {
        frame: usize,
        order: u8,
        list: u8,
    },
    /// A block is taken from a list.
    Pop {
        frame: usize,
        order: u8,
        list: u8,
    },
    Isolate {
        pageblock: usize,
    },
    Restore {
        pageblock: usize,
    },
}

/// Why a step is not one of the protocol's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The rules do not allow it: its compare-and-swap would fail, or its thread has not what it needs.
    Refused(&'static str),
    /// The rules allow it, and it breaks what they are for.
    Broken(&'static str),
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Refused(why) => write!(f, "no rule allows it: {why}"),
            Fault::Broken(what) => write!(f, "it breaks the protocol: {what}"),
        }
    }
}

/// Rules with mistakes in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mistakes {
    /// Frames count as free before their bits are given.
    pub counts_before_giving: bool,
    /// Bits are taken first and reserved afterwards.
    pub takes_before_reserving: bool,
    /// A pageblock is claimed whole although one frame is missing.
    pub claims_nearly_whole: bool,
    /// A claim that finds a frame taken gives back one that it did not take.
    pub gives_back_too_much: bool,
    /// A pageblock is broken up before its bits say that its frames are taken.
    pub shatters_before_marking: bool,
    /// Giving a whole pageblock back does not ask who has it.
    pub releases_what_is_not_its_own: bool,
}

impl Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bit = if self.is_free { '-' } else { '#' };
        write!(f, "{bit} {:?} {:?}", self.tag, self.holder)
    }
}

/// The memory of a zone of `FRAMES` frames, and who has what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine<const FRAMES: usize> {
    pub frames: [Frame; FRAMES],
    pub pageblocks: [Pageblock; PAGEBLOCKS],
    /// By thread and pageblock: frames that are free by their bits and not counted, because the thread has reserved
    /// them and will take them, or has given them and will count them.
    pub owed: [[i16; PAGEBLOCKS]; THREADS],
    pub mistakes: Mistakes,
}

impl<const FRAMES: usize> Machine<FRAMES> {
    /// Frames of a pageblock.
    pub const PAGEBLOCK: usize = FRAMES / PAGEBLOCKS;
    /// The order of a block that is a pageblock.
    pub const ORDER: u8 = Self::PAGEBLOCK.ilog2() as u8;

    /// Makes one whose frames are all free.
    pub fn new(ty: u8) -> Self {
        let frame = Frame { is_free: true, tag: Tag::Free, holder: Holder::Nobody };
        let counted = Self::PAGEBLOCK as i16;
        let pageblock = Pageblock { counted, is_huge: false, is_isolated: false, ty, swept: 0 };
        Machine {
            frames: [frame; FRAMES],
            pageblocks: [pageblock; PAGEBLOCKS],
            owed: [[0; PAGEBLOCKS]; THREADS],
            mistakes: Mistakes::default(),
        }
    }

    /// Returns the frames of the block of `order` that a frame lies in.
    pub fn block(frame: usize, order: u8) -> std::ops::Range<usize> {
        let first = frame >> order << order;
        first..first + (1 << order)
    }

    fn pageblock(pageblock: usize) -> std::ops::Range<usize> {
        Self::block(pageblock * Self::PAGEBLOCK, Self::ORDER)
    }

    /// Returns whether all these frames are that holder's.
    pub fn are_of(&self, mut frames: std::ops::Range<usize>, holder: Holder) -> bool {
        frames.all(|f| self.frames[f].holder == holder)
    }

    /// Returns whether a thread has a block that it splits.
    fn splits(&self, mine: Holder) -> bool {
        self.frames.iter().any(|f| f.tag == Tag::Splitting && f.holder == mine)
    }

    /// Passes frames on. Those that were not the last holder's have two owners now.
    fn pass(&mut self, mut frames: std::ops::Range<usize>, from: Holder, to: Holder) -> Result<(), Fault> {
        if !self.are_of(frames.clone(), from) {
            return Err(Fault::Broken("a frame has two owners"));
        }
        frames.by_ref().for_each(|f| self.frames[f].holder = to);
        Ok(())
    }

    /// Makes a step of a thread.
    pub fn apply(&mut self, thread: usize, step: Step) -> Result<(), Fault> {
        let mine = Holder::Thread(thread as u8);
        let need = |holds: bool, why| if holds { Ok(()) } else { Err(Fault::Refused(why)) };
        let mistakes = self.mistakes;
        match step {
            Step::Reserve { pageblock, n, ty } => {
                let state = &mut self.pageblocks[pageblock];
                need(!state.is_huge && !state.is_isolated, "the pageblock is out of allocation")?;
                need(state.counted >= n, "more are reserved than are counted")?;
                state.counted -= n;
                state.ty = ty;
                self.owed[thread][pageblock] += n;
            }
            Step::Convert { pageblock, ty } => self.pageblocks[pageblock].ty = ty,
            Step::Count { pageblock, n } => {
                let owed = &mut self.owed[thread][pageblock];
                need(mistakes.counts_before_giving || *owed >= n, "more are counted than were given")?;
                need(!self.pageblocks[pageblock].is_huge, "the pageblock is one block")?;
                *owed -= n;
                self.pageblocks[pageblock].counted += n;
            }
            Step::Take { frame } => {
                let owed = &mut self.owed[thread][frame / Self::PAGEBLOCK];
                need(mistakes.takes_before_reserving || *owed > 0, "it is not reserved")?;
                need(self.frames[frame].is_free, "its bit is taken")?;
                *owed -= 1;
                self.frames[frame].is_free = false;
                self.pass(frame..frame + 1, Holder::Nobody, mine)?;
            }
            Step::Give { frame } => {
                let Frame { is_free, holder, tag } = self.frames[frame];
                need(mistakes.gives_back_too_much || holder == mine, "the thread does not have it")?;
                need(tag == Tag::Free, "its tag says that a block starts there")?;
                let is_huge = self.pageblocks[frame / Self::PAGEBLOCK].is_huge;
                need(!is_huge, "it is part of a whole pageblock")?;
                need(!self.splits(mine), "it is part of a block that the thread splits")?;
                need(!is_free, "its bit is given already")?;
                self.frames[frame].is_free = true;
                self.owed[thread][frame / Self::PAGEBLOCK] += 1;
                self.pass(frame..frame + 1, mine, Holder::Nobody)?;
            }
            Step::ClaimWhole { pageblock } => {
                let state = &mut self.pageblocks[pageblock];
                let missing = Self::PAGEBLOCK as i16 - state.counted;
                need(!state.is_huge && !state.is_isolated, "the pageblock is out of allocation")?;
                need(missing <= i16::from(mistakes.claims_nearly_whole), "not all of it is free")?;
                state.counted = 0;
                state.is_huge = true;
                self.pass(Self::pageblock(pageblock), Holder::Nobody, mine)?;
            }
            Step::ReleaseWhole { pageblock } => {
                let frames = Self::pageblock(pageblock);
                let has = mistakes.releases_what_is_not_its_own || self.are_of(frames.clone(), mine);
                need(has, "the thread does not have it")?;
                need(self.pageblocks[pageblock].is_huge, "it is not one block")?;
                let untouched = |f: usize| self.frames[f].is_free && self.frames[f].tag == Tag::Free;
                need(frames.clone().all(untouched), "it is being split")?;
                self.pageblocks[pageblock].counted = Self::PAGEBLOCK as i16;
                self.pageblocks[pageblock].is_huge = false;
                self.pass(frames, mine, Holder::Nobody)?;
            }
            Step::HandOut { frame, order } => {
                let frames = Self::block(frame, order);
                let mut parts = frames.clone().step_by(Self::PAGEBLOCK);
                let is_whole = order >= Self::ORDER;
                need(self.are_of(frames.clone(), mine), "the thread does not have it")?;
                let is_one = parts.all(|f| self.pageblocks[f / Self::PAGEBLOCK].is_huge == is_whole);
                need(is_one, "pageblocks are claimed whole, and only they")?;
                let mut others = frames.clone().filter(|f| *f != frame);
                need(others.all(|f| self.frames[f].tag == Tag::Free), "a later frame of it has a tag")?;
                let mut others = Self::pageblock(frame / Self::PAGEBLOCK).map(|f| self.frames[f]);
                let unmarked = others.any(|f| f.holder == mine && f.is_free);
                need(is_whole || !unmarked, "bits of what the thread has say that it is free")?;
                self.frames[frame].tag = Tag::Allocated(order);
                self.pass(frames, mine, Holder::Caller)?;
            }
            Step::Win { frame } | Step::BeginSplit { frame } => {
                let Tag::Allocated(order) = self.frames[frame].tag else {
                    return Err(Fault::Refused("no block starts there"));
                };
                let split = matches!(step, Step::BeginSplit { .. });
                self.frames[frame].tag = if split { Tag::Splitting } else { Tag::Free };
                self.pass(Self::block(frame, order), Holder::Caller, mine)?;
            }
            Step::Mark { frame } => {
                need(self.frames[frame].holder == mine, "the thread does not have it")?;
                let is_huge = self.pageblocks[frame / Self::PAGEBLOCK].is_huge;
                need(is_huge || mistakes.shatters_before_marking, "it is not part of a whole pageblock")?;
                need(self.splits(mine), "the thread splits nothing")?;
                need(self.frames[frame].is_free, "it is marked already")?;
                self.frames[frame].is_free = false;
            }
            Step::Shatter { pageblock } => {
                let mut frames = Self::pageblock(pageblock);
                need(self.pageblocks[pageblock].is_huge, "it is not one block")?;
                need(self.are_of(frames.clone(), mine), "the thread does not have it")?;
                need(self.splits(mine), "the thread splits nothing")?;
                let marked = frames.all(|f| !self.frames[f].is_free);
                need(marked || mistakes.shatters_before_marking, "its bits are not taken")?;
                self.pageblocks[pageblock].is_huge = false;
            }
            Step::Push { frame, order, list } => {
                let frames = Self::block(frame, order);
                need(self.are_of(frames.clone(), mine), "the thread does not have it")?;
                need(frames.clone().all(|f| self.frames[f].tag == Tag::Free), "it has a tag")?;
                if self.pageblocks[frame / Self::PAGEBLOCK].swept >> list & 1 != 0 {
                    return Err(Fault::Broken(
                        "a list that was emptied takes a frame of an isolated pageblock",
                    ));
                }
                self.pass(frames, mine, Holder::List(list))?;
            }
            Step::Pop { frame, order, list } => {
                let frames = Self::block(frame, order);
                need(self.are_of(frames.clone(), Holder::List(list)), "the list does not have it")?;
                self.pass(frames, Holder::List(list), mine)?;
            }
            Step::Isolate { pageblock } => {
                need(!self.pageblocks[pageblock].is_isolated, "it is isolated already")?;
                self.pageblocks[pageblock].is_isolated = true;
            }
            Step::Restore { pageblock } => {
                need(self.pageblocks[pageblock].is_isolated, "it is not isolated")?;
                self.pageblocks[pageblock].is_isolated = false;
                self.pageblocks[pageblock].swept = 0;
            }
        }
        Ok(())
    }

    /// Notes that lists hold nothing of an isolated pageblock, and may take nothing of it again.
    pub fn sweep(&mut self, pageblock: usize, lists: u64) {
        if self.pageblocks[pageblock].is_isolated {
            self.pageblocks[pageblock].swept |= lists;
        }
    }

    /// Describes frames around one, and its pageblock.
    pub fn describe(&self, frame: usize) -> String {
        let number = frame / Self::PAGEBLOCK;
        let shown = Self::block(frame, Self::ORDER.min(3));
        let frames = shown.map(|f| format!("frame {f}: {}", self.frames[f])).collect::<Vec<_>>().join("\n");
        let owed = self.owed.map(|owed| owed[number]);
        format!("{:?}\nowed by threads {owed:?}\n{frames}", self.pageblocks[number])
    }

    /// Checks what holds between any two steps: a pageblock's free bits are at least those that count and those that
    /// are reserved; where no call has anything of it, exactly those that count.
    pub fn check(&self) -> Result<(), &'static str> {
        for (number, state) in self.pageblocks.iter().enumerate().filter(|(_, state)| !state.is_huge) {
            let frames = &self.frames[Self::pageblock(number)];
            let free = frames.iter().filter(|f| f.is_free).count() as i16;
            let owed = self.owed.iter().map(|owed| owed[number]).sum::<i16>();
            if free < state.counted + owed {
                return Err("fewer frames are free than are counted and reserved");
            }
            let busy = frames.iter().any(|f| matches!(f.holder, Holder::Thread(_)));
            if !busy && self.owed.iter().all(|owed| owed[number] == 0) && free != state.counted {
                return Err("a frame is lost");
            }
        }
        Ok(())
    }
}
