//! Faulting memory in before it is used, and giving it back to the host.

use super::error::BackingError;
use super::kind::PageSize;
use super::mapping::Mapping;
use pageyard::{FrameRange, Frames, PAGE_SIZE, Pfn};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How memory is faulted in.
pub struct Prefault<'a> {
    /// Threads that do it; at least one.
    pub threads: usize,
    /// Is told how many bytes are there, of how many.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

/// Bytes faulted in by one call: small enough that progress shows.
const STEP: usize = 64 << 20;

impl Mapping {
    /// Faults all memory in, so that no later access waits for the kernel. Its contents do not change.
    ///
    /// It takes the mapping for itself, because before Linux 5.14 each page is faulted in by a write of what it holds:
    /// what another thread wrote there meanwhile would be lost.
    ///
    /// # Errors
    /// [`BackingError::Refused`] where the host has too little.
    pub fn prefault(&mut self, how: &Prefault<'_>) -> Result<(), BackingError> {
        let (next, done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let step = STEP.max(self.backing().map_or(PageSize::Base, |b| b.page_size()).bytes());
        let mapping = &*self;
        let work = || -> Result<(), Errno> {
            loop {
                // ORDER: Relaxed: each number is handed out once; nothing else is shared.
                let at = next.fetch_add(step, Ordering::Relaxed);
                if at >= mapping.bytes() || failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let bytes = step.min(mapping.bytes() - at);
                // SAFETY: 1. Within the mapping. 2. It is borrowed by this call alone, and each part is faulted in by
                // one thread.
                let populated = unsafe { populate(mapping.start().add(at), bytes) };
                if populated.is_err() {
                    failed.store(true, Ordering::Relaxed);
                    return populated;
                }
                (how.progress)(done.fetch_add(bytes, Ordering::Relaxed) + bytes, mapping.bytes());
            }
        };
        let refused = |why: Errno| BackingError::Refused {
            what: "to fault memory in",
            why: why.to_string(),
            setting: "the host or this control group has too little free; ask for less",
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..how.threads.max(1))
                .filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
                .collect();
            let mine = work();
            let all = others.into_iter().map(|thread| thread.join().unwrap_or(Err(Errno::INTR)));
            all.fold(mine, |so_far, one| so_far.and(one)).map_err(refused)
        })
    }

    /// Gives frames back to the host, which has to be asked for them again: they are zeros then. Only whole pages of
    /// the backing are given back; returns how many frames that were.
    ///
    /// # Errors
    /// [`BackingError::Refused`].
    ///
    /// # Safety
    /// Nothing uses these frames, and what they hold is not needed.
    pub unsafe fn purge(&self, first: Pfn, frames: Frames) -> Result<Frames, BackingError> {
        let FrameRange { first: Pfn(start), frames } = self.whole_pages(first, frames);
        if frames == Frames::ZERO {
            return Ok(Frames::ZERO);
        }
        let end = start + frames.0;
        let (at, bytes) = ((start * PAGE_SIZE) as usize, ((end - start) * PAGE_SIZE) as usize);
        // A file keeps its pages when a mapping of it lets them go: a hole has to be made in it.
        let advice = if self.is_file() { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
        // SAFETY: the caller promises that nothing uses them; they are within the mapping.
        let given = unsafe { madvise(self.start().add(at).as_ptr().cast(), bytes, advice) };
        given.map(|()| Frames(end - start)).map_err(|why| BackingError::Refused {
            what: "to take memory back",
            why: why.to_string(),
            setting: "memory that is locked stays (mlock, mlockall)",
        })
    }

    /// Returns the part of a range that is whole pages of the backing, which is what the host can take: none of memory
    /// of the caller.
    pub(crate) fn whole_pages(&self, first: Pfn, frames: Frames) -> FrameRange {
        let Some(backing) = self.backing() else { return FrameRange::default() };
        let page = backing.reserved().unwrap_or(PageSize::Base).order().frames().0;
        let start = first.0.checked_next_multiple_of(page).unwrap_or(u64::MAX);
        let end = first.0.saturating_add(frames.0).min(self.frames().0) / page * page;
        FrameRange::new(Pfn(start), Frames(end.saturating_sub(start)))
    }
}

impl Mapping {
    /// Counts the frames of a range that are in memory now: faulted in, and neither swapped out nor given back. Frames
    /// past the end of the mapping are not.
    ///
    /// # Linux
    /// `mincore`; where the kernel refuses it, all frames of the range count.
    #[must_use]
    pub fn resident(&self, first: Pfn, frames: Frames) -> Frames {
        // A byte a frame: a pageblock of them at a time.
        const STEP: u64 = 512;
        let (mut at, mut resident) = (first.0, 0);
        let end = first.0.saturating_add(frames.0).min(self.frames().0);
        while at < end {
            let step = STEP.min(end - at);
            let mut pages = [0_u8; STEP as usize];
            // SAFETY: 1. Within the mapping. 2. There is a byte for each of its frames.
            let answer = unsafe {
                let start = self.start().add((at * PAGE_SIZE) as usize);
                libc::mincore(start.as_ptr().cast(), (step * PAGE_SIZE) as usize, pages.as_mut_ptr())
            };
            resident += match answer {
                0 => pages.iter().filter(|page| **page & 1 == 1).count() as u64,
                _ => step,
            };
            at += step;
        }
        Frames(resident)
    }
}

/// Faults pages in, each as if it were written to.
///
/// # Safety
/// They are mapped and writable, and nothing else uses them.
unsafe fn populate(at: NonNull<u8>, bytes: usize) -> Result<(), Errno> {
    // SAFETY: as the caller promises; no contents change.
    match unsafe { madvise(at.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) } {
        // Before Linux 5.14.
        Err(Errno::INVAL) => {
            for page in (0..bytes).step_by(PAGE_SIZE as usize) {
                // SAFETY: within the memory, which nothing else uses: the caller's promise.
                unsafe {
                    let at = at.add(page);
                    at.write_volatile(at.read_volatile());
                }
            }
            Ok(())
        }
        answer => answer,
    }
}
