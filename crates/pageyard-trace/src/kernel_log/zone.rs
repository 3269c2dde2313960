//! Zones as kernels name them, those of 32-bit kernels among them.

use pageyard::ZoneKind;
use std::fmt;

/// A kind of zone, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostZone {
    /// For devices that reach little memory: below 16 MiB on x86.
    Dma,
    /// Below 4 GiB.
    Dma32,
    /// The rest; on 32-bit kernels what the kernel can address at any time.
    Normal,
    /// On 32-bit kernels: what only processes and page cache use.
    HighMem,
    /// For movable contents only.
    Movable,
    /// Memory on devices; never a fallback.
    Device,
}

impl HostZone {
    /// Every kind, lowest first.
    pub const ALL: [HostZone; 6] = [
        HostZone::Dma,
        HostZone::Dma32,
        HostZone::Normal,
        HostZone::HighMem,
        HostZone::Movable,
        HostZone::Device,
    ];

    /// Returns the kernel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            HostZone::Dma => "DMA",
            HostZone::Dma32 => "DMA32",
            HostZone::Normal => "Normal",
            HostZone::HighMem => "HighMem",
            HostZone::Movable => "Movable",
            HostZone::Device => "Device",
        }
    }

    /// Finds a kind by the kernel's name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<HostZone> {
        HostZone::ALL.into_iter().find(|zone| zone.name() == name)
    }
}

impl From<ZoneKind> for HostZone {
    fn from(kind: ZoneKind) -> HostZone {
        match kind {
            ZoneKind::Dma => HostZone::Dma,
            ZoneKind::Dma32 => HostZone::Dma32,
            ZoneKind::Normal => HostZone::Normal,
            ZoneKind::Movable => HostZone::Movable,
            ZoneKind::Device => HostZone::Device,
        }
    }
}

impl fmt::Display for HostZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
