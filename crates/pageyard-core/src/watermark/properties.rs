//! What holds of every zone's watermarks and reserves.
//!
//! Tests call each property with everything that is small and with random values of all sizes; Kani with all values,
//! of few bits where something is divided (`bench/kani`).

use super::{ReserveRule, Watermarks, default_min_free_kbytes, max_boost, protection, watermarks};
use crate::memmap::{NR_ZONE_KINDS, ZoneKind, ZoneSpan};
use crate::request::RequestFlags;
use crate::units::{Frames, NodeId, Pfn};

/// Returns a zone without holes.
pub(super) fn zone(kind: ZoneKind, managed: u64) -> ZoneSpan {
    let frames = Frames(managed);
    ZoneSpan { node: NodeId(0), kind, start: Pfn(0), spanned: frames, present: frames, managed: frames }
}

/// Watermarks rise by equal steps. A larger scale moves them further apart, and the lowest not at all.
fn rise(zone: &ZoneSpan, lowmem: Frames, min_free_kbytes: u64, scales: [u64; 2]) {
    let of = |scale| watermarks(zone, lowmem, min_free_kbytes, scale);
    let Watermarks { min, low, high, promo } = of(scales[0]);
    assert!(min <= low && low <= high && high <= promo);
    assert_eq!([high - low, promo - high], [low - min; 2]);
    let other = of(scales[1]);
    assert_eq!(other.min, min);
    assert!(if scales[0] <= scales[1] { other.low >= low } else { other.low <= low });
}

/// Low zones share what is to be kept free by their sizes: all of it, but for a frame that each may lose to rounding.
fn share<const N: usize>(managed: [u64; N], min_free_kbytes: u64) {
    let lowmem = managed.iter().sum();
    let min = |frames| watermarks(&zone(ZoneKind::Normal, frames), Frames(lowmem), min_free_kbytes, 10).min.0;
    let (kept, all) = (managed.into_iter().map(min).sum::<u64>(), min_free_kbytes / 4);
    assert!(kept <= all);
    assert!(lowmem == 0 || all - kept < N as u64);
}

/// The default of `min_free_kbytes` is within Linux's bounds; huge pages never lower it, nor does more memory.
fn has_default(managed: [u64; NR_ZONE_KINDS], more: u64) {
    let of = |managed: [u64; NR_ZONE_KINDS], huge| {
        let zones = ZoneKind::ALL.into_iter().zip(managed).map(|(kind, frames)| zone(kind, frames));
        default_min_free_kbytes(zones, huge)
    };
    let lowmem: u64 = managed[..=ZoneKind::Normal.index()].iter().sum();
    let (plain, huge) = (of(managed, false), of(managed, true));
    assert!((128..=262_144).contains(&plain));
    assert!(plain <= huge && huge <= plain.max(lowmem / 20 * 4));
    let mut larger = managed;
    larger[ZoneKind::Normal.index()] += more;
    assert!(of(larger, false) >= plain && of(larger, true) >= huge);
}

/// No privilege raises a watermark, each lowers it at least as far as fewer do, and none lowers it to nothing.
fn lowers(rule: ReserveRule, mark: Frames, flags: RequestFlags) {
    let lowered = rule.lower(mark, flags);
    assert!(lowered <= mark && (lowered > Frames::ZERO || mark == Frames::ZERO));
    for more in [RequestFlags::HIGH, RequestFlags::NON_BLOCKING, RequestFlags::OOM_VICTIM] {
        assert!(rule.lower(mark, flags | more) <= lowered);
    }
    assert!(rule.lower(mark, flags | RequestFlags::NO_RESERVE) >= lowered);
}

/// A zone keeps frames back from requests for higher zones only, the more the higher, by its ratio.
fn protects(kind: ZoneKind, managed: &[Frames; NR_ZONE_KINDS], ratios: &[u64; NR_ZONE_KINDS]) {
    let rows = protection(kind, managed, ratios);
    let keeps = ratios[kind.index()] > 0 && managed[kind.index()] > Frames::ZERO;
    let mut above = 0;
    for (highest, row) in rows.into_iter().enumerate() {
        if highest > kind.index() {
            above += managed[highest].0;
        }
        let expected = if keeps { above / ratios[kind.index()] } else { 0 };
        assert_eq!(row.0, expected);
    }
    assert!(rows.is_sorted());
}

/// Only zones of four pageblocks and more are boosted, by a pageblock at least, and the further the larger the factor.
fn boosts(high: Frames, managed: Frames, factors: [u64; 2]) {
    let [most, other] = factors.map(|factor| max_boost(high, managed, factor));
    assert!(if factors[0] <= factors[1] { most <= other } else { other <= most });
    if let Some(most) = most {
        assert!(most.0 >= 512 && managed.0 >= 2048 && factors[0] > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawn::{each, sized};
    use crate::memmap::PFN_LIMIT;
    use proptest::prelude::Strategy;
    use proptest::sample::select;

    const RULES: [ReserveRule; 2] = [ReserveRule::HighHarder, ReserveRule::MinReserve];

    /// Frames that a map can have, all of them included.
    fn frames() -> impl Strategy<Value = u64> {
        sized(41).prop_map(|frames| frames.min(PFN_LIMIT.0))
    }

    fn kind() -> impl Strategy<Value = ZoneKind> {
        select(&ZoneKind::ALL[..])
    }

    fn kbytes() -> impl Strategy<Value = u64> {
        sized(35).prop_map(|kbytes| kbytes.min(1 << 34))
    }

    #[test]
    fn watermarks_rise_by_equal_steps() {
        for managed in 0..600 {
            for kind in ZoneKind::ALL {
                rise(&zone(kind, managed), Frames(600), 128 * managed, [10, 3000]);
            }
        }
        let scales = (1..=3000_u64, 1..=3000_u64).prop_map(<[u64; 2]>::from);
        each(
            100_000,
            &(kind(), sized(64), sized(64), kbytes(), scales),
            |(kind, managed, lowmem, kib, scales)| {
                rise(&zone(kind, managed), Frames(lowmem), kib, scales);
            },
        );
    }

    #[test]
    fn zones_share_what_is_kept_free() {
        each(100_000, &([frames(), frames(), frames()], kbytes()), |(managed, kib)| share(managed, kib));
        let small = (0..12).flat_map(|a| (0..12).map(move |b| [a, b]));
        for managed in small {
            (0..200).for_each(|kib| share(managed, kib));
        }
    }

    #[test]
    fn the_default_is_within_its_bounds() {
        let managed = [frames(), frames(), frames(), frames(), frames()];
        each(100_000, &(managed, frames()), |(managed, more)| has_default(managed, more));
    }

    #[test]
    fn no_privilege_raises_a_watermark() {
        let flags = || (0..=RequestFlags::all().bits()).map(RequestFlags::from_bits_retain);
        for rule in RULES {
            for mark in [0, 1, 2, 3, 1000, u64::MAX] {
                flags().for_each(|flags| lowers(rule, Frames(mark), flags));
            }
        }
        let flags = (0..=RequestFlags::all().bits()).prop_map(RequestFlags::from_bits_retain);
        each(100_000, &(select(&RULES[..]), sized(64), flags), |(rule, mark, flags)| {
            lowers(rule, Frames(mark), flags);
        });
    }

    #[test]
    fn reserves_are_kept_from_higher_requests_only() {
        let managed = [frames(), frames(), frames(), frames(), frames()].prop_map(|all| all.map(Frames));
        let ratios = [sized(16), sized(16), sized(16), sized(16), sized(64)];
        each(100_000, &(kind(), managed, ratios), |(kind, managed, ratios)| {
            protects(kind, &managed, &ratios)
        });
    }

    #[test]
    fn boosts_grow_with_their_factor() {
        let factors = [sized(17), sized(17)];
        each(100_000, &(sized(60), sized(64), factors), |(high, managed, factors)| {
            boosts(Frames(high), Frames(managed), factors);
        });
    }
}

#[cfg(kani)]
mod proofs {
    use super::*;

    /// A number of at most `bits` bits.
    fn any_of(bits: u32) -> u64 {
        kani::any::<u64>() & ((1 << bits) - 1)
    }

    fn any_kind() -> ZoneKind {
        let index = usize::from(kani::any::<u8>());
        kani::assume(index < NR_ZONE_KINDS);
        ZoneKind::ALL[index]
    }

    #[kani::proof]
    fn watermarks_rise() {
        let zone = zone(any_kind(), any_of(10));
        rise(&zone, Frames(any_of(10)), any_of(12), [any_of(11), any_of(11)]);
    }

    #[kani::proof]
    #[kani::unwind(4)]
    fn watermarks_share() {
        share([any_of(8), any_of(8)], any_of(8));
    }

    #[kani::proof]
    #[kani::unwind(6)]
    fn watermarks_have_a_default() {
        has_default([(); NR_ZONE_KINDS].map(|()| any_of(12)), any_of(12));
    }

    #[kani::proof]
    #[kani::unwind(4)]
    fn privileges_lower() {
        let rule = if kani::any() { ReserveRule::HighHarder } else { ReserveRule::MinReserve };
        lowers(rule, Frames(kani::any()), RequestFlags::from_bits_retain(kani::any()));
    }

    #[kani::proof]
    #[kani::unwind(6)]
    fn reserves_protect() {
        let managed = [(); NR_ZONE_KINDS].map(|()| Frames(any_of(8)));
        let ratios = [(); NR_ZONE_KINDS].map(|()| any_of(8));
        protects(any_kind(), &managed, &ratios);
    }

    #[kani::proof]
    #[kani::unwind(3)]
    fn watermarks_are_boosted() {
        boosts(Frames(any_of(16)), Frames(kani::any()), [any_of(12), any_of(12)]);
    }
}
