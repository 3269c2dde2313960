//! Hand-written cases, each a function over [`Build`](crate::Build); [`suite!`](crate::suite!) makes tests of them.

pub mod bulk;
pub mod concurrent;
pub mod exhaust;
pub mod fallback;
pub mod frees;
pub mod geometry;
pub mod opening;
pub mod races;
pub mod requests;
pub mod split;
pub mod stamps;
mod steps;

pub use steps::{CPU0, any, fill, free_where, must_alloc, of_type, sound};

/// Calls the macro `$then` with `$args` and every case as `module::case`.
#[doc(hidden)]
#[macro_export]
macro_rules! __with_cases {
    ($then:ident!($($args:tt)*)) => {
        $crate::$then! { $($args)*
            geometry::no_frames_are_refused,
            geometry::corner_maps_work,
            geometry::order_0_from_one_frame,
            geometry::blocks_do_not_cross_holes_or_zones,
            exhaust::each_order_to_the_last_block,
            exhaust::orders_above_a_pageblock,
            exhaust::freeing_in_any_order_merges_everything,
            exhaust::remote_lists_come_back,
            exhaust::reserves_are_kept_from_plain_requests,
            frees::every_wrong_free_is_named_and_changes_nothing,
            frees::frames_that_were_never_allocated,
            frees::each_frame_inside_a_block,
            frees::a_frame_that_came_back_may_be_freed_again,
            requests::bad_requests_are_named_and_change_nothing,
            requests::the_highest_zone_is_respected,
            requests::node_masks_are_respected,
            requests::this_node_is_one_node,
            requests::unknown_cpus_are_refused,
            bulk::bulk_calls_equal_single_calls,
            bulk::a_bulk_allocation_stops_where_memory_ends,
            bulk::a_bulk_free_names_each_wrong_frame,
            bulk::empty_bulk_calls_do_nothing,
            split::parts_freed_in_any_order_merge,
            split::every_pair_of_orders,
            split::wrong_splits_are_named_and_change_nothing,
            split::a_split_block_is_no_block,
            opening::every_order_can_be_claimed,
            opening::claims_of_what_is_taken_or_absent,
            opening::an_opening_state_is_claimed_and_freed_in_parts,
            fallback::one_type_may_fill_memory,
            fallback::a_type_steals_when_its_own_blocks_are_gone,
            fallback::types_alternate_under_pressure,
            races::a_double_free_has_one_winner,
            races::a_double_split_has_one_winner,
            races::free_against_split_has_one_winner,
            races::a_claim_has_at_most_one_winner,
            concurrent::no_block_has_two_owners,
            concurrent::blocks_change_hands,
            concurrent::huge_and_small_blocks_together,
            concurrent::bulk_calls_while_lists_drain,
            concurrent::near_the_wall,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($build:expr; $($module:ident::$case:ident,)*) => {
        $(#[test]
        fn $case() {
            $crate::suite::$module::$case(&$build);
        })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __list {
    ($type:ident; $($module:ident::$case:ident,)*) => {
        [$((stringify!($case), $crate::suite::$module::$case::<$type> as fn(&$type)),)*]
    };
}

/// A case: its name and the function that runs it.
pub type Case<B> = (&'static str, fn(&B));

/// Returns every hand-written case.
#[must_use]
pub fn cases<B: crate::engine::Build + Sync>() -> Vec<Case<B>> {
    crate::__with_cases!(__list!(B;)).to_vec()
}

/// Expands to one test for each hand-written case, and one for random operations, of the engine that `$build` makes.
///
/// ```text
/// mod linux_6_18 {
///     pageyard_testkit::suite!(super::Linux618);
/// }
/// ```
#[macro_export]
macro_rules! suite {
    ($build:expr) => {
        $crate::suite!($build, random_ops = 10_000_000);
    };
    ($build:expr, random_ops = $ops:expr) => {
        $crate::__with_cases!(__tests!($build;));

        #[test]
        fn random_operations() {
            $crate::random_suite_from_env(&$build, $ops);
        }
    };
}
