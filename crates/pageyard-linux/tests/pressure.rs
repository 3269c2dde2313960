//! The slow path and compaction of the reference: the common suite, and what Linux's order of things means by hand.

mod common;

use common::normal;
use pageyard::compaction::{Knobs, Scope};
use pageyard_linux::{Config, LinuxAllocator};
use pageyard_testkit::pressure::pressure_suite;

fn built(config: &Config) -> impl Fn(u64) -> LinuxAllocator + '_ {
    // Two CPUs, one of which the suite's other threads use.
    move |frames| normal(frames, &Config { cpus: 2, ..config.clone() })
}

#[test]
fn the_suite_passes_on_linux_4_6() {
    pressure_suite(built(&Config::linux_4_6()));
}

#[test]
fn the_suite_passes_on_linux_6_18() {
    pressure_suite(built(&Config::linux_6_18()));
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
