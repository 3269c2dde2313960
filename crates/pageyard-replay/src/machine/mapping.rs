//! The recorded machine's frames in a guest whose kernel holds some of its own. A unit of 4 MiB, the largest block of
//! the buddy system, lies somewhere else there, as a whole, in the same zone and in the same order: so blocks merge as
//! on the host.

use super::{Machine, Start};
use pageyard::{PAGE_SIZE, Pfn, ZoneKind};
use pageyard_guest::exchange::{FrameMap, GuestZone, Wanted, ZONES};
use pageyard_guest::replay::{MOST_LOW_BESIDE_HIGH_MIB, MOST_LOW_MIB, ReplayMachine};

/// Frames of a unit.
const UNIT: u64 = 1024;

/// Room for what the guest's kernel needs: its image and first allocations below 4 GiB, and the tables of its frames.
const KERNEL_LOW_MIB: u64 = 224;
const KERNEL_HIGH_MIB: u64 = 256;
/// MiB of memory for which a kernel's table of frames takes one.
const TABLE_SHARE: u64 = 60;

/// Where the recorded frames lie in the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// By recorded unit: 1 + the guest's unit, or 0.
    there: Vec<u32>,
    /// By the guest's unit: 1 + the recorded unit, or 0.
    back: Vec<u32>,
}

impl Mapping {
    /// Maps the recorded units of each zone, in order, to as many of the guest's, those that have the most frames to
    /// give.
    fn new(recorded: &[(ZoneKind, Vec<u64>)], guest: &[GuestZone; ZONES], taken: &FrameMap) -> Mapping {
        let mut this = Mapping { there: Vec::new(), back: Vec::new() };
        for (kind, units) in recorded {
            let zone = &guest[*kind as usize];
            let last = (zone.start + zone.spanned) / UNIT;
            let mut possible: Vec<(u64, u64)> = (zone.start / UNIT..last)
                .map(|unit| (UNIT - taken.count(unit * UNIT, UNIT), unit))
                .filter(|(missing, _)| *missing < UNIT)
                .collect();
            possible.sort_unstable();
            possible.truncate(units.len());
            possible.sort_unstable_by_key(|(_, unit)| *unit);
            for (unit, (_, at)) in units.iter().zip(possible) {
                enter(&mut this.there, *unit, at);
                enter(&mut this.back, at, *unit);
            }
        }
        this
    }

    /// Returns the guest's frame for a recorded one, if it has any.
    pub(crate) fn there(&self, pfn: Pfn) -> Option<u32> {
        look_up(&self.there, pfn.0).map(|pfn| pfn as u32)
    }

    /// Returns the recorded frame for one of the guest's, if it stands for any.
    pub(crate) fn back(&self, pfn: u32) -> Option<Pfn> {
        look_up(&self.back, u64::from(pfn)).map(Pfn)
    }
}

fn enter(table: &mut Vec<u32>, from: u64, to: u64) {
    if table.len() <= from as usize {
        table.resize(from as usize + 1, 0);
    }
    table[from as usize] = to as u32 + 1;
}

fn look_up(table: &[u32], pfn: u64) -> Option<u64> {
    let unit = table.get((pfn / UNIT) as usize)?.checked_sub(1)?;
    Some(u64::from(unit) * UNIT + pfn % UNIT)
}

impl Machine {
    /// Returns the guest that this machine fits into, and the sizes that its zones are to have; or why there is none.
    pub(crate) fn guest(&self) -> Result<(ReplayMachine, Wanted), String> {
        let units = self.units()?;
        let mut wanted = Wanted::default();
        let managed = |s: Start| !matches!(s, Start::Hole | Start::Unmanaged);
        for zone in &self.zones {
            wanted.managed[zone.kind as usize] +=
                self.runs(zone.start, zone.end, managed).filter(|r| r.2).map(|r| r.1.0).sum::<u64>();
        }
        let of = |kind: ZoneKind| units.iter().filter(move |(k, _)| *k == kind).flat_map(|(_, u)| u);
        let (dma, dma32) = (of(ZoneKind::Dma).count() as u64, of(ZoneKind::Dma32).count() as u64);
        let high = of(ZoneKind::Normal).count() as u64 * 4;
        let low = (dma.max(4) + dma32) * 4;
        let low_mib = match high {
            0 => low + low / TABLE_SHARE + KERNEL_LOW_MIB + KERNEL_HIGH_MIB,
            _ => (low + KERNEL_LOW_MIB).min(MOST_LOW_BESIDE_HIGH_MIB),
        };
        if low_mib > MOST_LOW_MIB {
            return Err("its memory below 4 GiB leaves no room for the guest's own kernel".to_owned());
        }
        let high_mib = match high {
            0 => 0,
            _ => (high + (low_mib + high) / TABLE_SHARE + KERNEL_HIGH_MIB).next_multiple_of(128),
        };
        let cpus = self.cpus;
        Ok((ReplayMachine { low_mib: low_mib.next_multiple_of(4), high_mib, cpus }, wanted))
    }

    /// Returns the units of each zone that have managed frames.
    fn units(&self) -> Result<Vec<(ZoneKind, Vec<u64>)>, String> {
        let mut zones: Vec<(ZoneKind, Vec<u64>)> = Vec::new();
        for zone in &self.zones {
            if zone.node.0 != 0 {
                return Err("it has several nodes, and a guest that replays has one".to_owned());
            }
            if zone.kind as usize >= ZoneKind::Movable as usize {
                return Err(format!("it has a zone {}, which a guest that replays has not", zone.kind));
            }
            let managed = |s: Start| !matches!(s, Start::Hole | Start::Unmanaged);
            let mut units = Vec::new();
            for (start, frames, _) in self.runs(zone.start, zone.end, managed).filter(|r| r.2) {
                for unit in start.0 / UNIT..(start.0 + frames.0).div_ceil(UNIT) {
                    if units.last() != Some(&unit) {
                        units.push(unit);
                    }
                }
            }
            let shared =
                zones.last().and_then(|(_, before)| before.last()).is_some_and(|u| units.first() == Some(u));
            if shared {
                return Err(format!(
                    "zone {} begins within a block of {} MiB",
                    zone.kind,
                    (UNIT * PAGE_SIZE) >> 20
                ));
            }
            zones.push((zone.kind, units));
        }
        Ok(zones)
    }

    /// Maps this machine's frames to those that a guest has. Managed ones for which it has none are held for good;
    /// returns them, lowest first.
    pub(crate) fn map_to(
        &mut self,
        guest: &[GuestZone; ZONES],
        taken: &FrameMap,
    ) -> Result<(Mapping, Vec<Pfn>), String> {
        let mapping = Mapping::new(&self.units()?, guest, taken);
        let mut lost = Vec::new();
        for (pfn, start) in (0..).map(Pfn).zip(&mut self.start) {
            let managed = !matches!(start, Start::Hole | Start::Unmanaged);
            let there = || mapping.there(pfn).is_some_and(|at| taken.contains(u64::from(at)));
            if managed && !there() {
                *start = Start::Held;
                lost.push(pfn);
            }
        }
        Ok((mapping, lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones() -> [GuestZone; ZONES] {
        let zone = |start, spanned| GuestZone { start, spanned, ..GuestZone::default() };
        [zone(1, 4095), zone(4096, 36 * UNIT), zone(1 << 20, 64 * UNIT), zone(0, 0)]
    }

    /// A guest that lacks some frames at random.
    fn taken(rng: &mut fastrand::Rng, least: u32) -> FrameMap {
        let words = ((1 << 20) + 64 * UNIT) / 64;
        let gaps: Vec<u64> = (0..words / 16).map(|_| u64::from(rng.u32(0..100) >= least)).collect();
        FrameMap::from_words(
            (0..words)
                .map(|w| if gaps[(w / 16) as usize] == 1 { u64::MAX } else { rng.u64(..) & 0xff })
                .collect(),
        )
    }

    #[test]
    fn a_frame_maps_there_and_back_within_its_zone_and_in_order() {
        let mut rng = fastrand::Rng::with_seed(11);
        for round in 0..50 {
            let taken = taken(&mut rng, round);
            let some = |rng: &mut fastrand::Rng, from: u64, to: u64| {
                (from..to).filter(|_| rng.bool()).collect::<Vec<u64>>()
            };
            let recorded = [
                (ZoneKind::Dma, vec![0, 1, 2, 3]),
                (ZoneKind::Dma32, some(&mut rng, 4, 30)),
                (ZoneKind::Normal, some(&mut rng, 5000, 5060)),
            ];
            let mapping = Mapping::new(&recorded, &zones(), &taken);
            for (kind, units) in &recorded {
                let zone = zones()[*kind as usize];
                let mut last = 0;
                for unit in units {
                    let first = Pfn(unit * UNIT);
                    let Some(at) = mapping.there(first) else { continue };
                    assert!(
                        u64::from(at) >= last && u64::from(at) / UNIT >= zone.start / UNIT,
                        "round {round}"
                    );
                    assert!(u64::from(at) + UNIT <= zone.start + zone.spanned);
                    assert!(u64::from(at) % UNIT == 0, "blocks stay aligned");
                    last = u64::from(at) + UNIT;
                    for offset in [0, 1, 511, 512, 1023] {
                        let there = mapping.there(Pfn(first.0 + offset)).unwrap();
                        assert_eq!(u64::from(there), u64::from(at) + offset);
                        assert_eq!(mapping.back(there), Some(Pfn(first.0 + offset)));
                    }
                }
                let whole = (zone.start.div_ceil(UNIT)..(zone.start + zone.spanned) / UNIT)
                    .filter(|u| taken.count(u * UNIT, UNIT) == UNIT)
                    .count();
                let mapped = units.iter().filter(|u| mapping.there(Pfn(**u * UNIT)).is_some());
                if whole >= units.len() {
                    let lost = mapped
                        .filter(|u| {
                            let at = u64::from(mapping.there(Pfn(**u * UNIT)).unwrap());
                            taken.count(at, UNIT) < UNIT
                        })
                        .count();
                    assert_eq!(lost, 0, "whole units are preferred, round {round}");
                }
            }
        }
    }

    #[test]
    fn what_no_unit_stands_for_maps_to_nothing() {
        let taken = FrameMap::from_words(vec![u64::MAX; 20_000]);
        let mapping = Mapping::new(&[(ZoneKind::Dma, vec![0, 2])], &zones(), &taken);
        assert_eq!((mapping.there(Pfn(1024)), mapping.there(Pfn(2048))), (None, Some(1024)));
        assert_eq!((mapping.back(2048), mapping.back(1024 + 7)), (None, Some(Pfn(2048 + 7))));
    }
}
