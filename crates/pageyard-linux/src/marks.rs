//! The frames that a zone keeps back: below its watermarks, and from requests that could have used a higher zone. Both
//! can be computed anew while requests run. Layer: values.

use crate::gauge::Gauge;
use pageyard_core::memmap::NR_ZONE_KINDS;
use pageyard_core::watermark::Watermarks;
use pageyard_core::{Frames, ZoneKind};

/// A zone's watermarks, without boost. A reader sees each of them before or after a change, not all at once.
#[derive(Default)]
pub struct Marks {
    pub min: Gauge,
    pub low: Gauge,
    pub high: Gauge,
    promo: Gauge,
}

impl Marks {
    /// Returns all four.
    pub fn get(&self) -> Watermarks {
        let [min, low, high, promo] =
            [&self.min, &self.low, &self.high, &self.promo].map(|g| Frames(g.get()));
        Watermarks { min, low, high, promo }
    }

    /// Sets all four.
    pub fn set(&self, marks: Watermarks) {
        self.min.set(marks.min.0);
        self.low.set(marks.low.0);
        self.high.set(marks.high.0);
        self.promo.set(marks.promo.0);
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
