//! When an interrupt is raised: so long after the first packet, or with so many; fixed, or by the rate that is
//! observed.
//!
//! The adaptive rule is in the manner of Linux's dynamic interrupt moderation, with its profiles, and is our own: every
//! [`WINDOW`] interrupts the queue's packet rate is compared with that of the window before. If it rose by a tenth, the
//! profile moves one step on in the same direction; if it fell by a tenth, one step back, and that is the new
//! direction. At the same rate, fewer interrupts a packet count as better, and more as worse; with neither it stays. At
//! either end it stays and turns.

use super::settings::{Coalescing, Moderation};
use super::time::Time;

/// Profiles: microseconds and packets. Those of Linux's `net_dim` for receive queues whose period starts with an event.
const PROFILES: [(u64, u64); 5] = [(1, 256), (8, 256), (64, 256), (128, 256), (256, 256)];

/// Interrupts after which the rate is looked at: as in Linux.
const WINDOW: u64 = 64;

/// How one direction of a queue waits with interrupts.
#[derive(Clone, Debug)]
pub(crate) struct Coalescer {
    wait: Time,
    frames: usize,
    adaptive: Option<Adaptive>,
}

#[derive(Clone, Debug)]
struct Adaptive {
    profile: usize,
    up: bool,
    interrupts: u64,
    packets: u64,
    since: Time,
    /// Packets a second, and interrupts a million packets, of the window before.
    before: Option<(u64, u64)>,
}

impl Coalescer {
    /// Makes one; an adaptive one begins with the second profile.
    pub fn new(moderation: Moderation) -> Coalescer {
        const FIRST: usize = 1;
        match moderation.kind {
            Coalescing::Fixed => Coalescer {
                wait: Time::from_us(moderation.usecs),
                frames: moderation.frames as usize,
                adaptive: None,
            },
            Coalescing::Adaptive => {
                let adaptive = Adaptive {
                    profile: FIRST,
                    up: true,
                    interrupts: 0,
                    packets: 0,
                    since: Time::ZERO,
                    before: None,
                };
                let mut coalescer = Coalescer { wait: Time::ZERO, frames: 0, adaptive: Some(adaptive) };
                coalescer.follow(FIRST);
                coalescer
            }
        }
    }

    fn follow(&mut self, profile: usize) {
        let (usecs, frames) = PROFILES[profile];
        (self.wait, self.frames) = (Time::from_us(usecs), frames as usize);
    }

    /// Returns when an interrupt is due for packets that wait: `ready(n)` is when the one at place `n` was there.
    pub fn due(&self, armed: Time, waiting: usize, ready: impl Fn(usize) -> Time) -> Time {
        if waiting == 0 {
            return Time::NEVER;
        }
        let timer = ready(0).max(armed) + self.wait;
        match self.frames > 0 && waiting >= self.frames {
            true => timer.min(ready(self.frames - 1).max(armed)),
            false => timer,
        }
    }

    /// Returns whether one more packet can change when the interrupt is due: the first one, and the one that makes them
    /// enough.
    pub fn matters(&self, waiting: usize) -> bool {
        waiting == 1 || waiting == self.frames
    }

    /// Notes packets that were polled.
    pub fn polled(&mut self, packets: u64) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.packets += packets;
        }
    }

    /// Notes an interrupt; every [`WINDOW`] of them the profile may change.
    pub fn interrupted(&mut self, now: Time) {
        let Some(adaptive) = &mut self.adaptive else { return };
        adaptive.interrupts += 1;
        if adaptive.interrupts == WINDOW {
            let profile = adaptive.step(now);
            self.follow(profile);
        }
    }

    /// Returns how long it waits now, in microseconds.
    pub fn usecs(&self) -> f64 {
        self.wait.seconds() * 1e6
    }
}

impl Adaptive {
    /// Compares the window that ends now with the one before, and returns the profile to follow.
    fn step(&mut self, now: Time) -> usize {
        let nanoseconds = (now.since(self.since).0 / 1000).max(1);
        let rate = self.packets * 1_000_000_000 / nanoseconds;
        let interrupts = self.interrupts * 1_000_000 / self.packets.max(1);
        let differs = |now: u64, before: u64| now.abs_diff(before) * 10 > before;
        let better = match self.before {
            None => Some(true),
            Some((before, _)) if differs(rate, before) => Some(rate > before),
            Some((_, before)) if differs(interrupts, before) => Some(interrupts < before),
            Some(_) => None,
        };
        if let Some(better) = better {
            self.up = self.up == better;
            let last = PROFILES.len() - 1;
            match (self.up, self.profile) {
                (true, at) if at == last => self.up = false,
                (false, 0) => self.up = true,
                (true, at) => self.profile = at + 1,
                (false, at) => self.profile = at - 1,
            }
        }
        (self.before, self.since) = (Some((rate, interrupts)), now);
        (self.interrupts, self.packets) = (0, 0);
        self.profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(usecs: u64, frames: u64) -> Coalescer {
        Coalescer::new(Moderation { kind: Coalescing::Fixed, usecs, frames })
    }

    #[test]
    fn an_interrupt_is_due_by_time_or_by_frames_whichever_is_first() {
        let each_us = |n: usize| Time::from_us(10 + n as u64);
        let both = fixed(25, 8);
        assert_eq!(both.due(Time::ZERO, 0, each_us), Time::NEVER);
        assert_eq!(both.due(Time::ZERO, 7, each_us), Time::from_us(35), "too few: 25 us after the first");
        assert_eq!(both.due(Time::ZERO, 8, each_us), Time::from_us(17), "with the eighth");
        assert_eq!(both.due(Time::from_us(100), 7, each_us), Time::from_us(125), "after it was armed");
        assert_eq!(fixed(25, 0).due(Time::ZERO, 500, each_us), Time::from_us(35), "no limit by frames");
        assert_eq!(fixed(0, 0).due(Time::ZERO, 1, each_us), Time::from_us(10));
        assert_eq!([0, 1, 2, 8].map(|n| both.matters(n)), [false, true, false, true]);
    }

    #[test]
    fn the_adaptive_rule_goes_on_while_things_improve_and_turns_when_they_do_not() {
        let mut adaptive =
            Adaptive { profile: 1, up: true, interrupts: 0, packets: 0, since: Time::ZERO, before: None };
        let mut at = Time::ZERO;
        let mut window = |packets: u64, us: u64| {
            at += Time::from_us(us);
            (adaptive.packets, adaptive.interrupts) = (packets, WINDOW);
            adaptive.step(at)
        };
        assert_eq!(window(1000, 1000), 2, "nothing to compare with");
        assert_eq!(window(1500, 1000), 3, "the rate rose");
        assert_eq!(window(1000, 1000), 2, "it fell");
        assert_eq!(window(1010, 1000), 2, "the same");
        assert_eq!(window(2020, 2000), 1, "the same rate with half the interrupts a packet: on downwards");
        assert_eq!(window(1010, 1000), 2, "more interrupts: back");
    }
}
