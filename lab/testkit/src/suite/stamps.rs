//! Stamps: a word a frame that says who owns it, so that a second owner is caught at once.

use pageyard::{BlockId, MemoryMap, PageAllocator, Pfn};
use std::sync::atomic::{AtomicU32, Ordering};

/// Who owns each frame: 0 is unowned.
pub struct Stamps {
    zones: Vec<(Pfn, Vec<AtomicU32>)>,
}

impl Stamps {
    /// Makes stamps for every frame that the map spans.
    #[must_use]
    pub fn new(map: &MemoryMap<'_>) -> Stamps {
        let words = |frames: u64| (0..frames).map(|_| AtomicU32::new(0)).collect();
        Stamps { zones: map.zones().map(|(_, z)| (z.start, words(z.spanned.0))).collect() }
    }

    fn words(&self, block: BlockId) -> &[AtomicU32] {
        let frames = block.order.frames().0 as usize;
        let zone = self.zones.iter().find_map(|(start, words)| {
            let at = block.pfn.0.checked_sub(start.0)? as usize;
            words.get(at..at.checked_add(frames)?)
        });
        zone.unwrap_or_else(|| panic!("{block:?} was granted and is in no zone"))
    }

    fn change(&self, block: BlockId, from: u32, to: u32) {
        for (n, word) in self.words(block).iter().enumerate() {
            // Relaxed on purpose: if the engine's own ordering is too weak, nothing here must repair it.
            if let Err(other) = word.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed) {
                panic!(
                    "frame {} of {block:?}: owned by {other}, expected {from}, becoming {to}",
                    block.pfn.0 + n as u64
                );
            }
        }
    }

    /// Marks a block that was just allocated as `owner`'s.
    ///
    /// # Panics
    /// When a frame of it has an owner.
    pub fn own(&self, block: BlockId, owner: u32) {
        assert!(block.pfn.is_aligned(block.order), "{block:?} is misaligned");
        self.change(block, 0, owner);
    }

    /// Hands a block from one owner to the next.
    ///
    /// # Panics
    /// When another owner has a frame of it.
    pub fn hand(&self, block: BlockId, from: u32, to: u32) {
        self.change(block, from, to);
    }

    /// Marks a block that is about to be freed as unowned.
    ///
    /// # Panics
    /// When another owner has a frame of it.
    pub fn disown(&self, block: BlockId, owner: u32) {
        self.change(block, owner, 0);
    }
}

/// Audits the engine while blocks are held, and compares the sum.
///
/// # Panics
/// When the census does not add up.
pub fn audit_holding<E: PageAllocator>(engine: &E, held: u64) {
    let census = engine.audit().unwrap_or_else(|e| panic!("audit: {e}"));
    assert!(census.is_conserved(), "{census:?}");
    assert_eq!(census.allocated.0, held, "frames held, and {census:?}");
}
