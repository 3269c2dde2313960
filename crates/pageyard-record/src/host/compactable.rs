//! The possible gain of compaction: huge frames that would become free if memory were moved away.

use pageyard_trace::contents::pageblocks::{self, Alike, BLOCK};
use pageyard_trace::proctext::{Zoneinfo, ZoneinfoZone};
use pageyard_trace::{Snapshot, Spoiler};
use serde::Serialize;

/// The assumptions behind the counts of [`Compactable`].
pub const ASSUMPTIONS: &str = "At most: this moves all memory of processes and all page cache, to free frames of the same zone, in pageblocks that cannot be emptied or are not chosen. \
     It ignores watermarks, and assumes that no frame is pinned, under I/O or locked by a file system. Locked memory and frames in per-CPU lists stay.";

/// The possible gain of compaction in one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compactable {
    /// The NUMA node.
    pub node: u8,
    /// The zone's name.
    pub zone: String,
    /// Pageblocks that are free huge frames now.
    pub free_pageblocks: u64,
    /// Pageblocks that hold only contents that compaction can move.
    pub movable_pageblocks: u64,
    /// Frames in use in those.
    pub movable_frames: u64,
    /// Free frames in pageblocks that hold something that stays.
    pub free_beside_frames: u64,
    /// The most huge frames that compaction could make.
    pub won_pageblocks: u64,
    /// Huge frames that would be free, were all of it won.
    pub then_free_pageblocks: u64,
    /// Frames that it has to move for as many, if it empties the emptiest pageblocks.
    pub moved_frames: u64,
}

impl Compactable {
    /// Returns the zone's name, with its node where that is not the first.
    pub(super) fn title(&self) -> String {
        if self.node == 0 { self.zone.clone() } else { format!("{} (node {})", self.zone, self.node) }
    }

    /// Adds up zones.
    #[must_use]
    pub fn total(zones: &[Compactable]) -> Compactable {
        let mut total = Compactable { zone: "all zones".to_owned(), ..Compactable::default() };
        for zone in zones {
            total.free_pageblocks += zone.free_pageblocks;
            total.movable_pageblocks += zone.movable_pageblocks;
            total.movable_frames += zone.movable_frames;
            total.free_beside_frames += zone.free_beside_frames;
            total.won_pageblocks += zone.won_pageblocks;
            total.then_free_pageblocks += zone.then_free_pageblocks;
            total.moved_frames += zone.moved_frames;
        }
        total
    }

    /// Judges each zone of a snapshot that has memory and says where it begins. Compaction does not move memory from
    /// zone to zone, so each is judged alone.
    pub(super) fn of(snapshot: &Snapshot, info: &Zoneinfo) -> Vec<Compactable> {
        let mut zones: Vec<Tally> = info.zones.iter().filter_map(Tally::of).collect();
        pageblocks::each(snapshot, |alike| {
            let mut rest = alike;
            while rest.blocks > 0 {
                rest = take(&mut zones, rest);
            }
        });
        zones.into_iter().map(Tally::result).collect()
    }
}

/// Counts pageblocks of the first zone that they are in; returns those past its end.
fn take(zones: &mut [Tally], mut alike: Alike) -> Alike {
    let Some(zone) = zones.iter_mut().find(|z| (z.start..z.end).contains(&alike.pfn)) else {
        let next = zones.iter().map(|z| z.start).filter(|&start| start > alike.pfn).min();
        let skipped =
            next.map_or(alike.blocks, |start| (start - alike.pfn).div_ceil(BLOCK).min(alike.blocks));
        alike.pfn += skipped * BLOCK;
        alike.blocks -= skipped;
        return alike;
    };
    let here = (zone.end - alike.pfn).div_ceil(BLOCK).min(alike.blocks);
    zone.add(&alike, here);
    alike.pfn += here * BLOCK;
    alike.blocks -= here;
    alike
}

/// A zone as it is counted.
struct Tally {
    start: u64,
    end: u64,
    result: Compactable,
    /// Movable pageblocks by frames in use.
    by_used: Vec<u64>,
}

impl Tally {
    fn of(zone: &ZoneinfoZone) -> Option<Tally> {
        let start = zone.start_pfn.filter(|_| zone.managed > 0)?;
        Some(Tally {
            // A zone begins inside its first pageblock where frame 0 is left out.
            start: start - start % BLOCK,
            end: start + zone.spanned,
            result: Compactable { node: zone.node, zone: zone.name.clone(), ..Compactable::default() },
            by_used: vec![0; BLOCK as usize + 1],
        })
    }

    fn add(&mut self, alike: &Alike, blocks: u64) {
        match alike.spoiler {
            Spoiler::Free => self.result.free_pageblocks += blocks,
            Spoiler::Movable => {
                let used = BLOCK - alike.free;
                self.result.movable_pageblocks += blocks;
                self.result.movable_frames += blocks * used;
                self.by_used[used as usize] += blocks;
            }
            _ => self.result.free_beside_frames += blocks * alike.free,
        }
    }

    fn result(self) -> Compactable {
        let mut result = self.result;
        // Emptied pageblocks take nothing in, so what does not fit beside other memory keeps movable ones in use.
        let kept = result.movable_frames.saturating_sub(result.free_beside_frames).div_ceil(BLOCK);
        result.won_pageblocks = result.movable_pageblocks.saturating_sub(kept);
        result.then_free_pageblocks = result.free_pageblocks + result.won_pageblocks;
        let mut left = result.won_pageblocks;
        for (used, &blocks) in self.by_used.iter().enumerate() {
            let emptied = blocks.min(left);
            result.moved_frames += emptied * used as u64;
            left -= emptied;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_trace::{FrameKind, Run};

    fn zone(name: &str, start: u64, spanned: u64) -> ZoneinfoZone {
        ZoneinfoZone {
            name: name.into(),
            start_pfn: Some(start),
            spanned,
            managed: spanned,
            ..ZoneinfoZone::default()
        }
    }

    /// Pageblocks one after another: frames in use by processes, frames of slab; the rest is free.
    fn snapshot(blocks: &[(u64, u64)]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (i, &(anon, slab)) in blocks.iter().enumerate() {
            let mut pfn = i as u64 * BLOCK;
            for (kind, frames) in
                [(FrameKind::Anon, anon), (FrameKind::Slab, slab), (FrameKind::Free, BLOCK - anon - slab)]
            {
                if frames > 0 {
                    snapshot.push(Run { pfn, frames, kind, thp: false, unevictable: false });
                    pfn += frames;
                }
            }
        }
        snapshot
    }

    fn one(blocks: &[(u64, u64)]) -> Compactable {
        let info = Zoneinfo { zones: vec![zone("Normal", 0, blocks.len() as u64 * BLOCK)] };
        Compactable::of(&snapshot(blocks), &info).remove(0)
    }

    #[test]
    fn half_full_pageblocks_fill_each_other() {
        let found = one(&[(256, 0), (256, 0), (256, 0), (0, 0)]);
        assert_eq!((found.free_pageblocks, found.movable_pageblocks, found.movable_frames), (1, 3, 768));
        assert_eq!((found.won_pageblocks, found.moved_frames, found.then_free_pageblocks), (1, 256, 2));
    }

    #[test]
    fn free_frames_beside_slab_take_memory_in() {
        let found = one(&[(500, 0), (100, 0), (0, 12), (412, 0)]);
        assert_eq!((found.movable_frames, found.free_beside_frames), (1012, 500));
        // 512 frames stay and fill one pageblock: the two emptiest are emptied.
        assert_eq!((found.won_pageblocks, found.moved_frames), (2, 512));
        // With one frame more, a second one stays in use.
        assert_eq!(one(&[(500, 0), (100, 0), (0, 13), (412, 0)]).won_pageblocks, 1);
    }

    #[test]
    fn full_pageblocks_have_nowhere_to_go() {
        let found = one(&[(512, 0); 8]);
        assert_eq!((found.movable_pageblocks, found.won_pageblocks, found.moved_frames), (8, 0, 0));
        // A pageblock that is free already is no place to move to: it would only change places with the one emptied.
        assert_eq!(one(&[(512, 0), (0, 0)]).won_pageblocks, 0);
    }

    #[test]
    fn memory_stays_in_its_zone() {
        let blocks = snapshot(&[(0, 1), (0, 0), (0, 0), (0, 0), (256, 0), (512, 0)]);
        let info = Zoneinfo {
            zones: vec![
                zone("DMA", 1, 2 * BLOCK - 1),
                zone("Normal", 4 * BLOCK, 2 * BLOCK),
                ZoneinfoZone { start_pfn: None, ..zone("Movable", 0, 0) },
            ],
        };
        let found = Compactable::of(&blocks, &info);
        assert_eq!(found.len(), 2);
        // Of the three free pageblocks in one run, one is in DMA and two are in no zone.
        assert_eq!((found[0].free_pageblocks, found[0].free_beside_frames), (1, 511));
        assert_eq!((found[1].movable_pageblocks, found[1].won_pageblocks), (2, 0));
        let total = Compactable::total(&found);
        assert_eq!((total.free_pageblocks, total.movable_frames), (1, 768));
    }

    #[test]
    fn pageblocks_beyond_every_zone_are_passed_over() {
        let everything = Snapshot {
            runs: vec![Run {
                pfn: 0,
                frames: 1 << 36,
                kind: FrameKind::Free,
                thp: false,
                unevictable: false,
            }],
        };
        let info = Zoneinfo { zones: vec![zone("Normal", 1 << 20, 1 << 20)] };
        assert_eq!(Compactable::of(&everything, &info)[0].free_pageblocks, 1 << 11);
        assert!(Compactable::of(&everything, &Zoneinfo::default()).is_empty());
    }
}
