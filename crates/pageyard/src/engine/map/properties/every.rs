//! Every property, tried with all words that there are.

use super::super::type_code::TypeCode;
use super::biases::{CPUS, GENERATIONS, goes_round};
use super::descriptors::{
    bins, claims, claims_in_place, claims_whatever_the_type, converts, isolates, leases, lies_by_its_table,
    releases, stays_legal, wholes,
};
use super::parts::{Parts, TYPES};
use super::tags::{allocates, reads_as_one};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{CpuId, Order};

/// Calls with everything that a pageblock can be.
fn each_descriptor(mut call: impl FnMut(Parts)) -> u64 {
    let mut n = 0;
    let kinds = (0..=512).map(|used| (used, false, false));
    let kinds = kinds.chain([(512, true, false), (512, false, true), (512, true, true)]);
    for (used, huge, hole) in kinds {
        for ty in TYPES.map(|m| TypeCode::of(m).bits()) {
            for below in 0..=8 {
                for (owner, flags) in
                    [0, 1, 255].into_iter().flat_map(|owner| (0..32).map(move |f| (owner, f)))
                {
                    let bit = |at: u32| flags >> at & 1 != 0;
                    let (isolated, some_zero, all_zero, skip, current) =
                        (bit(0), bit(1), bit(2), bit(3), bit(4));
                    call(Parts {
                        ty,
                        isolated,
                        used,
                        huge,
                        hole,
                        below,
                        some_zero,
                        all_zero,
                        skip,
                        current,
                        owner,
                        sequence: 0xffff_ffff,
                    });
                    n += 1;
                }
            }
        }
    }
    n
}

/// Counts to claim or to release.
const COUNTS: [u32; 11] = [1, 2, 3, 4, 8, 63, 64, 65, 256, 511, 512];

#[test]
#[cfg_attr(miri, ignore = "there is no unsafe code in it")]
fn descriptors_in_all_that_a_pageblock_can_be() {
    let tried = each_descriptor(|parts| {
        assert!(parts.is_legal());
        lies_by_its_table(parts);
        let own = parts.state().migratetype();
        for n in COUNTS {
            for m in [Migratetype::Movable, Migratetype::Unmovable, own] {
                claims(parts, n, m);
            }
            claims_whatever_the_type(parts, n);
            for run in 0..9 {
                releases(parts, n, run);
            }
        }
        for order in Order::ZERO.up_to(Order::of(8)) {
            claims_in_place(parts, order, own, false);
            claims_in_place(parts, order, own, true);
        }
        for to in TYPES {
            converts(parts, 64, to);
        }
        wholes(parts, false);
        wholes(parts, true);
        isolates(parts);
        for by in [0, 7, 254, 255] {
            leases(parts, by);
        }
        bins(parts);
        for (n, run) in [(64, Some(3)), (0, None), (512, None)] {
            stays_legal(parts, n, run);
        }
    });
    assert_eq!(tried, 516 * 5 * 9 * 3 * 32);
}

#[test]
fn every_byte_is_a_tag_and_a_live_one_keeps_its_order_and_what_was_known() {
    for byte in 0..=u8::MAX {
        reads_as_one(byte);
        Order::ZERO.up_to(Order::MAX).for_each(|order| allocates(byte, order));
    }
}

#[test]
#[cfg_attr(miri, ignore = "there is no unsafe code in it")]
fn a_bias_goes_round_by_its_diagram_and_no_generation_stays() {
    for cpu in [0, 1 << 14, CPUS - 1].map(CpuId) {
        for generation in [0, 1 << 23, GENERATIONS - 1] {
            for strangers in [0, 7, 255] {
                goes_round(cpu, generation, strangers);
            }
        }
    }
}
