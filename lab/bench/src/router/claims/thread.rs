//! Claims about routers from the thread about fragment frees (November 2018).
//!
//! P. Staszewski describes his router, A. Duyck reviews it. Conditions and ranges were committed before the results
//! that the study prints. Three claims were added later, knowing what a sweep of rings had shown: rings of 128, the
//! shorter qdisc, and counters.

use super::super::report::RouterFigures;
use super::super::settings::RouterSettings;
use super::super::sweep::{KEEPS, ring_for};
use super::super::throughput::NONE_PCT as NONE;
use super::{Lab, Range, Rate, RouterClaim, Seen};

const MEMORY: Range = Range {
    name: "memory-gbyte",
    values: &["15", "29.9"],
    why: "three quarters of STREAM, because a router's accesses are less regular; STREAM Copy on both nodes",
};
const STACK: Range = Range {
    name: "stack-ns",
    values: &["400", "1000"],
    why: "a short path without filters; a long one with filters and connection tracking",
};
const BURST: Range = Range {
    name: "burst",
    values: &["1", "64"],
    why: "spread by the network before; a whole write of 64 KiB and more",
};
const STALL: Range = Range {
    name: "stall-us",
    values: &["0", "5000"],
    why: "nothing but forwarding on the CPU; a scheduler's turn of another task",
};
const SIZE: Range = Range {
    name: "mix",
    values: &["400", "1000"],
    why: "means of traffic with many small packets, and with few",
};
const DDIO: Range = Range {
    name: "ddio-pct",
    values: &["0", "36"],
    why: "a card on the other node, which cannot write to this cache; twice the default",
};
const LOCK: Range = Range {
    name: "lock-hold-ns",
    values: &["30", "120"],
    why: "the thread's profile; a lock and lists that lie in another core's cache each time",
};
const OTHER: Range = Range {
    name: "other-bytes",
    values: &["64", "1024"],
    why: "small tables that stay in the cache; large ones that do not",
};
const OFFERED: Range = Range {
    name: "offered-gbit",
    values: &["40", "100"],
    why: "well below the thread's maximum, and well above it",
};

const RX: Range =
    Range { name: "rx-ring", values: &["128", "1024"], why: "the reviewer's; a driver's usual default" };

const BUDGET: Range =
    Range { name: "budget", values: &["256"], why: "a poll that brings more than a ring of 128 holds" };

/// A rate 10 % above the limit.
const OVERLOAD: Rate = Rate::OfLimit(110);

/// Rates within this share of one another are the same.
const SAME: f64 = 0.02;

/// The claims, in the order of the thread.
pub(crate) const CLAIMS: &[RouterClaim] = &[
    RouterClaim {
        name: "RX rings below 4096 drop",
        asked: "more than 0.01 % dropped with RX 2048 and none with RX 4096, at 70 Gbit/s",
        set: &[],
        rate: Rate::Named,
        ranges: &[
            STALL,
            BURST,
            Range { name: "skew-pct", values: &["3"], why: "one flow with a thirtieth of a port's traffic" },
            MEMORY,
        ],
        judge: |lab, s| {
            let [small, large] = [lab.with(s, &[("rx-ring", "2048")])?, lab.with(s, &[("rx-ring", "4096")])?];
            let seen = format!("{:.2} and {:.2} %", small.dropped_pct, large.dropped_pct);
            Ok((Some(small.dropped_pct > NONE && large.dropped_pct <= NONE), seen))
        },
    },
    RouterClaim {
        name: "RX 3000 to 8192 and rx-usecs 16 to 64 change interrupts, not bandwidth",
        asked: "rates within 2 %, and interrupts at 16 us 1.3 times as many as at 64 us or more, with RX 4096 and 8192",
        set: &[],
        rate: Rate::Named,
        ranges: &[
            OFFERED,
            STACK,
            Range {
                name: "rx-frames",
                values: &["32", "512"],
                why: "frames that often decide, and that hardly ever do",
            },
        ],
        judge: |lab, s| {
            let mut rates = Vec::new();
            let mut interrupts = [0.0; 2];
            for ring in ["4096", "8192"] {
                for (n, usecs) in ["16", "64"].into_iter().enumerate() {
                    let of = lab.with(s, &[("rx-ring", ring), ("rx-usecs", usecs)])?;
                    rates.push(of.out_pps);
                    interrupts[n] += of.interrupts_per_s;
                }
            }
            let times = interrupts[0] / interrupts[1].max(1.0);
            let apart = apart(&rates);
            Ok((
                Some(apart <= SAME && times >= 1.3),
                format!("{:.1} % apart, {times:.2} times the interrupts", 100.0 * apart),
            ))
        },
    },
    RouterClaim {
        name: "Before the patch the TX ring changes nothing",
        asked: "rates within 2 % with TX 128, 256, 1024 and 4096, frames freed to the zone, 10 % above the limit",
        set: &[("allocator", "reference:buddy")],
        rate: OVERLOAD,
        ranges: &[LOCK, STACK, MEMORY, RX],
        judge: |lab, s| {
            let rings = tx_rings(lab, s)?;
            let apart = apart(&rates(&rings));
            Ok((
                fills(&rings).then_some(apart <= SAME),
                format!("{:.1} % apart{}", 100.0 * apart, never(&rings)),
            ))
        },
    },
    RouterClaim {
        name: "After the patch RX 4096 and TX 256 forward about 10 % more",
        asked: "5 to 20 % more than with TX 1024, frames freed to the list, 10 % above the limit",
        set: &[],
        rate: OVERLOAD,
        ranges: &[
            Range { name: "tx-usecs", values: &["64", "256"], why: "what adaptive moderation may choose" },
            DDIO,
            STACK,
            MEMORY,
            RX,
        ],
        judge: |lab, s| {
            let rings = [lab.run(s)?, lab.with(s, &[("tx-ring", "256")])?];
            let gain = 100.0 * (rings[1].out_pps / rings[0].out_pps - 1.0);
            let seen = format!("{gain:+.1} %{}", never(&rings));
            Ok((fills(&rings).then_some((5.0..=20.0).contains(&gain)), seen))
        },
    },
    RouterClaim {
        name: "TX 128 with adaptive coalescing reaches the maximum and drops on VLANs",
        asked: "99 % of the best TX ring's rate or more, and packets dropped by VLANs, 10 % above the limit",
        set: &[],
        rate: OVERLOAD,
        ranges: &[
            Range {
                name: "vlan-limit",
                values: &["100", "10000"],
                why: "a tenth and ten times Linux's default",
            },
            BURST,
            BUDGET,
            MEMORY,
            RX,
        ],
        judge: |lab, s| {
            let mut rings = tx_rings(lab, s)?;
            rings.push(lab.with(s, &[("tx-ring", "128"), ("tx-coalescing", "adaptive")])?);
            let best = rates(&rings).into_iter().fold(0.0, f64::max);
            let adaptive = &rings[rings.len() - 1];
            let (share, vlan) = (adaptive.out_pps / best, adaptive.drops("vlan"));
            let holds = fills(&rings).then_some(share >= KEEPS && vlan > 0.0);
            let share = 100.0 * share;
            Ok((holds, format!("{share:.1} % of the best, {vlan:.0} drops/s on VLANs{}", never(&rings))))
        },
    },
    RouterClaim {
        name: "Adaptive RX kills CPUs at 22 Gbit/s",
        asked: "twice the interrupts of 64 us or more, and a CPU that is 90 % busy",
        set: &[("offered-gbit", "22")],
        rate: Rate::Named,
        ranges: &[
            Range {
                name: "irq-ns",
                values: &["500", "4000"],
                why: "a bare entry; one that wakes a sleeping core",
            },
            Range {
                name: "cpus",
                values: &["7", "14"],
                why: "a card's interrupts on fewer cores: a quarter, half",
            },
            SIZE,
            RX,
        ],
        judge: |lab, s| {
            let [fixed, adaptive] = [lab.run(s)?, lab.with(s, &[("rx-coalescing", "adaptive")])?];
            let times = adaptive.interrupts_per_s / fixed.interrupts_per_s.max(1.0);
            let seen =
                format!("{times:.2} times the interrupts, {:.0} % of the busiest CPU", adaptive.cpu_pct_max);
            Ok((Some(times >= 2.0 && adaptive.cpu_pct_max >= 90.0), seen))
        },
    },
    RouterClaim {
        name: "The optimal ring is the packet rate over the interrupt rate",
        asked: "rounded up to a ring that there is, the smallest that keeps 99 % of the rate, at 16, 64 and 256 us",
        set: &[("rx-frames", "0")],
        rate: Rate::Named,
        ranges: &[BURST, STALL, OFFERED],
        judge: ring_rule,
    },
    RouterClaim {
        name: "When TX pushes back, a bulk dequeue rings one doorbell for a group",
        asked: "4 packets or more for a doorbell with TX 128, 10 % above the limit",
        set: &[("tx-ring", "128")],
        rate: OVERLOAD,
        ranges: &[
            Range { name: "tx-ring", values: &["64", "256"], why: "half and twice the thread's" },
            BUDGET,
            STACK,
            RX,
        ],
        judge: |lab, s| {
            let of = [lab.run(s)?];
            let each = of[0].packets_per_doorbell.unwrap_or(f64::NAN);
            Ok((fills(&of).then_some(each >= 4.0), format!("{each:.2} packets a doorbell{}", never(&of))))
        },
    },
    RouterClaim {
        name: "Large rings are buffer bloat: far more frames, and more of memory's bandwidth",
        asked: "8 times the frames and 1.1 times the memory traffic a packet or more with RX 4096 and TX 1024 than with 128 and 128",
        set: &[],
        rate: Rate::Named,
        ranges: &[
            SIZE,
            DDIO,
            Range { name: "cpus", values: &["7", "14"], why: "fewer queues, so fewer frames in all" },
        ],
        judge: |lab, s| {
            let [large, small] = [lab.run(s)?, lab.with(s, &[("rx-ring", "128"), ("tx-ring", "128")])?];
            let frames = large.held_max as f64 / small.held_max.max(1) as f64;
            let [more, less] = [&large, &small].map(|f| f.memory_bytes_per_packet.unwrap_or(f64::NAN));
            let traffic = more / less.max(1.0);
            Ok((
                Some(frames >= 8.0 && traffic >= 1.1),
                format!("{frames:.1} times the frames, {traffic:.2} times the traffic"),
            ))
        },
    },
    RouterClaim {
        name: "XDP gets away with small rings and a high interrupt rate, in batches and without drops",
        asked: "none dropped, and 2 packets or more for a doorbell, with RX 128, TX 128 and 8 us",
        set: &[("path", "xdp"), ("rx-ring", "128"), ("tx-ring", "128"), ("rx-usecs", "8")],
        rate: Rate::Named,
        ranges: &[
            BURST,
            STALL,
            Range {
                name: "xdp-ns",
                values: &["100", "400"],
                why: "one look-up in a small table; several in large ones",
            },
            OFFERED,
            Range { name: "rx-ring", values: &["64", "512"], why: "half and four times the claim's" },
        ],
        judge: |lab, s| {
            let of = lab.run(s)?;
            let each = of.packets_per_doorbell.unwrap_or(f64::NAN);
            let seen = format!("{:.2} % dropped, {each:.1} packets a doorbell", of.dropped_pct);
            Ok((Some(of.dropped_pct <= NONE && each >= 2.0), seen))
        },
    },
    RouterClaim {
        name: "Memory is the ceiling at 70 Gbit/s with four of six channels",
        asked: "a limit of 63 to 77 Gbit/s, at least 10 % higher with half as much memory bandwidth again, and memory 95 % used 10 % \
                above it",
        set: &[],
        rate: OVERLOAD,
        ranges: &[MEMORY, OTHER, DDIO, STACK, RX],
        judge: |lab, s| {
            let six = RouterSettings { memory_gbyte: s.memory_gbyte * 1.5, ..s.clone() };
            let (Some(four), Some(six)) = (lab.limit(s)?, lab.limit(&six)?) else {
                return Ok((None, "it loses packets at every rate".to_owned()));
            };
            let used = lab.run(s)?.memory_pct;
            let holds = (63.0..=77.0).contains(&four) && six >= 1.1 * four && used >= 95.0;
            Ok((Some(holds), format!("limits of {four:.1} and {six:.1} Gbit/s, memory {used:.0} % used")))
        },
    },
    RouterClaim {
        name: "At the maximum, CPUs are half busy",
        asked: "CPUs 40 to 60 % busy at the limit",
        set: &[],
        rate: Rate::OfLimit(100),
        ranges: &[MEMORY, STACK, DDIO, RX],
        judge: |lab, s| {
            let of = lab.run(s)?;
            let seen = format!("{:.1} Gbit/s with CPUs {:.0} % busy", of.out_gbit, of.cpu_pct_mean);
            Ok((Some((40.0..=60.0).contains(&of.cpu_pct_mean)), seen))
        },
    },
    RouterClaim {
        name: "Small UDP frames at a low interrupt rate are lost",
        asked: "1 % or more dropped at 1000 us, and none at 25 us, of 64-byte packets",
        set: &[
            ("mix", "64"),
            ("offered-gbit", "6"),
            ("rx-ring", "128"),
            ("tx-ring", "128"),
            ("rx-frames", "0"),
        ],
        rate: Rate::Named,
        ranges: &[
            Range {
                name: "rx-ring",
                values: &["512", "4096"],
                why: "between the reviewer's rings and the router's; the router's",
            },
            Range { name: "offered-gbit", values: &["3", "9"], why: "6 and 18 million packets a second" },
            BURST,
        ],
        judge: |lab, s| {
            let [seldom, often] =
                [lab.with(s, &[("rx-usecs", "1000")])?, lab.with(s, &[("rx-usecs", "25")])?];
            let seen = format!("{:.1} and {:.2} %", seldom.dropped_pct, often.dropped_pct);
            Ok((Some(seldom.dropped_pct >= 1.0 && often.dropped_pct <= NONE), seen))
        },
    },
    RouterClaim {
        name: "25 us is a good value at 10 Gbit/s",
        asked: "none dropped with RX 128 and TX 128 at 9 Gbit/s a port, at most 5 points more of the CPUs than at 100 us",
        set: &[
            ("wire-gbit", "10"),
            ("offered-gbit", "18"),
            ("cpus", "4"),
            ("rx-ring", "128"),
            ("tx-ring", "128"),
            ("rx-usecs", "25"),
        ],
        rate: Rate::Named,
        ranges: &[
            Range { name: "mix", values: &["imix", "1400"], why: "many small packets; long transfers" },
            Range { name: "cpus", values: &["2", "8"], why: "hosts of that time" },
            BURST,
            STALL,
            Range { name: "rx-ring", values: &["256", "1024"], why: "twice and eight times the claim's" },
        ],
        judge: |lab, s| {
            let [rule, seldom] = [lab.run(s)?, lab.with(s, &[("rx-usecs", "100")])?];
            let more = rule.cpu_pct_mean - seldom.cpu_pct_mean;
            let seen = format!("{:.2} % dropped, {more:+.1} points", rule.dropped_pct);
            Ok((Some(rule.dropped_pct <= NONE && more <= 5.0), seen))
        },
    },
    RouterClaim {
        name: "PCIe is not the limit: a slot for each card changes nothing",
        asked: "rates within 2 % with both cards in one slot and in two, 10 % above the limit",
        set: &[],
        rate: OVERLOAD,
        ranges: &[
            Range {
                name: "pcie-gbit",
                values: &["63", "252"],
                why: "eight lanes; sixteen of the next generation",
            },
            SIZE,
            MEMORY,
            RX,
        ],
        judge: |lab, s| {
            let rates =
                [lab.with(s, &[("pcie-slots", "1")])?.out_pps, lab.with(s, &[("pcie-slots", "2")])?.out_pps];
            let apart = apart(&rates);
            Ok((Some(apart <= SAME), format!("{:.1} % apart", 100.0 * apart)))
        },
    },
    RouterClaim {
        name: "Rings of 128 and 128 are enough",
        asked: "99 % of 100 Gbit/s forwarded, and at least 10 % more than with RX 4096 and TX 1024",
        set: &[("offered-gbit", "100"), ("rx-ring", "128"), ("tx-ring", "128")],
        rate: Rate::Named,
        ranges: &[
            MEMORY,
            STACK,
            BURST,
            STALL,
            Range { name: "rx-ring", values: &["64", "256"], why: "half and twice" },
        ],
        judge: |lab, s| {
            let [small, large] = [lab.run(s)?, lab.with(s, &[("rx-ring", "4096"), ("tx-ring", "1024")])?];
            let gain = 100.0 * (small.out_pps / large.out_pps - 1.0);
            let seen = format!("{:.1} of {:.1} Gbit/s, {gain:+.1} %", small.out_gbit, small.offered_gbit);
            Ok((Some(small.out_pps >= KEEPS * small.offered_pps && gain >= 10.0), seen))
        },
    },
    RouterClaim {
        name: "A shorter qdisc leaves fewer packets in flight",
        asked: "a fifth fewer at most, and rates within 2 %, with a qdisc of 128 instead of 1000 packets and TX 128, 10 % above the limit",
        set: &[("tx-ring", "128")],
        rate: OVERLOAD,
        ranges: &[STACK, BURST, BUDGET, MEMORY, RX],
        judge: |lab, s| {
            let of = [lab.run(s)?, lab.with(s, &[("qdisc-limit", "128")])?];
            let fewer = 1.0 - of[1].in_flight_max as f64 / of[0].in_flight_max.max(1) as f64;
            let apart = apart(&rates(&of));
            let seen = format!("{:.1} % fewer, {:.1} % apart{}", 100.0 * fewer, 100.0 * apart, never(&of));
            Ok((fills(&of).then_some(fewer >= 0.2 && apart <= SAME), seen))
        },
    },
    RouterClaim {
        name: "XDP forwards only one packet in ten for a while",
        asked: "5 to 20 % of packets sent with XDP, 10 % above the limit",
        set: &[("path", "xdp")],
        rate: OVERLOAD,
        ranges: &[
            STALL,
            Range {
                name: "skew-pct",
                values: &["3", "90"],
                why: "one large flow; steering that knows one queue only",
            },
            Range {
                name: "frames",
                values: &["229376"],
                why: "as many frames as the receive rings hold, and none besides",
            },
            MEMORY,
            RX,
        ],
        judge: |lab, s| {
            let of = lab.run(s)?;
            let sent = 100.0 * of.out_pps / of.offered_pps.max(1.0);
            Ok((Some((5.0..=20.0).contains(&sent)), format!("{sent:.1} % sent")))
        },
    },
    RouterClaim {
        name: "Nothing but drops shows that memory is full",
        asked: "memory 95 % used 10 % above the limit, and there CPUs no more than 10 points busier than 10 % below it, interrupts \
                within half and twice as many",
        set: &[],
        rate: OVERLOAD,
        ranges: &[MEMORY, DDIO, STACK, OTHER, RX],
        judge: |lab, s| {
            let Some(limit) = lab.limit(s)? else {
                return Ok((None, "it loses packets at every rate".to_owned()));
            };
            let [below, above] = [lab.run(&s.at_rate(0.9 * limit))?, lab.run(s)?];
            let busier = above.cpu_pct_mean - below.cpu_pct_mean;
            let times = above.interrupts_per_s / below.interrupts_per_s.max(1.0);
            let cold = [&below, &above].map(|f| f.cold_headers_pct.unwrap_or(f64::NAN));
            let seen = format!(
                "memory {:.0} to {:.0} % used, headers read from memory {:.0} to {:.0} %, CPUs {:.0} to {:.0} % busy, {times:.2} times \
                 the interrupts",
                below.memory_pct, above.memory_pct, cold[0], cold[1], below.cpu_pct_mean, above.cpu_pct_mean
            );
            let full = above.memory_pct >= 95.0;
            Ok((full.then_some(busier <= 10.0 && (0.5..=2.0).contains(&times)), seen))
        },
    },
];

/// Returns how far the least of some rates is below the greatest, as a share of that.
fn apart(rates: &[f64]) -> f64 {
    let most = rates.iter().copied().fold(0.0, f64::max);
    let least = rates.iter().copied().fold(most, f64::min);
    if most > 0.0 { 1.0 - least / most } else { 0.0 }
}

/// Runs small and large transmit rings.
fn tx_rings(lab: &Lab, settings: &RouterSettings) -> Result<Vec<RouterFigures>, crate::error::BenchError> {
    ["128", "256", "1024", "4096"].into_iter().map(|ring| lab.with(settings, &[("tx-ring", ring)])).collect()
}

/// Returns packets a second sent.
fn rates(of: &[RouterFigures]) -> Vec<f64> {
    of.iter().map(|figures| figures.out_pps).collect()
}

/// Returns whether a transmit ring ever pushed back: a packet waited in a qdisc, which is dequeued in groups, or was
/// dropped behind a full ring. If none did, the size of the ring has not come up.
fn fills(of: &[RouterFigures]) -> bool {
    let waited = |f: &RouterFigures| f.packets_per_doorbell.is_some_and(|each| each > 1.0);
    let dropped = |f: &RouterFigures| ["vlan", "qdisc", "tx_ring"].iter().any(|place| f.drops(place) > 0.0);
    of.iter().any(|f| waited(f) || dropped(f))
}

/// Says that no transmit ring pushed back, where none did.
fn never(of: &[RouterFigures]) -> &'static str {
    if fills(of) { "" } else { ", no TX ring was ever full" }
}

/// Compares the rule with the smallest ring that keeps the rate.
fn ring_rule(lab: &Lab, settings: &RouterSettings) -> Seen {
    const SMALLER: [&str; 7] = ["64", "128", "256", "512", "1024", "2048", "4096"];
    let (mut right, mut seen) = (0, Vec::new());
    let waits = ["16", "64", "256"];
    for usecs in waits {
        let of = |lab: &Lab, ring| lab.with(settings, &[("rx-usecs", usecs), ("rx-ring", ring)]);
        let large: RouterFigures = of(lab, "8192")?;
        let predicted = ring_for(large.in_pps / large.interrupts_per_s.max(1.0));
        let mut smallest = 8192;
        for ring in SMALLER {
            if of(lab, ring)?.out_pps >= KEEPS * large.out_pps {
                smallest = ring_for(ring.parse().unwrap_or(f64::INFINITY));
                break;
            }
        }
        right += usize::from(predicted == smallest);
        seen.push(format!("{usecs} us: {predicted} for {smallest}"));
    }
    Ok((Some(right == waits.len()), seen.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_as_far_apart_as_the_least_is_below_the_most() {
        assert_eq!(apart(&[100.0, 98.0, 99.0]), 1.0 - 0.98);
        assert_eq!((apart(&[]), apart(&[5.0])), (0.0, 0.0));
    }

    #[test]
    fn the_rule_is_compared_with_the_smallest_ring_that_keeps_the_rate() {
        // 0.9 million packets a second and an interrupt each 256 us and a bit: some 230 descriptors, so 256; without
        // bursts that is also what it takes.
        let set = super::super::super::test::small(&[
            ("offered-gbit", "5"),
            ("rx-frames", "0"),
            ("tx-usecs", "100000"),
            ("tx-frames", "0"),
        ]);
        let (_, seen) = ring_rule(&Lab::new(true), &set).unwrap();
        assert!(seen.contains("256 us: 256 for 256"), "{seen}");
    }
}
