//! `/proc/kpageflags`: what the kernel says of every frame.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::path::Path;

use pageyard_trace::TraceError;
use pageyard_trace::source::reason;
use pageyard_trace::{FrameKind, MAX_FRAMES, Run, Snapshot};

// The bits, numbered as the kernel's `include/uapi/linux/kernel-page-flags.h` and `linux/kernel-page-flags.h` do.
const LRU: u64 = 1 << 5;
const SLAB: u64 = 1 << 7;
const BUDDY: u64 = 1 << 10;
const ANON: u64 = 1 << 12;
const HUGE: u64 = 1 << 17;
const UNEVICTABLE: u64 = 1 << 18;
const HWPOISON: u64 = 1 << 19;
const NOPAGE: u64 = 1 << 20;
const THP: u64 = 1 << 22;
const OFFLINE: u64 = 1 << 23;
const PGTABLE: u64 = 1 << 26;
const RESERVED: u64 = 1 << 32;

/// Bytes read at a time: 128 Ki frames. The kernel refuses sizes that are not a multiple of 8.
const CHUNK: usize = 1 << 20;

/// Which frames of a free block a kernel marks as free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuddyMarks {
    /// Every frame: what is free is known exactly.
    EveryFrame,
    /// The first frame only: how far a free block reaches is estimated.
    FirstFrame,
}

/// A snapshot of memory taken from `/proc/kpageflags`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// Which frames of free blocks the kernel marks.
    pub marks: BuddyMarks,
}

/// Takes a snapshot of memory; `path` is `/proc/kpageflags`, or a copy of one.
///
/// The kernel keeps running: frames that change hands meanwhile appear as they were when they were read. Kernels differ
/// in whether they mark a free block's first frame or all of them. Two buddies are never free separately, so where such
/// pairs are marked, every frame is. Where only first frames are, a block is taken to reach over the frames without any
/// flag that follow it, as far as its alignment allows; frames in per-CPU lists, which have no flag either, can make it
/// too large.
///
/// # Errors
/// When the file cannot be read (it needs root), or does not consist of 64-bit words for at most 256 TiB of memory.
pub fn capture(path: &Path) -> Result<Capture, TraceError> {
    capture_each(path, 1)
}

/// Takes a snapshot of every so manieth part of 512 MiB, so that a large host's is quick. Frames between the parts are
/// in no run.
///
/// # Errors
/// As [`capture`].
pub(super) fn capture_each(path: &Path, every: u64) -> Result<Capture, TraceError> {
    let mut exact = Scan::new(BuddyMarks::EveryFrame);
    exact.read(path, every)?;
    // A pair can be seen in the moment before it is merged, so a few of them prove nothing.
    if exact.pairs * 16 >= exact.buddy {
        return Ok(Capture { snapshot: exact.snapshot, marks: BuddyMarks::EveryFrame });
    }
    let mut estimate = Scan::new(BuddyMarks::FirstFrame);
    estimate.read(path, every)?;
    Ok(Capture { snapshot: estimate.snapshot, marks: BuddyMarks::FirstFrame })
}

/// Says what a frame holds; the first kind that fits counts.
fn classify(flags: u64) -> FrameKind {
    let has = |bits: u64| flags & bits != 0;
    if has(NOPAGE) {
        FrameKind::None
    } else if has(OFFLINE | HWPOISON) {
        FrameKind::Offline
    } else if has(BUDDY) {
        FrameKind::Free
    } else if has(RESERVED) {
        FrameKind::Reserved
    } else if has(HUGE) {
        FrameKind::HugeTlb
    } else if has(SLAB) {
        FrameKind::Slab
    } else if has(PGTABLE) {
        FrameKind::PageTable
    } else if has(ANON) {
        FrameKind::Anon
    } else if has(LRU) {
        FrameKind::File
    } else {
        FrameKind::Other
    }
}

/// Frames of the longest block that one marked frame can stand for.
///
/// # Linux
/// `MAX_PAGE_ORDER`.
const MAX_BLOCK: u64 = 1 << pageyard_trace::MAX_ORDER;

struct Scan {
    marks: BuddyMarks,
    snapshot: Snapshot,
    /// The next frame.
    pfn: u64,
    /// The run that is not in the snapshot yet, and the flags that all its frames have.
    open: Option<(Run, u64)>,
    /// Where only first frames are marked: the last marked one, and the frames without flags since.
    head: Option<(u64, u64)>,
    /// Marked frames, and how many of them make a pair with the one before.
    buddy: u64,
    pairs: u64,
    last: u64,
}

impl Scan {
    fn new(marks: BuddyMarks) -> Scan {
        Scan {
            marks,
            snapshot: Snapshot::default(),
            pfn: 0,
            open: None,
            head: None,
            buddy: 0,
            pairs: 0,
            last: 0,
        }
    }

    fn read(&mut self, path: &Path, every: u64) -> Result<(), TraceError> {
        let unreadable = |why: String| TraceError::Unreadable { file: path.display().to_string(), why };
        let mut file = File::open(path).map_err(|e| unreadable(reason(&e)))?;
        let mut buffer = vec![0; CHUNK];
        let (mut filled, mut part) = (0, 0);
        loop {
            if every > 1 && part == CHUNK {
                part = 0;
                self.close();
                let over = (every - 1).saturating_mul(CHUNK as u64);
                self.pfn += over / 8;
                file.seek_relative(i64::try_from(over).unwrap_or(i64::MAX))
                    .map_err(|e| unreadable(reason(&e)))?;
            }
            let end = if every > 1 { filled + (CHUNK - part).min(CHUNK - filled) } else { CHUNK };
            match file.read(&mut buffer[filled..end]) {
                Ok(0) => break,
                Ok(n) => {
                    filled += n;
                    part += n;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(unreadable(reason(&e))),
            }
            let whole = filled & !7;
            for word in buffer[..whole].chunks_exact(8) {
                self.frame(u64::from_le_bytes(word.try_into().expect("eight bytes")));
            }
            buffer.copy_within(whole..filled, 0);
            filled -= whole;
            if self.pfn > MAX_FRAMES {
                return Err(unreadable("it describes more than 256 TiB of memory".to_owned()));
            }
        }
        if filled != 0 {
            return Err(unreadable("it ends inside a 64-bit word".to_owned()));
        }
        self.close();
        Ok(())
    }

    /// Ends what is open: what follows is not beside it.
    fn close(&mut self) {
        self.end_head();
        if let Some((run, _)) = self.open.take() {
            self.snapshot.push(run);
        }
    }

    /// Takes in the flags of the next frame.
    fn frame(&mut self, flags: u64) {
        let pfn = self.pfn;
        self.pfn += 1;
        if flags & BUDDY != 0 {
            self.buddy += 1;
            self.pairs += u64::from(pfn % 2 == 1 && self.last & BUDDY != 0);
        }
        self.last = flags;
        if self.marks == BuddyMarks::FirstFrame {
            match &mut self.head {
                Some((_, after)) if flags == 0 && *after + 1 < MAX_BLOCK => {
                    *after += 1;
                    return;
                }
                _ => self.end_head(),
            }
            if classify(flags) == FrameKind::Free {
                self.head = Some((pfn, 0));
                return;
            }
        }
        self.add(pfn, 1, flags);
    }

    /// Decides how far the block of the last marked frame reaches.
    fn end_head(&mut self) {
        let Some((pfn, after)) = self.head.take() else { return };
        let longest = (after + 1).ilog2().min(pfn.trailing_zeros());
        let frames = 1u64 << longest;
        self.add(pfn, frames, BUDDY);
        if after + 1 > frames {
            self.add(pfn + frames, after + 1 - frames, 0);
        }
    }

    /// Adds frames that all have `flags`.
    fn add(&mut self, pfn: u64, frames: u64, flags: u64) {
        if let Some((run, of)) = &mut self.open
            && *of == flags
        {
            run.frames += frames;
            return;
        }
        let kind = classify(flags);
        let in_use = kind != FrameKind::Free;
        let run = Run {
            pfn,
            frames,
            kind,
            thp: in_use && flags & THP != 0,
            unevictable: in_use && flags & UNEVICTABLE != 0,
        };
        if let Some((run, _)) = self.open.replace((run, flags)) {
            self.snapshot.push(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(words: &[u64]) -> Result<Capture, TraceError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kpageflags");
        std::fs::write(&path, words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
        capture(&path)
    }

    fn kinds(capture: &Capture) -> Vec<(u64, u64, FrameKind)> {
        capture.snapshot.runs.iter().map(|r| (r.pfn, r.frames, r.kind)).collect()
    }

    #[test]
    fn each_kind_is_told_from_its_flags() {
        for (flags, kind) in [
            (NOPAGE, FrameKind::None),
            (OFFLINE, FrameKind::Offline),
            (BUDDY, FrameKind::Free),
            (RESERVED, FrameKind::Reserved),
            (HUGE | ANON, FrameKind::HugeTlb),
            (SLAB | ANON, FrameKind::Slab),
            (PGTABLE, FrameKind::PageTable),
            (ANON | LRU | THP, FrameKind::Anon),
            (LRU | UNEVICTABLE, FrameKind::File),
            (THP, FrameKind::Other),
            (0, FrameKind::Other),
        ] {
            assert_eq!(classify(flags), kind, "{flags:#x}");
        }
    }

    #[test]
    fn a_large_host_is_looked_at_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kpageflags");
        let words = (CHUNK / 8) as u64;
        let mut bytes = Vec::new();
        for flags in [LRU, SLAB, ANON, BUDDY, HUGE] {
            bytes.extend((0..words).flat_map(|_| flags.to_le_bytes()));
        }
        bytes.extend(LRU.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let parts = capture_each(&path, 2).unwrap();
        assert_eq!(
            kinds(&parts),
            [
                (0, words, FrameKind::File),
                (2 * words, words, FrameKind::Anon),
                (4 * words, words, FrameKind::HugeTlb)
            ]
        );
        assert_eq!(
            kinds(&capture_each(&path, 5).unwrap()),
            [(0, words, FrameKind::File), (5 * words, 1, FrameKind::File)]
        );
    }

    #[test]
    fn a_kernel_that_marks_every_frame_is_taken_at_its_word() {
        let picture = picture(&[RESERVED, 0, BUDDY, BUDDY, 0, LRU, LRU | 4, ANON | THP]).unwrap();
        assert_eq!(picture.marks, BuddyMarks::EveryFrame);
        assert_eq!(
            kinds(&picture),
            [
                (0, 1, FrameKind::Reserved),
                (1, 1, FrameKind::Other),
                (2, 2, FrameKind::Free),
                (4, 1, FrameKind::Other),
                (5, 2, FrameKind::File),
                (7, 1, FrameKind::Anon)
            ]
        );
        assert!(picture.snapshot.runs[5].thp);
    }

    #[test]
    fn a_kernel_that_marks_first_frames_has_its_blocks_estimated() {
        // Frame 0 is in use, 1 free alone, 2 starts a block of order 1, 4 one of order 2, and 8 a block that the file's
        // end cuts off.
        let picture = picture(&[LRU, BUDDY, BUDDY, 0, BUDDY, 0, 0, 0, BUDDY, 0, 0]).unwrap();
        assert_eq!(picture.marks, BuddyMarks::FirstFrame);
        assert_eq!(
            kinds(&picture),
            [(0, 1, FrameKind::File), (1, 9, FrameKind::Free), (10, 1, FrameKind::Other)]
        );
    }

    #[test]
    fn a_long_stretch_without_flags_is_not_all_one_block() {
        let mut words = vec![0; 4096];
        words[0] = BUDDY;
        assert_eq!(
            kinds(&picture(&words).unwrap()),
            [(0, 1024, FrameKind::Free), (1024, 3072, FrameKind::Other)]
        );
    }

    #[test]
    fn no_frames_and_half_a_word() {
        assert_eq!(picture(&[]).unwrap().snapshot, Snapshot::default());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kpageflags");
        std::fs::write(&path, [0; 12]).unwrap();
        assert!(capture(&path).unwrap_err().to_string().ends_with("it ends inside a 64-bit word"));
    }
}
