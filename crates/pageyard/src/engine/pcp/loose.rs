//! Lists without a zone, for tests of an implementation of [`PerCpu`](crate::engine::PerCpu) outside this crate.

use super::lists::{CpuLists, Lists};
use super::tuning::Tuning;
use crate::engine::geometry::LINE_WORDS;
use crate::engine::map::bias::{BiasWord, PAIR, TagPlace};
use crate::engine::map::cpu_words::{CpuGroups, CpuWords};
use crate::engine::map::watch::{DescriptorWatch, Unchanged};
use pageyard_core::error::MapError;
use pageyard_core::units::CpuId;
use pageyard_sync::{A8, A64, Carver, SeqCst};

/// Lists that belong to no zone: what a [`PerCpu`](crate::engine::PerCpu) is tested on.
pub struct LooseLists<'m> {
    lists: Lists<'m>,
    /// A descriptor, and the bias behind it.
    words: &'m [A64],
    tags: &'m [A8],
    /// Words of the CPUs, a line each, and of all.
    counts: &'m [A64],
    groups: CpuGroups<'m>,
}

impl<'m> LooseLists<'m> {
    /// Frames that have a tag, all of one pageblock.
    pub const FRAMES: u32 = 16;

    /// Cuts the lists of `cpus` CPUs from `memory`, which it fills with zeros. A list of single frames holds `high`
    /// items; the others hold fewer, or none.
    ///
    /// ```compile_fail,E0133
    /// # use pageyard::engine::LooseLists;
    /// let mut memory = vec![0_u8; 1 << 20];
    /// let lists = LooseLists::new(&mut memory, 2, 40).unwrap(); // a second user of the lists could follow
    /// ```
    ///
    /// # Errors
    /// [`MapError::MetadataTooSmall`] where `memory` is smaller than it says, counted from its first aligned byte.
    ///
    /// # Safety
    /// One [`PerCpu`](crate::engine::PerCpu) uses them; anything else uses them only while no call of it runs.
    pub unsafe fn new(memory: &'m mut [u8], cpus: u32, high: u32) -> Result<LooseLists<'m>, MapError> {
        memory.fill(0);
        let tuning = Tuning { high, batch: 1 };
        let mut counting = Carver::counting();
        Self::carve(&mut counting, cpus, tuning);
        let given = memory.len();
        let mut carver = Carver::of(memory);
        if !carver.has(counting.used()) {
            return Err(MapError::MetadataTooSmall { needed: counting.used(), given });
        }
        Ok(Self::carve(&mut carver, cpus, tuning))
    }

    fn carve(carver: &mut Carver<'m>, cpus: u32, tuning: Tuning) -> LooseLists<'m> {
        let counts = carver.zeroed((cpus as usize + 1) * LINE_WORDS);
        LooseLists {
            lists: Lists::carve(carver, cpus as usize, tuning),
            words: carver.zeroed(PAIR),
            tags: carver.zeroed(Self::FRAMES as usize),
            counts,
            groups: CpuGroups::of(counts, LINE_WORDS),
        }
    }

    /// Returns the lists.
    #[must_use]
    pub fn all(&self) -> CpuLists<'_> {
        self.lists.all()
    }

    /// Returns a watch that stands until the [`change`](LooseLists::change).
    #[must_use]
    pub fn watch(&self) -> DescriptorWatch<'_> {
        // SAFETY: there are two words.
        unsafe { DescriptorWatch::of(self.words, 0) }
    }

    /// Returns the same for many items.
    #[must_use]
    pub fn unchanged(&self) -> Unchanged<'_> {
        Unchanged::since(&self.words[0])
    }

    /// Changes what is watched, for good.
    pub fn change(&self) {
        self.words[0].fetch_or(DescriptorWatch::OUT.into(), SeqCst);
    }

    /// Returns words to count in.
    #[must_use]
    pub fn counts(&self) -> CpuWords<'_> {
        self.groups.at(0)
    }

    /// Returns what is in them: those of the CPUs, and that of all.
    pub fn counted(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().step_by(LINE_WORDS).map(|word| word.load(SeqCst))
    }

    /// Returns the place of a frame's tag, which is 0.
    #[must_use]
    pub fn place(&self, frame: u32) -> TagPlace<'_> {
        // SAFETY: there are as many tags.
        unsafe { TagPlace::of(self.watch(), self.tags, frame as usize % self.tags.len()) }
    }

    /// Writes a tag.
    pub fn set_tag(&self, frame: u32, tag: u8) {
        self.tags[frame as usize % self.tags.len()].store(tag, SeqCst);
    }

    /// Replaces a tag without a sequence. Returns whether it was what it had to be.
    #[must_use]
    pub fn win(&self, frame: u32, from: u8, to: u8) -> bool {
        self.tags[frame as usize % self.tags.len()].compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }

    /// Biases the frames' pageblock to a CPU, or shares it; without a barrier, so that nothing else may run.
    pub fn set_bias(&self, cpu: Option<CpuId>) {
        BiasWord(&self.words[1]).set(cpu);
    }
}
