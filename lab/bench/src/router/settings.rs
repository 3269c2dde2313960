//! The settings of a simulated host as types. `parameters` has their names, their defaults with reasons, and the values
//! allowed.

use super::traffic::{Arrivals, Mix};

/// How packets go from receive to transmit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Path {
    /// Linux's stack: look-ups, a qdisc, one packet after another.
    Stack,
    /// XDP: no qdisc, transmitted in batches.
    Xdp,
}

/// Who decides how long interrupts wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coalescing {
    /// The settings.
    Fixed,
    /// The rate that is observed: see `coalesce`.
    Adaptive,
}

/// Which allocator frames come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Column {
    /// Linux 4.10, frames of packets freed to the zone, under its lock.
    Buddy,
    /// Linux 4.10 with the patch: freed to the list of the CPU.
    Pcp,
    /// The engine.
    Pageyard,
}

impl Column {
    /// Every column, in the order of tables.
    pub const ALL: [Column; 3] = [Column::Buddy, Column::Pcp, Column::Pageyard];
}

/// Where frames go when transmission completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recycling {
    /// Back to the allocator: the driver's recycling fails, as the thread says of mlx5.
    None,
    /// Into the pool of the queue that received them, as far as there is room.
    Pool,
}

/// How long interrupts of one direction wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moderation {
    /// Who decides.
    pub kind: Coalescing,
    /// Microseconds after the first packet; 0: not at all.
    pub usecs: u64,
    /// Packets after which it waits no longer; 0: any number.
    pub frames: u64,
}

/// The costs that parts of a packet's path have for a CPU, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Costs {
    /// An interrupt until polling begins.
    pub irq: u64,
    /// A poll, whatever it finds.
    pub poll: u64,
    /// A receive descriptor: completion entry, buffer, refill.
    pub rx: u64,
    /// The stack, without qdisc.
    pub stack: u64,
    /// A packet through a qdisc.
    pub qdisc: u64,
    /// The XDP program and its look-up.
    pub xdp: u64,
    /// A transmit descriptor.
    pub tx: u64,
    /// Telling the card of new descriptors.
    pub doorbell: u64,
    /// A completed transmission, without the free.
    pub completion: u64,
    /// Taking or freeing a frame in the allocator, without its lock.
    pub frame: u64,
    /// Taking or giving a frame in a pool.
    pub pool: u64,
    /// Reading a header that fell out of the cache, from idle memory.
    pub miss: u64,
    /// Holding the zone lock to free one frame.
    pub lock_hold: u64,
    /// Holding it while a list takes or gives back a batch.
    pub lock_batch: u64,
}

/// A simulated host, its traffic, and for how long.
#[derive(Clone, PartialEq, Debug)]
pub struct RouterSettings {
    pub(crate) ports: u64,
    pub(crate) cpus: u64,
    pub(crate) rx_ring: u64,
    pub(crate) tx_ring: u64,
    pub(crate) rx: Moderation,
    pub(crate) tx: Moderation,
    pub(crate) budget: u64,
    pub(crate) tx_budget: u64,
    pub(crate) path: Path,
    pub(crate) xdp_batch: u64,
    pub(crate) qdisc_limit: u64,
    pub(crate) bulk: u64,
    pub(crate) vlans: u64,
    pub(crate) vlan_limit: u64,
    pub(crate) column: Column,
    pub(crate) recycling: Recycling,
    pub(crate) pool_frames: u64,
    pub(crate) frames: u64,
    pub(crate) costs: Costs,
    pub(crate) wire_gbit: f64,
    pub(crate) slots: u64,
    pub(crate) pcie_gbit: f64,
    pub(crate) nic_buffer_kib: u64,
    pub(crate) memory_gbyte: f64,
    pub(crate) llc_kib: u64,
    pub(crate) ddio_pct: f64,
    pub(crate) other_bytes: u64,
    pub(crate) mix: Mix,
    pub(crate) arrivals: Arrivals,
    pub(crate) burst: u64,
    pub(crate) skew_pct: f64,
    pub(crate) offered_gbit: f64,
    pub(crate) surge_pct: f64,
    pub(crate) surge_us: u64,
    pub(crate) stall_us: u64,
    pub(crate) stall_every_us: u64,
    pub(crate) run_us: u64,
    pub(crate) warm_up_us: u64,
    pub(crate) seed: u64,
}

impl Default for RouterSettings {
    /// The thread's router, as far as it says what that is; `parameters` has the reasons.
    fn default() -> RouterSettings {
        RouterSettings {
            ports: 2,
            cpus: 28,
            rx_ring: 4096,
            tx_ring: 1024,
            rx: Moderation { kind: Coalescing::Fixed, usecs: 64, frames: 128 },
            tx: Moderation { kind: Coalescing::Fixed, usecs: 8, frames: 64 },
            budget: 64,
            tx_budget: 128,
            path: Path::Stack,
            xdp_batch: 16,
            qdisc_limit: 1000,
            bulk: 64,
            vlans: 8,
            vlan_limit: 1000,
            column: Column::Pcp,
            recycling: Recycling::None,
            pool_frames: 1024,
            frames: 0,
            costs: Costs {
                irq: 1500,
                poll: 300,
                rx: 110,
                stack: 630,
                qdisc: 60,
                xdp: 150,
                tx: 60,
                doorbell: 100,
                completion: 90,
                frame: 25,
                pool: 5,
                miss: 90,
                lock_hold: 60,
                lock_batch: 400,
            },
            wire_gbit: 100.0,
            slots: 2,
            pcie_gbit: 126.0,
            nic_buffer_kib: 512,
            memory_gbyte: 20.2,
            llc_kib: 19_712,
            ddio_pct: 18.0,
            other_bytes: 256,
            mix: Mix::one(700),
            arrivals: Arrivals::Bursts,
            burst: 16,
            skew_pct: 0.0,
            offered_gbit: 70.0,
            surge_pct: 0.0,
            surge_us: 0,
            stall_us: 500,
            stall_every_us: 50_000,
            run_us: 40_000,
            warm_up_us: 10_000,
            seed: 1,
        }
    }
}

impl RouterSettings {
    /// Returns receive queues, and as many transmit queues: one a CPU and port.
    pub(crate) fn queues(&self) -> u64 {
        self.ports * self.cpus
    }

    /// Returns frames of the simulated machine: those asked for, or half as many again as all rings and queues can
    /// hold.
    pub(crate) fn machine_frames(&self) -> u64 {
        /// Memory below this leaves watermarks too large a share.
        const LEAST: u64 = 1 << 14;
        if self.frames > 0 {
            return self.frames;
        }
        let queue = self.rx_ring + self.tx_ring + self.qdisc_limit + self.pool_frames;
        (self.queues() * queue * 3 / 2).max(LEAST).next_multiple_of(1024)
    }

    /// Returns these settings with less simulated time.
    #[must_use]
    pub fn quick(self) -> RouterSettings {
        RouterSettings { run_us: 10_000, warm_up_us: 5_000, ..self }
    }
}
