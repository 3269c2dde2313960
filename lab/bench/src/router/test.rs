//! The whole model against bounds computed by hand.

use super::run::{route, simulate};
use super::settings::RouterSettings;
use crate::router::RouterFigures;
use crate::router::count::Count;

/// A host of one port and one CPU that costs nothing, with memory and buses to spare, and 1 Gbit/s of 700-byte packets
/// at even distances; then what a test sets.
pub(crate) fn small(set: &[(&str, &str)]) -> RouterSettings {
    let free = [
        "irq",
        "rx",
        "stack",
        "qdisc",
        "tx",
        "doorbell",
        "completion",
        "xdp",
        "frame",
        "pool",
        "miss",
        "lock-hold",
        "lock-batch",
    ];
    let mut settings = RouterSettings::default();
    for cost in free {
        settings.set(&format!("{cost}-ns"), "0").unwrap();
    }
    let plain = settings.with(&[
        ("poll-ns", "1"),
        ("ports", "1"),
        ("pcie-slots", "1"),
        ("cpus", "1"),
        ("offered-gbit", "1"),
        ("arrivals", "paced"),
        ("rx-ring", "256"),
        ("tx-ring", "256"),
        ("memory-gbyte", "10000"),
        ("pcie-gbit", "2000"),
        ("other-bytes", "0"),
        ("stall-us", "0"),
        ("run-us", "20000"),
        ("warm-up-us", "1000"),
    ]);
    plain.with(set)
}

fn figures(set: &[(&str, &str)]) -> RouterFigures {
    route(&small(set)).unwrap().figures
}

#[track_caller]
fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found} is not {expected} within {within}");
}

/// One burst, and nothing else within the time.
const ONE_BURST: [(&str, &str); 6] = [
    ("arrivals", "bursts"),
    ("offered-gbit", "0.001"),
    ("run-us", "200"),
    ("warm-up-us", "0"),
    ("rx-ring", "64"),
    ("rx-frames", "0"),
];

fn dropped_of_burst(burst: u64, set: &[(&str, &str)]) -> (u64, u64) {
    let settings = small(&[&ONE_BURST, set].concat()).with(&[("burst", &burst.to_string())]);
    let all = simulate(&settings).unwrap().0.all;
    (all[Count::Offered], all[Count::DropRxRing])
}

#[test]
fn a_ring_of_64_that_nobody_polls_overflows_with_the_65th_packet() {
    // The interrupt waits longer than all lasts, so nothing is served.
    let wait = [("rx-usecs", "1000")];
    assert_eq!(dropped_of_burst(64, &wait), (64, 0));
    assert_eq!(dropped_of_burst(65, &wait), (65, 1));
    assert_eq!(dropped_of_burst(300, &wait), (300, 236));
}

#[test]
fn a_ring_overflows_when_a_burst_brings_more_than_it_holds_and_the_cpu_served() {
    // D/D/1: packets of 720 bytes at 100 Gbit/s are a = 57.6 ns apart, and the CPU takes 10 a for each. It begins with
    // the first as soon as that is there, so when packet k comes it has begun with 1 + floor((k a - a - e) / 10 a) of
    // them, where 0 < e < a is what the bus and the poll take; that is 1 + floor((k - 2) / 10). Packet k finds the ring
    // full when (k - 1) - 1 - floor((k - 2) / 10) >= 64: first with k = 73.
    let served = [("rx-usecs", "0"), ("rx-ns", "576"), ("budget", "1000")];
    assert_eq!(dropped_of_burst(72, &served), (72, 0));
    assert_eq!(dropped_of_burst(73, &served), (73, 1));
    // From then on each service makes room for one packet, every ten: of 100 more nine or ten are accepted.
    let (_, dropped) = dropped_of_burst(173, &served);
    assert!((91..=92).contains(&dropped), "{dropped}");
}

#[test]
fn the_rate_is_that_of_the_scarcest_of_wire_cpu_bus_and_memory() {
    // 700-byte packets, more than any of these carries.
    let wire = 100e9 / 8.0 / 720.0;
    // A CPU takes 1 us for each, and 1 ns more for each poll of 64.
    let cpu = 1e9 / (1000.0 + 1.0 / 64.0);
    // On the bus: the packet, a line for the descriptor, and 26 bytes for each of four pieces.
    let bus = 10e9 / 8.0 / (700.0 + 64.0 + 4.0 * 26.0);
    let cost = [("rx-ns", "400"), ("stack-ns", "400"), ("completion-ns", "200")];
    let slow_bus = [("pcie-gbit", "10")];
    let slow_memory = [("memory-gbyte", "1"), ("ddio-pct", "0")];
    let overload = [("offered-gbit", "200"), ("warm-up-us", "5000")];
    let sent = |parts: &[&[(&str, &str)]]| figures(&[&overload[..], &parts.concat()].concat()).out_pps;
    near(sent(&[]), wire, 0.005);
    near(sent(&[&cost]), cpu, 0.005);
    near(sent(&[&slow_bus]), bus, 0.005);
    near(sent(&[&cost, &slow_bus]), cpu.min(bus), 0.005);
    // In memory, without a cache for cards: 704 bytes written and 128 of header read of each packet that comes in, 704
    // read of each that goes out. A host that takes in more than it can send throws packets away on which memory was
    // spent.
    let of = figures(&[&overload[..], &slow_memory].concat());
    near(of.in_pps * (704.0 + 128.0) + of.out_pps * 704.0, 1e9, 0.005);
    assert!(of.out_pps <= 1e9 / (704.0 + 128.0 + 704.0) && of.memory_pct > 99.0, "{of:?}");
    assert!(sent(&[&cost, &slow_bus, &slow_memory]) <= cpu.min(bus).min(1e9 / 1536.0));
}

#[test]
fn what_is_too_much_for_memory_is_dropped_by_the_card_and_what_is_too_much_for_the_cpu_by_the_ring() {
    let overload = [("offered-gbit", "90"), ("nic-buffer-kib", "16")];
    let memory =
        figures(&[&overload[..], &[("memory-gbyte", "9"), ("ddio-pct", "0"), ("cpus", "16")]].concat());
    assert!(memory.drops("card") > 0.0 && memory.drops("rx_ring") == 0.0, "{memory:?}");
    let cpu = figures(&[&overload[..], &[("stack-ns", "1000")]].concat());
    assert!(cpu.drops("rx_ring") > 0.0 && cpu.drops("card") == 0.0, "{cpu:?}");
    near(cpu.out_pps + cpu.drops("rx_ring"), cpu.offered_pps, 0.001);
}

#[test]
fn a_lock_that_all_cpus_share_is_a_ceiling_and_lists_lift_it() {
    let set = |allocator| {
        let set = [("cpus", "4"), ("offered-gbit", "20"), ("lock-hold-ns", "1000"), ("allocator", allocator)];
        figures(&set)
    };
    let (buddy, pcp, pageyard) = (set("reference:buddy"), set("reference:pcp"), set("pageyard"));
    near(buddy.out_pps, 1e6, 0.01);
    assert!(buddy.zone_lock_wait_pct > 50.0);
    for free in [pcp, pageyard] {
        near(free.out_pps, 20e9 / 8.0 / 700.0, 0.01);
    }
}

#[test]
fn waits_for_a_bus_are_those_of_an_m_d_1_queue() {
    // Eight ports with Poisson arrivals share a bus: 868 bytes at 100 Gbit/s are D = 69.44 ns. At 80 % use the mean
    // wait is 0.8 D / (2 (1 - 0.8)) = 2 D. Beside that a packet takes D twice (in, and out, where the first bus has
    // spaced them), its time on a wire of 800 Gbit/s, 7.2 ns, and 1 ns for the poll that forwards it; its completion is
    // looked at when it is there.
    let d = 868.0 * 8.0 / 100.0;
    let rate = 0.8 / d; // packets a nanosecond
    let gbit = (rate * 700.0 * 8.0).to_string();
    let of = figures(&[
        ("ports", "8"),
        ("cpus", "4"),
        ("wire-gbit", "800"),
        ("pcie-gbit", "100"),
        ("arrivals", "poisson"),
        ("offered-gbit", &gbit),
        ("rx-usecs", "0"),
        ("tx-usecs", "0"),
        ("nic-buffer-kib", "1000"),
        ("rx-ring", "64"),
    ]);
    near(of.in_pps, rate * 1e9, 0.02);
    near(of.sojourn_us.unwrap() * 1000.0, 2.0 * d + 2.0 * d + 7.2 + 1.0, 0.08);
}

#[test]
fn frames_in_flight_are_the_rate_times_the_time_in_the_host() {
    for set in [
        &[("offered-gbit", "40"), ("stack-ns", "100")][..],
        &[("rx-usecs", "200"), ("path", "xdp")],
        &[("arrivals", "poisson")],
    ] {
        let of = figures(set);
        near(of.in_flight_mean, of.in_pps * of.sojourn_us.unwrap() * 1e-6, 0.01);
    }
}

#[test]
fn interrupts_come_by_time_or_by_frames_whichever_is_scarcer() {
    // A packet each microsecond; completions are looked at when packets are polled, and raise no interrupts of their
    // own.
    let million = [("offered-gbit", "5.6"), ("tx-usecs", "100000"), ("tx-frames", "0")];
    let with = |set: &[(&str, &str)]| figures(&[&million[..], set].concat());
    for usecs in [25.0, 100.0] {
        let of = with(&[("rx-usecs", &usecs.to_string()), ("rx-frames", "0")]);
        // The timer begins with the first packet behind a poll, which comes within a microsecond.
        let range = 1e6 / (usecs + 1.1)..=1e6 / usecs;
        assert!(range.contains(&of.interrupts_per_s), "{} is not in {range:?}", of.interrupts_per_s);
    }
    let frames = with(&[("rx-usecs", "10000"), ("rx-frames", "32")]);
    near(frames.interrupts_per_s, 1e6 / 32.0, 0.005);
    near(frames.packets_per_interrupt.unwrap(), 32.0, 0.005);
    let busy = with(&[("stack-ns", "2000"), ("rx-usecs", "10")]);
    assert!(busy.interrupts_per_s < 100.0, "a CPU that never catches up polls on: {}", busy.interrupts_per_s);
    near(busy.packets_per_poll.unwrap(), 64.0, 0.01);
}

#[test]
fn a_doorbell_is_rung_once_for_a_group() {
    // Interrupts come with every 32nd packet, and completions raise none of their own.
    let load = [
        ("offered-gbit", "20"),
        ("rx-usecs", "100"),
        ("rx-frames", "32"),
        ("tx-usecs", "100000"),
        ("tx-frames", "0"),
    ];
    let with = |set: &[(&str, &str)]| figures(&[&load[..], set].concat());
    assert_eq!(with(&[]).packets_per_doorbell, Some(1.0), "nothing waits in the qdisc");
    near(with(&[("path", "xdp"), ("xdp-batch", "16")]).packets_per_doorbell.unwrap(), 16.0, 0.01);
    near(with(&[("path", "xdp"), ("xdp-batch", "4")]).packets_per_doorbell.unwrap(), 4.0, 0.01);
    // Polls of 256 packets meet rings of 64: the rest waits in the qdisc, and leaves it in groups.
    for bulk in [1.0, 8.0, 64.0] {
        let backlog = [
            ("ports", "2"),
            ("offered-gbit", "60"),
            ("stack-ns", "400"),
            ("budget", "256"),
            ("tx-ring", "64"),
            ("qdisc-bulk", &bulk.to_string()),
        ];
        near(with(&backlog).packets_per_doorbell.unwrap(), bulk, 0.05);
    }
}

#[test]
fn a_vlan_drops_at_its_own_limit_and_a_qdisc_at_its() {
    let backlog = [
        ("ports", "2"),
        ("offered-gbit", "60"),
        ("stack-ns", "400"),
        ("budget", "256"),
        ("tx-ring", "64"),
        ("vlans", "1"),
    ];
    let with = |set: &[(&str, &str)]| figures(&[&backlog[..], set].concat());
    let vlan = with(&[("vlan-limit", "10")]);
    assert!(vlan.drops("vlan") > 0.0 && vlan.drops("qdisc") == 0.0);
    let qdisc = with(&[("vlan-limit", "0"), ("qdisc-limit", "10")]);
    assert!(qdisc.drops("qdisc") > 0.0 && qdisc.drops("vlan") == 0.0);
    let xdp = with(&[("path", "xdp"), ("xdp-ns", "400")]);
    assert!(xdp.drops("tx_ring") > 0.0 && xdp.drops("qdisc") == 0.0, "XDP has no qdisc");
}

#[test]
fn memory_carries_what_leaves_the_cache_and_nothing_of_what_stays() {
    // 256 descriptors of 704 bytes are 176 KiB: they stay in a cache of 1 MiB, and leave one of 64 KiB.
    let with = |llc| {
        figures(&[("llc-kib", llc), ("ddio-pct", "100"), ("other-bytes", "64"), ("warm-up-us", "20000")])
    };
    let (warm, cold) = (with("1024"), with("64"));
    near(warm.memory_bytes_per_packet.unwrap(), 64.0, 0.01);
    near(cold.memory_bytes_per_packet.unwrap(), 64.0 + 704.0, 0.01);
    near(cold.memory_written_gbyte, cold.in_pps * 704.0 * 1e-9, 0.01);
    assert_eq!(cold.cold_headers_pct, Some(0.0), "a header is read soon after it came");
}

#[test]
fn packets_and_frames_are_conserved_whatever_happens_to_them() {
    let cases: &[&[(&str, &str)]] = &[
        &[("offered-gbit", "100"), ("stack-ns", "500")],
        &[("path", "xdp"), ("tx-ring", "64"), ("offered-gbit", "80")],
        &[
            ("ports", "3"),
            ("cpus", "5"),
            ("arrivals", "bursts"),
            ("mix", "imix"),
            ("skew-pct", "30"),
            ("stack-ns", "300"),
        ],
        &[("allocator", "pageyard"), ("recycling", "pool"), ("pool-frames", "10"), ("arrivals", "poisson")],
        &[("allocator", "reference:buddy"), ("rx-coalescing", "adaptive"), ("tx-coalescing", "adaptive")],
        &[("stall-us", "400"), ("stall-every-us", "1000"), ("offered-gbit", "30"), ("rx-ring", "64")],
    ];
    for set in cases {
        // Frames are checked when the host gives them all back.
        let of = simulate(&small(set)).unwrap().0;
        let all = &of.all;
        assert!(all[Count::Offered] > 1000, "{set:?}");
        assert_eq!(all[Count::Offered], all[Count::Completed] + all.dropped() + of.left, "{set:?}");
    }
}

#[test]
fn without_frames_packets_are_dropped_and_service_goes_on_when_frames_return() {
    // The ring alone takes almost all of the machine; what bursts bring has to wait for frames.
    for allocator in ["reference:buddy", "reference:pcp", "pageyard"] {
        let of = figures(&[
            ("allocator", allocator),
            ("frames", "4096"),
            ("rx-ring", "4096"),
            ("tx-ring", "4096"),
            ("arrivals", "bursts"),
            ("burst", "4000"),
            ("offered-gbit", "20"),
            ("rx-usecs", "500"),
            ("rx-frames", "0"),
            ("tx-usecs", "500"),
            ("tx-frames", "0"),
            ("stack-ns", "50"),
        ]);
        assert!(of.refused_per_s > 0.0 && of.drops("no_frame") > 0.0, "{allocator}: {of:?}");
        assert!(of.out_pps > of.offered_pps / 4.0, "{allocator}: {of:?}");
        near(of.out_pps + of.drops("no_frame"), of.offered_pps, 0.2);
    }
}

#[test]
fn recycled_frames_come_from_the_pool() {
    let with =
        |recycling, limit| figures(&[("recycling", recycling), ("pool-frames", limit)]).recycled_pct.unwrap();
    assert_eq!(with("none", "1024"), 0.0);
    assert!(with("pool", "1024") > 99.0);
    assert!(with("pool", "0") == 0.0, "a pool without room keeps nothing");
}

#[test]
fn one_seed_is_one_result_and_another_seed_another() {
    let settings =
        small(&[("arrivals", "bursts"), ("cpus", "4"), ("ports", "2"), ("mix", "imix"), ("stack-ns", "200")]);
    let [first, again] = [&settings, &settings].map(|s| route(s).unwrap().figures);
    assert_eq!(first, again);
    assert_ne!(first, route(&settings.with(&[("seed", "2")])).unwrap().figures);
    for allocator in ["reference:buddy", "pageyard"] {
        // Other frames, other warmth; the same packets.
        let other = route(&settings.with(&[("allocator", allocator)])).unwrap().figures;
        assert_eq!(other.offered_pps, first.offered_pps);
    }
}

#[test]
fn a_cpu_is_as_busy_as_its_packets_ask() {
    // 1 Gbit/s of 700-byte packets at 1 us each: 17.9 % of a CPU, and some polls.
    let of = figures(&[("stack-ns", "1000")]);
    near(of.cpu_pct_mean, 100.0 * 1e9 / 8.0 / 700.0 * 1e-6, 0.01);
    assert_eq!((of.cpu_pct.len(), of.cpu_pct[0]), (1, of.cpu_pct_max));
}
