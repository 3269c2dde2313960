//! A zone's page cache by age: an active and an inactive list, as Linux keeps it.
//!
//! A page of the cache begins on the inactive list, or, if it will be used again before its turn comes, on the active one.
//! Reclaim takes the oldest inactive pages; while more pages are active than inactive, the oldest active ones become inactive,
//! a cluster for each cluster that is looked at.
//!
//! # Linux
//! `shrink_lruvec`, `inactive_file_is_low` and `shrink_active_list` of 4.6, for files: there is no swap. Pages that are used a
//! second time are activated at that moment (`mark_page_accessed`); here they are active from the start.

use super::object::{Links, NONE, Object, flag};

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
pub(super) struct Lru {
    active: List,
    inactive: List,
}

impl Lru {
    pub const EMPTY: Lru = Lru { active: List::EMPTY, inactive: List::EMPTY };

    /// Returns how many pages there are.
    pub fn len(&self) -> u64 {
        self.active.len + self.inactive.len
    }

    /// Returns how many of them are inactive.
    pub fn inactive(&self) -> u64 {
        self.inactive.len
    }

    fn list(&mut self, objects: &[Object], id: u32) -> &mut List {
        match objects[id as usize].is(flag::ACTIVE) {
            true => &mut self.active,
            false => &mut self.inactive,
        }
    }

    /// Enters a page as the youngest of the list that its flag names.
    pub fn push(&mut self, objects: &mut [Object], id: u32) {
        self.list(objects, id).push(objects, id);
    }

    /// Takes a page out.
    pub fn remove(&mut self, objects: &mut [Object], id: u32) {
        self.list(objects, id).remove(objects, id);
    }

    /// Makes up to a cluster of the oldest active pages inactive, if more are active than inactive.
    pub fn balance(&mut self, objects: &mut [Object]) {
        for _ in 0..CLUSTER {
            if self.active.len <= self.inactive.len {
                return;
            }
            let id = self.active.oldest;
            self.active.remove(objects, id);
            objects[id as usize].flags &= !flag::ACTIVE;
            self.inactive.push(objects, id);
        }
    }

    /// Looks at the oldest inactive page, and returns it if it can be given up; otherwise it becomes the youngest.
    pub fn look(&mut self, objects: &mut [Object]) -> Option<u32> {
        let id = self.inactive.oldest;
        if id == NONE {
            return None;
        }
        if objects[id as usize].flags & (flag::WRITEBACK | flag::PINNED) == 0 {
            return Some(id);
        }
        self.inactive.remove(objects, id);
        self.inactive.push(objects, id);
        None
    }
}
