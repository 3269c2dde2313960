//! Free frames that are filled with a pattern, so that a write to one of them is found.

use pageyard::{BlockId, Frames, Migratetype, Observer, Order, PAGE_SIZE, Pfn, Request};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The byte that free frames are filled with.
///
/// # Linux
/// `PAGE_POISON`.
pub const PATTERN: u8 = 0xaa;

const WORD: u64 = u64::from_ne_bytes([PATTERN; 8]);
const WORDS: usize = PAGE_SIZE as usize / 8;

/// A frame that was written to while it was free.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Corruption {
    /// The frame.
    pub pfn: Pfn,
    /// From the first byte of the frame that is not the pattern to behind the last one.
    pub bytes: Range<usize>,
    /// The first bytes of that range, as they were found; zeros behind its end.
    pub found: [u8; 16],
    /// Whether all of it is one bit that flipped, as failing memory does.
    pub is_single_bit: bool,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Corruption { pfn, bytes, found, is_single_bit } = self;
        write!(f, "frame {:#x} was written to after it was freed: ", pfn.0)?;
        if *is_single_bit {
            return write!(f, "one bit of byte {:#x} flipped, which is now {:#04x}", bytes.start, found[0]);
        }
        write!(f, "bytes {:#x} to {:#x} hold", bytes.start, bytes.end - 1)?;
        found[..bytes.len().min(found.len())].iter().try_for_each(|byte| write!(f, " {byte:02x}"))?;
        f.write_str(if bytes.len() > found.len() { " ..." } else { "" })
    }
}

/// Fills frames with [`PATTERN`] when they are freed, and looks for it when they are allocated.
///
/// [`ArenaBuilder::poison`](super::ArenaBuilder::poison) makes one, around the observer that was set before.
pub struct Poison<O: Observer = ()> {
    inner: O,
    memory: Option<Memory>,
    report: Box<dyn Fn(&Corruption) + Send + Sync>,
}

/// Where the frames lie, and which of them hold the pattern.
struct Memory {
    at: NonNull<u8>,
    frames: Frames,
    filled: Box<[AtomicU64]>,
}

// SAFETY: it is an address, of memory that any thread may write to as the engine says.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl<O: Observer> Poison<O> {
    pub(super) fn new(inner: O, report: Box<dyn Fn(&Corruption) + Send + Sync>) -> Poison<O> {
        Poison { inner, memory: None, report }
    }

    /// Sets where the frames from 0 on lie. Only the builder of an arena calls it, and only an engine calls this
    /// observer: no other code has one.
    pub(super) fn place(&mut self, at: NonNull<u8>, frames: Frames) {
        let filled = (0..frames.0.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        self.memory = Some(Memory { at, frames, filled });
    }

    /// Notes that free frames no longer hold the pattern, because the host takes them.
    pub(super) fn forget(&self, first: Pfn, frames: Frames) {
        if let Some(memory) = &self.memory {
            (first.0..first.0 + frames.0).for_each(|frame| {
                memory.take(frame);
            });
        }
    }

    fn fill(&self, pfn: Pfn, order: Order) {
        let Some(memory) = &self.memory else { return };
        let bytes = (order.frames().0 * PAGE_SIZE) as usize;
        if pfn.0 + order.frames().0 > memory.frames.0 {
            return;
        }
        // SAFETY: the engine says that the block is given up and that none can have it yet; it is within the mapping.
        unsafe { memory.frame(pfn.0).write_bytes(PATTERN, bytes) };
        for frame in pfn.0..pfn.0 + order.frames().0 {
            // ORDER: Relaxed: the engine hands the frame over after this, and orders that itself.
            memory.filled[(frame / 64) as usize].fetch_or(1 << (frame % 64), Relaxed);
        }
    }

    fn check(&self, pfn: Pfn, order: Order) {
        let Some(memory) = &self.memory else { return };
        for frame in pfn.0..pfn.0 + order.frames().0 {
            if memory.take(frame)
                && let Some(seen) = memory.look(frame)
            {
                (self.report)(&seen);
            }
        }
    }
}

impl Memory {
    /// # Safety
    /// The frame is one of the mapping's.
    unsafe fn frame(&self, frame: u64) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.at.as_ptr().add((frame * PAGE_SIZE) as usize) }
    }

    /// Returns whether a frame was filled, and notes that it is not any more.
    fn take(&self, frame: u64) -> bool {
        // ORDER: Relaxed: the bit was set before the frame was freed, and the allocation came after that.
        let bit = |word: &AtomicU64| word.fetch_and(!(1 << (frame % 64)), Relaxed) & (1 << (frame % 64));
        self.filled.get((frame / 64) as usize).is_some_and(|word| bit(word) != 0)
    }

    /// Looks at a frame that was filled.
    fn look(&self, frame: u64) -> Option<Corruption> {
        // Volatile: a stale owner may still be writing.
        // SAFETY: it was filled, so it is one of the mapping's, and `nth` is within it.
        let word = |nth: usize| unsafe { self.frame(frame).cast::<u64>().add(nth).read_volatile() };
        let wrong = |nth: &usize| word(*nth) != WORD;
        let (first, last) = ((0..WORDS).find(wrong)?, (0..WORDS).rfind(wrong)?);
        // What is written back meanwhile leaves nothing to see.
        let byte = |at: usize| word(at / 8).to_ne_bytes()[at % 8];
        let start = (first * 8..first * 8 + 8).find(|at| byte(*at) != PATTERN)?;
        let end = (last * 8..last * 8 + 8).rfind(|at| byte(*at) != PATTERN)? + 1;
        let found = std::array::from_fn(|nth| if start + nth < end { byte(start + nth) } else { 0 });
        let is_single_bit = end - start == 1 && (found[0] ^ PATTERN).is_power_of_two();
        Some(Corruption { pfn: Pfn(frame), bytes: start..end, found, is_single_bit })
    }
}

impl<O: Observer> Observer for Poison<O> {
    const WRITES: bool = true;

    fn refuses(&self, request: &Request) -> bool {
        self.inner.refuses(request)
    }

    fn allocated(&self, pfn: Pfn, order: Order, migratetype: Migratetype) {
        self.check(pfn, order);
        self.inner.allocated(pfn, order, migratetype);
    }

    fn freed(&self, pfn: Pfn, order: Order) {
        // First: where that panics, the block stays its owner's, with what it holds.
        self.inner.freed(pfn, order);
        self.fill(pfn, order);
    }

    fn split(&self, pfn: Pfn, from: Order, to: Order) {
        self.inner.split(pfn, from, to);
    }

    fn migrated(&self, from: BlockId, to: Pfn) {
        self.inner.migrated(from, to);
        self.fill(from.pfn, from.order);
    }
}
