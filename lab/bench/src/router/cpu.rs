//! A CPU with its queues, as NAPI runs them: an interrupt masks itself and schedules a poll; polls go on, in turns,
//! while there is as much work as the budget allows; the one that finds less unmasks the interrupt.

use super::coalesce::Coalescer;
use super::rx::{Packet, RxQueue};
use super::settings::RouterSettings;
use super::time::Time;
use super::tx::TxQueue;
use std::collections::VecDeque;

/// The work of a CPU. Its effects come when its time is over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Nothing: an interrupt can begin at any time.
    Idle,
    /// Interrupts, polls without packets, other work.
    Overhead,
    /// Sends a packet to a port.
    Forward(Packet, usize),
    /// Looks at the completion of a packet.
    Complete(usize),
    /// Moves packets from a port's qdisc to its ring, and rings the doorbell once.
    Dequeue(usize),
    /// Hands XDP's batch to a port, and rings the doorbell once.
    Flush(usize),
}

/// The queue pair of a CPU at one port, and its one interrupt.
#[derive(Debug)]
pub(crate) struct Napi {
    /// Whether its interrupt is masked: a poll is due or running.
    pub masked: bool,
    /// When its interrupt is due.
    pub irq_at: Time,
    /// When its interrupt was unmasked last.
    armed: Time,
    pub rx: RxQueue,
    pub tx: TxQueue,
    pub rx_wait: Coalescer,
    pub tx_wait: Coalescer,
}

impl Napi {
    fn new(settings: &RouterSettings) -> Napi {
        Napi {
            masked: false,
            irq_at: Time::NEVER,
            armed: Time::ZERO,
            rx: RxQueue::new(settings.rx_ring as usize),
            tx: TxQueue::new(settings.tx_ring as usize, settings.qdisc_limit as usize),
            rx_wait: Coalescer::new(settings.rx),
            tx_wait: Coalescer::new(settings.tx),
        }
    }

    fn rx_due(&self) -> Time {
        self.rx_wait.due(self.armed, self.rx.waiting(), |n| self.rx.visible(n))
    }

    fn tx_due(&self) -> Time {
        self.tx_wait.due(self.armed, self.tx.posted(), |n| self.tx.done(n))
    }

    /// Ends polling: the interrupt may come again.
    pub fn unmask(&mut self, now: Time) {
        (self.masked, self.armed) = (false, now);
        self.irq_at = self.rx_due().min(self.tx_due());
    }

    /// Notes that a packet has come in.
    pub fn received(&mut self) {
        if !self.masked && self.rx_wait.matters(self.rx.waiting()) {
            self.irq_at = self.irq_at.min(self.rx_due());
        }
    }

    /// Notes that a packet was posted.
    pub fn posted(&mut self) {
        if !self.masked && self.tx_wait.matters(self.tx.posted()) {
            self.irq_at = self.irq_at.min(self.tx_due());
        }
    }
}

/// A CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    /// Its queue pairs, by port.
    pub napis: Vec<Napi>,
    /// Ports to be polled, in turns.
    pub polls: VecDeque<usize>,
    /// Whether the poll at the front has not begun.
    pub fresh: bool,
    /// Whether the poll at the front looks at completions, which it does first.
    pub cleaning: bool,
    /// Completions that the present poll may still look at.
    pub tx_left: u64,
    /// Packets that the present poll may still receive.
    pub rx_left: u64,
    /// Its current work.
    pub work: Work,
    /// XDP's batch: packets that wait for their doorbell.
    pub batch: Vec<Packet>,
    /// When other work takes it next.
    pub stall_at: Time,
    /// The cost of the frames that it freed at the end of its last work. The next work begins so much later.
    pub owed: Time,
    /// Time spent at work.
    pub busy: Time,
}

impl Cpu {
    /// Makes an idle one; all CPUs are taken by other work equally often, and one after another.
    pub fn new(settings: &RouterSettings, number: u64) -> Cpu {
        let stall_at = match settings.stall_us {
            0 => Time::NEVER,
            _ => Time::from_us(settings.stall_every_us * (number + 1) / settings.cpus),
        };
        Cpu {
            napis: (0..settings.ports).map(|_| Napi::new(settings)).collect(),
            polls: VecDeque::new(),
            fresh: true,
            cleaning: false,
            tx_left: 0,
            rx_left: 0,
            work: Work::Idle,
            batch: Vec::new(),
            stall_at,
            owed: Time::ZERO,
            busy: Time::ZERO,
        }
    }

    /// Takes the interrupts that are due: each masks itself and schedules a poll. Returns how many.
    pub fn take_interrupts(&mut self, now: Time) -> u64 {
        let mut taken = 0;
        for (port, napi) in self.napis.iter_mut().enumerate() {
            if napi.irq_at > now {
                continue;
            }
            taken += 1;
            napi.irq_at = Time::NEVER;
            napi.masked = true;
            napi.rx_wait.interrupted(now);
            napi.tx_wait.interrupted(now);
            self.polls.push_back(port);
        }
        taken
    }

    /// Returns when the next interrupt is due.
    pub fn next_interrupt(&self) -> Time {
        self.napis.iter().map(|napi| napi.irq_at).min().unwrap_or(Time::NEVER)
    }

    /// Returns how long other work takes it from now on; nothing where that is not due.
    pub fn stalled(&mut self, now: Time, settings: &RouterSettings) -> Time {
        if now < self.stall_at {
            return Time::ZERO;
        }
        let (every, long) = (Time::from_us(settings.stall_every_us), Time::from_us(settings.stall_us));
        // What passed while it was idle took it from no one.
        let missed = now.since(self.stall_at).0 / every.0;
        let last = self.stall_at + Time(missed * every.0);
        self.stall_at = last + every;
        (last + long).since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_work_takes_a_cpu_for_what_is_left_of_its_time() {
        let settings =
            RouterSettings { cpus: 1, stall_us: 10, stall_every_us: 100, ..RouterSettings::default() };
        let mut cpu = Cpu::new(&settings, 0);
        assert_eq!(cpu.stalled(Time::from_us(99), &settings), Time::ZERO);
        assert_eq!(cpu.stalled(Time::from_us(104), &settings), Time::from_us(6));
        assert_eq!(cpu.stalled(Time::from_us(104), &settings), Time::ZERO, "once");
        assert_eq!(cpu.stalled(Time::from_us(450), &settings), Time::ZERO, "it was over long ago");
        assert_eq!(cpu.stalled(Time::from_us(500), &settings), Time::from_us(10));
        let none = RouterSettings { stall_us: 0, ..settings };
        assert_eq!(Cpu::new(&none, 0).stalled(Time::from_us(1 << 30), &none), Time::ZERO);
    }
}
