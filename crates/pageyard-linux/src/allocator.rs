//! The allocator: zones, zonelists, and what is counted. Layer: the allocator. Its operations are in the layers above,
//! a file for each subject.

use crate::boot::Managed;
use crate::config::{Config, PcpProtection};
use crate::dirty::Dirty;
use crate::effort::Reach;
use crate::events::Counts;
use crate::node::Node;
use crate::owners::Owners;
use crate::slot;
use crate::zone::Zone;
use crate::zonelist::Zonelists;
use pageyard_core::{
    BadRequest, CpuId, Cx, Frames, MAX_CPUS, MapError, MemoryMap, Pfn, Request, ZoneId, ZoneSpan,
};

/// Linux's page allocator: a zoned buddy system with per-CPU lists.
///
/// All managed frames are free at the start, and every pageblock is movable.
pub struct LinuxAllocator {
    pub(crate) config: Config,
    pub(crate) zones: Vec<Zone>,
    /// By number.
    pub(crate) nodes: Vec<Node>,
    pub(crate) zonelists: Zonelists,
    pub(crate) counts: Counts,
    pub(crate) dirty: Dirty,
}

impl LinuxAllocator {
    /// Makes an allocator over a memory map.
    ///
    /// # Errors
    /// [`MapError::Cpus`]; [`MapError::ZoneTooLarge`] where a zone spans 2^32 frames or more: the lists number frames
    /// with 32 bits.
    pub fn new(map: &MemoryMap<'_>, config: &Config) -> Result<LinuxAllocator, MapError> {
        let spans: Vec<(ZoneId, ZoneSpan)> = map.zones().collect();
        let most = Frames(u64::from(u32::MAX) - 1);
        if let Some((zone, _)) = spans.iter().find(|(_, s)| s.spanned > most) {
            return Err(MapError::ZoneTooLarge { zone: *zone, most });
        }
        if !(1..=MAX_CPUS).contains(&config.cpus) {
            return Err(MapError::Cpus { cpus: config.cpus, most: MAX_CPUS });
        }
        let all: Vec<ZoneSpan> = spans.iter().map(|(_, s)| *s).collect();
        let zones = spans
            .iter()
            .map(|(id, span)| {
                let managed = Managed::new(&all, span.node, &config.watermark);
                let sharers = map.topology().sharers(span.node, config.cpus, map.nodes());
                Zone::new(*id, *span, map, &managed, sharers, config)
            })
            .collect::<Vec<_>>();
        let zonelists = Zonelists::new(map, config);
        let nodes = Node::all(&spans);
        Ok(LinuxAllocator {
            config: config.clone(),
            zones,
            nodes,
            zonelists,
            counts: Counts::default(),
            dirty: Dirty::default(),
        })
    }

    /// Makes an allocator whose per-CPU lists have no lock of their own, as a kernel's had none until 6.0: turning off
    /// interrupts or preemption was enough. With [`crate::config::PcpProtection::Trylock`] they still have one.
    ///
    /// # Errors
    /// As [`LinuxAllocator::new`].
    ///
    /// # Safety
    /// Calls that name the same CPU come from one thread at a time. Calls that name none, or ask about another CPU
    /// (`drain`, `audit`, the statistics), are made while no other call runs. So is a request that may wait and fails:
    /// it drains all lists.
    #[allow(unsafe_code, reason = "the caller's promise stands in for a lock")]
    pub unsafe fn by_cpu(map: &MemoryMap<'_>, config: &Config) -> Result<LinuxAllocator, MapError> {
        let mut allocator = LinuxAllocator::new(map, config)?;
        if config.pcp_protection != PcpProtection::Trylock {
            for zone in &mut allocator.zones {
                let locked = std::mem::take(&mut zone.pcps);
                // SAFETY: the caller promises just that.
                zone.pcps = locked.into_iter().map(|s| unsafe { slot::unlock_for_good(s) }).collect();
                // A CPU cannot free to the lists of another.
                zone.owners = Owners::none();
            }
        }
        Ok(allocator)
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Finds the zone of a frame.
    pub(crate) fn zone_of(&self, pfn: Pfn) -> Option<&Zone> {
        self.zones.iter().find(|z| z.span.spans(pfn))
    }

    /// Refuses a call that names a CPU the instance does not have.
    pub(crate) fn check_cpu(&self, cx: &Cx) -> Result<(), BadRequest> {
        if self.has_cpu(cx.cpu) { Ok(()) } else { Err(BadRequest::NoSuchCpu) }
    }

    /// Returns whether the instance has this CPU.
    pub(crate) fn has_cpu(&self, cpu: CpuId) -> bool {
        cpu.0 < self.config.cpus
    }

    /// Iterates over the zones that an attempt of a request may use, best first.
    pub(crate) fn zones_for(
        &self,
        cx: &Cx,
        request: &Request,
        reach: Reach,
    ) -> impl Iterator<Item = &Zone> + Clone {
        self.zonelists.walk(cx, request, reach).map(|place| &self.zones[place])
    }
}
