//! Memory for blocks that are written to, where an allocator hands out numbers of frames and has no memory of its own.

use pageyard::{Order, PAGE_SIZE, Pfn};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Words of a frame.
const WORDS: usize = PAGE_SIZE as usize / size_of::<u64>();

/// The frames of a zone from 0 on, as memory that was touched once.
pub(crate) struct Memory {
    words: Box<[AtomicU64]>,
    /// The word at which the first frame begins.
    start: usize,
}

impl Memory {
    /// Makes memory for this many frames.
    pub fn new(frames: u64) -> Memory {
        let all = if frames == 0 { 0 } else { (frames as usize + 1) * WORDS };
        let words: Box<[AtomicU64]> = (0..all).map(|_| AtomicU64::new(0)).collect();
        let into_page = words.as_ptr() as usize % PAGE_SIZE as usize / size_of::<u64>();
        Memory { words, start: (WORDS - into_page) % WORDS }
    }

    /// Makes none, for allocators that have their own.
    pub fn none() -> Memory {
        Memory::new(0)
    }

    /// Writes a word to the first cache line of each frame of a block.
    #[inline(always)]
    pub fn touch(&self, block: Pfn, order: Order) {
        let first = self.start + block.0 as usize * WORDS;
        for frame in 0..1usize << order.get() {
            // ORDER: Relaxed: a plain store; the block is its owner's alone.
            if let Some(word) = self.words.get(first + frame * WORDS) {
                word.store(block.0, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_each_frame_is_written_and_no_other() {
        let memory = Memory::new(8);
        memory.touch(Pfn(4), Order::of(1));
        let at = |frame: usize| memory.start + frame * WORDS;
        assert_eq!(std::ptr::from_ref(&memory.words[at(0)]) as usize % PAGE_SIZE as usize, 0);
        let written: Vec<usize> =
            (0..memory.words.len()).filter(|i| memory.words[*i].load(Relaxed) > 0).collect();
        assert_eq!(written, [at(4), at(5)]);
        memory.touch(Pfn(7), Order::of(0));
        assert_eq!(memory.words[at(7)].load(Relaxed), 7);
        Memory::none().touch(Pfn(1 << 30), Order::of(9));
    }
}
