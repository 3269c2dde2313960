//! The page cache by age: of each zone an active and an inactive list.
//!
//! Until 4.7 Linux kept these lists by zone; since 4.8 a node has one pair. Which of them reclaim goes by is not set
//! here: who asks for frames of one zone gets its oldest pages, who asks for those of several gets the oldest of all of
//! them, as if they were in one list. So the same cache serves kernels of both kinds, and each page says when it
//! entered its list.
//!
//! A page of the cache begins on the inactive list, or, if it will be used again before its turn comes, on the active
//! one. Reclaim takes the oldest inactive pages; while more pages are active than inactive, the oldest active ones
//! become inactive, a cluster for each cluster that is looked at.
//!
//! # Linux
//! `shrink_lruvec`, `inactive_file_is_low` and `shrink_active_list` of 4.6, for files: there is no swap. Pages of
//! higher zones than those asked for are passed over without being counted (`isolate_lru_folios`). Pages that are used
//! a second time are activated at that moment (`mark_page_accessed`); here they are active from the start.

use super::object::{Links, NONE, Object, flag};
use pageyard::reclaim::ZoneMask;

/// How many pages are looked at, or deactivated, at a time.
///
/// # Linux
/// `SWAP_CLUSTER_MAX`.
pub(super) const CLUSTER: u64 = 32;

/// Pages, by their numbers.
#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    youngest: u32,
    len: u64,
}

impl List {
    const EMPTY: List = List { oldest: NONE, youngest: NONE, len: 0 };

    fn push(&mut self, objects: &mut [Object], id: u32) {
        objects[id as usize].links = Links { older: self.youngest, younger: NONE };
        match self.youngest {
            NONE => self.oldest = id,
            youngest => objects[youngest as usize].links.younger = id,
        }
        self.youngest = id;
        self.len += 1;
    }

    fn remove(&mut self, objects: &mut [Object], id: u32) {
        let Links { older, younger } = objects[id as usize].links;
        match older {
            NONE => self.oldest = younger,
            _ => objects[older as usize].links.younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            _ => objects[younger as usize].links.older = older,
        }
        self.len -= 1;
    }
}

/// A zone's page cache.
#[derive(Clone, Copy, Debug)]
struct Lru {
    active: List,
    inactive: List,
}

impl Lru {
    const EMPTY: Lru = Lru { active: List::EMPTY, inactive: List::EMPTY };

    fn list(&mut self, objects: &[Object], id: u32) -> &mut List {
        match objects[id as usize].is(flag::ACTIVE) {
            true => &mut self.active,
            false => &mut self.inactive,
        }
    }

    /// Takes a page out.
    fn remove(&mut self, objects: &mut [Object], id: u32) {
        self.list(objects, id).remove(objects, id);
    }
}

/// The page cache of every zone.
#[derive(Debug)]
pub(super) struct Lrus {
    zones: Vec<Lru>,
    /// Counts entries into lists.
    now: u32,
}

impl Lrus {
    pub fn new(zones: usize) -> Lrus {
        Lrus { zones: vec![Lru::EMPTY; zones], now: 0 }
    }

    fn of(&self, zones: ZoneMask) -> impl Iterator<Item = &Lru> {
        zones.iter().map_while(|zone| self.zones.get(zone.index()))
    }

    /// Returns how many pages some zones have.
    pub fn len(&self, zones: ZoneMask) -> u64 {
        self.of(zones).map(|lru| lru.active.len + lru.inactive.len).sum()
    }

    /// Returns how many of them are inactive.
    pub fn inactive(&self, zones: ZoneMask) -> u64 {
        self.of(zones).map(|lru| lru.inactive.len).sum()
    }

    /// Enters a page as the youngest of the list that its zone and its flag name.
    pub fn push(&mut self, objects: &mut [Object], id: u32) {
        self.now = self.now.wrapping_add(1);
        let object = &mut objects[id as usize];
        object.age = self.now;
        let zone = usize::from(object.zone);
        self.zones[zone].list(objects, id).push(objects, id);
    }

    /// Takes a page out.
    pub fn remove(&mut self, objects: &mut [Object], id: u32) {
        let zone = usize::from(objects[id as usize].zone);
        self.zones[zone].remove(objects, id);
    }

    /// Returns the oldest of some zones' pages, of those that `of` says are the oldest in their zones.
    fn oldest(&self, objects: &[Object], zones: ZoneMask, of: impl Fn(&Lru) -> u32) -> Option<u32> {
        let heads = self.of(zones).map(of).filter(|id| *id != NONE);
        heads.max_by_key(|id| self.now.wrapping_sub(objects[*id as usize].age))
    }

    /// Makes up to a cluster of the oldest active pages of some zones inactive, if more are active than inactive.
    pub fn balance(&mut self, objects: &mut [Object], zones: ZoneMask) {
        let inactive = self.inactive(zones);
        let active = self.len(zones) - inactive;
        // Each one changes both counts by one.
        let moves = active.saturating_sub(inactive).div_ceil(2).min(CLUSTER);
        for _ in 0..moves {
            let Some(id) = self.oldest(objects, zones, |lru| lru.active.oldest) else { return };
            self.remove(objects, id);
            objects[id as usize].flags &= !flag::ACTIVE;
            self.push(objects, id);
        }
    }

    /// Looks at the oldest inactive page of some zones, and returns it if it can be given up; otherwise it becomes the
    /// youngest.
    pub fn look(&mut self, objects: &mut [Object], zones: ZoneMask) -> Option<u32> {
        let id = self.oldest(objects, zones, |lru| lru.inactive.oldest)?;
        if objects[id as usize].flags & (flag::WRITEBACK | flag::PINNED) == 0 {
            return Some(id);
        }
        self.remove(objects, id);
        self.push(objects, id);
        None
    }
}
