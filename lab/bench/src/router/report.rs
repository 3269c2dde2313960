//! A simulated host's results: rates, shares and sizes.

use super::count::{Count, DROPS};
use super::host::HostTotals;
use super::settings::RouterSettings;
use serde::Serialize;
use std::collections::BTreeMap;

/// A frame, in bytes.
const FRAME: f64 = 4096.0;

/// The results of a setting, after the warm-up. Rates are of simulated seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouterFigures {
    /// Packets a second that came over all wires.
    pub offered_pps: f64,
    /// The same in frame bits, 10^9 a second.
    pub offered_gbit: f64,
    /// Packets a second that receive rings accepted.
    pub in_pps: f64,
    /// The same in bits.
    pub in_gbit: f64,
    /// Packets a second that were sent.
    pub out_pps: f64,
    /// The same in bits.
    pub out_gbit: f64,
    /// Packets dropped, of those offered, percent.
    pub dropped_pct: f64,
    /// Packets dropped a second, by place: `card` (its buffer was full), `rx_ring`, `no_frame`, `vlan`, `qdisc`,
    /// `tx_ring`.
    pub drops_per_s: BTreeMap<&'static str, f64>,
    /// Interrupts a second of all CPUs.
    pub interrupts_per_s: f64,
    /// Packets received for an interrupt; left out where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_per_interrupt: Option<f64>,
    /// Polls a second of all CPUs.
    pub polls_per_s: f64,
    /// Packets received in a poll; left out where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_per_poll: Option<f64>,
    /// Doorbells a second of all CPUs.
    pub doorbells_per_s: f64,
    /// Packets handed to a card with a doorbell; left out where none was rung.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_per_doorbell: Option<f64>,
    /// How busy the CPUs were: their mean, percent.
    pub cpu_pct_mean: f64,
    /// The busiest, percent.
    pub cpu_pct_max: f64,
    /// Each, percent; left out in a sweep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu_pct: Vec<f64>,
    /// How long receive interrupts waited at the end, microseconds: the mean of all queues.
    pub rx_wait_us: f64,
    /// Frames that hold a packet: the mean.
    pub in_flight_mean: f64,
    /// The most.
    pub in_flight_max: u64,
    /// Those as bytes.
    pub in_flight_max_bytes: f64,
    /// Frames that the allocator does not have: in rings, queues and pools: the mean.
    pub held_mean: f64,
    /// The most.
    pub held_max: u64,
    /// Those as bytes.
    pub held_max_bytes: f64,
    /// Those as a multiple of the last-level cache.
    pub held_max_x_llc: f64,
    /// Microseconds from a packet's arrival until its completion was looked at: the mean; left out where none left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sojourn_us: Option<f64>,
    /// Frames for packets that came from a pool, percent; left out where none was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recycled_pct: Option<f64>,
    /// Requests for a frame a second that no one could serve.
    pub refused_per_s: f64,
    /// Packets whose header had left the cache, percent; left out where none was forwarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold_headers_pct: Option<f64>,
    /// Memory read, 10^9 bytes a second.
    pub memory_read_gbyte: f64,
    /// Memory written, 10^9 bytes a second.
    pub memory_written_gbyte: f64,
    /// Bytes that memory carried for a packet that was accepted; left out where none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes_per_packet: Option<f64>,
    /// The load of memory, as a percentage of its capacity.
    pub memory_pct: f64,
    /// CPU time spent waiting for memory that others used, percent of all CPUs' time.
    pub memory_wait_pct: f64,
    /// Times a second that the zone lock was taken.
    pub zone_locks_per_s: f64,
    /// CPU time spent waiting for it, percent of the time that CPUs were busy.
    pub zone_lock_wait_pct: f64,
}

/// Returns a share as a number; `None` of nothing.
fn of(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

impl RouterFigures {
    /// Computes them from what was counted.
    pub(crate) fn of(outcome: &HostTotals, settings: &RouterSettings) -> RouterFigures {
        let seconds = outcome.window.seconds();
        let n = |count: Count| outcome.counts[count] as f64;
        let rate = |count: Count| n(count) / seconds;
        let gbit = |count: Count| rate(count) * 8e-9;
        let cpu_pct: Vec<f64> = outcome.busy.iter().map(|b| 100.0 * b.seconds() / seconds).collect();
        let busy: f64 = outcome.busy.iter().map(|b| b.seconds()).sum();
        let waited = |count: Count| n(count) * 1e-12;
        let memory = n(Count::MemoryRead) + n(Count::MemoryWritten);
        let (inside, held) = (outcome.inside, outcome.held);
        RouterFigures {
            offered_pps: rate(Count::Offered),
            offered_gbit: gbit(Count::OfferedBytes),
            in_pps: rate(Count::Accepted),
            in_gbit: gbit(Count::AcceptedBytes),
            out_pps: rate(Count::Sent),
            out_gbit: gbit(Count::SentBytes),
            dropped_pct: 100.0 * of(outcome.counts.dropped() as f64, n(Count::Offered)).unwrap_or(0.0),
            drops_per_s: DROPS.iter().map(|(place, name)| (*name, rate(*place))).collect(),
            interrupts_per_s: rate(Count::Interrupts),
            packets_per_interrupt: of(n(Count::Forwarded), n(Count::Interrupts)),
            polls_per_s: rate(Count::Polls),
            packets_per_poll: of(n(Count::Forwarded), n(Count::Polls)),
            doorbells_per_s: rate(Count::Doorbells),
            packets_per_doorbell: of(n(Count::Posted), n(Count::Doorbells)),
            cpu_pct_mean: cpu_pct.iter().sum::<f64>() / cpu_pct.len().max(1) as f64,
            cpu_pct_max: cpu_pct.iter().copied().fold(0.0, f64::max),
            cpu_pct,
            rx_wait_us: outcome.rx_usecs,
            in_flight_mean: inside.mean(outcome.end),
            in_flight_max: inside.most(),
            in_flight_max_bytes: inside.most() as f64 * FRAME,
            held_mean: held.mean(outcome.end),
            held_max: held.most(),
            held_max_bytes: held.most() as f64 * FRAME,
            held_max_x_llc: held.most() as f64 * FRAME / (settings.llc_kib as f64 * 1024.0),
            sojourn_us: of(n(Count::Sojourn) * 1e-6, n(Count::Completed)),
            recycled_pct: of(100.0 * n(Count::Recycled), n(Count::Taken)),
            refused_per_s: rate(Count::Refused),
            cold_headers_pct: of(100.0 * n(Count::Misses), n(Count::Forwarded)),
            memory_read_gbyte: rate(Count::MemoryRead) * 1e-9,
            memory_written_gbyte: rate(Count::MemoryWritten) * 1e-9,
            memory_bytes_per_packet: of(memory, n(Count::Accepted)),
            memory_pct: 100.0 * memory / seconds / (settings.memory_gbyte * 1e9),
            memory_wait_pct: 100.0 * waited(Count::MemoryWait) / (seconds * outcome.busy.len() as f64),
            zone_locks_per_s: rate(Count::Locks),
            zone_lock_wait_pct: of(100.0 * waited(Count::LockWait), busy).unwrap_or(0.0),
        }
    }

    /// Returns drops a second at a place.
    pub(crate) fn drops(&self, place: &str) -> f64 {
        self.drops_per_s.get(place).copied().unwrap_or(0.0)
    }
}
