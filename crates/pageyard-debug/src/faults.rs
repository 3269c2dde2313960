//! Allocations that fail on purpose.

use core::fmt;
use core::str::FromStr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use pageyard_core::memmap::ZoneKind;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::request::{Request, RequestFlags};
use pageyard_core::units::{BlockId, Frames, Order, Pfn};

/// Which requests fail. By default each one does that may.
///
/// A request that [must not fail](RequestFlags::NOFAIL) never does. The others go through the knobs in the order in
/// which they stand here, from `min_order` on, and fail where none lets them pass.
///
/// # Linux
/// The files below `/sys/kernel/debug/fail_page_alloc`, each under the name given here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultKnobs {
    /// The smallest order that fails: `min-order`.
    pub min_order: Order,
    /// Requests that may wait for memory pass: `ignore-gfp-wait`.
    pub spare_waiting: bool,
    /// Requests that may be served by the highest zone, for movable contents, pass: `ignore-gfp-highmem`.
    pub spare_movable: bool,
    /// How many failures there are at most; any number without: `times`, where -1 is any number.
    pub times: Option<u64>,
    /// Frames that are handed out first: a request passes as long as it is smaller than what is left of them: `space`.
    pub space: Frames,
    /// Only every so many requests that get this far may fail: `interval`. 0 is 1.
    pub interval: u32,
    /// Of those, how many in a hundred do: `probability`. More than 100 is 100.
    pub probability: u32,
    /// Where the random numbers begin. The same requests, one after the other, fail again with the same seed.
    pub seed: u64,
}

impl Default for FaultKnobs {
    fn default() -> FaultKnobs {
        FaultKnobs {
            min_order: Order::ZERO,
            spare_waiting: false,
            spare_movable: false,
            times: None,
            space: Frames::ZERO,
            interval: 1,
            probability: 100,
            seed: 0,
        }
    }
}

/// The form of the kernel's boot parameter: `INTERVAL,PROBABILITY,SPACE,TIMES`, such as `1,10,0,-1`.
impl FromStr for FaultKnobs {
    type Err = KnobError;

    fn from_str(text: &str) -> Result<FaultKnobs, KnobError> {
        let mut parts = text.split(',').map(str::trim);
        let mut next = || parts.next().ok_or(KnobError);
        let (interval, probability, space, times) = (next()?, next()?, next()?, next()?);
        if parts.next().is_some() {
            return Err(KnobError);
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| KnobError);
        let small = |text: &str| text.parse::<u32>().map_err(|_| KnobError);
        let probability = small(probability)?;
        if probability > 100 {
            return Err(KnobError);
        }
        Ok(FaultKnobs {
            interval: small(interval)?,
            probability,
            space: Frames(number(space)?),
            times: if times == "-1" { None } else { Some(number(times)?) },
            ..FaultKnobs::default()
        })
    }
}

/// A text that is not of the form `INTERVAL,PROBABILITY,SPACE,TIMES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnobError;

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "failures are given as INTERVAL,PROBABILITY,SPACE,TIMES: every how many requests, how many in a hundred of \
             those, after how many frames, and how often, -1 for without end; 1,10,0,-1 fails one request in ten",
        )
    }
}

impl core::error::Error for KnobError {}

/// Makes requests fail as [`FaultKnobs`] say.
///
/// As an [`Observer`] it refuses them for its engine. Code that calls an engine which has none asks
/// [`Faults::refuses`] itself.
///
/// # Concurrency
/// Any thread may ask, and change the knobs. Nothing waits.
#[derive(Debug)]
pub struct Faults {
    min_order: AtomicU32,
    spare_waiting: AtomicBool,
    spare_movable: AtomicBool,
    interval: AtomicU32,
    probability: AtomicU32,
    /// `u64::MAX` for any number.
    times_left: AtomicU64,
    space_left: AtomicU64,
    /// Requests that reached the interval.
    reached: AtomicU64,
    random: AtomicU64,
    failed: AtomicU64,
}

impl Faults {
    /// Makes one with these knobs.
    #[must_use]
    pub fn new(knobs: FaultKnobs) -> Faults {
        let faults = Faults {
            min_order: AtomicU32::new(0),
            spare_waiting: AtomicBool::new(false),
            spare_movable: AtomicBool::new(false),
            interval: AtomicU32::new(1),
            probability: AtomicU32::new(0),
            times_left: AtomicU64::new(0),
            space_left: AtomicU64::new(0),
            reached: AtomicU64::new(0),
            random: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        };
        faults.set(knobs);
        faults
    }

    /// Makes one that lets every request pass, until [`Faults::set`] says otherwise.
    #[must_use]
    pub fn off() -> Faults {
        Faults::new(FaultKnobs { probability: 0, ..FaultKnobs::default() })
    }

    // ORDER: Relaxed, here and below: each number steers which requests fail, and orders nothing. A request that runs
    // beside `set` may see some knobs of before.
    /// Sets the knobs, and begins to count anew.
    pub fn set(&self, knobs: FaultKnobs) {
        // First, so that a request that runs meanwhile passes.
        self.probability.store(0, Relaxed);
        self.min_order.store(knobs.min_order.get().into(), Relaxed);
        self.spare_waiting.store(knobs.spare_waiting, Relaxed);
        self.spare_movable.store(knobs.spare_movable, Relaxed);
        self.times_left.store(knobs.times.unwrap_or(u64::MAX), Relaxed);
        self.space_left.store(knobs.space.0, Relaxed);
        self.interval.store(knobs.interval.max(1), Relaxed);
        self.reached.store(0, Relaxed);
        self.random.store(knobs.seed, Relaxed);
        self.failed.store(0, Relaxed);
        self.probability.store(knobs.probability.min(100), Relaxed);
    }

    /// Returns how many requests failed on purpose since the knobs were set.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// Returns whether a request is to fail, and counts it.
    ///
    /// # Linux
    /// `__should_fail_alloc_page` and `should_fail`.
    #[must_use]
    pub fn refuses(&self, request: &Request) -> bool {
        let probability = self.probability.load(Relaxed);
        if probability == 0 || !self.may_fail(request) || self.times_left.load(Relaxed) == 0 {
            return false;
        }
        let size = request.order.frames().0;
        let take = |left: u64| left.checked_sub(size).filter(|left| *left > 0);
        if self.space_left.fetch_update(Relaxed, Relaxed, take).is_ok() {
            return false;
        }
        let nth = self.reached.fetch_add(1, Relaxed) + 1;
        if !nth.is_multiple_of(self.interval.load(Relaxed).into()) || self.draw() >= probability {
            return false;
        }
        let one = |left: u64| match left {
            u64::MAX => Some(u64::MAX),
            left => left.checked_sub(1),
        };
        let fails = self.times_left.fetch_update(Relaxed, Relaxed, one).is_ok();
        if fails {
            self.failed.fetch_add(1, Relaxed);
        }
        fails
    }

    fn may_fail(&self, request: &Request) -> bool {
        let waits = !request.flags.contains(RequestFlags::NON_BLOCKING);
        let anywhere = request.highest_zone == ZoneKind::Movable;
        let passes = request.flags.contains(RequestFlags::NOFAIL)
            || u32::from(request.order.get()) < self.min_order.load(Relaxed)
            || waits && self.spare_waiting.load(Relaxed)
            || anywhere && self.spare_movable.load(Relaxed);
        !passes
    }

    /// Draws a number below 100. SplitMix64, whose state is a counter: threads need not wait for each other.
    fn draw(&self) -> u32 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.random.fetch_add(STEP, Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % 100) as u32
    }
}

impl Observer for Faults {
    fn refuses(&self, request: &Request) -> bool {
        Faults::refuses(self, request)
    }

    fn allocated(&self, _: Pfn, _: Order, _: Migratetype) {}

    fn freed(&self, _: Pfn, _: Order) {}

    fn split(&self, _: Pfn, _: Order, _: Order) {}

    fn migrated(&self, _: BlockId, _: Pfn) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Request {
        Request::new(Order::ZERO, Migratetype::Movable)
    }

    /// Returns which of the next `n` requests fail.
    fn failures(faults: &Faults, request: &Request, n: usize) -> [bool; 16] {
        core::array::from_fn(|nth| nth < n && faults.refuses(request))
    }

    #[test]
    fn every_request_fails_but_one_that_must_not() {
        let faults = Faults::new(FaultKnobs::default());
        assert_eq!(failures(&faults, &page(), 16), [true; 16]);
        assert_eq!(failures(&faults, &page().with(RequestFlags::NOFAIL), 16), [false; 16]);
        assert_eq!(faults.failed(), 16);
        assert_eq!(failures(&Faults::off(), &page(), 16), [false; 16]);
    }

    #[test]
    fn every_third_fails_after_four_frames_and_twice_at_most() {
        let knobs = FaultKnobs { interval: 3, space: Frames(5), times: Some(2), ..FaultKnobs::default() };
        let faults = Faults::new(knobs);
        let mut expected = [false; 16];
        // Four pass for the space, then the third and the sixth of those that follow fail.
        (expected[6], expected[9]) = (true, true);
        assert_eq!(failures(&faults, &page(), 16), expected);
        faults.set(knobs);
        assert_eq!(failures(&faults, &page(), 16), expected, "it counts anew");
        assert_eq!(faults.failed(), 2);
    }

    #[test]
    fn a_block_that_is_larger_than_the_space_that_is_left_fails() {
        let faults = Faults::new(FaultKnobs { space: Frames(5), ..FaultKnobs::default() });
        let huge = Request::new(Order::HUGE, Migratetype::Movable);
        assert_eq!([&page(), &huge, &page()].map(|request| faults.refuses(request)), [false, true, false]);
    }

    #[test]
    fn orders_and_flags_choose_who_fails() {
        let knobs = FaultKnobs {
            min_order: Order::of(4),
            spare_waiting: true,
            spare_movable: true,
            ..FaultKnobs::default()
        };
        let faults = Faults::new(knobs);
        let kernel = |order| Request::new(Order::of(order), Migratetype::Unmovable);
        let atomic = RequestFlags::NON_BLOCKING;
        let asked = [
            (kernel(4).with(atomic), true),
            (kernel(3).with(atomic), false),
            (kernel(4), false),
            (Request::new(Order::of(4), Migratetype::Movable).with(atomic), false),
        ];
        for (request, fails) in asked {
            assert_eq!(faults.refuses(&request), fails, "{request:?}");
        }
    }

    #[test]
    fn one_in_ten_is_about_one_in_ten_and_the_same_ones_again() {
        let knobs = FaultKnobs { probability: 10, seed: 7, ..FaultKnobs::default() };
        let (one, other) = (Faults::new(knobs), Faults::new(knobs));
        for nth in 0..10_000 {
            assert_eq!(one.refuses(&page()), other.refuses(&page()), "request {nth}");
        }
        assert!((900..1_100).contains(&one.failed()), "{}", one.failed());
    }

    #[test]
    fn the_kernels_form_is_read_and_another_is_refused() {
        let knobs: FaultKnobs = "3, 10,0,-1".parse().unwrap();
        assert_eq!(knobs, FaultKnobs { interval: 3, probability: 10, ..FaultKnobs::default() });
        assert_eq!("1,100,64,5".parse::<FaultKnobs>().unwrap().times, Some(5));
        for wrong in ["", "1", "1,2,3", "1,2,3,4,5", "1,101,0,-1", "1,10,0,-2", "a,10,0,1", "1,10,-1,1"] {
            assert_eq!(wrong.parse::<FaultKnobs>(), Err(KnobError), "{wrong}");
        }
    }
}
