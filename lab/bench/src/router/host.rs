//! The simulation: ports bring packets, CPUs forward them, cards send them; one event after another.
//!
//! A CPU's work has its effects when its time is over. Resources that are shared (wires, buses, memory, the zone lock)
//! serve requests in the order in which events make them.

use super::count::{Count, Counts, Level};
use super::cpu::{Cpu, Work};
use super::frames::{Frames, Packets, Way};
use super::memory::{Bandwidth, Cache, HEADER, lines};
use super::queue::{Calendar, Source};
use super::rx::{Full, Packet};
use super::settings::{Column, Path, RouterSettings};
use super::time::{Server, Speed, Time};
use super::traffic::{Arrival, FRAMING, Traffic};
use super::tx::To;
use crate::error::BenchError;

/// A port: what comes in, and its two wires.
struct Port {
    traffic: Traffic,
    /// The packet that comes next.
    coming: Arrival,
    /// When the last packet that came was in memory.
    written: Time,
    wire: Server,
    /// Packets that wait in qdiscs, by VLAN.
    vlans: Vec<u64>,
}

/// One direction of a slot for cards.
#[derive(Clone, Copy)]
struct Slot {
    to_memory: Server,
    from_memory: Server,
}

/// Bytes that PCI Express adds to each piece of at most [`PAYLOAD`] bytes: framing, sequence, header and check sum.
const TLP: u64 = 26;

/// The payload of a piece, in bytes: what servers commonly negotiate.
const PAYLOAD: u64 = 256;

/// A descriptor or a completion entry, in bytes: a line.
const ENTRY: u64 = 64;

/// The cost of a refused request for a frame: every zone and list is looked at. A rough assumption: a host without
/// frames has other troubles.
const REFUSED: Time = Time::from_us(2);

/// Returns what a packet takes on the bus with its descriptor or completion, in bytes.
fn on_bus(bytes: u64) -> u64 {
    bytes + ENTRY + TLP * (bytes.div_ceil(PAYLOAD) + 1)
}

/// A forwarding host while it is simulated.
pub(crate) struct Host<'a, P> {
    settings: &'a RouterSettings,
    frames: Frames<P>,
    calendar: Calendar,
    ports: Vec<Port>,
    slots: Vec<Slot>,
    cpus: Vec<Cpu>,
    cache: Cache,
    memory: Bandwidth,
    zone_lock: Server,
    wire: Speed,
    bus: Speed,
    /// How long a card can wait for memory before its buffer overflows.
    card_waits: Time,
    counts: Counts,
    at_warm_up: Counts,
    inside: Level,
    held: Level,
    packets: u64,
    warm: Time,
    end: Time,
}

/// The outcome of a simulated host.
#[derive(Clone, Debug)]
pub(crate) struct HostTotals {
    /// Counts after the warm-up.
    pub counts: Counts,
    /// Counts of the whole run.
    pub all: Counts,
    /// The time that `counts` is about.
    pub window: Time,
    /// Packets inside of the host at the end.
    pub left: u64,
    /// Packets in flight: inside of the host.
    pub inside: Level,
    /// Frames that the allocator did not have.
    pub held: Level,
    /// When it ended.
    pub end: Time,
    /// Time that each CPU was busy after the warm-up.
    pub busy: Vec<Time>,
    /// How long receive interrupts wait at the end, microseconds: the mean over queues.
    pub rx_usecs: f64,
}

impl<'a, P: Packets> Host<'a, P> {
    /// Makes a host whose receive rings have all their frames.
    pub fn new(settings: &'a RouterSettings, packets: P) -> Host<'a, P> {
        let wire = Speed::of_bits(settings.wire_gbit * 1e9);
        let port = |n| {
            let mut traffic = Traffic::new(settings, n, wire);
            let (at, coming) = traffic.next();
            let vlans = vec![0; settings.vlans as usize];
            (at, Port { traffic, coming, written: Time::ZERO, wire: Server::new(), vlans })
        };
        let (first, ports): (Vec<Time>, Vec<Port>) = (0..settings.ports).map(port).unzip();
        let mut calendar = Calendar::new((settings.ports + settings.cpus) as usize);
        for (n, at) in first.into_iter().enumerate() {
            calendar.set(Source(n as u32), at);
        }
        let idle = Slot { to_memory: Server::new(), from_memory: Server::new() };
        let room = (settings.llc_kib * 1024) as f64 * settings.ddio_pct / 100.0;
        let warm = Time::from_us(settings.warm_up_us);
        let mut host = Host {
            settings,
            frames: Frames::new(packets, settings),
            calendar,
            ports,
            slots: vec![idle; settings.slots as usize],
            cpus: (0..settings.cpus).map(|n| Cpu::new(settings, n)).collect(),
            cache: Cache::new(room as u64, settings.machine_frames()),
            memory: Bandwidth::new(settings.memory_gbyte),
            zone_lock: Server::new(),
            wire,
            bus: Speed::of_bits(settings.pcie_gbit * 1e9),
            card_waits: wire.time(settings.nic_buffer_kib * 1024),
            counts: Counts::NONE,
            at_warm_up: Counts::NONE,
            inside: Level::default(),
            held: Level::default(),
            packets: 0,
            warm,
            end: warm + Time::from_us(settings.run_us),
        };
        host.fill_rings();
        host
    }

    fn fill_rings(&mut self) {
        for _ in 0..self.settings.rx_ring {
            for cpu in 0..self.cpus.len() {
                for port in 0..self.ports.len() {
                    self.refill(cpu, port, Time::ZERO);
                }
            }
        }
        // What setting up did is no part of what is counted, and held no one up.
        self.counts = Counts::NONE;
        self.zone_lock = Server::new();
        self.frames.traded.taken = 0;
        self.frames.traded.recycled = 0;
        self.frames.traded.refused = 0;
    }

    /// Simulates it to the end.
    pub fn run(&mut self) {
        let ports = self.ports.len();
        let mut warming = true;
        loop {
            let (now, source) = self.calendar.next();
            if warming && now >= self.warm {
                warming = false;
                self.note_frames();
                self.at_warm_up = self.counts;
                self.inside.restart(self.warm);
                self.held.restart(self.warm);
            }
            if now > self.end {
                return;
            }
            match source.0 as usize {
                port if port < ports => self.arrive(port, now),
                cpu => self.step(cpu - ports, now),
            }
        }
    }

    /// A packet comes in over a wire.
    fn arrive(&mut self, port: usize, now: Time) {
        let arrival = self.ports[port].coming;
        self.counts[Count::Offered] += 1;
        self.counts[Count::OfferedBytes] += arrival.bytes;
        match self.accept(port, arrival, now) {
            Ok(()) => {
                self.counts[Count::Accepted] += 1;
                self.counts[Count::AcceptedBytes] += arrival.bytes;
                self.inside.set(now, self.inside.now() + 1);
            }
            Err(place) => self.counts[place] += 1,
        }
        let (next, coming) = self.ports[port].traffic.next();
        self.ports[port].coming = coming;
        self.calendar.set(Source(port as u32), next);
    }

    /// Writes a packet to memory, if there is room for it. An error is where it is dropped.
    fn accept(&mut self, port: usize, arrival: Arrival, now: Time) -> Result<(), Count> {
        let Arrival { bytes, queue: cpu, vlan } = arrival;
        if self.ports[port].written > now + self.card_waits {
            return Err(Count::DropCard);
        }
        let napi = &mut self.cpus[cpu].napis[port];
        let pfn = napi.rx.accept().map_err(|full| match full {
            Full::Packets => Count::DropRxRing,
            Full::NoFrame => Count::DropNoFrame,
        })?;
        // What is pushed out of the cache is written to memory before the packet can lie there.
        let pushed_out = if self.cache.receive(pfn, bytes) { lines(bytes) } else { 0 };
        self.counts[Count::MemoryWritten] += pushed_out;
        let slot = port % self.slots.len();
        let over_bus = self.slots[slot].to_memory.serve(now, self.bus.time(on_bus(bytes)));
        // A port's packets can be seen in the order in which they came.
        let visible = over_bus.max(self.memory.transfer(now, pushed_out)).max(self.ports[port].written);
        self.ports[port].written = visible;
        self.packets += 1;
        let queue = (cpu * self.ports.len() + port) as u16;
        let packet =
            Packet { id: self.packets, pfn, came: now, bytes: bytes as u32, vlan: vlan as u16, queue };
        self.frames.write(pfn, packet.id);
        napi.rx.fill(visible, packet);
        napi.received();
        let due = napi.irq_at;
        if matches!(self.cpus[cpu].work, Work::Idle) {
            self.calendar.hasten(Source((self.ports.len() + cpu) as u32), due);
        }
        Ok(())
    }

    /// A CPU ends what it was at, and begins what is next.
    fn step(&mut self, cpu: usize, now: Time) {
        self.finish(cpu, now);
        let settings = self.settings;
        let mut cost = std::mem::take(&mut self.cpus[cpu].owed) + self.cpus[cpu].stalled(now, settings);
        loop {
            let taken = self.cpus[cpu].take_interrupts(now);
            self.counts[Count::Interrupts] += taken;
            cost += Time::from_ns(taken * settings.costs.irq);
            let Some(&port) = self.cpus[cpu].polls.front() else { break };
            if self.cpus[cpu].fresh {
                cost += self.begin_poll(cpu, port, now);
            }
            if let Some((work, span)) = self.next_work(cpu, port, now) {
                self.cpus[cpu].work = work;
                cost += span;
                break;
            }
            self.end_poll(cpu, port, now);
        }
        let c = &mut self.cpus[cpu];
        if cost > Time::ZERO && matches!(c.work, Work::Idle) {
            c.work = Work::Overhead;
        }
        let source = Source((self.ports.len() + cpu) as u32);
        let due = if matches!(c.work, Work::Idle) { c.next_interrupt() } else { now + cost };
        self.cpus[cpu].busy += (now + cost).min(self.end).since(now.max(self.warm));
        self.calendar.set(source, due);
    }

    fn begin_poll(&mut self, cpu: usize, port: usize, now: Time) -> Time {
        self.counts[Count::Polls] += 1;
        let (budget, tx_budget) = (self.settings.budget, self.settings.tx_budget);
        let c = &mut self.cpus[cpu];
        (c.fresh, c.cleaning, c.rx_left, c.tx_left) = (false, true, budget, tx_budget);
        let mut cost = Time::from_ns(self.settings.costs.poll);
        // Descriptors that got no frame when they should have.
        for _ in 0..budget.min(self.cpus[cpu].napis[port].rx.missing() as u64) {
            match self.refill(cpu, port, now) {
                Some(span) => cost += span,
                None => {
                    cost += REFUSED;
                    break;
                }
            }
        }
        cost
    }

    /// Picks what a poll does next, and how long that takes.
    fn next_work(&mut self, cpu: usize, port: usize, now: Time) -> Option<(Work, Time)> {
        let costs = &self.settings.costs;
        let c = &mut self.cpus[cpu];
        if c.cleaning {
            let tx = &c.napis[port].tx;
            if c.tx_left > 0 && tx.is_done(now) {
                c.tx_left -= 1;
                return Some((Work::Complete(port), Time::from_ns(costs.completion)));
            }
            let group = (tx.backlog() as u64).min(tx.room() as u64).min(self.settings.bulk);
            if group > 0 {
                return Some((Work::Dequeue(port), Time::from_ns(group * costs.tx + costs.doorbell)));
            }
            c.cleaning = false;
        }
        let to = (port + 1) % c.napis.len();
        if c.batch.len() as u64 >= self.settings.xdp_batch {
            return Some((Work::Flush(to), self.flush_cost(cpu)));
        }
        if c.rx_left > 0
            && let Some(packet) = c.napis[port].rx.poll(now)
        {
            c.rx_left -= 1;
            c.napis[port].rx_wait.polled(1);
            return Some((Work::Forward(packet, to), self.forward_cost(cpu, port, to, packet, now)));
        }
        (!self.cpus[cpu].batch.is_empty()).then(|| (Work::Flush(to), self.flush_cost(cpu)))
    }

    fn flush_cost(&self, cpu: usize) -> Time {
        let costs = &self.settings.costs;
        Time::from_ns(self.cpus[cpu].batch.len() as u64 * costs.tx + costs.doorbell)
    }

    /// Reads a packet's header, replaces its frame in the ring, and returns how long the packet takes.
    fn forward_cost(&mut self, cpu: usize, port: usize, to: usize, packet: Packet, now: Time) -> Time {
        let costs = &self.settings.costs;
        self.counts[Count::Forwarded] += 1;
        self.frames.forward(packet.pfn, packet.id);
        let mut read = self.settings.other_bytes;
        let mut ns = costs.rx;
        if self.cache.is_cold(packet.pfn) {
            self.counts[Count::Misses] += 1;
            read += HEADER;
            ns += costs.miss;
        }
        self.counts[Count::MemoryRead] += read;
        let waited = self.memory.wait(now, read);
        self.counts[Count::MemoryWait] += waited.0;
        ns += match self.settings.path {
            Path::Xdp => costs.xdp,
            Path::Stack => match self.cpus[cpu].napis[to].tx.next() {
                To::Ring => costs.stack + costs.qdisc + costs.tx + costs.doorbell,
                To::Qdisc | To::Nowhere => costs.stack + costs.qdisc,
            },
        };
        let refilled = self.refill(cpu, port, now).unwrap_or(Time::ZERO);
        Time::from_ns(ns) + waited + refilled
    }

    /// Gives a descriptor a frame. Returns how long that takes; `None` where there is no frame.
    fn refill(&mut self, cpu: usize, port: usize, now: Time) -> Option<Time> {
        let queue = cpu * self.ports.len() + port;
        let (pfn, way) = self.frames.take(cpu, queue)?;
        self.held.set(now, self.frames.traded.held);
        self.cpus[cpu].napis[port].rx.post(pfn);
        Some(self.frame_cost(way, self.settings.costs.lock_batch, now))
    }

    /// Returns how long it takes to take or give a frame; each section of the zone lock is `held` nanoseconds long.
    fn frame_cost(&mut self, way: Way, held: u64, now: Time) -> Time {
        let costs = &self.settings.costs;
        let Way::Locked(times) = way else {
            return Time::from_ns(if way == Way::Pooled { costs.pool } else { costs.frame });
        };
        let section = Time::from_ns(held);
        let mut at = now;
        for _ in 0..times {
            let done = self.zone_lock.serve(at, section);
            self.counts[Count::LockWait] += done.since(at + section).0;
            at = done;
        }
        self.counts[Count::Locks] += times;
        at.since(now) + Time::from_ns(costs.frame)
    }

    /// Ends a poll: it goes on in its turn if it used up its budget, or else the interrupt may come again.
    fn end_poll(&mut self, cpu: usize, port: usize, now: Time) {
        let c = &mut self.cpus[cpu];
        c.polls.pop_front();
        c.fresh = true;
        // A driver whose ring has no frame goes on polling, or it would never be woken again.
        match c.rx_left == 0 || c.tx_left == 0 || c.napis[port].rx.is_dry() {
            true => c.polls.push_back(port),
            false => c.napis[port].unmask(now),
        }
    }

    /// Lets what a CPU was at have its effects.
    fn finish(&mut self, cpu: usize, now: Time) {
        match std::mem::replace(&mut self.cpus[cpu].work, Work::Idle) {
            Work::Idle | Work::Overhead => {}
            Work::Forward(packet, to) => match self.settings.path {
                Path::Stack => self.transmit(cpu, to, packet, now),
                Path::Xdp => self.cpus[cpu].batch.push(packet),
            },
            Work::Complete(port) => {
                if let Some(packet) = self.cpus[cpu].napis[port].tx.complete(now) {
                    self.cpus[cpu].napis[port].tx_wait.polled(1);
                    self.counts[Count::Completed] += 1;
                    self.counts[Count::Sojourn] += now.since(packet.came).0;
                    self.give_up(cpu, packet, now);
                }
            }
            Work::Dequeue(port) => self.dequeue(cpu, port, now),
            Work::Flush(port) => self.flush(cpu, port, now),
        }
    }

    /// Frees a packet's frame: the packet is no longer in the host.
    fn give_up(&mut self, cpu: usize, packet: Packet, now: Time) {
        self.frames.check(packet.pfn, packet.id);
        let way = self.frames.give(cpu, packet.queue.into(), packet.pfn);
        self.inside.set(now, self.inside.now() - 1);
        self.held.set(now, self.frames.traded.held);
        // A free that goes to the zone is one frame's; one that a list spills is a batch.
        let costs = &self.settings.costs;
        let held = if self.settings.column == Column::Buddy { costs.lock_hold } else { costs.lock_batch };
        let cost = self.frame_cost(way, held, now);
        self.cpus[cpu].owed += cost;
    }

    /// Sends a packet by the stack: to the ring, to the qdisc, or nowhere.
    fn transmit(&mut self, cpu: usize, to: usize, packet: Packet, now: Time) {
        let limit = self.settings.vlan_limit;
        let tx = &mut self.cpus[cpu].napis[to].tx;
        let vlan = self.ports[to].vlans.get_mut(usize::from(packet.vlan));
        match (tx.next(), vlan) {
            (To::Ring, _) => {
                self.counts[Count::Doorbells] += 1;
                self.post(cpu, to, packet, now);
            }
            (_, Some(waiting)) if limit > 0 && *waiting >= limit => {
                self.drop(cpu, packet, Count::DropVlan, now)
            }
            (To::Qdisc, vlan) => {
                if let Some(waiting) = vlan {
                    *waiting += 1;
                }
                tx.queue(packet);
            }
            (To::Nowhere, _) => self.drop(cpu, packet, Count::DropQdisc, now),
        }
    }

    fn drop(&mut self, cpu: usize, packet: Packet, place: Count, now: Time) {
        self.counts[place] += 1;
        self.give_up(cpu, packet, now);
    }

    fn dequeue(&mut self, cpu: usize, port: usize, now: Time) {
        self.counts[Count::Doorbells] += 1;
        for _ in 0..self.settings.bulk {
            let tx = &mut self.cpus[cpu].napis[port].tx;
            if tx.room() == 0 {
                break;
            }
            let Some(packet) = tx.dequeue() else { break };
            if let Some(waiting) = self.ports[port].vlans.get_mut(usize::from(packet.vlan)) {
                *waiting -= 1;
            }
            self.post(cpu, port, packet, now);
        }
    }

    fn flush(&mut self, cpu: usize, port: usize, now: Time) {
        self.counts[Count::Doorbells] += 1;
        let mut batch = std::mem::take(&mut self.cpus[cpu].batch);
        for packet in batch.drain(..) {
            match self.cpus[cpu].napis[port].tx.room() {
                0 => self.drop(cpu, packet, Count::DropTxRing, now),
                _ => self.post(cpu, port, packet, now),
            }
        }
        self.cpus[cpu].batch = batch;
    }

    /// Hands a packet to a card, which fetches it over the bus and sends it over the wire.
    fn post(&mut self, cpu: usize, port: usize, packet: Packet, now: Time) {
        let bytes = u64::from(packet.bytes);
        self.counts[Count::Posted] += 1;
        let read = if self.cache.is_cold(packet.pfn) { lines(bytes) } else { 0 };
        self.counts[Count::MemoryRead] += read;
        let slot = port % self.slots.len();
        let over_bus = self.slots[slot].from_memory.serve(now, self.bus.time(on_bus(bytes)));
        let ready = over_bus.max(self.memory.transfer(now, read));
        let done = self.ports[port].wire.serve(ready, self.wire.time(bytes + FRAMING));
        if done <= self.end {
            self.counts[Count::Sent] += 1;
            self.counts[Count::SentBytes] += bytes;
        }
        let napi = &mut self.cpus[cpu].napis[port];
        napi.tx.post(done, packet);
        napi.posted();
    }

    fn note_frames(&mut self) {
        let traded = self.frames.traded;
        self.counts[Count::Taken] = traded.taken;
        self.counts[Count::Recycled] = traded.recycled;
        self.counts[Count::Refused] = traded.refused;
    }

    /// Takes all frames back, and returns what came of the run.
    ///
    /// # Errors
    /// [`BenchError::Experiment`] where packets or frames were lost.
    pub fn close(mut self) -> Result<HostTotals, BenchError> {
        self.note_frames();
        let counts = self.counts;
        let rx_usecs = self.cpus.iter().flat_map(|c| &c.napis).map(|n| n.rx_wait.usecs()).sum::<f64>()
            / self.settings.queues() as f64;
        let outcome = HostTotals {
            counts: counts - self.at_warm_up,
            all: counts,
            window: self.end.since(self.warm),
            left: self.inside.now(),
            inside: self.inside,
            held: self.held,
            end: self.end,
            busy: self.cpus.iter().map(|c| c.busy).collect(),
            rx_usecs,
        };
        self.frames_back()?;
        outcome.conserved()
    }

    /// Takes every frame back.
    fn frames_back(self) -> Result<(), BenchError> {
        let mut held = Vec::new();
        for cpu in self.cpus {
            held.extend(cpu.batch.iter().map(|packet| packet.pfn));
            if let Work::Forward(packet, _) = cpu.work {
                held.push(packet.pfn);
            }
            for napi in cpu.napis {
                held.extend(napi.rx.into_frames());
                held.extend(napi.tx.into_frames());
            }
        }
        self.frames.close(held.into_iter())
    }
}

impl HostTotals {
    /// Checks that every packet is somewhere.
    fn conserved(self) -> Result<HostTotals, BenchError> {
        let all = &self.all;
        let outside = all[Count::DropCard] + all[Count::DropRxRing] + all[Count::DropNoFrame];
        let inside = all[Count::Completed] + all.dropped_inside() + self.left;
        let (offered, accepted) = (all[Count::Offered], all[Count::Accepted]);
        match offered == accepted + outside && accepted == inside {
            true => Ok(self),
            false => Err(BenchError::Experiment {
                why: format!(
                    "packets were lost: of {offered} that came {accepted} were accepted and {outside} dropped; of those \
                     accepted {inside} were found"
                ),
            }),
        }
    }
}
