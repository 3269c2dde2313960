//! The operations of a storm, by kind, each of which can be turned off.

/// A kind of operation, or something that operations do besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Allocates a block of at most a pageblock.
    Alloc,
    /// Frees a block.
    Free,
    /// Allocates up to 70 blocks of one order in one call.
    Bulk,
    /// Frees up to 70 single frames in one call.
    BulkFree,
    /// Frees a block that holds zeros, and asks whether blocks do.
    Zeroed,
    /// Splits a block.
    Split,
    /// Claims a block by its number.
    Claim,
    /// Allocates a block of order 10 to 18.
    Huge,
    /// Hands single frames to the shared owner, from which they can be moved and reclaimed.
    Movable,
    /// Frees, splits and claims what must be refused.
    Wrong,
    /// Names a CPU that does not exist.
    NoSuchCpu,
    /// Drains lists.
    Drain,
    /// Isolates a pageblock, checks that none of it is handed out, and restores it.
    Isolate,
    /// Leases a pageblock, in rounds where none goes offline.
    Lease,
    /// Compacts a zone.
    Compact,
    /// Allocates with reclaim and compaction.
    Direct,
    /// Runs the background reclaimer and compactor.
    Background,
    /// Allocates a number of frames that is no power of two.
    Exact,
    /// Allocates a range that it names.
    Contig,
    /// Allocates from a contiguous area, which one round in two has.
    Cma,
    /// Takes pageblocks offline, and brings them back, in one round of two; none is leased there.
    Offline,
    /// Frees a block in two parts.
    FreeParts,
    /// Reads statistics.
    Read,
    /// Besides: several threads free or split one block.
    Contest,
    /// Besides: migrations fail, and callbacks free and allocate.
    Refuse,
    /// In addition: callbacks panic, and so do the drops of what compaction isolated.
    Panic,
    /// Besides: signal handlers allocate and free.
    Signals,
    /// Besides: requests name zones and nodes.
    Nodes,
    /// Besides: some rounds have an observer, or frames that are cleared: requests for zeros, `init_on_alloc`,
    /// `init_on_free`.
    Watched,
}

impl Kind {
    /// Every kind with its name and its share of a thousand operations; zero for what happens in addition.
    pub const ALL: [(Kind, &'static str, u32); 29] = [
        (Kind::Alloc, "alloc", 330),
        (Kind::Free, "free", 300),
        (Kind::Bulk, "bulk", 40),
        (Kind::BulkFree, "bulk-free", 40),
        (Kind::Zeroed, "zeroed", 40),
        (Kind::Split, "split", 30),
        (Kind::Claim, "claim", 24),
        (Kind::Huge, "huge", 5),
        (Kind::Movable, "movable", 120),
        (Kind::Wrong, "wrong", 50),
        (Kind::NoSuchCpu, "no-such-cpu", 8),
        (Kind::Drain, "drain", 4),
        (Kind::Isolate, "isolate", 16),
        (Kind::Lease, "lease", 8),
        (Kind::Compact, "compact", 3),
        (Kind::Direct, "direct", 8),
        (Kind::Background, "background", 2),
        (Kind::Exact, "exact", 6),
        (Kind::Contig, "contig", 10),
        (Kind::Cma, "cma", 10),
        (Kind::Offline, "offline", 12),
        (Kind::FreeParts, "free-parts", 8),
        (Kind::Read, "read", 2),
        (Kind::Contest, "contest", 0),
        (Kind::Refuse, "refuse", 0),
        (Kind::Panic, "panic", 0),
        (Kind::Signals, "signals", 0),
        (Kind::Nodes, "nodes", 0),
        (Kind::Watched, "watched", 0),
    ];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Kind::ALL[self as usize].1
    }

    /// Returns the kind of a number.
    pub(super) fn of(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number)).map(|k| k.0)
    }

    /// Returns whether it takes memory, so that it can give a block that was just freed a new owner.
    pub(super) fn takes(self) -> bool {
        matches!(
            self,
            Kind::Alloc
                | Kind::Bulk
                | Kind::Claim
                | Kind::Huge
                | Kind::Movable
                | Kind::Compact
                | Kind::Direct
                | Kind::Background
                | Kind::Exact
                | Kind::Contig
                | Kind::Cma
                | Kind::Offline
        )
    }
}

/// A set of kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix(u32);

impl Mix {
    /// Every kind.
    pub const ALL: Mix = Mix((1 << Kind::ALL.len()) - 1);

    /// Returns whether a kind is in it.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        self.0 >> kind as u8 & 1 != 0
    }

    /// Leaves a kind out.
    #[must_use]
    pub fn without(self, kind: Kind) -> Mix {
        Mix(self.0 & !(1 << kind as u8))
    }

    /// Reads names, separated by commas.
    ///
    /// # Errors
    /// A sentence that names the unknown kind.
    pub fn parse(names: &str) -> Result<Mix, String> {
        let mut mix = Mix(0);
        for name in names.split(',').map(str::trim).filter(|n| !n.is_empty()) {
            let Some((kind, ..)) = Kind::ALL.iter().find(|k| k.1 == name) else {
                let all: Vec<&str> = Kind::ALL.iter().map(|k| k.1).collect();
                return Err(format!("`{name}` is no kind of operation; there are {}", all.join(", ")));
            };
            mix.0 |= 1 << *kind as u8;
        }
        Ok(mix)
    }

    /// Returns the kinds of this one that are not in another.
    #[must_use]
    pub fn minus(self, other: Mix) -> Mix {
        Mix(self.0 & !other.0)
    }

    /// Picks an operation by its share; `taking` says whether it may take memory.
    pub(super) fn pick(self, rng: &mut fastrand::Rng, taking: bool) -> Option<Kind> {
        let may = |k: &&(Kind, &str, u32)| self.has(k.0) && (taking || !k.0.takes());
        let sum: u32 = Kind::ALL.iter().filter(may).map(|k| k.2).sum();
        if sum == 0 {
            return None;
        }
        let mut at = rng.u32(..sum);
        for (kind, _, share) in Kind::ALL.iter().filter(may) {
            if at < *share {
                return Some(*kind);
            }
            at -= share;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_as_they_are_listed() {
        for (n, (kind, ..)) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, n);
        }
    }

    #[test]
    fn a_mix_is_read_by_name_and_an_unknown_name_is_refused() {
        let mix = Mix::parse("alloc, free").unwrap();
        assert!(mix.has(Kind::Alloc) && mix.has(Kind::Free) && !mix.has(Kind::Bulk));
        assert!(Mix::parse("alloc,frees").unwrap_err().contains("`frees`"));
        assert!(!Mix::ALL.minus(mix).has(Kind::Free));
    }

    #[test]
    fn what_takes_memory_is_not_picked_where_nothing_may() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            assert!(!Mix::ALL.pick(&mut rng, false).unwrap().takes());
        }
    }
}
