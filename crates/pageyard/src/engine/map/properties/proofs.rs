//! Harnesses for Kani: every property, of all words and all arguments.

use super::super::descriptor::BlockState;
use super::parts::{Parts, TYPES};
use super::{biases, descriptors, tags};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{CpuId, Order};

/// A descriptor that a pageblock can have.
fn any_descriptor() -> Parts {
    let mut parts = Parts::of(BlockState::from_bits(kani::any()));
    // Written instead of assumed, so that random values reach these states too.
    if parts.huge || parts.hole {
        parts.used = 512;
    }
    kani::assume(parts.is_legal());
    parts
}

fn any_type() -> Migratetype {
    let index = usize::from(kani::any::<u8>());
    kani::assume(index < TYPES.len());
    TYPES[index]
}

fn any_order(limit: Order) -> Order {
    let order = kani::any();
    kani::assume(order <= limit.get());
    Order::of(order)
}

/// A count of frames that a pageblock has.
fn any_count() -> u32 {
    let n = u32::from(kani::any::<u16>());
    kani::assume(n <= 512);
    n
}

/// The largest run of a count of frames, or none where they are free as a whole or none is.
fn any_run_of(n: u32) -> Option<u8> {
    let run = any_order(Order::of(8)).get();
    let is_run = kani::any();
    kani::assume(is_run || n == 0 || n == 512);
    is_run.then_some(run)
}

#[kani::proof]
#[kani::unwind(6)]
fn descriptors_lie_by_their_table() {
    descriptors::lies_by_its_table(any_descriptor());
}

#[kani::proof]
#[kani::unwind(6)]
fn descriptors_claim() {
    descriptors::claims(any_descriptor(), any_count(), any_type());
}

#[kani::proof]
#[kani::unwind(6)]
fn descriptors_claim_whatever_the_type() {
    descriptors::claims_whatever_the_type(any_descriptor(), any_count());
}

#[kani::proof]
#[kani::unwind(6)]
fn descriptors_claim_in_place() {
    let (parts, order) = (any_descriptor(), any_order(Order::of(8)));
    descriptors::claims_in_place(parts, order, any_type(), kani::any());
}

#[kani::proof]
#[kani::unwind(6)]
fn descriptors_convert() {
    descriptors::converts(any_descriptor(), any_count(), any_type());
}

#[kani::proof]
#[kani::unwind(6)]
fn descriptors_release() {
    descriptors::releases(any_descriptor(), any_count(), any_order(Order::of(8)).get());
}

#[kani::proof]
#[kani::unwind(6)]
fn descriptors_are_claimed_whole() {
    descriptors::wholes(any_descriptor(), kani::any());
}

#[kani::proof]
#[kani::unwind(6)]
fn descriptors_isolate() {
    descriptors::isolates(any_descriptor());
}

#[kani::proof]
#[kani::unwind(6)]
fn descriptors_lease() {
    descriptors::leases(any_descriptor(), kani::any());
}

#[kani::proof]
#[kani::unwind(6)]
fn descriptors_have_bins() {
    descriptors::bins(any_descriptor());
}

#[kani::proof]
#[kani::unwind(18)]
fn descriptors_stay_legal() {
    let n = any_count();
    descriptors::stays_legal(any_descriptor(), n, any_run_of(n));
}

#[kani::proof]
fn tags_read_as_one() {
    tags::reads_as_one(kani::any());
}

#[kani::proof]
fn tags_allocate() {
    tags::allocates(kani::any(), any_order(Order::MAX));
}

#[kani::proof]
#[kani::unwind(6)]
fn biases_go_round() {
    let (cpu, generation) = (kani::any(), kani::any());
    kani::assume(cpu < biases::CPUS && generation < biases::GENERATIONS);
    biases::goes_round(CpuId(cpu), generation, kani::any());
}
