//! Traffic: how large packets are, when they come to a port, and to which of its queues.

use super::time::{Speed, Time};
use std::fmt;
use std::str::FromStr;

/// Bytes that a packet takes on a wire beside its frame: preamble, start, and the gap behind it (IEEE 802.3).
pub(crate) const FRAMING: u64 = 20;

/// The smallest and the largest frame of Ethernet without jumbo frames, in bytes with the check sum.
const SIZES: std::ops::RangeInclusive<u64> = 64..=1518;

/// A mix of packet sizes with weights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mix {
    name: String,
    /// Bytes, and the weight of this size and those before it.
    sizes: Vec<(u64, u64)>,
}

impl Mix {
    /// Packets of one size.
    pub fn one(bytes: u64) -> Mix {
        Mix { name: bytes.to_string(), sizes: vec![(bytes, 1)] }
    }

    /// Returns the share of a wire's bits that are bits of frames.
    pub fn wire_share(&self) -> f64 {
        let mean = self.mean_bytes();
        mean / (mean + FRAMING as f64)
    }

    /// Returns the mean size in bytes.
    fn mean_bytes(&self) -> f64 {
        let (mut sum, mut before) = (0, 0);
        for (bytes, upto) in &self.sizes {
            sum += bytes * (upto - before);
            before = *upto;
        }
        sum as f64 / before as f64
    }

    fn pick(&self, rng: &mut fastrand::Rng) -> u64 {
        match &*self.sizes {
            [(bytes, _)] => *bytes,
            sizes => {
                let total = sizes.last().map_or(1, |s| s.1);
                let at = rng.u64(..total);
                sizes.iter().find(|(_, upto)| at < *upto).map_or(SIZES.into_inner().1, |s| s.0)
            }
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for Mix {
    type Err = String;

    /// Reads `imix`, a size, or sizes with weights: `64:7,594:4,1518:1`.
    fn from_str(text: &str) -> Result<Mix, String> {
        const FORM: &str =
            "imix, a size from 64 to 1518 bytes, or sizes with weights as in 64:7,594:4,1518:1";
        // The simple mix that router tests use: RFC 6985 names it as one in common use.
        let listed = if text == "imix" { "64:7,594:4,1518:1" } else { text };
        let wrong = || format!("`mix` takes {FORM}, not `{}`", pageyard_replay::text::shown(text));
        let (mut sizes, mut upto) = (Vec::new(), 0);
        for part in listed.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (bytes, weight) = part.split_once(':').unwrap_or((part, "1"));
            let bytes = bytes.trim().parse().ok().filter(|b| SIZES.contains(b)).ok_or_else(wrong)?;
            let weight: u64 = weight.trim().parse().ok().filter(|w| *w <= 1_000_000).ok_or_else(wrong)?;
            upto += weight;
            if weight > 0 {
                sizes.push((bytes, upto));
            }
        }
        if sizes.is_empty() {
            return Err(format!("`mix` is empty: it takes {FORM}, and one weight above 0"));
        }
        Ok(Mix { name: text.to_owned(), sizes })
    }
}

/// When packets come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrivals {
    /// At even distances.
    Paced,
    /// Independently of one another.
    Poisson,
    /// In bursts at the speed of the wire, which come independently of one another. A burst is of one flow, so it goes
    /// to one queue.
    Bursts,
}

/// A packet on its way to a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Its frame's size in bytes.
    pub bytes: u64,
    /// The queue of the port.
    pub queue: usize,
    /// The VLAN that it leaves by.
    pub vlan: usize,
}

/// Quantiles of the exponential distribution, in 1/65536 of its mean, computed with whole numbers: the same on every
/// machine.
struct Exponential(Vec<u32>);

/// Quantiles: the longest gap is some nine times the mean.
const QUANTILES: usize = 4096;

impl Exponential {
    fn new() -> Exponential {
        // At (k + 1/2) / QUANTILES: ln(2 QUANTILES / (2 k + 1)).
        let of = |k: usize| ln_65536(2 * QUANTILES as u64) - ln_65536(2 * k as u64 + 1);
        Exponential((0..QUANTILES).map(|k| of(k) as u32).collect())
    }

    fn gap(&self, mean: Time, rng: &mut fastrand::Rng) -> Time {
        let quantile = self.0[rng.usize(..QUANTILES)];
        Time(((u128::from(mean.0) * u128::from(quantile)) >> 16) as u64)
    }
}

/// Returns the natural logarithm of a number below 2^31, times 65536, by squaring.
fn ln_65536(n: u64) -> u64 {
    const LN_2: u64 = 45_426; // ln 2 times 65536
    let whole = u64::from(n.ilog2());
    let mut mantissa = (n << 31) >> whole;
    let mut log2 = whole << 16;
    for bit in (0..16).rev() {
        mantissa = (mantissa * mantissa) >> 31;
        if mantissa >= 1 << 32 {
            mantissa >>= 1;
            log2 |= 1 << bit;
        }
    }
    (log2 * LN_2) >> 16
}

/// The packets that come to one port.
pub(crate) struct Traffic {
    mix: Mix,
    arrivals: Arrivals,
    gaps: Exponential,
    wire: Speed,
    /// The mean time from packet to packet that gives the rate asked for, for each byte of a frame.
    paced: Speed,
    /// The same while the surge lasts.
    surging: Speed,
    surge_ends: Time,
    burst: u64,
    left: u64,
    /// The time that the packets of the present burst take at the rate asked for, less the time they took on the wire.
    owed: Time,
    queues: usize,
    queue: usize,
    /// Of 2^32 bursts, those that go to queue 0 whatever their flow.
    skewed: u64,
    vlans: usize,
    rng: fastrand::Rng,
    at: Time,
}

impl Traffic {
    /// Makes the traffic of a port: `bits` of frames a second, no more than its wire carries.
    pub fn new(settings: &super::settings::RouterSettings, port: u64, wire: Speed) -> Traffic {
        let share = settings.offered_gbit * 1e9 / settings.ports as f64;
        let mut rng = fastrand::Rng::with_seed(settings.seed);
        for _ in 0..port {
            rng = rng.fork();
        }
        let burst = if settings.arrivals == Arrivals::Bursts { settings.burst } else { 1 };
        Traffic {
            mix: settings.mix.clone(),
            arrivals: settings.arrivals,
            gaps: Exponential::new(),
            wire,
            paced: Speed::of_bits(share),
            surging: Speed::of_bits(share * (1.0 + settings.surge_pct / 100.0)),
            surge_ends: Time::from_us(settings.surge_us),
            burst,
            left: 0,
            owed: Time::ZERO,
            queues: settings.cpus as usize,
            queue: 0,
            skewed: (settings.skew_pct / 100.0 * (1u64 << 32) as f64) as u64,
            vlans: settings.vlans.max(1) as usize,
            at: Time::ZERO,
            rng,
        }
    }

    /// Returns the next packet, and when its last bit has come in.
    pub fn next(&mut self) -> (Time, Arrival) {
        if self.left == 0 {
            self.begin_burst();
        }
        self.left -= 1;
        let bytes = self.mix.pick(&mut self.rng);
        let on_wire = self.wire.time(bytes + FRAMING);
        self.at += on_wire;
        let paced = if self.at < self.surge_ends { self.surging } else { self.paced };
        self.owed += paced.time(bytes).since(on_wire);
        let vlan = if self.vlans > 1 { self.rng.usize(..self.vlans) } else { 0 };
        (self.at, Arrival { bytes, queue: self.queue, vlan })
    }

    /// Waits for the next burst, so long that the rate is that asked for, and picks its queue.
    fn begin_burst(&mut self) {
        self.at += match self.arrivals {
            Arrivals::Paced => self.owed,
            Arrivals::Poisson | Arrivals::Bursts => self.gaps.gap(self.owed, &mut self.rng),
        };
        self.owed = Time::ZERO;
        self.left = self.burst;
        let skewed = self.skewed > 0 && u64::from(self.rng.u32(..)) < self.skewed;
        self.queue = if skewed { 0 } else { self.rng.usize(..self.queues) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::RouterSettings;
    use super::*;

    #[test]
    fn a_mix_has_its_mean_and_refuses_what_is_none() {
        let imix: Mix = "imix".parse().unwrap();
        assert!((imix.mean_bytes() - (7.0 * 64.0 + 4.0 * 594.0 + 1518.0) / 12.0).abs() < 1e-9);
        assert_eq!("64:1, 1000:3".parse::<Mix>().unwrap().mean_bytes(), (64.0 + 3000.0) / 4.0);
        for empty in ["", ",", "64:0", "64:0,1500:0"] {
            assert!(empty.parse::<Mix>().unwrap_err().contains("`mix` is empty"), "{empty}");
        }
        for wrong in ["63", "1519", "64:x", "big", "64:-1"] {
            let why = wrong.parse::<Mix>().unwrap_err();
            assert!(why.contains("64 to 1518") && why.contains(wrong), "{why}");
        }
    }

    #[test]
    fn logarithms_are_those_of_mathematics() {
        for n in [1u64, 2, 3, 10, 4095, 8192, 1 << 30] {
            let error = ln_65536(n) as f64 / 65536.0 - (n as f64).ln();
            assert!(error.abs() < 1e-3, "{n}: {error}");
        }
    }

    #[test]
    fn every_process_offers_the_rate_asked_for_and_no_more_than_the_wire() {
        for arrivals in [Arrivals::Paced, Arrivals::Poisson, Arrivals::Bursts] {
            for (gbit, expected) in [(35.0, 35.0), (400.0, 100.0 * 700.0 / 720.0)] {
                let settings =
                    RouterSettings { ports: 1, arrivals, offered_gbit: gbit, ..Default::default() };
                let mut traffic = Traffic::new(&settings, 0, Speed::of_bits(100e9));
                let (mut bits, mut at) = (0, Time::ZERO);
                for _ in 0..200_000 {
                    let (then, packet) = traffic.next();
                    assert!(then - at >= Speed::of_bits(100e9).time(720), "packets overlap on the wire");
                    (at, bits) = (then, bits + packet.bytes * 8);
                }
                let rate = bits as f64 / at.seconds() / 1e9;
                assert!((rate / expected - 1.0).abs() < 0.02, "{arrivals:?}: {rate} of {expected} Gbit/s");
            }
        }
    }
}
