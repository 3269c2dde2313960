//! Claims that prefer superpageblocks which hold unmovable contents already, worked by hand: a zone of superpageblocks
//! of four pageblocks, which is two blocks of order 10.

use crate::common::{CX, bare, normal, pageblocks, request, sound, take};
use pageyard_core::Migratetype::{HighAtomic, Movable, Reclaimable, Unmovable};
use pageyard_core::{Migratetype, Order, PageAllocator, PageblockId, Pfn};
use pageyard_linux::{Config, LinuxAllocator};

/// Four pageblocks, in frames.
const SUPER: u64 = 4 * 512;

fn machine(superpageblock: &str, supers: u64) -> LinuxAllocator {
    let mut config = bare(Config::linux_7_2());
    config.set("superpageblock", superpageblock).unwrap();
    normal(supers * SUPER, &config)
}

/// Takes a pageblock's worth of one type: a claim where it has no pageblock left.
fn claim(a: &LinuxAllocator, m: Migratetype) -> Pfn {
    a.alloc(&CX, &request(9, m)).unwrap()
}

fn super_of(pfn: Pfn) -> u64 {
    pfn.0 / SUPER
}

#[test]
fn a_claim_takes_a_block_in_a_tainted_superpageblock_among_the_first_eight() {
    // Which superpageblock the second claim takes, where one pageblock of superpageblock `tainted` holds `what`.
    let second = |superpageblock: &str, tainted: u64, what: Migratetype, m: Migratetype| {
        let a = machine(superpageblock, 8);
        // Its last pageblock is taken by its owner, so it has one block of order 10 left.
        a.set_pageblock_migratetype(PageblockId(tainted * 4 + 3), what);
        let got = take(&a, 10, m);
        sound(&a);
        super_of(got)
    };
    // Blocks lie in ascending order, two of each superpageblock: those of the first four are looked at.
    for tainted in [1, 2, 3] {
        for what in [Unmovable, Reclaimable, HighAtomic] {
            for m in [Unmovable, Reclaimable] {
                assert_eq!(second("4", tainted, what, m), tainted, "{what:?} for {m:?}");
            }
        }
    }
    // What the owner took is one block less of its superpageblock: those of the fifth are the ninth and the tenth.
    assert_eq!(second("4", 4, Unmovable, Unmovable), 0, "the ninth block is not looked at");
    assert_eq!(second("4", 2, Migratetype::Isolate, Unmovable), 0, "what is isolated taints nothing");
    assert_eq!(second("0", 2, Unmovable, Unmovable), 0);
    assert_eq!(second("1", 2, Unmovable, Unmovable), 0, "that pageblock alone is tainted");
    assert_eq!(
        second("8", 3, Unmovable, Unmovable),
        2,
        "two at a time: the third is tainted with the fourth"
    );
}

#[test]
fn claims_stay_together_where_movable_blocks_lie_in_between() {
    let claims = |superpageblock: &str| {
        let a = machine(superpageblock, 8);
        // Every second pageblock is held, and the list of the others begins in another superpageblock each time.
        let held: Vec<Pfn> = (0..32).map(|_| claim(&a, Movable)).collect();
        let free = [0, 4, 8, 12, 2, 6, 10, 14].into_iter().rev();
        free.for_each(|n| a.free(&CX, held[n], Order::of(9)).unwrap());
        a.drain(pageyard_core::CpuSet::All);
        let before = pageblocks(&a, Unmovable);
        let got: Vec<u64> = (0..4).map(|_| super_of(claim(&a, Unmovable))).collect();
        sound(&a);
        (got, pageblocks(&a, Unmovable) - before, a.tainted(4))
    };
    let (got, unmovable, tainted) = claims("4");
    assert_eq!((got.len(), unmovable, tainted), (4, 4, (2, 8)), "{got:?}");
    let (got, unmovable, tainted) = claims("0");
    assert_eq!((got.len(), unmovable, tainted), (4, 4, (4, 8)), "{got:?}");
}
