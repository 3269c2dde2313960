//! The slow path and compaction of the reference: the common suite, and what Linux's order of things means by hand.

use crate::common::normal;
use pageyard_core::reclaim::Priority;
use pageyard_linux::compaction::{Knobs, Moves, Scope, Skip};
use pageyard_linux::{Config, LinuxAllocator};
use pageyard_testkit::pressure::{blocks_of_several_orders_lose_nothing, pressure_suite};
use pageyard_testkit::slow_order::{ASYNC, GivesBack, LIGHT, RECLAIM, Ways, slow_path_order};

fn built(config: &Config) -> impl Fn(u64) -> LinuxAllocator + '_ {
    // Two CPUs, one of which the suite's other threads use.
    move |frames| normal(frames, &Config { cpus: 2, ..config.clone() })
}

#[test]
fn the_suite_passes_on_linux_4_6() {
    pressure_suite(built(&Config::linux_4_6()));
}

#[test]
fn the_suite_passes_on_linux_6_1() {
    pressure_suite(built(&Config::linux_6_1()));
}

#[test]
fn the_suite_passes_on_linux_6_18() {
    pressure_suite(built(&Config::linux_6_18()));
}

#[test]
fn the_suite_passes_on_linux_7_2() {
    pressure_suite(built(&Config::linux_7_2()));
}

#[test]
fn the_suite_passes_on_linux_7_3() {
    pressure_suite(built(&Config::linux_7_3()));
}

#[test]
fn the_suite_passes_with_every_technique_on() {
    let mut config = Config::linux_6_1();
    config.compaction = Knobs {
        skip_on_failure: Scope::Direct,
        direct_free: Scope::Direct,
        release_leftovers: true,
        migrate_ignores_free_scanner: true,
        leases: true,
        ..config.compaction
    };
    pressure_suite(built(&config));
}

#[test]
fn the_suite_passes_with_the_searches_of_6_18_and_leases() {
    let mut config = Config::linux_6_18();
    config.compaction.leases = true;
    pressure_suite(built(&config));
}

#[test]
fn blocks_of_several_orders_move_in_6_12_and_not_in_6_1() {
    assert_eq!(blocks_of_several_orders_lose_nothing(&built(&Config::linux_6_1())), 0);
    let moved = blocks_of_several_orders_lose_nothing(&built(&Config::linux_6_12()));
    assert!(moved > 100, "{moved}");
    // Each way to move works with them, and with leases.
    for moves in [Moves::Upwards, Moves::Downwards] {
        let mut config = Config::linux_6_12();
        config.compaction = Knobs { moves, leases: true, ..config.compaction };
        let moved = blocks_of_several_orders_lose_nothing(&built(&config));
        assert!(moved > 100, "{moves:?}: {moved}");
    }
}

/// Linux's order of 4.7 and later.
const BOUNDED: Ways = Ways {
    costly: &[ASYNC, RECLAIM, LIGHT],
    noretry: &[ASYNC, RECLAIM, ASYNC],
    // A compaction that saw everything will not do better the next time.
    retry_mayfail: &[ASYNC, RECLAIM, LIGHT],
    starved: [&[RECLAIM], &[], &[RECLAIM, RECLAIM]],
    small_movable: RECLAIM,
    in_vain: Priority::HARDEST,
    gives_back: GivesBack::Last,
};

/// A preset whose compactions look at every pageblock again; otherwise one would hide the next from the owner.
///
/// Asynchronous compaction for a request that is not movable looks into movable pageblocks as well, where the owner's
/// frames are: since 4.12 it does not, and the owner would not learn of it.
fn without_hints(mut config: Config) -> Config {
    config.compaction.skip = Skip::Nothing;
    config.compaction.async_same_type = false;
    config
}

#[test]
fn requests_wait_in_the_order_of_linux_6_18() {
    slow_path_order(built(&without_hints(Config::linux_6_18())), &BOUNDED);
}

#[test]
fn requests_wait_in_the_order_of_linux_7_2() {
    // Since 7.0 a request with NORETRY reclaims once even if nothing could be compacted first.
    let [all, _, patient] = BOUNDED.starved;
    let ways = Ways { starved: [all, &[RECLAIM], patient], ..BOUNDED };
    slow_path_order(built(&without_hints(Config::linux_7_2())), &ways);
}

#[test]
fn requests_wait_in_the_order_of_linux_4_10() {
    // Until 4.11 a node with nothing to reclaim is looked at once, softly. Until 6.6 a request that hopes for nothing
    // gets nothing of the reserve: only one that reclaimed 16 times in vain.
    let ways = Ways { in_vain: Priority::START, gives_back: GivesBack::Never, ..BOUNDED };
    slow_path_order(built(&without_hints(Config::linux_4_10())), &ways);
}

#[test]
fn requests_wait_in_the_order_of_linux_4_6() {
    // Compaction comes first whatever is asked for, and a last one in the end even for those who do not retry. Patience
    // ends when as much was reclaimed as was asked for.
    let ways = Ways {
        noretry: &[ASYNC, RECLAIM, LIGHT],
        starved: [&[RECLAIM]; 3],
        small_movable: ASYNC,
        in_vain: Priority::START,
        gives_back: GivesBack::Never,
        ..BOUNDED
    };
    slow_path_order(built(&without_hints(Config::linux_4_6())), &ways);
}
