//! A storm of signals whose handlers allocate and free while every thread does too: under each protection of the
//! per-CPU lists nothing is lost and no frame has two owners. The load and its rules: `pageyard_testkit::storm`.
#![allow(unsafe_code, reason = "lists without a lock")]

mod common;

use pageyard_core::{MemoryMap, PageAllocator};
use pageyard_linux::{Config, LinuxAllocator, MAX_PAGE_ORDER, irq};
use pageyard_testkit::storm::{self, Make, Mix, Naming, Plan, Signals, Variant};
use std::time::Duration;

/// Allocations by handlers, for each way of protecting the lists: more than a million together.
const STORM: u64 = 150_000;

#[test]
fn handlers_allocate_while_threads_do_and_nothing_is_lost() {
    assert!(irq::on_deferred(storm::interrupt));
    for (protection, interrupts) in [
        ("irqsave", "signal_mask"),
        ("irqsave", "soft_flag"),
        ("irqsave", "flags_register"),
        ("preempt_only", "signal_mask"),
        ("preempt_only", "soft_flag"),
        ("soft_irq_off", "soft_flag"),
        ("soft_irq_allowed", "soft_flag"),
        ("trylock", "signal_mask"),
        ("trylock", "soft_flag"),
    ] {
        storm(protection, interrupts);
    }
}

fn storm(protection: &str, interrupts: &str) {
    let mut config = common::bare(Config::linux_6_1());
    config.set("pcp_protection", protection).unwrap();
    config.set("interrupts", interrupts).unwrap();
    let make = |map: &MemoryMap<'_>, cpus| -> Box<dyn PageAllocator + Send> {
        let config = Config { cpus, ..config.clone() };
        // SAFETY: the storm's threads and their handlers name their own CPU only, none of their requests waits, and
        //         everything else is asked while no other call runs.
        Box::new(unsafe { LinuxAllocator::by_cpu(map, &config) }.unwrap())
    };
    let mix = Mix::parse("alloc,free,bulk,bulk-free,split,drain,contest,signals").unwrap();
    let stretches = Some((10_000, 5));
    let plan = Plan { time: Duration::from_secs(120), threads: 2, mix, stretches, ..Plan::default() };
    let report = storm::run(
        &plan,
        &Variant {
            naming: Naming::Own,
            waits: false,
            signals: Some(Signals { period: Duration::from_micros(200), soft: true, enter: irq::enter }),
            enough: &|report, _| report.by_handlers >= STORM,
            ..Variant::other("linux", Make::Other(&make), MAX_PAGE_ORDER)
        },
    );
    let what = format!("{protection}, {interrupts}");
    println!("{what}: {report}");
    assert!(report.faults.is_empty(), "{what}: {}", report.faults[0]);
    assert!(report.by_handlers >= STORM, "{what}: the storm was too weak: {report}");
    assert!(report.handlers.iter().all(|ran| *ran > 0), "{what}: both kinds of handlers ran: {report}");
}
