//! To which CPU a pageblock is biased: frees of its blocks on that CPU check their tags without a locked instruction.
//!
//! Of several frees of one block one wins, because at any time a tag of a pageblock is won in one of two ways only: by
//! plain accesses inside restartable sequences of *one* CPU, or by compare-and-swaps. The word here says in which, and
//! a barrier lies between the two: it makes every sequence that has read the word start over.
//!
//! ```text
//! shared -> arming(cpu) -> biased(cpu) -> revoking(cpu) -> shared
//!             |  a barrier for all CPUs       |  a barrier for that CPU
//!             +-> shared, where anyone frees meanwhile
//! ```
//!
//! Who meets a pageblock that is being revoked issues the barrier too, and waits for no other thread. Proof, and what
//! was tried: `docs/design/frame-map.md`.

use super::watch::DescriptorWatch;
use core::marker::PhantomData;
use pageyard_core::units::CpuId;
#[cfg(pageyard_shuttle)]
use pageyard_sync::eight::{EIGHT, Eight};
use pageyard_sync::{A8, A64, Acquire, Relaxed, SeqCst};

/// Words of a pageblock: its descriptor, and its bias.
pub(crate) const PAIR: usize = 2;

/// Which CPU is meant, in the three states that name one.
const CPU: u64 = (1 << 29) - 1;
const REVOKING: u64 = 1 << 29;
const ARMING: u64 = 1 << 30;
const BIASED: u64 = 1 << 31;
/// State and CPU: zero where the pageblock is shared, so that zeroed metadata is.
const STATE: u64 = (1 << 32) - 1;
const GENERATION: u64 = 1 << 32;
const GENERATIONS: u64 = (1 << 24) - 1;
const STRANGER: u64 = 1 << 56;
const STRANGERS: u64 = 0xff << 56;

/// How the tags of a pageblock are won.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BiasState {
    /// By compare-and-swaps, inside sequences that found it shared.
    Shared,
    /// As shared, until a barrier for all CPUs has been issued; a free cancels it.
    Arming(CpuId),
    /// By plain accesses, inside sequences of this CPU.
    Biased(CpuId),
    /// By none, until a barrier for this CPU has been issued.
    Revoking(CpuId),
}

/// A pageblock's state, how often it changed, and how many strangers (threads without sequences) hold it shared.
///
/// | bits | what |
/// |---|---|
/// | 0..29 | a CPU |
/// | 29, 30, 31 | revoking, arming, biased; none: shared |
/// | 32..56 | generation: bumped by every change of state, so that a change by a thread that slept since it looked fails |
/// | 56..64 | strangers: while there is one, no bias begins |
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bias(u64);

impl Bias {
    /// Reads a word.
    #[cfg(all(any(test, kani), not(pageyard_loom), not(pageyard_shuttle)))]
    pub(super) fn from_bits(bits: u64) -> Bias {
        Bias(bits)
    }

    /// Returns the word.
    #[cfg(all(any(test, kani), not(pageyard_loom), not(pageyard_shuttle)))]
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// The lower half of the word of a biased pageblock, before the CPU's number is `or`ed in.
    pub(crate) const MARK: u32 = BIASED as u32;

    /// Returns the state.
    pub(crate) fn state(self) -> BiasState {
        let cpu = CpuId((self.0 & CPU) as u32);
        match self.0 & (REVOKING | ARMING | BIASED) {
            REVOKING => BiasState::Revoking(cpu),
            ARMING => BiasState::Arming(cpu),
            BIASED => BiasState::Biased(cpu),
            _ => BiasState::Shared,
        }
    }

    fn with(self, state: u64) -> Bias {
        let generation = self.0.wrapping_add(GENERATION) & GENERATIONS << 32;
        Bias(self.0 & STRANGERS | generation | state)
    }

    /// A CPU asks for it: it is shared, and no thread wins tags without a sequence.
    pub(crate) fn arm(self, cpu: CpuId) -> Option<Bias> {
        let free = self.0 & (STATE | STRANGERS) == 0 && u64::from(cpu.0) <= CPU;
        free.then(|| self.with(ARMING | u64::from(cpu.0)))
    }

    /// Every sequence that found it shared has ended.
    pub(crate) fn settle(self) -> Option<Bias> {
        (self.0 & ARMING != 0).then(|| self.with(BIASED | self.0 & CPU))
    }

    /// A free comes before that.
    pub(crate) fn cancel(self) -> Option<Bias> {
        (self.0 & ARMING != 0).then(|| self.with(0))
    }

    /// A free comes from elsewhere.
    pub(crate) fn revoke(self) -> Option<Bias> {
        (self.0 & BIASED != 0).then(|| self.with(REVOKING | self.0 & CPU))
    }

    /// Every sequence of its CPU that found it biased has ended.
    pub(crate) fn share(self) -> Option<Bias> {
        (self.0 & REVOKING != 0).then(|| self.with(0))
    }

    /// A thread without sequences is going to win a tag of it.
    pub(crate) fn admit(self) -> Option<Bias> {
        (self.0 & STATE == 0 && self.0 & STRANGERS != STRANGERS).then(|| Bias(self.0 + STRANGER))
    }
}

/// A pageblock's word.
#[derive(Clone, Copy)]
pub(crate) struct BiasWord<'m>(pub(crate) &'m A64);

impl BiasWord<'_> {
    /// Reads it.
    pub(crate) fn load(self) -> Bias {
        // ORDER: SeqCst, here and below: it is read before a tag is, and changed before a barrier is issued.
        Bias(self.0.load(SeqCst))
    }

    /// Changes it from the value read. Returns whether it still had that value.
    pub(crate) fn change(self, from: Bias, to: Option<Bias>) -> bool {
        to.is_some_and(|to| self.0.compare_exchange(from.0, to.0, SeqCst, SeqCst).is_ok())
    }

    /// Sets the state, while nothing else runs.
    pub(crate) fn set(self, cpu: Option<CpuId>) {
        self.0.store(cpu.map_or(0, |cpu| BIASED | u64::from(cpu.0)), SeqCst);
    }

    /// Undoes one [`Bias::admit`].
    pub(crate) fn dismiss(self) {
        self.0.fetch_add(STRANGER.wrapping_neg(), SeqCst);
    }
}

/// A tag of a block that is to be won, and its pageblock's bias: what a sequence reads and writes.
#[derive(Clone, Copy)]
pub struct TagPlace<'m> {
    /// The descriptors and biases of the zone, by turns, and the place of this pageblock's descriptor.
    words: *const A64,
    at: usize,
    tags: *const A8,
    frame: usize,
    lifetime: PhantomData<&'m [A64]>,
}

/// Where they lie, for a [`PerCpu`](crate::PerCpu) that is written in assembly.
#[derive(Clone, Copy, Debug)]
pub struct RawPlace {
    /// Words, of which the one at [`at`](RawPlace::at) comes before the bias.
    pub words: *const u64,
    /// See there.
    pub at: usize,
    /// Tags, a byte each.
    pub tags: *const u8,
    /// Which of them.
    pub frame: usize,
}

impl RawPlace {
    /// Bytes from the word at [`at`](RawPlace::at) to the bias, whose four lowest bytes are zero where the pageblock is
    /// shared.
    pub const BIAS: usize = 8;
    /// The four bytes of a biased pageblock are this, `or`ed with the CPU's number.
    pub const BIASED: u32 = Bias::MARK;
}

impl<'m> TagPlace<'m> {
    /// Makes it of the watch of the frame's pageblock, and of its zone's tags.
    ///
    /// # Safety
    /// There is a tag for the frame.
    #[inline(always)]
    pub(crate) unsafe fn of(watch: DescriptorWatch<'m>, tags: &'m [A8], frame: usize) -> TagPlace<'m> {
        debug_assert!(frame < tags.len());
        let (words, at) = watch.raw();
        TagPlace { words: words.cast(), at, tags: tags.as_ptr(), frame, lifetime: PhantomData }
    }

    /// Returns where it lies.
    #[inline(always)]
    #[must_use]
    pub fn raw(self) -> RawPlace {
        RawPlace { words: self.words.cast(), at: self.at, tags: self.tags.cast(), frame: self.frame }
    }

    fn tag(&self) -> &A8 {
        // SAFETY: `of` made it of a frame that has a tag, whose memory is borrowed for `'m`.
        unsafe { &*self.tags.add(self.frame) }
    }

    /// Returns whether the pageblock is shared: which sequence to begin.
    #[inline(always)]
    #[must_use]
    pub fn is_shared(self) -> bool {
        // SAFETY: as in `tag`: behind each descriptor lies its pageblock's bias.
        let word = unsafe { &*self.words.add(self.at + 1) };
        // ORDER: Relaxed: the sequence reads it again.
        word.load(Relaxed) & STATE == 0
    }

    #[cfg(pageyard_shuttle)]
    fn eight(&self) -> Eight<'m> {
        // SAFETY: as in `tag`: of its zone's tags, which come by whole pageblocks, and it is the first of a word.
        let tags = unsafe { core::slice::from_raw_parts(self.tags.add(self.frame), EIGHT) };
        Eight::at(tags, 0).expect("eight tags lie in a word")
    }

    /// Returns whether the tag and the seven behind it are all `from`, for a [`PerCpu`](crate::PerCpu) that is not
    /// written in assembly.
    #[cfg(pageyard_shuttle)]
    #[must_use]
    pub fn are_eight(self, from: u8) -> bool {
        self.eight().are(from)
    }

    /// Replaces all eight tags if all are `from` and `last`, asked in the same step, allows it. Returns whether they
    /// were, or `None` if `last` refused.
    #[cfg(pageyard_shuttle)]
    pub fn swap_eight_if(self, from: u8, to: u8, last: impl Fn() -> bool) -> Option<bool> {
        self.eight().swap_if(from, to, last)
    }

    /// Writes all eight tags, whatever they are, if `last` allows it. Returns whether it did.
    #[cfg(pageyard_shuttle)]
    pub fn write_eight_if(self, to: u8, last: impl FnOnce() -> bool) -> bool {
        self.eight().write_if(to, last)
    }

    /// Reads the bias, for a [`PerCpu`](crate::PerCpu) that is not written in assembly.
    #[must_use]
    pub fn bias(self) -> BiasState {
        // SAFETY: as in `tag`: behind each descriptor lies its pageblock's bias.
        BiasWord(unsafe { &*self.words.add(self.at + 1) }).load().state()
    }

    /// Reads the tag, for a [`PerCpu`](crate::PerCpu) that is not written in assembly.
    #[must_use]
    pub fn read(self) -> u8 {
        // ORDER: Acquire, as in `FrameMap::tag`.
        self.tag().load(Acquire)
    }

    /// Writes the tag if `last`, asked in the same step, allows it.
    #[cfg(pageyard_shuttle)]
    pub fn write_if(self, to: u8, last: impl Fn() -> bool) -> bool {
        self.tag().update_if(|_| last().then_some(to)).is_ok()
    }

    /// Replaces the tag if it is `from` and `last` allows it. Returns its old value, or `None` if `last` refused.
    #[cfg(pageyard_shuttle)]
    pub fn swap_if(self, from: u8, to: u8, last: impl Fn() -> bool) -> Option<u8> {
        let said = core::cell::Cell::new(false);
        let was = self.tag().update_if(|now| {
            said.set(last());
            (said.get() && now == from).then_some(to)
        });
        said.get().then(|| was.unwrap_or_else(|was| was))
    }
}

#[cfg(all(test, not(miri), not(pageyard_loom), not(pageyard_shuttle)))]
mod model;
