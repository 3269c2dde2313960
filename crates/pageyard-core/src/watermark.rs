//! Watermarks and reserves: how much memory a zone keeps back, and from whom. Pure arithmetic over managed frames.

use crate::knob::ANY;
use crate::knob::Place::Sysctl;
use crate::knob::Releases::{Every, Since, Until};
use crate::knob::Values::{Amount, Number};
use crate::knobs;
use crate::memmap::{NR_ZONE_KINDS, PFN_LIMIT, ZoneKind, ZoneSpan};
use crate::request::RequestFlags;
use crate::units::{Frames, PAGE_SIZE, PAGEBLOCK_ORDER};

knobs! {
    /// The settings that watermarks are computed from.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct WatermarkKnobs {
        /// `vm.lowmem_reserve_ratio`, by kind of zone; 0 reserves nothing.
        pub lowmem_reserve_ratio: [u64; NR_ZONE_KINDS] = [256, 256, 32, 0, 0],
        /// Whether huge pages raise `min_free_kbytes`, as `khugepaged` does.
        pub transparent_hugepage: bool = true,
    }
    prefix "";

    min_free_kbytes: Option<u64> {
        about: "memory that watermarks keep back; computed from the zones where it is not set",
        values: Amount { to: 1 << 34, unit: "KiB" },
        place: Sysctl("vm.min_free_kbytes"),
        releases: &[(ANY, Every)],
    }
    watermark_scale_factor: u64 = 10 {
        about: "how far the low and high watermarks lie above the minimum",
        values: Number { from: 1, to: 3000, unit: "ten-thousandths of a zone" },
        place: Sysctl("vm.watermark_scale_factor"),
        releases: &[(ANY, Since(4, 6))],
        note: "10 unless it is set.",
    }
    watermark_boost_factor: u64 = 15_000 {
        about: "how far mixing types in a pageblock raises a zone's watermarks",
        values: Number { from: 0, to: 100_000, unit: "ten-thousandths of the high watermark" },
        place: Sysctl("vm.watermark_boost_factor"),
        releases: &[("0", Until(4, 20)), (ANY, Since(5, 0))],
        note: "15000 unless it is set.",
    }
}

impl Default for WatermarkKnobs {
    fn default() -> Self {
        WatermarkKnobs::defaults()
    }
}

/// A zone's watermarks, in frames, without boost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Watermarks {
    /// Only privileged requests go below.
    pub min: Frames,
    /// Below it the background reclaimer wakes.
    pub low: Frames,
    /// At it the background reclaimer sleeps again.
    pub high: Frames,
    /// Above it memory tiering promotes into the zone.
    pub promo: Frames,
}

/// Returns `min_free_kbytes` as Linux computes it for the given zones.
///
/// # Linux
/// `calculate_min_free_kbytes`; with huge pages at least what `set_recommended_min_free_kbytes` asks for: two
/// pageblocks a zone, and one for each pair of migratetypes, at most a twentieth of memory.
#[must_use]
pub fn default_min_free_kbytes(zones: impl Iterator<Item = ZoneSpan>, transparent_hugepage: bool) -> u64 {
    let (mut lowmem, mut populated) = (0, 0);
    for zone in zones.filter(|z| z.managed.0 > 0 && z.kind <= ZoneKind::Movable) {
        populated += 1;
        if zone.kind <= ZoneKind::Normal {
            lowmem += zone.managed.0;
        }
    }
    let kib = PAGE_SIZE / 1024;
    let by_size = (lowmem * kib * 16).isqrt().clamp(128, 262_144);
    if !transparent_hugepage {
        return by_size;
    }
    let pageblock = PAGEBLOCK_ORDER.frames().0;
    let recommended = (populated * pageblock * (2 + 3 * 3)).min(lowmem / 20) * kib;
    by_size.max(recommended)
}

/// Returns a zone's watermarks from its share of `min_free_kbytes`.
///
/// `lowmem` is the managed frames of all zones up to Normal.
///
/// # Linux
/// `__setup_per_zone_wmarks`. Difference: a share is at most [`PFN_LIMIT`] frames, where the kernel's wraps: that of a
/// zone which is far larger than low memory.
#[must_use]
pub fn watermarks(
    zone: &ZoneSpan,
    lowmem: Frames,
    min_free_kbytes: u64,
    watermark_scale_factor: u64,
) -> Watermarks {
    let managed = u128::from(zone.managed.0);
    let share = |frames: u128| -> u64 {
        let most = u128::from(PFN_LIMIT.0);
        if lowmem.0 == 0 { 0 } else { (frames * managed / u128::from(lowmem.0)).min(most) as u64 }
    };
    let pages_min = u128::from(min_free_kbytes / (PAGE_SIZE / 1024));
    let fair = share(pages_min);
    let min = match zone.kind {
        ZoneKind::Movable => (zone.managed.0 / 1024).clamp(32, 128),
        _ => fair,
    };
    let scaled = (managed * u128::from(watermark_scale_factor) / 10_000) as u64;
    let step = (fair / 4).max(scaled);
    Watermarks {
        min: Frames(min),
        low: Frames(min + step),
        high: Frames(min + 2 * step),
        promo: Frames(min + 3 * step),
    }
}

/// Returns how many frames a zone keeps back from requests that could also have used each higher kind of zone.
///
/// `managed` holds the node's managed frames by kind of zone.
///
/// # Linux
/// `setup_per_zone_lowmem_reserve`; printed as `protection`.
#[must_use]
pub fn protection(
    kind: ZoneKind,
    managed: &[Frames; NR_ZONE_KINDS],
    lowmem_reserve_ratio: &[u64; NR_ZONE_KINDS],
) -> [Frames; NR_ZONE_KINDS] {
    let mut rows = [Frames::ZERO; NR_ZONE_KINDS];
    let ratio = lowmem_reserve_ratio[kind.index()];
    let clear = ratio == 0 || managed[kind.index()] == Frames::ZERO;
    let mut above = 0;
    for (row, frames) in rows.iter_mut().zip(managed).skip(kind.index() + 1) {
        above += frames.0;
        if !clear {
            *row = Frames(above / ratio);
        }
    }
    rows
}

/// How a kernel lets privileged requests below the watermark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReserveRule {
    /// HIGH by a half; non-blocking by a further quarter; OOM victims by a half instead of a quarter (before 6.4).
    HighHarder,
    /// HIGH by a half, and only then non-blocking by a further quarter; OOM victims by a half (6.4 and later).
    MinReserve,
}

impl ReserveRule {
    /// Returns the watermark as it stands for a request with `flags`.
    #[must_use]
    #[inline]
    pub fn lower(self, mark: Frames, flags: RequestFlags) -> Frames {
        let Frames(mut min) = mark;
        let high = flags.contains(RequestFlags::HIGH);
        let atomic = flags.is_atomic();
        let oom = flags.contains(RequestFlags::OOM_VICTIM);
        if high {
            min -= min / 2;
        }
        match self {
            ReserveRule::HighHarder => {
                // Only atomic requests are "harder"; those are high as well.
                if oom {
                    min -= min / 2;
                } else if atomic {
                    min -= min / 4;
                }
            }
            ReserveRule::MinReserve => {
                if atomic {
                    min -= min / 4;
                }
                if oom {
                    min -= min / 2;
                }
            }
        }
        Frames(min)
    }
}

/// Returns how far fragmentation may raise a zone's watermarks, or `None` where it does not.
///
/// # Linux
/// `boost_watermark`: small zones are left alone.
#[must_use]
pub fn max_boost(high: Frames, managed: Frames, watermark_boost_factor: u64) -> Option<Frames> {
    let pageblock = PAGEBLOCK_ORDER.frames().0;
    if watermark_boost_factor == 0 || pageblock * 4 > managed.0 {
        return None;
    }
    let most = (u128::from(high.0) * u128::from(watermark_boost_factor) / 10_000) as u64;
    (most > 0).then_some(Frames(most.max(pageblock)))
}

#[cfg(any(test, kani))]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;
    use properties::zone;

    // The golden values against recorded hosts are in `tests/reference/recorded.rs` of the reference; these are the
    // corners.

    #[test]
    fn a_zone_without_frames_reserves_nothing_but_the_movable_floor() {
        let w = watermarks(&zone(ZoneKind::Movable, 0), Frames(1000), 67_584, 10);
        assert_eq!((w.min, w.low, w.high), (Frames(32), Frames(32), Frames(32)));
        let w = watermarks(&zone(ZoneKind::Device, 0), Frames(1000), 67_584, 10);
        assert_eq!(w, Watermarks::default());
    }

    #[test]
    fn a_machine_of_one_frame_has_watermarks() {
        let z = zone(ZoneKind::Normal, 1);
        let kib = default_min_free_kbytes([z].into_iter(), true);
        assert_eq!(kib, 128);
        assert_eq!(watermarks(&z, Frames(1), kib, 10).min, Frames(32));
    }

    #[test]
    fn a_zone_far_larger_than_low_memory_has_watermarks_that_do_not_wrap() {
        for lowmem in [1, 64, 1024, 1 << 16] {
            let marks = watermarks(&zone(ZoneKind::Device, PFN_LIMIT.0), Frames(lowmem), 1 << 34, 10);
            assert!(
                marks.min.0 == PFN_LIMIT.0 && marks.promo > marks.high && marks.high > marks.low,
                "{marks:?}"
            );
        }
    }

    #[test]
    fn privilege_lowers_only_as_far_as_the_kernel_allows() {
        let high = RequestFlags::HIGH;
        let atomic = high | RequestFlags::NON_BLOCKING;
        for rule in [ReserveRule::HighHarder, ReserveRule::MinReserve] {
            assert_eq!(rule.lower(Frames(1000), RequestFlags::empty()), Frames(1000));
            assert_eq!(rule.lower(Frames(1000), RequestFlags::NON_BLOCKING), Frames(1000));
            assert_eq!(rule.lower(Frames(1000), high), Frames(500));
            assert_eq!(rule.lower(Frames(1000), atomic), Frames(375));
            assert_eq!(rule.lower(Frames(1000), atomic | RequestFlags::NO_RESERVE), Frames(500));
            assert_eq!(rule.lower(Frames(1000), RequestFlags::OOM_VICTIM), Frames(500));
        }
        let both = atomic | RequestFlags::OOM_VICTIM;
        assert_eq!(ReserveRule::HighHarder.lower(Frames(1000), both), Frames(250));
        assert_eq!(ReserveRule::MinReserve.lower(Frames(1000), both), Frames(188));
    }

    #[test]
    fn small_zones_are_not_boosted() {
        assert_eq!(max_boost(Frames(100), Frames(2047), 15_000), None);
        assert_eq!(max_boost(Frames(100), Frames(4096), 15_000), Some(Frames(512)));
        assert_eq!(max_boost(Frames(10_000), Frames(1 << 20), 15_000), Some(Frames(15_000)));
        assert_eq!(max_boost(Frames(10_000), Frames(1 << 20), 0), None);
    }
}
