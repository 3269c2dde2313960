//! Which frame a moved frame's contents went to.

use std::collections::{HashMap, VecDeque};

use pageyard_trace::MAX_FRAMES;
use pageyard_trace::{Move, MoveKind};

use super::entry::Entry;
use super::known::Known;

/// Mappings that may be under way at once: the kernel moves 512 frames at a time on each CPU.
const MAX_PENDING: usize = 1 << 18;

/// Moves remembered so that a frame that is mapped several times is reported once.
const MAX_RECENT: usize = 1 << 16;

/// The frames that are told apart where the end of memory is not known: 64 TiB of them.
const UNKNOWN_END: u64 = 1 << 34;

/// Pairs the kernel's event for removing a mapping with its event for restoring one.
///
/// Neither event names both frames: the first has the old one, in the form of a swap entry, the second the new one.
/// They belong together when one thread reports them for one address, the first that was taken being the first put
/// back. A mapping that comes back to its old frame was not moved. Frames without a mapping are moved without an event.
///
/// # Linux
/// `set_migration_pte` and `remove_migration_pte`, and their like for huge pages, since 5.18. The encoding of a frame
/// in a swap entry is x86-64's.
pub(super) struct Follower {
    pending: HashMap<(u32, u64, bool), VecDeque<u64>>,
    pending_len: usize,
    /// The latest moves, and those before them.
    recent: HashMap<u64, u64>,
    before: HashMap<u64, u64>,
    mask: u64,
    start: u64,
}

impl Follower {
    /// Makes a follower for a host whose memory ends at frame `memory_end`.
    pub(super) fn new(start: u64, memory_end: u64) -> Follower {
        let end = if memory_end >= MAX_FRAMES { UNKNOWN_END } else { memory_end };
        let mask = end.next_power_of_two() - 1;
        let (recent, before) = (HashMap::new(), HashMap::new());
        Follower { pending: HashMap::new(), pending_len: 0, recent, before, mask, start }
    }

    /// Takes in an entry that is no row of `events.parquet`; returns the row of `moves.parquet` that it makes.
    pub(super) fn take(&mut self, entry: &Entry) -> Option<Move> {
        let row = Move {
            time_ns: entry.time.saturating_sub(self.start),
            cpu: entry.cpu,
            tid: entry.tid,
            kind: MoveKind::Move,
            pfn: entry.pfn,
            to: entry.to,
            order: 0,
            scanned: 0,
            done: 0,
            failed: 0,
        };
        match entry.known {
            Known::IsolateMigrate | Known::IsolateFree => {
                let kind = if entry.known == Known::IsolateFree {
                    MoveKind::IsolateFree
                } else {
                    MoveKind::IsolateMigrate
                };
                Some(Move { kind, scanned: entry.a, done: entry.b, ..row })
            }
            Known::Migrated => Some(Move { kind: MoveKind::Migrated, done: entry.a, failed: entry.b, ..row }),
            Known::CompactBegin => Some(Move { kind: MoveKind::CompactBegin, ..row }),
            Known::CompactEnd => Some(Move { kind: MoveKind::CompactEnd, ..row }),
            Known::ReclaimBegin => Some(Move { kind: MoveKind::ReclaimBegin, order: entry.order, ..row }),
            Known::ReclaimEnd => Some(Move { kind: MoveKind::ReclaimEnd, done: entry.a, ..row }),
            Known::SetMigrationPte => {
                self.taken(entry, false);
                None
            }
            Known::SetMigrationPmd => {
                self.taken(entry, true);
                None
            }
            Known::RemoveMigrationPte => self.put_back(entry, false, row),
            Known::RemoveMigrationPmd => self.put_back(entry, true, row),
            Known::Moved => {
                // The mappings of the folio come back next, and would tell it again.
                for frame in 0..1u64 << entry.order {
                    self.remember(entry.pfn + frame, entry.to + frame);
                }
                Some(Move { order: entry.order, ..row })
            }
            _ => None,
        }
    }

    fn taken(&mut self, entry: &Entry, huge: bool) {
        if self.pending_len >= MAX_PENDING {
            // A mapping that was restored without an event would stay forever.
            self.pending.clear();
            self.pending_len = 0;
        }
        let frame = swap_frame(entry.to) & self.mask;
        self.recent.remove(&frame);
        self.before.remove(&frame);
        self.pending.entry((entry.tid, entry.pfn, huge)).or_default().push_back(frame);
        self.pending_len += 1;
    }

    fn put_back(&mut self, entry: &Entry, huge: bool, row: Move) -> Option<Move> {
        let key = (entry.tid, entry.pfn, huge);
        let frames = self.pending.get_mut(&key)?;
        let to = mapped_frame(entry.to, huge) & self.mask;
        // Where it came back to a frame that was waiting, that one was not moved.
        let at = frames.iter().position(|&f| f == to).unwrap_or(0);
        let frame = frames.remove(at)?;
        self.pending_len -= 1;
        if frames.is_empty() {
            self.pending.remove(&key);
        }
        if frame == to || self.knows(frame, to) {
            return None;
        }
        self.remember(frame, to);
        let order = if huge { pageyard::PAGEBLOCK_ORDER.get() } else { 0 };
        Some(Move { pfn: frame, to, order, ..row })
    }
}

impl Follower {
    /// Returns whether a move was reported lately.
    fn knows(&self, frame: u64, to: u64) -> bool {
        [&self.recent, &self.before].iter().any(|moves| moves.get(&frame) == Some(&to))
    }

    fn remember(&mut self, frame: u64, to: u64) {
        if self.recent.len() >= MAX_RECENT {
            // Those of a folio whose mappings are being put back are still known.
            self.before = std::mem::take(&mut self.recent);
        }
        self.recent.insert(frame, to);
    }
}

/// Returns the frame of a migration entry: the offset of a swap entry, which x86-64 stores inverted above the type.
fn swap_frame(entry: u64) -> u64 {
    const TYPE_BITS: u32 = 5;
    const OFFSET_SHIFT: u32 = 14;
    (!entry << TYPE_BITS) >> OFFSET_SHIFT
}

/// Returns the frame of a mapping.
fn mapped_frame(entry: u64, huge: bool) -> u64 {
    let frame = (entry & 0x000f_ffff_ffff_f000) >> 12;
    // The lowest bit of a huge mapping's frame number is an attribute.
    if huge { frame & !1 } else { frame }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(known: Known, addr: u64, to: u64) -> Entry {
        Entry {
            time: 9,
            pfn: addr,
            to,
            a: 0,
            b: 0,
            cpu: 0,
            tid: 1,
            known,
            order: 0,
            migratetype: -1,
            flags: 0,
        }
    }

    /// A migration entry for `frame`, of swap type 30, with a bit set above the frame.
    fn note(frame: u64) -> u64 {
        (!(frame | 1 << 40) << 14 >> 5) | 30 << 59
    }

    fn mapping(frame: u64) -> u64 {
        frame << 12 | 0x8000_0000_0000_0867
    }

    #[test]
    fn what_was_taken_first_comes_back_first() {
        let mut follower = Follower::new(4, 1 << 20);
        for frame in [100, 200, 300] {
            assert_eq!(follower.take(&entry(Known::SetMigrationPte, 0x7000, note(frame))), None);
        }
        let row = follower.take(&entry(Known::RemoveMigrationPte, 0x7000, mapping(5000))).unwrap();
        assert_eq!((row.kind, row.pfn, row.to, row.time_ns), (MoveKind::Move, 100, 5000, 5));
        // The last of the three could not be moved.
        assert_eq!(follower.take(&entry(Known::RemoveMigrationPte, 0x7000, mapping(300))), None);
        let row = follower.take(&entry(Known::RemoveMigrationPte, 0x7000, mapping(5001))).unwrap();
        assert_eq!((row.pfn, row.to), (200, 5001));
        assert_eq!(follower.take(&entry(Known::RemoveMigrationPte, 0x7000, mapping(5002))), None);
        assert_eq!(follower.pending_len, 0);
    }

    #[test]
    fn a_frame_with_several_mappings_is_told_once() {
        let mut follower = Follower::new(0, 1 << 20);
        follower.take(&entry(Known::SetMigrationPte, 0x7000, note(100)));
        follower.take(&entry(Known::SetMigrationPte, 0x9000, note(100)));
        assert!(follower.take(&entry(Known::RemoveMigrationPte, 0x7000, mapping(5000))).is_some());
        assert!(follower.take(&entry(Known::RemoveMigrationPte, 0x9000, mapping(5000))).is_none());
        // And again, the next time round.
        follower.take(&entry(Known::SetMigrationPte, 0x7000, note(100)));
        assert!(follower.take(&entry(Known::RemoveMigrationPte, 0x7000, mapping(5000))).is_some());
    }

    #[test]
    fn a_move_that_was_seen_is_not_told_again_by_its_mappings() {
        let mut follower = Follower::new(0, 1 << 20);
        for i in 0..4 {
            follower.take(&entry(Known::SetMigrationPte, 0x7000 + (i << 12), note(100 + i)));
        }
        let seen = Entry { order: 2, ..entry(Known::Moved, 100, 5000) };
        let row = follower.take(&seen).unwrap();
        assert_eq!((row.kind, row.pfn, row.to, row.order), (MoveKind::Move, 100, 5000, 2));
        for i in 0..4 {
            let back = entry(Known::RemoveMigrationPte, 0x7000 + (i << 12), mapping(5000 + i));
            assert_eq!(follower.take(&back), None);
        }
        // What nothing watched is told by its mappings.
        follower.take(&entry(Known::SetMigrationPte, 0x7000, note(300)));
        assert!(follower.take(&entry(Known::RemoveMigrationPte, 0x7000, mapping(301))).is_some());
    }

    #[test]
    fn huge_mappings_move_512_frames() {
        let mut follower = Follower::new(0, 1 << 20);
        follower.take(&entry(Known::SetMigrationPmd, 0x20_0000, note(512)));
        let row = follower.take(&entry(Known::RemoveMigrationPmd, 0x20_0000, mapping(1024 | 1))).unwrap();
        assert_eq!((row.pfn, row.to, row.order), (512, 1024, 9));
    }

    #[test]
    fn what_never_comes_back_is_forgotten() {
        let mut follower = Follower::new(0, 1 << 20);
        for addr in 0..2 * MAX_PENDING as u64 {
            follower.take(&entry(Known::SetMigrationPte, addr, note(1)));
        }
        assert!(follower.pending.len() <= MAX_PENDING);
    }
}
