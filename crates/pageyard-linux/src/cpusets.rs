//! Cpusets: to which nodes the requests of a group of tasks keep. Layer: the allocator, below `zonelist`.

use crate::effort::Reach;
use pageyard_core::{Context, CpusetId, Cx, NodeMask, Request, RequestFlags};
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many cpusets an instance has at most, the root among them.
const MOST: usize = 64;

/// How a cpuset's boundary treats requests of its tasks that are not bound by it (no `HARDWALL`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wall {
    /// On the slow path they may use the nodes of the nearest cpuset around it that has a hard wall, or of the root.
    Open,
    /// They keep to its nodes as well: `cpuset.mem_hardwall`, `cpuset.mem_exclusive`.
    Hard,
}

/// Why a cpuset cannot be as it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CpusetError {
    /// There is no such cpuset.
    NoSuchCpuset,
    /// A cpuset must have a node.
    NoNodes,
    /// It would have nodes that the cpuset around it does not have.
    BeyondParent,
    /// A cpuset in it has nodes that it would lose.
    ChildHasThem,
    /// The instance has as many cpusets as it can have.
    TooMany,
}

impl fmt::Display for CpusetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpusetError::NoSuchCpuset => f.write_str("there is no such cpuset"),
            CpusetError::NoNodes => f.write_str("a cpuset needs a node"),
            CpusetError::BeyondParent => f.write_str("the cpuset around it does not have all of these nodes"),
            CpusetError::ChildHasThem => f.write_str("a cpuset in it has nodes that it would lose"),
            CpusetError::TooMany => write!(f, "an instance has at most {MOST} cpusets"),
        }
    }
}

impl std::error::Error for CpusetError {}

/// The nodes of a cpuset, as requests read them.
struct Nodes {
    mems: AtomicU64,
    /// Those of the nearest cpuset with a hard wall, itself included.
    walled: AtomicU64,
}

/// How a cpuset was made.
#[derive(Clone, Copy)]
struct Made {
    parent: usize,
    mems: NodeMask,
    wall: Wall,
}

/// An instance's cpusets. Those who change them wait for each other; requests never wait.
///
/// # Linux
/// `cpusets_enabled_key`: while there is only the root, nothing is looked at; once there is another, each request has a
/// mask, even one whose cpuset allows all nodes. `mems_allowed_seq`: a request that fails while nodes change is tried
/// again. There, the task has a copy of its cpuset's nodes, here it has the cpuset ([`Cx::cpuset`]).
pub struct Cpusets {
    /// Counts changes; zero: there is only the root.
    changes: AtomicU64,
    nodes: Box<[Nodes]>,
    made: Mutex<Vec<Made>>,
}

impl Default for Cpusets {
    fn default() -> Self {
        let all = || AtomicU64::new(NodeMask::ALL.0);
        let nodes = (0..MOST).map(|_| Nodes { mems: all(), walled: all() }).collect();
        let root = Made { parent: 0, mems: NodeMask::ALL, wall: Wall::Hard };
        Cpusets { changes: AtomicU64::new(0), nodes, made: Mutex::new(vec![root]) }
    }
}

/// The nodes that bound an attempt; without a mask, no node is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Where the preferred zone is looked for.
    pub preferred: Option<NodeMask>,
    /// Where frames may come from.
    pub allowed: Option<NodeMask>,
}

impl Bounds {
    const NONE: Bounds = Bounds { preferred: None, allowed: None };
}

impl Cpusets {
    /// Makes a cpuset inside another one; [`CpusetId`] 0 is the root.
    ///
    /// # Errors
    /// [`CpusetError`], where it cannot be.
    pub fn create(&self, parent: CpusetId, mems: NodeMask, wall: Wall) -> Result<CpusetId, CpusetError> {
        let mut made = self.made.lock();
        let around = made.get(usize::from(parent.0)).ok_or(CpusetError::NoSuchCpuset)?;
        fits(mems, around.mems)?;
        if made.len() == MOST {
            return Err(CpusetError::TooMany);
        }
        made.push(Made { parent: usize::from(parent.0), mems, wall });
        self.publish(&made);
        // At most `MOST`, which fits.
        Ok(CpusetId(made.len() as u16 - 1))
    }

    /// Gives a cpuset other nodes, from the next attempt of each request on. The root's cannot be changed.
    ///
    /// # Errors
    /// [`CpusetError`], where it cannot have them.
    pub fn set_mems(&self, cpuset: CpusetId, mems: NodeMask) -> Result<(), CpusetError> {
        let mut made = self.made.lock();
        let which = usize::from(cpuset.0);
        let old = *made.get(which).filter(|_| which > 0).ok_or(CpusetError::NoSuchCpuset)?;
        fits(mems, made[old.parent].mems)?;
        let children = made.iter().filter(|c| c.parent == which);
        if children.into_iter().any(|c| fits(c.mems, mems).is_err()) {
            return Err(CpusetError::ChildHasThem);
        }
        made[which].mems = mems;
        self.publish(&made);
        Ok(())
    }

    /// Says which nodes a cpuset has; one that does not exist has those of the root.
    #[must_use]
    pub fn mems(&self, cpuset: CpusetId) -> NodeMask {
        self.of(cpuset, |n| &n.mems)
    }

    fn of(&self, cpuset: CpusetId, what: impl Fn(&Nodes) -> &AtomicU64) -> NodeMask {
        // ORDER: Relaxed: `changes` was acquired before; a newer mask is as good.
        self.nodes
            .get(usize::from(cpuset.0))
            .map_or(NodeMask::ALL, |n| NodeMask(what(n).load(Ordering::Relaxed)))
    }

    /// Lets requests see what was changed.
    fn publish(&self, made: &[Made]) {
        for (which, set) in made.iter().enumerate() {
            let mut wall = which;
            while made[wall].wall == Wall::Open {
                wall = made[wall].parent;
            }
            // ORDER: Relaxed, before the Release below.
            self.nodes[which].mems.store(set.mems.0, Ordering::Relaxed);
            self.nodes[which].walled.store(made[wall].mems.0, Ordering::Relaxed);
        }
        // ORDER: Release, after the masks: a reader that sees the change counted sees them. Pairs with `changes`.
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns how often cpusets have changed.
    #[inline]
    pub fn changes(&self) -> u64 {
        // ORDER: Acquire pairs with the Release in `publish`.
        self.changes.load(Ordering::Acquire)
    }

    /// Returns whether a request may go on without the nodes that it asked for, because its cpuset has none of them.
    ///
    /// # Linux
    /// `check_retry_cpuset`, its first part.
    pub fn rules_out(&self, cx: &Cx, request: &Request) -> bool {
        self.changes() > 0 && request.nodes != NodeMask::ALL && request.nodes.0 & self.mems(cx.cpuset).0 == 0
    }

    /// Returns the nodes that bound an attempt of a request.
    #[inline]
    pub fn bounds(&self, cx: &Cx, request: &Request, reach: Reach) -> Bounds {
        let asked = (request.nodes != NodeMask::ALL).then_some(request.nodes);
        if reach == Reach::Any {
            return Bounds::NONE;
        }
        if reach == Reach::Named || self.changes() == 0 {
            return Bounds { preferred: asked, allowed: asked };
        }
        self.within(cx, request, asked, reach)
    }

    /// # Linux
    /// `prepare_alloc_pages` for the first attempt; `cpuset_node_allowed`: interrupts are not bound, nor are tasks that
    /// are being killed; what has no `__GFP_HARDWALL` is bound by the nearest hard wall.
    #[cold]
    fn within(&self, cx: &Cx, request: &Request, asked: Option<NodeMask>, reach: Reach) -> Bounds {
        let mems = self.mems(cx.cpuset);
        if reach == Reach::First && asked.is_none() && cx.context == Context::Task {
            return Bounds { preferred: Some(mems), allowed: Some(mems) };
        }
        let unbound = cx.context != Context::Task || request.flags.contains(RequestFlags::OOM_VICTIM);
        let hard = reach != Reach::Asked || request.flags.contains(RequestFlags::HARDWALL);
        let may = match (unbound, hard) {
            (true, _) => NodeMask::ALL,
            (false, true) => mems,
            (false, false) => NodeMask(mems.0 | self.of(cx.cpuset, |n| &n.walled).0),
        };
        let allowed = NodeMask(may.0 & request.nodes.0);
        Bounds { preferred: asked, allowed: Some(allowed) }
    }
}

/// Checks that a cpuset with these nodes can be in one with those.
fn fits(mems: NodeMask, around: NodeMask) -> Result<(), CpusetError> {
    match mems.0 {
        0 => Err(CpusetError::NoNodes),
        nodes if nodes & !around.0 != 0 => Err(CpusetError::BeyondParent),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: CpusetId = CpusetId(0);

    #[test]
    fn a_cpuset_keeps_inside_the_one_around_it() {
        let sets = Cpusets::default();
        let outer = sets.create(ROOT, NodeMask(0b0111), Wall::Hard).unwrap();
        assert_eq!(sets.create(outer, NodeMask(0b1001), Wall::Open), Err(CpusetError::BeyondParent));
        assert_eq!(sets.create(outer, NodeMask(0), Wall::Open), Err(CpusetError::NoNodes));
        assert_eq!(sets.create(CpusetId(9), NodeMask(1), Wall::Open), Err(CpusetError::NoSuchCpuset));
        let inner = sets.create(outer, NodeMask(0b0011), Wall::Open).unwrap();
        assert_eq!(sets.set_mems(outer, NodeMask(0b0110)), Err(CpusetError::ChildHasThem));
        assert_eq!(sets.set_mems(ROOT, NodeMask(1)), Err(CpusetError::NoSuchCpuset));
        sets.set_mems(inner, NodeMask(0b0010)).unwrap();
        sets.set_mems(outer, NodeMask(0b0110)).unwrap();
        assert_eq!((sets.mems(outer), sets.mems(inner)), (NodeMask(0b0110), NodeMask(0b0010)));
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let sets = Cpusets::default();
        for _ in 1..MOST {
            sets.create(ROOT, NodeMask(1), Wall::Open).unwrap();
        }
        assert_eq!(sets.create(ROOT, NodeMask(1), Wall::Open), Err(CpusetError::TooMany));
    }
}
