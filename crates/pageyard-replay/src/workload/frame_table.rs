//! The owners' table: every held block by kind, and the page cache by age.

use super::lru::Lrus;
use super::object::{Links, NONE, Object, Role, flag};
use super::owners::Shares;
use crate::bitmap::FrameSet;
use fastrand::Rng;
use pageyard::reclaim::ZoneMask;
use pageyard::{Order, Pfn, ZoneId};
use std::collections::VecDeque;

/// The part of its life for which a cache page is being written: one in this many.
const WRITES: f64 = 10.0;

/// Every held block.
pub(super) struct FrameTable {
    objects: Vec<Object>,
    unused: Vec<u32>,
    /// For each frame that starts a block: its object.
    at: Vec<u32>,
    /// The page cache.
    caches: Lrus,
    /// First frame of each zone, and the frame after its last.
    zones: Vec<(u32, u32)>,
    shares: Shares,
    pub rng: Rng,
    /// Pinned objects, the first pinned in front; some may be freed already.
    pins: VecDeque<u32>,
    pub pinned: u64,
    /// The same for page cache that is being written.
    writes: VecDeque<u32>,
    writing: u64,
    /// Frames held, by role.
    pub held: [u64; Role::ALL.len()],
    /// Every held frame, where double allocations are looked for.
    taken: Option<FrameSet>,
    pub doubles: Doubles,
}

/// The blocks and frames that were handed out while they were held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Doubles {
    /// Blocks of which that is true for any frame.
    pub blocks: u64,
    /// Frames of which it is.
    pub frames: u64,
}

impl FrameTable {
    pub fn new(zones: Vec<(u32, u32)>, shares: Shares, seed: u64) -> FrameTable {
        let end = zones.iter().map(|z| z.1).max().unwrap_or(0);
        FrameTable {
            objects: Vec::new(),
            unused: Vec::new(),
            at: vec![NONE; end as usize],
            caches: Lrus::new(zones.len()),
            zones,
            shares,
            rng: Rng::with_seed(seed),
            pins: VecDeque::new(),
            pinned: 0,
            writes: VecDeque::new(),
            writing: 0,
            held: [0; Role::ALL.len()],
            taken: None,
            doubles: Doubles::default(),
        }
    }

    /// Looks for frames that are entered while they are held, from now on. The table has to be empty.
    pub fn look_for_doubles(&mut self) {
        self.taken = Some(FrameSet::new(Pfn(self.at.len() as u64)));
    }

    /// Returns every held frame, where double allocations are looked for.
    pub fn taken(&self) -> Option<&FrameSet> {
        self.taken.as_ref()
    }

    pub fn get(&self, id: u32) -> &Object {
        &self.objects[id as usize]
    }

    fn object(&mut self, id: u32) -> &mut Object {
        &mut self.objects[id as usize]
    }

    pub fn set(&mut self, id: u32, flag: u8, on: bool) {
        let object = self.object(id);
        object.flags = if on { object.flags | flag } else { object.flags & !flag };
    }

    /// Finds the object that starts at a frame.
    pub fn find(&self, pfn: Pfn) -> Option<u32> {
        self.at.get(pfn.0 as usize).copied().filter(|id| *id != NONE)
    }

    fn zone_of(&self, pfn: u32) -> u8 {
        self.zones.iter().position(|(start, end)| (*start..*end).contains(&pfn)).unwrap_or(0) as u8
    }

    /// Enters a block, and gives it its share of pins and writeback.
    pub fn enter(&mut self, pfn: Pfn, order: Order, role: Role, flags: u8) -> u32 {
        let zone = self.zone_of(pfn.0 as u32);
        let object = Object { pfn: pfn.0 as u32, links: Links::APART, age: 0, order, role, flags, zone };
        let id = match self.unused.pop() {
            Some(id) => {
                self.objects[id as usize] = object;
                id
            }
            None => {
                self.objects.push(object);
                self.objects.len() as u32 - 1
            }
        };
        self.at[pfn.0 as usize] = id;
        self.held[role as usize] += order.frames().0;
        let already = self.taken.as_mut().map_or(0, |taken| taken.insert(pfn, order.frames()));
        self.doubles.blocks += u64::from(already > 0);
        self.doubles.frames += already;
        if role.is_movable() && self.rng.f64() < self.shares.pins {
            self.pin(id);
        }
        if role == Role::Cache {
            if self.rng.f64() < self.shares.writeback * WRITES {
                self.write(id);
            }
            if self.rng.f64() < self.shares.reused {
                self.set(id, flag::ACTIVE, true);
            }
            self.link(id);
        }
        id
    }

    /// Pins a frame. The oldest pin is released when there are more pins than their share of movable frames.
    pub fn pin(&mut self, id: u32) {
        self.set(id, flag::PINNED, true);
        self.pins.push_back(id);
        self.pinned += 1;
        let movable = self.held[Role::Cache as usize] + self.held[Role::Anon as usize];
        let most = (movable as f64 * self.shares.pins).ceil() as u64;
        while self.pinned > most.max(1) {
            let Some(first) = self.pins.pop_front() else { break };
            if self.get(first).is(flag::PINNED) {
                self.set(first, flag::PINNED, false);
                self.pinned -= 1;
            }
        }
    }

    /// Begins to write a page of the cache. The disk is done with the first ones when more are being written than their
    /// share.
    fn write(&mut self, id: u32) {
        self.set(id, flag::WRITEBACK, true);
        self.writes.push_back(id);
        self.writing += 1;
        let most = (self.held[Role::Cache as usize] as f64 * self.shares.writeback).ceil() as u64;
        while self.writing > most.max(1) {
            let Some(first) = self.writes.pop_front() else { break };
            if self.get(first).is(flag::WRITEBACK) {
                self.set(first, flag::WRITEBACK, false);
                self.writing -= 1;
            }
        }
    }

    /// Removes a block whose frame is about to be freed. Its number can be reused unless `known`: then
    /// [`FrameTable::forget`] must follow.
    pub fn leave(&mut self, id: u32, known: bool) {
        let object = *self.get(id);
        if object.role == Role::Cache && !object.is(flag::ISOLATED) {
            self.unlink(id);
        }
        if object.is(flag::PINNED) {
            self.pinned -= 1;
        }
        if object.is(flag::WRITEBACK) {
            self.writing -= 1;
        }
        self.at[object.pfn as usize] = NONE;
        self.held[object.role as usize] -= object.order.frames().0;
        if let Some(taken) = &mut self.taken {
            taken.remove(object.pfn(), object.order.frames());
        }
        let isolated = object.flags & flag::ISOLATED;
        self.object(id).flags = flag::GONE | isolated | if known { 0 } else { flag::ORPHAN };
        if !known && isolated == 0 {
            self.unused.push(id);
        }
    }

    /// Lets the number of a removed object be reused, once it is no longer in use.
    pub fn forget(&mut self, id: u32, flag: u8) {
        let object = self.object(id);
        match flag {
            flag::ISOLATED => object.flags &= !flag::ISOLATED,
            _ => object.flags |= flag::ORPHAN,
        }
        if object.is(flag::GONE) && object.is(flag::ORPHAN) && !object.is(flag::ISOLATED) {
            self.unused.push(id);
        }
    }

    /// Makes the upper half of a block a separate object.
    pub fn halve(&mut self, id: u32) -> Option<u32> {
        let object = *self.get(id);
        let half = object.order.smaller()?;
        self.held[object.role as usize] -= object.order.frames().0;
        self.held[object.role as usize] += half.frames().0;
        self.object(id).order = half;
        if let Some(taken) = &mut self.taken {
            taken.remove(object.pfn() + half.frames(), half.frames());
        }
        let flags = object.flags & flag::LASTING;
        Some(self.enter(object.pfn() + half.frames(), half, object.role, flags))
    }

    /// Takes a frame out of use for a move.
    pub fn isolate(&mut self, id: u32) {
        if self.get(id).role == Role::Cache {
            self.unlink(id);
        }
        self.set(id, flag::ISOLATED, true);
    }

    /// Puts it back.
    pub fn put_back(&mut self, id: u32) {
        self.set(id, flag::ISOLATED | flag::LOCKED, false);
        if self.get(id).role == Role::Cache {
            self.link(id);
        }
    }

    /// Moves an isolated object to another frame, or to another block of its order.
    pub fn moved(&mut self, id: u32, to: Pfn) {
        let old = *self.get(id);
        let zone = self.zone_of(to.0 as u32);
        self.at[old.pfn as usize] = NONE;
        self.at[to.0 as usize] = id;
        if let Some(taken) = &mut self.taken {
            taken.remove(old.pfn(), old.order.frames());
            let already = taken.insert(to, old.order.frames());
            self.doubles.blocks += u64::from(already > 0);
            self.doubles.frames += already;
        }
        let object = self.object(id);
        (object.pfn, object.zone) = (to.0 as u32, zone);
        self.put_back(id);
    }

    /// Returns the length of a zone's page cache.
    pub fn cached(&self, zone: ZoneId) -> u64 {
        self.caches.len(ZoneMask::only(zone))
    }

    /// Returns how much of some zones' page cache is inactive, so that reclaim looks at it.
    pub fn inactive(&self, zones: ZoneMask) -> u64 {
        self.caches.inactive(zones)
    }

    /// Makes the oldest active pages of some zones inactive, if too many are active.
    pub fn balance(&mut self, zones: ZoneMask) {
        self.caches.balance(&mut self.objects, zones);
    }

    /// Looks at the oldest inactive page of some zones, and returns its object if it can be given up.
    pub fn look(&mut self, zones: ZoneMask) -> Option<u32> {
        self.caches.look(&mut self.objects, zones)
    }

    /// Iterates over the numbers of all objects that hold a frame.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.objects.len() as u32).filter(|id| !self.get(*id).is(flag::GONE))
    }

    fn link(&mut self, id: u32) {
        self.caches.push(&mut self.objects, id);
    }

    fn unlink(&mut self, id: u32) {
        self.caches.remove(&mut self.objects, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(shares: Shares) -> FrameTable {
        FrameTable::new(vec![(0, 1024)], shares, 1)
    }

    fn cache(table: &mut FrameTable, pfn: u64) -> u32 {
        table.enter(Pfn(pfn), Order::ZERO, Role::Cache, 0)
    }

    const ZONE: ZoneId = ZoneId(0);
    const ZONES: ZoneMask = ZoneMask::only(ZONE);

    #[test]
    fn the_oldest_inactive_page_goes_first_and_one_that_is_used_again_when_too_many_are_active() {
        let mut b = table(Shares { reused: 1.0, ..Shares::NONE });
        let used = cache(&mut b, 1);
        b.shares.reused = 0.0;
        let (older, younger) = (cache(&mut b, 2), cache(&mut b, 3));
        b.balance(ZONES);
        assert_eq!(
            (b.look(ZONES), b.inactive(ZONES)),
            (Some(older), 2),
            "one active page beside two is not too many"
        );
        b.leave(older, false);
        b.leave(younger, false);
        assert_eq!((b.look(ZONES), b.cached(ZONE)), (None, 1), "no active page is looked at");
        b.balance(ZONES);
        assert_eq!((b.look(ZONES), b.inactive(ZONES)), (Some(used), 1));
    }

    #[test]
    fn what_cannot_be_given_up_has_its_turn_once_more() {
        let mut b = table(Shares::NONE);
        let (first, second) = (cache(&mut b, 1), cache(&mut b, 2));
        b.set(first, flag::WRITEBACK, true);
        assert_eq!((b.look(ZONES), b.look(ZONES)), (None, Some(second)));
        b.leave(second, false);
        b.set(first, flag::WRITEBACK, false);
        assert_eq!(b.look(ZONES), Some(first));
    }

    #[test]
    fn of_several_zones_the_oldest_page_goes_first_whichever_zone_it_is_in() {
        let mut b = FrameTable::new(vec![(0, 512), (512, 1024)], Shares::NONE, 1);
        let pfns = [600, 1, 601, 2];
        let ids = pfns.map(|pfn| cache(&mut b, pfn));
        let (both, lower) = (ZoneMask(0b11), ZoneMask::only(ZoneId(0)));
        assert_eq!((b.look(lower), b.look(both)), (Some(ids[1]), Some(ids[0])));
        let mut order = Vec::new();
        while let Some(id) = b.look(both) {
            order.push(b.get(id).pfn);
            b.leave(id, false);
        }
        assert_eq!(order, [600, 1, 601, 2]);
    }

    #[test]
    fn a_moved_page_stays_on_its_list() {
        let mut b = table(Shares { reused: 1.0, ..Shares::NONE });
        let id = cache(&mut b, 1);
        b.isolate(id);
        assert_eq!(b.cached(ZONE), 0);
        b.moved(id, Pfn(9));
        assert_eq!((b.cached(ZONE), b.inactive(ZONES)), (1, 0));
    }

    #[test]
    fn a_moved_object_keeps_its_number_and_a_known_number_is_not_used_again() {
        let mut b = table(Shares::NONE);
        let id = cache(&mut b, 5);
        b.isolate(id);
        assert_eq!(b.cached(ZoneId(0)), 0);
        b.moved(id, Pfn(9));
        assert_eq!((b.find(Pfn(5)), b.find(Pfn(9))), (None, Some(id)));
        b.leave(id, true);
        assert_ne!(cache(&mut b, 6), id);
        b.forget(id, flag::ORPHAN);
        assert_eq!(cache(&mut b, 7), id);
    }

    #[test]
    fn a_moved_block_holds_as_many_frames_where_it_is_then_as_before() {
        let mut b = table(Shares::NONE);
        b.look_for_doubles();
        let id = b.enter(Pfn(8), Order::of(2), Role::Anon, 0);
        b.isolate(id);
        b.moved(id, Pfn(16));
        let held = |b: &FrameTable, from: u64| {
            (from..from + 4).filter(|pfn| b.taken().is_some_and(|t| t.contains(Pfn(*pfn)))).count()
        };
        assert_eq!((held(&b, 8), held(&b, 16), b.held[Role::Anon as usize]), (0, 4, 4));
        b.enter(Pfn(8), Order::of(2), Role::Anon, 0);
        assert_eq!(b.doubles, Doubles::default(), "what it left is free");
        b.isolate(id);
        b.moved(id, Pfn(8));
        assert_eq!(b.doubles, Doubles { blocks: 1, frames: 4 }, "another block is there");
    }

    #[test]
    fn an_object_freed_while_isolated_is_kept_until_compaction_lets_go() {
        let mut b = table(Shares::NONE);
        let id = cache(&mut b, 5);
        b.isolate(id);
        b.leave(id, false);
        assert_ne!(cache(&mut b, 5), id);
        b.forget(id, flag::ISOLATED);
        assert_eq!(cache(&mut b, 6), id);
    }

    #[test]
    fn pins_stay_at_their_share() {
        let mut b = table(Shares { pins: 0.25, ..Shares::NONE });
        for pfn in 0..1000 {
            cache(&mut b, pfn);
        }
        let pinned = b.ids().filter(|id| b.get(*id).is(flag::PINNED)).count() as u64;
        assert!(pinned == b.pinned && (200..=250).contains(&pinned), "{pinned}");
    }

    #[test]
    fn halves_are_held_like_the_whole() {
        let mut b = table(Shares::NONE);
        let id = b.enter(Pfn(8), Order::of(3), Role::Slab, flag::LASTING);
        let upper = b.halve(id).unwrap();
        assert_eq!(
            (b.get(upper).pfn(), b.get(upper).order, b.held[Role::Slab as usize]),
            (Pfn(12), Order::of(2), 8)
        );
        assert!(b.get(upper).is(flag::LASTING));
    }
}
