//! What a snapshot of this host's memory costs now.

use std::path::Path;

use pageyard_trace::contents::SnapshotCost;
use pageyard_trace::proctext::Buddyinfo;
use pageyard_trace::{FrameKind, TraceError};

use super::free_lists::kcore::Kcore;
use super::kpageflags::{BuddyMarks, capture};

const PAGE: usize = pageyard::PAGE_SIZE as usize;

/// Frames that are read at a time.
const AT_ONCE: usize = 256;

/// Examines this host. `progress` is told how many of how many frames were looked at.
///
/// # Errors
/// [`TraceError::Unreadable`] where `/proc/kpageflags` cannot be read: it needs root.
pub fn snapshot_cost_now(progress: &mut dyn FnMut(u64, u64)) -> Result<SnapshotCost, TraceError> {
    let taken = capture(Path::new("/proc/kpageflags"))?;
    let buddyinfo = std::fs::read_to_string("/proc/buddyinfo").unwrap_or_default();
    let buddyinfo = Buddyinfo::parse(&buddyinfo)?;
    let (snapshot, all) = (&taken.snapshot, taken.snapshot.end());
    let mut cost = match Kcore::open(Path::new("/proc/kcore")) {
        Err(why) => {
            let mut cost = SnapshotCost::of(snapshot, &buddyinfo, None);
            cost.not_known.push(format!("which frames are not zero: {why}"));
            cost
        }
        Ok(kcore) => {
            let mut filled = Vec::new();
            let (mut done, mut hidden) = (0, 0);
            for run in snapshot.runs.iter().filter(|run| run.kind != FrameKind::None) {
                filled_in(&kcore, run.pfn, run.end(), &mut filled, &mut hidden);
                done += run.frames;
                progress(done, all);
            }
            let mut cost = SnapshotCost::of(snapshot, &buddyinfo, Some(&filled));
            if hidden > 0 {
                cost.not_known
                    .push(format!("whether {hidden} frames are zero: /proc/kcore does not show them"));
            }
            cost
        }
    };
    if taken.marks == BuddyMarks::FirstFrame {
        cost.not_known.push(
            "which frames are free, exactly: this kernel marks the first of each free block".to_owned(),
        );
    }
    Ok(cost)
}

/// Adds the frames from `pfn` to `end` that are not zero; those that cannot be read are counted, and taken for zero.
fn filled_in(kcore: &Kcore, pfn: u64, end: u64, filled: &mut Vec<u64>, hidden: &mut u64) {
    let mut buffer = vec![0; AT_ONCE * PAGE];
    let mut at = pfn;
    while at < end {
        let frames = (end - at).min(AT_ONCE as u64);
        let bytes = &mut buffer[..frames as usize * PAGE];
        if kcore.physical(at * PAGE as u64, bytes) {
            let frames = bytes.chunks_exact(PAGE).zip(at..);
            filled
                .extend(frames.filter(|(frame, _)| frame.iter().any(|byte| *byte != 0)).map(|(_, pfn)| pfn));
        } else {
            *hidden += frames;
        }
        at += frames;
    }
}
