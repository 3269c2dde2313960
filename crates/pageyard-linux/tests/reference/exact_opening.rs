//! A state that is taken from one allocator in every detail, and given to another.

use crate::common::{CX, normal, sound};
use pageyard_core::{BlockId, Migratetype, Order, PageAllocator, Request};
use pageyard_linux::{Config, OpeningError};

#[test]
fn a_block_that_is_held_as_a_whole_opens_as_one_and_what_overlaps_it_is_refused() {
    let config = Config::linux_6_18();
    let a = normal(4 * 512, &config);
    let held = a.alloc(&CX, &Request::new(Order::of(3), Migratetype::Unmovable)).unwrap();
    let state = a.opening();
    assert_eq!(state.zones[0].whole, [BlockId { pfn: held, order: Order::of(3) }]);
    let b = normal(4 * 512, &config);
    b.open(&state).unwrap();
    assert_eq!(b.order_of(held), Some(Order::of(3)));
    assert_eq!(b.opening(), state);
    b.free(&CX, held, Order::of(3)).unwrap();
    sound(&b);
    let mut twice = state.clone();
    twice.zones[0].whole.push(BlockId { pfn: held, order: Order::of(1) });
    let mut free = state;
    let first = free.zones[0].free[0].blocks[0];
    free.zones[0].whole = vec![BlockId { pfn: first, order: Order::of(1) }];
    for bad in [twice, free] {
        let why = normal(4 * 512, &config).open(&bad).unwrap_err();
        assert!(matches!(why, OpeningError::Twice { .. }), "{why:?}");
    }
}
