//! Simulated time in whole picoseconds, and resources that serve one request after another.

use std::ops::{Add, AddAssign, Sub};

/// A moment or a span of simulated time, in picoseconds. Whole numbers order events the same way on every machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub(crate) struct Time(pub u64);

impl Time {
    /// A moment that never comes.
    pub const NEVER: Time = Time(u64::MAX);

    /// The beginning, and an empty span.
    pub const ZERO: Time = Time(0);

    /// Returns a span of nanoseconds.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns * 1000)
    }

    /// Returns a span of microseconds.
    pub const fn from_us(us: u64) -> Time {
        Time(us * 1_000_000)
    }

    /// Returns a span in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 * 1e-12
    }

    /// Returns the span since `earlier`, or nothing where that is later.
    pub fn since(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Time {
    type Output = Time;

    fn add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Time;

    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

/// Fractions of a picosecond in [`Speed`], as a power of two: 1 byte at 400 Gbit/s is 20 ps, and must not be 2 % off.
const FRACTION: u32 = 10;

/// The time a byte takes, in 1/1024 picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Speed(u64);

impl Speed {
    /// Returns the speed of so many bits a second; settings refuse 0.
    pub fn of_bits(bits_per_second: f64) -> Speed {
        Speed(((8e12 * f64::from(1 << FRACTION)) / bits_per_second).round().max(1.0) as u64)
    }

    /// Returns how long so many bytes take.
    pub fn time(self, bytes: u64) -> Time {
        Time((bytes * self.0) >> FRACTION)
    }
}

/// A resource that serves requests one after another, in the order in which they come: a wire, a bus, a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    free_at: Time,
}

impl Server {
    /// Makes an idle one.
    pub const fn new() -> Server {
        Server { free_at: Time::ZERO }
    }

    /// Serves a request that comes at `now` and takes `span`. Returns when it is done.
    pub fn serve(&mut self, now: Time, span: Time) -> Time {
        self.free_at = self.free_at.max(now) + span;
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_takes_what_its_speed_says() {
        assert_eq!(Speed::of_bits(100e9).time(1250), Time(100_000), "100 Gbit/s: 80 ps a byte");
        assert_eq!(Speed::of_bits(400e9).time(1), Time(20));
        assert_eq!(Speed::of_bits(8e12).time(64), Time(64));
    }

    #[test]
    fn requests_are_served_one_after_another() {
        let mut server = Server::new();
        assert_eq!(server.serve(Time(100), Time(50)), Time(150));
        assert_eq!(server.serve(Time(110), Time(50)), Time(200), "it waits for the one before");
        assert_eq!(server.serve(Time(500), Time(50)), Time(550), "an idle one begins immediately");
        assert_eq!(Time(5).since(Time(7)), Time::ZERO);
    }
}
