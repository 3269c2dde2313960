//! How hard a request tries: the watermark that it is held to, and what it is allowed to do. Layer: values.

use pageyard_core::watermark::ReserveRule;
use pageyard_core::{Migratetype, Order, Request, RequestFlags};

/// The watermark that a request is held to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// None: it may take everything.
    None,
    Min,
    Low,
    High,
}

/// Which nodes an attempt may take from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// At first: those of its task's cpuset. A request that asked for none has these as its mask.
    First,
    /// On the slow path: those that it asked for, as far as the cpuset allows it.
    Asked,
    /// Those that it asked for, and of these only the cpuset's own: what is reclaimed for it.
    Walled,
    /// Those that it asked for, whatever its cpuset says.
    Named,
    /// Any: it is too important for that. A request that keeps to one node still does.
    ///
    /// # Linux
    /// No `ALLOC_CPUSET`, and no nodemask.
    Any,
}

/// The request's relation to the background reclaimer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// It may not wake it.
    No,
    /// It may, and counts as one that did.
    Counts,
    /// It may, and is counted already.
    Counted,
}

impl Wake {
    /// Returns a request's relation before anything has happened.
    #[inline]
    pub fn of(request: &Request) -> Wake {
        if request.flags.contains(RequestFlags::WAKE_RECLAIM) { Wake::Counts } else { Wake::No }
    }
}

/// How a request may take from a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    pub mark: Mark,
    /// Privileges towards the reserve; empty on the first attempt, as in Linux. See [`own_privileges`].
    pub reserves: RequestFlags,
    /// Whether pageblocks of other types are taken only as a whole.
    pub nofragment: bool,
    /// Whether the background reclaimer may be woken.
    pub wake: Wake,
    /// Where it may take from.
    pub reach: Reach,
    /// Whether it may use areas that their owners lend.
    ///
    /// # Linux
    /// `ALLOC_CMA`: movable requests may.
    pub lent: bool,
    /// Whether it passes over a zone whose lock is held, instead of waiting.
    ///
    /// # Linux
    /// `ALLOC_TRYLOCK`.
    pub trylock: bool,
}

/// The flags of `GFP_ATOMIC`: urgent, and cannot wait.
pub const ATOMIC: RequestFlags = RequestFlags::HIGH.union(RequestFlags::NON_BLOCKING);

/// Among the privileges of an [`Effort`], and no flag of requests: the reserve for high-order atomic requests is open,
/// and nothing else is. An effort fits into a register, so this has no field.
pub const HIGHATOMIC: RequestFlags = RequestFlags::from_bits_retain(1 << 15);

/// Returns the privileges that a request's own flags give it: not what it is entitled to as a victim of the OOM killer.
/// An atomic request that must not use the reserves has `NO_RESERVE` in place of `NON_BLOCKING`, and no other request
/// has it.
///
/// # Linux
/// `gfp_to_alloc_flags`. `NO_RESERVE` stands for `__GFP_ATOMIC` without `ALLOC_NON_BLOCK`.
pub fn own_privileges(flags: RequestFlags) -> RequestFlags {
    let own = flags.difference(RequestFlags::OOM_VICTIM);
    match (flags.contains(RequestFlags::NO_RESERVE), flags.contains(ATOMIC)) {
        (false, _) => own,
        (true, true) => own.difference(RequestFlags::NON_BLOCKING),
        (true, false) => own.difference(RequestFlags::NON_BLOCKING | RequestFlags::NO_RESERVE),
    }
}

impl Effort {
    /// An attempt without privileges, held to a watermark.
    pub fn plain(mark: Mark) -> Effort {
        Effort {
            mark,
            reserves: RequestFlags::empty(),
            nofragment: false,
            wake: Wake::No,
            reach: Reach::Asked,
            lent: false,
            trylock: false,
        }
    }

    /// The same for a request of this type.
    #[must_use]
    #[inline]
    pub fn of_type(self, m: Migratetype) -> Effort {
        Effort { lent: m == Migratetype::Movable, ..self }
    }

    /// Returns whether the reserve for high-order atomic requests is open to this one.
    ///
    /// # Linux
    /// `ALLOC_HIGHATOMIC`.
    pub fn is_highatomic(self, order: Order) -> bool {
        order > Order::ZERO && (self.reserves.contains(ATOMIC) || self.reserves.contains(HIGHATOMIC))
    }

    /// Returns whether the request is atomic, whatever it may use of the reserves.
    ///
    /// # Linux
    /// `__GFP_ATOMIC`.
    pub fn is_atomic(self) -> bool {
        self.reserves.contains(ATOMIC) || self.reserves.contains(RequestFlags::NO_RESERVE)
    }

    /// Returns whether the privileges are such that reserved frames count as free.
    ///
    /// # Linux
    /// `ALLOC_RESERVES`; before, `ALLOC_HARDER` and `ALLOC_OOM`.
    #[inline]
    pub fn has_reserves(self, rule: ReserveRule) -> bool {
        // A first attempt has none.
        !self.reserves.is_empty() && self.opens_reserves(rule)
    }

    fn opens_reserves(self, rule: ReserveRule) -> bool {
        let any = RequestFlags::OOM_VICTIM | HIGHATOMIC;
        match rule {
            ReserveRule::MinReserve => {
                self.reserves.intersects(any | RequestFlags::HIGH | RequestFlags::NON_BLOCKING)
            }
            _ => self.reserves.intersects(any) || self.reserves.contains(ATOMIC),
        }
    }
}
