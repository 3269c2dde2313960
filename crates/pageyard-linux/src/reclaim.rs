//! Reclaim: asking the owners of frames for some, and remembering how it went. Layer: requests, above
//! `compaction_view`.

use crate::allocator::LinuxAllocator;
use crate::config::{Reclaimer, Unreclaimable};
use crate::scans::Scans;
use crate::zone::Zone;
use pageyard_core::reclaim::{Helpers, Reclaim, Reclaimed, Shortage};
use pageyard_core::{Counter, Cx, Frames, ZoneKind};

/// Frames that reclaim aims at. `SWAP_CLUSTER_MAX`.
pub(crate) const CLUSTER: u64 = 32;

impl LinuxAllocator {
    /// Asks for reclaim in zones of one node, of which `zone` is one, and counts what it says.
    ///
    /// # Linux
    /// `shrink_node`; until 4.7 `shrink_zone`.
    pub(crate) fn ask<R: Reclaim>(&self, cx: &Cx, help: &R, zone: &Zone, ask: &Shortage) -> Reclaimed {
        let said = help.reclaim(cx, ask);
        let (scanned, freed) = match ask.background {
            true => (Counter::PgscanKswapd, Counter::PgstealKswapd),
            false => (Counter::PgscanDirect, Counter::PgstealDirect),
        };
        self.counts.pressure.add(scanned, said.scanned.0);
        self.counts.pressure.add(freed, said.freed.0);
        if said.freed > Frames::ZERO {
            self.node(zone.span.node).freed();
        }
        if self.config.unreclaimable == Unreclaimable::Scanned {
            let (scans, back, _) = self.scanned(zone);
            scans.note(said.scanned.0, back);
        }
        said
    }

    /// Returns what is reclaimed from together with a zone: it alone, or those of its node up to `highest`.
    pub(crate) fn together<'a>(
        &'a self,
        zone: &Zone,
        highest: ZoneKind,
    ) -> impl Iterator<Item = &'a Zone> + Clone + use<'a> {
        let by_zone = self.config.reclaimer == Reclaimer::ByZone;
        let highest = if by_zone { zone.span.kind } else { highest };
        let node = self.node(zone.span.node);
        self.zones_up_to(node, highest).filter(move |z| !by_zone || z.span.kind == highest)
    }

    /// Returns what is remembered of looks at a zone or its node, how many frames have come back there so far, and its
    /// zones.
    fn scanned<'a>(
        &'a self,
        zone: &'a Zone,
    ) -> (&'a Scans, u64, impl Iterator<Item = &'a Zone> + Clone + use<'a>) {
        let node = self.node(zone.span.node);
        let zones = self.together(zone, node.top());
        let scans = match self.config.reclaimer {
            Reclaimer::ByZone => &zone.scans,
            Reclaimer::ByNode => &node.scans,
        };
        (scans, zones.clone().map(Zone::came_back).sum(), zones)
    }

    /// Returns whether a zone, or its node, was looked at so often in vain that only the first and softest look is
    /// worth it.
    ///
    /// # Linux
    /// `zone_reclaimable`, and from 4.8 to 4.11 `pgdat_reclaimable`, negated.
    pub(crate) fn is_unreclaimable<H: Helpers>(&self, help: &H, zone: &Zone) -> bool {
        if self.config.unreclaimable != Unreclaimable::Scanned {
            return false;
        }
        let (scans, back, zones) = self.scanned(zone);
        scans.in_vain(back, zones.map(|z| help.reclaimable(z.id).0).sum())
    }
}
