//! A line's frames against counting: random blocks are held, freed and moved, and every pageblock that they touch is
//! counted frame by frame.

use super::class::{BLOCK, Class, NONE};
use super::frames::FrameMap;
use super::mark::{Part, Tenure};
use super::owners::Owners;
use super::scene::{Lines, Scene};
use crate::kept::Readings;
use crate::replay::Stage;
use pageyard::{Frames, MemoryMap, Order, Pfn, block};
use pageyard_trace::Trace;
use std::path::Path;

/// A frame as a reader would keep it.
#[derive(Clone, Copy, PartialEq)]
enum Naive {
    Absent,
    Free,
    Held(Class, Tenure),
}

struct Counted {
    frames: Vec<Naive>,
    /// By pageblock of memory: since when it is lost.
    lost: Vec<Option<u32>>,
}

impl Counted {
    fn of(map: &FrameMap<'_>, numbered: impl Iterator<Item = u64>) -> Counted {
        let mut this = Counted { frames: Vec::new(), lost: Vec::new() };
        for start in numbered {
            this.frames.resize((start + BLOCK) as usize, Naive::Absent);
            for f in start..start + BLOCK {
                if !map.is_absent(f) {
                    this.frames[f as usize] = Naive::Free;
                }
            }
            map.parts(start, start + BLOCK, |part| this.fill(part));
        }
        this.lost.resize(this.frames.len() / BLOCK as usize, None);
        (0..this.lost.len()).for_each(|n| this.look(n, 0));
        this
    }

    fn fill(&mut self, part: Part) {
        let held = if part.class.spoils() { part.held } else { Tenure::NONE };
        for frame in &mut self.frames[part.pfn as usize..(part.pfn + part.frames) as usize] {
            if *frame != Naive::Absent {
                *frame = Naive::Held(part.class, held);
            }
        }
    }

    fn pageblocks(pfn: u64, frames: u64) -> impl Iterator<Item = usize> {
        (pfn / BLOCK..(pfn + frames).div_ceil(BLOCK)).map(|n| n as usize)
    }

    /// Looks whether a pageblock is lost.
    fn look(&mut self, n: usize, now: u32) {
        let frames = &self.frames[n * BLOCK as usize..(n + 1) * BLOCK as usize];
        let spoils = |f: &Naive| matches!(f, Naive::Held(class, _) if class.spoils()) || *f == Naive::Absent;
        self.lost[n] = frames.iter().any(spoils).then(|| self.lost[n].unwrap_or(now));
    }

    fn release(&mut self, pfn: u64, frames: u64, now: u32) {
        for frame in &mut self.frames[pfn as usize..(pfn + frames) as usize] {
            if *frame != Naive::Absent {
                *frame = Naive::Free;
            }
        }
        Counted::pageblocks(pfn, frames).for_each(|n| self.look(n, now));
    }

    fn hold(&mut self, part: Part, now: u32) {
        self.release(part.pfn, part.frames, now);
        self.fill(part);
        Counted::pageblocks(part.pfn, part.frames).for_each(|n| self.look(n, now));
    }

    fn relocate(&mut self, from: u64, to: u64, frames: u64, now: u32) {
        let moving = self.frames[from as usize..(from + frames) as usize].to_vec();
        self.release(to, frames, now);
        self.release(from, frames, now);
        for (frame, at) in moving.into_iter().zip(to..) {
            if let Naive::Held(class, held) = frame
                && self.frames[at as usize] != Naive::Absent
            {
                let class = if class == Class::Pinned { Class::Movable } else { class };
                let held = if class.spoils() { held } else { Tenure::NONE };
                self.frames[at as usize] = Naive::Held(class, held);
            }
        }
        Counted::pageblocks(to, frames).for_each(|n| self.look(n, now));
    }

    /// Checks a pageblock of a line's frames.
    fn check(&self, map: &mut FrameMap<'_>, n: usize, start: u64, what: &str) {
        let frames = &self.frames[start as usize..(start + BLOCK) as usize];
        let (state, blocks) = map.state(n);
        let mut held = [0u16; 4];
        let mut oldest: Option<Tenure> = None;
        for frame in frames {
            match frame {
                Naive::Absent => held[3] += 1,
                Naive::Held(class, by) => {
                    held[*class as usize - 1] += 1;
                    if class.spoils() && oldest.is_none_or(|o| by.since < o.since) {
                        oldest = Some(*by);
                    }
                }
                Naive::Free => {}
            }
        }
        assert_eq!(state.held, held, "{what}");
        let mut naive_blocks = [0; 10];
        let mut at = 0;
        while at < BLOCK as usize {
            let run = frames[at..].iter().take_while(|f| **f == Naive::Free).count();
            for b in block::blocks(Pfn(at as u64), Frames(run as u64), Order::of(9)) {
                naive_blocks[b.order.index()] += 1;
            }
            at += run.max(1);
        }
        assert_eq!(blocks, naive_blocks, "{what}");
        let free = frames.iter().filter(|f| **f == Naive::Free).count();
        assert_eq!(usize::from(state.free), free, "{what}");
        let lost = self.lost[(start / BLOCK) as usize];
        assert_eq!(map.lost_since(n).map(|(since, _)| since), lost, "{what}");
        // Of several that are equally old, any.
        match (lost, frames.contains(&Naive::Absent)) {
            (None, _) => assert_eq!(state.owner, NONE, "{what}"),
            (_, true) => assert_eq!(state.owner, map.absent(n).1, "{what}"),
            _ => {
                let oldest = oldest.unwrap().since;
                let is_oldest = |f: &Naive| matches!(f, Naive::Held(class, by) if class.spoils() && by.since == oldest && by.owner == state.owner);
                assert!(frames.iter().any(is_oldest), "{what}: {} is not the oldest", state.owner);
            }
        }
        let mut said = frames.to_vec();
        said.iter_mut().filter(|f| **f != Naive::Absent).for_each(|f| *f = Naive::Free);
        map.parts(start, start + BLOCK, |part| {
            let held = if part.class.spoils() { part.held } else { Tenure::NONE };
            said[(part.pfn - start) as usize..(part.pfn - start + part.frames) as usize]
                .fill(Naive::Held(part.class, held));
        });
        assert!(said == frames, "{what}: the parts are others");
    }
}

#[test]
fn frames_are_what_counting_gives() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/guest-6.1-net.trace");
    let trace = Trace::open(&path).unwrap();
    let stage = Stage::set(&trace, None, Readings::One, &mut |_, _, _| ()).unwrap();
    let regions = stage.machine.regions();
    let map = MemoryMap::new(&regions).unwrap();
    let scene = Scene::new(&trace, &stage, &regions, &map, Lines::End).unwrap();
    let mut frames = scene.opening(&mut Owners::default());
    let layout = &scene.layout;
    let mut counted = Counted::of(&frames, layout.starts.iter().copied());
    for (n, start) in layout.starts.iter().enumerate() {
        counted.check(&mut frames, n, *start, "the opening");
    }
    let with_absent: Vec<u64> =
        (0..layout.len()).filter(|n| frames.absent(*n).0 > 0).map(|n| layout.starts[n]).collect();
    assert!(!with_absent.is_empty(), "a pageblock of which frames are not there");
    let mut rng = fastrand::Rng::with_seed(23);
    // Few places, so that blocks meet.
    let places: Vec<u64> = (0..12)
        .map(|i| match i % 4 {
            0 => with_absent[rng.usize(0..with_absent.len())],
            _ => layout.starts[rng.usize(1..layout.len() - 2)],
        })
        .collect();
    let classes = [Class::Movable, Class::Unmovable, Class::Reclaimable, Class::Pinned];
    let (mut holds, mut moves) = (0, 0);
    for now in 1..12_000 {
        let place = |rng: &mut fastrand::Rng, order: u8| {
            let at = places[rng.usize(0..places.len())] + rng.u64(0..BLOCK);
            at >> order << order
        };
        let order = if rng.u8(0..8) == 0 { rng.u8(8..11) } else { rng.u8(0..6) };
        let (at, size) = (place(&mut rng, order), 1 << order);
        if at + size > counted.frames.len() as u64 {
            continue;
        }
        let what = match rng.u8(0..10) {
            0..5 => {
                let held = Tenure { owner: rng.u32(100..130), since: now };
                let class = classes[rng.usize(0..4)];
                let part = Part { pfn: at, frames: size, class, order, held };
                frames.hold(part, now);
                counted.hold(part, now);
                holds += 1;
                format!("{now}: hold {at} {order} {class:?}")
            }
            5..9 => {
                frames.release(at, size);
                counted.release(at, size, now);
                format!("{now}: free {at} {order}")
            }
            _ => {
                let to = place(&mut rng, order);
                if to == at || to + size > counted.frames.len() as u64 {
                    continue;
                }
                frames.relocate(at, to, size, now);
                counted.relocate(at, to, size, now);
                moves += 1;
                for n in Counted::pageblocks(to, size) {
                    if let Some(number) = layout.number(n as u64 * BLOCK) {
                        let what = format!("{now}: move {at} to {to} {order}");
                        counted.check(&mut frames, number, n as u64 * BLOCK, &what);
                    }
                }
                format!("{now}: move {at} to {to} {order}")
            }
        };
        for n in Counted::pageblocks(at, size) {
            if let Some(number) = layout.number(n as u64 * BLOCK) {
                counted.check(&mut frames, number, n as u64 * BLOCK, &what);
            }
        }
    }
    assert!(holds > 4000 && moves > 500, "{holds} {moves}");
    let held = counted.frames.iter().filter(|f| matches!(f, Naive::Held(..))).count();
    assert_eq!(frames.held_frames, held as u64);
    let lost = layout.starts.iter().filter(|s| counted.lost[(**s / BLOCK) as usize].is_some()).count();
    assert_eq!(frames.lost as usize, lost);
}
