//! The frames that a zone keeps back: below its watermarks, and from requests that could have used a higher zone. Both
//! can be computed anew while requests run. Layer: values.

use crate::effort::Mark;
use crate::gauge::Gauge;
use pageyard_core::memmap::NR_ZONE_KINDS;
use pageyard_core::watermark::Watermarks;
use pageyard_core::{Frames, ZoneKind};

/// A zone's watermarks, without boost: none, min, low, high and promo. A reader sees each of them before or after a
/// change, not all at once.
#[derive(Default)]
pub struct Marks([Gauge; 5]);

impl Marks {
    /// Returns one of them.
    #[inline]
    pub fn of(&self, mark: Mark) -> u64 {
        self.0[mark as usize].get()
    }

    /// Returns all of them.
    pub fn get(&self) -> Watermarks {
        let [_, min, low, high, promo] = std::array::from_fn(|n| Frames(self.0[n].get()));
        Watermarks { min, low, high, promo }
    }

    /// Sets all of them.
    pub fn set(&self, marks: Watermarks) {
        let Watermarks { min, low, high, promo } = marks;
        for (gauge, frames) in self.0[1..].iter().zip([min, low, high, promo]) {
            gauge.set(frames.0);
        }
    }
}

/// The frames that a zone keeps back from requests by the highest kind of zone that they may use.
#[derive(Default)]
pub struct Protection([Gauge; NR_ZONE_KINDS]);

impl Protection {
    /// Returns what is kept back from requests that may use zones up to this kind.
    #[inline]
    pub fn from(&self, highest: ZoneKind) -> u64 {
        self.0[highest.index()].get()
    }

    /// Returns it for every kind.
    pub fn get(&self) -> [Frames; NR_ZONE_KINDS] {
        std::array::from_fn(|k| Frames(self.0[k].get()))
    }

    /// Sets it for every kind.
    pub fn set(&self, frames: [Frames; NR_ZONE_KINDS]) {
        for (gauge, frames) in self.0.iter().zip(frames) {
            gauge.set(frames.0);
        }
    }
}
