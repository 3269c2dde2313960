//! The parameters by name: what each is, its default with the reason for it, and what is allowed.
//!
//! Defaults are the thread's router where the thread says what that was, this project's measurements where it made
//! them, and otherwise assumptions that say so. They were written down before any claim was looked at.

use super::settings::{Coalescing, Column, Path, Recycling, RouterSettings};
use super::traffic::{Arrivals, Mix};
use crate::error::BenchError;
use pageyard_replay::engine::did_you_mean;
use pageyard_replay::text::shown;

/// A parameter of the router model.
pub struct Parameter {
    /// Its name, as `--set` and files have it.
    pub name: &'static str,
    /// Its unit; empty for names.
    pub unit: &'static str,
    /// Its meaning.
    pub about: &'static str,
    /// Why its default is what it is.
    pub reason: &'static str,
    field: Field,
}

type At<T> = fn(&mut RouterSettings) -> &mut T;

enum Field {
    Whole(At<u64>, u64, u64),
    Ring(At<u64>),
    Decimal(At<f64>, f64, f64),
    Mix(At<Mix>),
    Choice(&'static [&'static str], fn(&mut RouterSettings, usize), fn(&RouterSettings) -> usize),
}

/// Ring sizes that are allowed.
pub(crate) const RINGS: [u64; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];

const fn whole(
    name: &'static str,
    unit: &'static str,
    (from, to): (u64, u64),
    at: At<u64>,
    about: &'static str,
    reason: &'static str,
) -> Parameter {
    Parameter { name, unit, about, reason, field: Field::Whole(at, from, to) }
}

const fn decimal(
    name: &'static str,
    unit: &'static str,
    (from, to): (f64, f64),
    at: At<f64>,
    about: &'static str,
    reason: &'static str,
) -> Parameter {
    Parameter { name, unit, about, reason, field: Field::Decimal(at, from, to) }
}

const fn ring(name: &'static str, at: At<u64>, about: &'static str, reason: &'static str) -> Parameter {
    Parameter { name, unit: "descriptors", about, reason, field: Field::Ring(at) }
}

const fn choice(
    name: &'static str,
    of: &'static [&'static str],
    set: fn(&mut RouterSettings, usize),
    get: fn(&RouterSettings) -> usize,
    about: &'static str,
    reason: &'static str,
) -> Parameter {
    Parameter { name, unit: "", about, reason, field: Field::Choice(of, set, get) }
}

const NS: (u64, u64) = (0, 1_000_000);
const US: (u64, u64) = (0, 1_000_000);

fn coalescing(at: usize) -> Coalescing {
    if at == 1 { Coalescing::Adaptive } else { Coalescing::Fixed }
}

/// The parameters, in the order of the packet's way.
pub static PARAMETERS: &[Parameter] = &[
    decimal(
        "offered-gbit",
        "Gbit/s",
        (0.0, 10_000.0),
        |s| &mut s.offered_gbit,
        "frame bits that all ports together are offered; wires carry no more than they can",
        "the thread's maximum: 70 Gbit/s in, and as much out",
    ),
    decimal(
        "surge-pct",
        "% more",
        (0.0, 10_000.0),
        |s| &mut s.surge_pct,
        "offered at first, for surge-us",
        "none: the thread tells of no surge",
    ),
    whole("surge-us", "us", US, |s| &mut s.surge_us, "for how long more is offered at first", "as surge-pct"),
    Parameter {
        name: "mix",
        unit: "bytes",
        about: "packet sizes: imix, a size, or sizes with weights as in 64:7,594:4,1518:1",
        reason: "assumed: the thread says all kinds of sizes and gives none; 700 bytes is near the mean of Internet traffic",
        field: Field::Mix(|s| &mut s.mix),
    },
    choice(
        "arrivals",
        &["paced", "poisson", "bursts"],
        |s, n| s.arrivals = [Arrivals::Paced, Arrivals::Poisson, Arrivals::Bursts][n],
        |s| s.arrivals as usize,
        "when packets come: evenly, independently, or in bursts of one flow at the speed of the wire",
        "senders transmit in bursts",
    ),
    whole(
        "burst",
        "packets",
        (1, 1_000_000),
        |s| &mut s.burst,
        "packets of a burst",
        "assumed: a third of the 64 KiB that a sender's segmentation offload makes of one write",
    ),
    decimal(
        "skew-pct",
        "% of bursts",
        (0.0, 100.0),
        |s| &mut s.skew_pct,
        "bursts that all go to the first queue of their port, beside its share",
        "flows are many and spread evenly",
    ),
    whole("seed", "", (0, u64::MAX), |s| &mut s.seed, "the seed: one seed, one result", "any"),
    whole(
        "run-us",
        "us",
        (1, 60_000_000),
        |s| &mut s.run_us,
        "simulated time that is counted",
        "half a million packets at the default rate: rates repeat within a per cent from seed to seed",
    ),
    whole(
        "warm-up-us",
        "us",
        US,
        |s| &mut s.warm_up_us,
        "simulated time before that",
        "no queue grows longer afterwards",
    ),
    whole(
        "ports",
        "",
        (1, 8),
        |s| &mut s.ports,
        "cards; what comes in at one leaves by the next",
        "the thread's two cards",
    ),
    whole(
        "cpus",
        "",
        (1, 64),
        |s| &mut s.cpus,
        "CPUs, each with a queue pair at each port",
        "the 28 hardware threads of the node whose cores the cards use",
    ),
    decimal(
        "wire-gbit",
        "Gbit/s",
        (0.0, 800.0),
        |s| &mut s.wire_gbit,
        "speed of each port's wire, each way",
        "the thread's 100G cards",
    ),
    whole(
        "pcie-slots",
        "",
        (1, 8),
        |s| &mut s.slots,
        "slots that cards are spread over",
        "two: the thread moved the second card",
    ),
    decimal(
        "pcie-gbit",
        "Gbit/s",
        (0.0, 2_000.0),
        |s| &mut s.pcie_gbit,
        "speed of a slot, each way",
        "16 lanes of PCI Express 3.0: 8 GT/s a lane with 128 of 130 bits used",
    ),
    whole(
        "nic-buffer-kib",
        "KiB",
        (1, 1 << 20),
        |s| &mut s.nic_buffer_kib,
        "a card's own buffer for packets that wait for memory",
        "assumed: cards of this speed have between a quarter and a few megabytes",
    ),
    ring("rx-ring", |s| &mut s.rx_ring, "receive descriptors of each queue", "the thread's RX 4096"),
    ring(
        "tx-ring",
        |s| &mut s.tx_ring,
        "transmit descriptors of each queue",
        "mlx5's default, which the thread lowers from",
    ),
    choice(
        "rx-coalescing",
        &["fixed", "adaptive"],
        |s, n| s.rx.kind = coalescing(n),
        |s| s.rx.kind as usize,
        "who decides how long receive interrupts wait",
        "the thread's: adaptive RX off",
    ),
    whole(
        "rx-usecs",
        "us",
        US,
        |s| &mut s.rx.usecs,
        "after the first packet, an interrupt waits so long; 0: not at all",
        "the thread's ethtool -c",
    ),
    whole(
        "rx-frames",
        "packets",
        (0, 65_536),
        |s| &mut s.rx.frames,
        "with so many packets it waits no longer; 0: any number",
        "the thread's ethtool -c",
    ),
    choice(
        "tx-coalescing",
        &["fixed", "adaptive"],
        |s, n| s.tx.kind = coalescing(n),
        |s| s.tx.kind as usize,
        "who decides how long completion interrupts wait",
        "fixed, so that the two below say what happens",
    ),
    whole("tx-usecs", "us", US, |s| &mut s.tx.usecs, "the same for completions", "the thread's ethtool -c"),
    whole(
        "tx-frames",
        "packets",
        (0, 65_536),
        |s| &mut s.tx.frames,
        "the same for completions",
        "the thread's ethtool -c",
    ),
    whole(
        "budget",
        "packets",
        (1, 65_536),
        |s| &mut s.budget,
        "packets that a poll receives at most",
        "Linux's NAPI",
    ),
    whole(
        "tx-budget",
        "packets",
        (1, 65_536),
        |s| &mut s.tx_budget,
        "completions that a poll looks at at most",
        "mlx5's, 128",
    ),
    choice(
        "path",
        &["stack", "xdp"],
        |s, n| s.path = [Path::Stack, Path::Xdp][n],
        |s| s.path as usize,
        "Linux's stack with a qdisc, or XDP with transmit batches and none",
        "the thread's router; it tries XDP in a lab",
    ),
    whole(
        "xdp-batch",
        "packets",
        (1, 64),
        |s| &mut s.xdp_batch,
        "packets that XDP hands over with one doorbell at most",
        "Linux's DEV_MAP_BULK_SIZE",
    ),
    whole(
        "qdisc-limit",
        "packets",
        (0, 1_000_000),
        |s| &mut s.qdisc_limit,
        "packets that wait in the qdisc of a queue at most",
        "Linux's default txqueuelen",
    ),
    whole(
        "qdisc-bulk",
        "packets",
        (1, 1024),
        |s| &mut s.bulk,
        "packets dequeued with one doorbell at most",
        "Linux's dev_weight",
    ),
    whole(
        "vlans",
        "",
        (0, 4094),
        |s| &mut s.vlans,
        "VLAN sub-interfaces of each port",
        "assumed: the thread names no number",
    ),
    whole(
        "vlan-limit",
        "packets",
        (0, 1_000_000),
        |s| &mut s.vlan_limit,
        "packets of a VLAN that wait in the qdiscs of its port at most; 0: any number",
        "Linux's default txqueuelen",
    ),
    choice(
        "allocator",
        &["reference:buddy", "reference:pcp", "pageyard"],
        |s, n| s.column = Column::ALL[n],
        |s| s.column as usize,
        "where frames come from: Linux 4.10 before and after the patch, or the engine",
        "after the patch",
    ),
    choice(
        "recycling",
        &["none", "pool"],
        |s, n| s.recycling = [Recycling::None, Recycling::Pool][n],
        |s| s.recycling as usize,
        "where frames go when transmission completes: to the allocator, or to their queue's pool",
        "mlx5's recycling fails in this load, says the thread",
    ),
    whole(
        "pool-frames",
        "frames",
        (0, 1 << 20),
        |s| &mut s.pool_frames,
        "frames that a queue's pool keeps at most",
        "Linux's page_pool ring of 1024",
    ),
    whole(
        "frames",
        "frames",
        (0, 1 << 24),
        |s| &mut s.frames,
        "frames of the machine; 0: half as many again as rings and queues hold",
        "memory is not what the thread's router lacked",
    ),
    whole(
        "irq-ns",
        "ns",
        NS,
        |s| &mut s.costs.irq,
        "CPU time of an interrupt until polling begins",
        "assumed: entry, event queue, soft interrupt; one to two microseconds on machines of that time",
    ),
    whole("poll-ns", "ns", (1, 1_000_000), |s| &mut s.costs.poll, "of a poll, whatever it finds", "assumed"),
    whole(
        "rx-ns",
        "ns",
        NS,
        |s| &mut s.costs.rx,
        "of a receive descriptor",
        "this and the next five, with two times frame-ns: what 70 Gbit/s of 700-byte packets took of 28 CPUs that were half busy, 1.1 us; the parts are assumed",
    ),
    whole("stack-ns", "ns", NS, |s| &mut s.costs.stack, "of the stack without qdisc", "as rx-ns"),
    whole("qdisc-ns", "ns", NS, |s| &mut s.costs.qdisc, "of the qdisc", "as rx-ns"),
    whole("tx-ns", "ns", NS, |s| &mut s.costs.tx, "of a transmit descriptor", "as rx-ns"),
    whole(
        "doorbell-ns",
        "ns",
        NS,
        |s| &mut s.costs.doorbell,
        "of telling the card: a write over the bus and its barrier",
        "as rx-ns",
    ),
    whole(
        "completion-ns",
        "ns",
        NS,
        |s| &mut s.costs.completion,
        "of a completion, without the free",
        "as rx-ns",
    ),
    whole(
        "xdp-ns",
        "ns",
        NS,
        |s| &mut s.costs.xdp,
        "of an XDP program with its look-up, in the stack's place",
        "assumed: some 5 million packets a second on a CPU in all",
    ),
    whole(
        "frame-ns",
        "ns",
        NS,
        |s| &mut s.costs.frame,
        "of taking or freeing a frame, without the zone lock",
        "this project's sweep of order 0 in batches of 64, both together some 50 ns for the reference",
    ),
    whole(
        "pool-ns",
        "ns",
        NS,
        |s| &mut s.costs.pool,
        "of taking or giving a frame in a pool",
        "the target of this project's page pool",
    ),
    whole(
        "lock-hold-ns",
        "ns",
        NS,
        |s| &mut s.costs.lock_hold,
        "of holding the zone lock to free one frame",
        "this project's contention table: what buddy frees take longer on two CPUs, less the waits, is some 100 ns; the thread's profile \
         has 2.5 % of 1.1 us, 28 ns; between the two",
    ),
    whole(
        "lock-batch-ns",
        "ns",
        NS,
        |s| &mut s.costs.lock_batch,
        "of holding it while a list takes or gives back a batch",
        "31 frames at some 13 ns",
    ),
    whole(
        "miss-ns",
        "ns",
        NS,
        |s| &mut s.costs.miss,
        "of reading a header that fell out of the cache, from idle memory",
        "the latency of memory on the same node on servers of that time",
    ),
    decimal(
        "memory-gbyte",
        "GB/s",
        (0.0, 10_000.0),
        |s| &mut s.memory_gbyte,
        "what memory carries, reads and writes together",
        "the thread's STREAM Copy on the cards' node, with four of six channels",
    ),
    whole(
        "llc-kib",
        "KiB",
        (0, 1 << 24),
        |s| &mut s.llc_kib,
        "the last-level cache",
        "14 cores with 1.375 MiB each: a server with six memory channels and 28 hardware threads a node",
    ),
    decimal(
        "ddio-pct",
        "% of the cache",
        (0.0, 100.0),
        |s| &mut s.ddio_pct,
        "the part of it that cards write to; 0: they write to memory",
        "2 of 11 ways, Intel's default",
    ),
    whole(
        "other-bytes",
        "bytes",
        (0, 65_536),
        |s| &mut s.other_bytes,
        "read from memory for a packet beside its own lines",
        "assumed: routes, neighbours and state of a full table, four lines",
    ),
    whole(
        "stall-us",
        "us",
        US,
        |s| &mut s.stall_us,
        "time for which other work takes a CPU; 0: never",
        "assumed: timers, other tasks, soft interrupts that give way",
    ),
    whole(
        "stall-every-us",
        "us",
        (1, 60_000_000),
        |s| &mut s.stall_every_us,
        "how often that happens",
        "assumed: 1 % of the CPU with stall-us",
    ),
];

impl Parameter {
    /// Returns its value.
    #[must_use]
    pub fn get(&self, settings: &RouterSettings) -> String {
        let mut settings = settings.clone();
        match &self.field {
            Field::Whole(at, ..) | Field::Ring(at) => at(&mut settings).to_string(),
            Field::Decimal(at, ..) => at(&mut settings).to_string(),
            Field::Mix(at) => at(&mut settings).to_string(),
            Field::Choice(of, _, get) => of[get(&settings)].to_owned(),
        }
    }

    /// Says what it takes.
    #[must_use]
    pub fn takes(&self) -> String {
        match &self.field {
            Field::Whole(_, from, u64::MAX) => format!("a whole number from {from}"),
            Field::Whole(_, from, to) => format!("a whole number from {from} to {to}"),
            Field::Ring(_) => "a power of two from 64 to 8192".to_owned(),
            Field::Decimal(_, from, to) if self.may_be_zero() => format!("a number from {from} to {to}"),
            Field::Decimal(_, from, to) => format!("a number above {from}, to {to}"),
            Field::Mix(_) => "imix, a size, or sizes with weights".to_owned(),
            Field::Choice(of, ..) => of.join(" or "),
        }
    }

    fn may_be_zero(&self) -> bool {
        self.unit.starts_with('%')
    }

    fn set(&self, settings: &mut RouterSettings, value: &str) -> Result<(), String> {
        let wrong = || format!("`{}` takes {}, not `{}`", self.name, self.takes(), shown(value));
        match &self.field {
            Field::Whole(at, from, to) => {
                let given: u64 = value.parse().map_err(|_| wrong())?;
                *at(settings) = Some(given).filter(|n| (*from..=*to).contains(n)).ok_or_else(wrong)?;
            }
            Field::Ring(at) => {
                let given: u64 = value.parse().map_err(|_| wrong())?;
                if !RINGS.contains(&given) {
                    let near = RINGS.into_iter().find(|ring| *ring > given);
                    let rounded = near
                        .filter(|_| given > 0)
                        .map_or(String::new(), |ring| format!("; cards round up, so for {given} set {ring}"));
                    return Err(wrong() + &rounded);
                }
                *at(settings) = given;
            }
            Field::Decimal(at, from, to) => {
                let given: f64 = value.parse().map_err(|_| wrong())?;
                let above = given > *from || (given == *from && self.may_be_zero());
                *at(settings) = Some(given).filter(|n| above && n <= to).ok_or_else(wrong)?;
            }
            Field::Mix(at) => *at(settings) = value.parse()?,
            Field::Choice(of, set, _) => {
                set(settings, of.iter().position(|name| *name == value).ok_or_else(wrong)?);
            }
        }
        Ok(())
    }
}

/// Finds a parameter by name.
///
/// # Errors
/// [`BenchError::Settings`], with the name that may have been meant.
pub fn find(name: &str) -> Result<&'static Parameter, BenchError> {
    PARAMETERS.iter().find(|p| p.name == name).ok_or_else(|| {
        let meant = did_you_mean(name, PARAMETERS.iter().map(|p| p.name));
        let all: Vec<&str> = PARAMETERS.iter().map(|p| p.name).collect();
        let why = format!("the router has no parameter `{}`;{meant} it has {}", shown(name), all.join(", "));
        BenchError::Settings { why }
    })
}

impl RouterSettings {
    /// Sets a parameter.
    ///
    /// # Errors
    /// [`BenchError::Settings`] for a parameter or a value that there is not: its name, and what is allowed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BenchError> {
        find(name)?.set(self, value).map_err(|why| BenchError::Settings { why })
    }

    /// Returns these settings with others set, which a program knows to be right.
    pub(crate) fn with(&self, set: &[(&str, &str)]) -> RouterSettings {
        let mut settings = self.clone();
        for (name, value) in set {
            settings.set(name, value).expect("a program's own settings are allowed");
        }
        settings
    }

    /// Checks what no parameter can say alone.
    ///
    /// # Errors
    /// [`BenchError::Settings`].
    pub fn check(&self) -> Result<(), BenchError> {
        let why = if self.stall_us >= self.stall_every_us {
            "`stall-us` is no less than `stall-every-us`, so CPUs never forward anything; lower it".to_owned()
        } else if self.slots > self.ports {
            format!("`pcie-slots` is {}, and `ports` only {}: lower the former", self.slots, self.ports)
        } else if self.queues() * self.rx_ring > 1 << 21 {
            "`ports`, `cpus` and `rx-ring` multiply to more than 2 million descriptors; lower one of them"
                .to_owned()
        } else if self.frames > 0 && self.frames < self.queues() * RINGS[0] {
            format!(
                "`frames` is too small: {} receive queues need {} for the smallest rings; ask for so many, or for 0, which is \
                 enough for everything",
                self.queues(),
                self.queues() * RINGS[0]
            )
        } else {
            return Ok(());
        };
        Err(BenchError::Settings { why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str, value: &str) -> String {
        RouterSettings::default().set(name, value).unwrap_err().to_string()
    }

    #[test]
    fn every_parameter_takes_its_own_default_and_gives_a_reason() {
        let default = RouterSettings::default();
        for parameter in PARAMETERS {
            let mut settings = default.clone();
            settings.set(parameter.name, &parameter.get(&default)).unwrap();
            assert_eq!(settings, default, "{}", parameter.name);
            assert!(!parameter.about.is_empty() && !parameter.reason.is_empty(), "{}", parameter.name);
        }
        assert!(default.check().is_ok());
        let mut names: Vec<&str> = PARAMETERS.iter().map(|p| p.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PARAMETERS.len());
    }

    #[test]
    fn the_study_has_every_parameter_with_its_default_and_the_reason_for_it() {
        use std::fmt::Write;
        let mut table =
            String::from("| parameter | default | what it is | why that default |\n|---|---|---|---|\n");
        for p in PARAMETERS {
            let value = p.get(&RouterSettings::default());
            let value = format!("{value} {}", p.unit);
            let _ = writeln!(table, "| `{}` | {} | {} | {} |", p.name, value.trim_end(), p.about, p.reason);
        }
        let study = include_str!("../../../../docs/studies/forwarding.md");
        assert!(study.contains(&table), "docs/studies/forwarding.md lacks this table:\n{table}");
    }

    #[test]
    fn what_is_not_allowed_is_refused_by_name_with_what_is() {
        for (name, value, parts) in [
            ("rx-rings", "64", &["no parameter `rx-rings`", "did you mean `rx-ring`?", "tx-usecs"][..]),
            ("rx-ring", "0", &["`rx-ring` takes a power of two from 64 to 8192, not `0`"]),
            ("rx-ring", "3000", &["a power of two", "cards round up, so for 3000 set 4096"]),
            ("tx-ring", "100", &["`tx-ring` takes a power of two", "set 128"]),
            ("tx-ring", "16384", &["64 to 8192, not `16384`"]),
            ("rx-ring", "many", &["`rx-ring` takes"]),
            ("mix", "", &["`mix` is empty"]),
            ("mix", "64:0", &["`mix` is empty"]),
            ("offered-gbit", "0", &["`offered-gbit` takes a number above 0"]),
            ("offered-gbit", "-1", &["`offered-gbit` takes a number above 0"]),
            ("offered-gbit", "NaN", &["`offered-gbit` takes"]),
            ("wire-gbit", "0", &["`wire-gbit` takes a number above 0"]),
            ("pcie-gbit", "0", &["`pcie-gbit` takes a number above 0"]),
            ("memory-gbyte", "0", &["`memory-gbyte` takes a number above 0"]),
            ("budget", "0", &["`budget` takes a whole number from 1"]),
            ("cpus", "65", &["from 1 to 64"]),
            ("path", "dpdk", &["`path` takes stack or xdp, not `dpdk`"]),
            ("allocator", "slub", &["reference:buddy or reference:pcp or pageyard"]),
        ] {
            let why = refusal(name, value);
            assert!(
                parts.iter().all(|part| why.contains(part)) && why.lines().count() == 1,
                "{name}={value}: {why}"
            );
        }
    }

    #[test]
    fn settings_that_exclude_one_another_are_refused() {
        for (set, part) in [
            (&[("stall-us", "50000")][..], "stall-every-us"),
            (&[("pcie-slots", "3")], "pcie-slots"),
            (&[("frames", "100")], "56 receive queues need 3584"),
            (&[("ports", "8"), ("cpus", "64"), ("rx-ring", "8192")], "rx-ring"),
        ] {
            let why = RouterSettings::default().with(set).check().unwrap_err().to_string();
            assert!(why.contains(part), "{why}");
        }
        let zero = RouterSettings::default().with(&[("ddio-pct", "0"), ("skew-pct", "0")]);
        assert!(zero.check().is_ok(), "a share may be 0");
    }
}
