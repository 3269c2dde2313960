//! An instance from how much memory there is and how many CPUs.

#[cfg(feature = "alloc")]
use crate::engine::OwnedPageyard;
use crate::engine::{Config, Metadata, MetadataLayout, Pageyard, PerCpu, TryLock};
use core::ops::Range;
use pageyard_core::firmware::{FirmwareError, FirmwareMap, ZoneLimits};
use pageyard_core::units::NodeId;

/// How many ranges a builder takes.
const RANGES: usize = 32;

/// Collects the memory and the settings of an instance: ranges of bytes, and settings with defaults.
///
/// By default there is one CPU and one zone, lists stand behind a lock that is tried once ([`TryLock`]), and nothing is
/// kept back ([`Config::pool`]). A range that is refused is reported when the instance is built.
///
/// # Examples
#[cfg_attr(feature = "alloc", doc = "```")]
#[cfg_attr(not(feature = "alloc"), doc = "```ignore")]
/// use pageyard::{Order, Pageyard};
///
/// let yard = Pageyard::builder().cpus(4).usable(0x10_0000..0x4000_0000).build()?;
/// let cpu = yard.cpu(0)?;
/// let frame = cpu.alloc(Order::HUGE)?;
/// cpu.free(frame, Order::HUGE)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
#[derive(Clone, Debug)]
pub struct Builder {
    firmware: FirmwareMap<RANGES>,
    config: Config,
    refused: Option<FirmwareError>,
}

impl Pageyard<'_, TryLock> {
    /// Begins with the default settings, and no memory.
    pub fn builder() -> Builder {
        Builder { firmware: FirmwareMap::new(ZoneLimits::NONE), config: Config::pool(1), refused: None }
    }
}

impl Builder {
    /// Sets the number of CPUs.
    pub fn cpus(mut self, cpus: u32) -> Builder {
        self.config.cpus = cpus;
        self
    }

    /// Adds memory: bytes by their addresses. See [`FirmwareMap::usable`].
    pub fn usable(self, bytes: Range<u64>) -> Builder {
        self.said(|firmware| firmware.usable(bytes).map(|_| ()))
    }

    /// Says that bytes are not the allocator's. See [`FirmwareMap::reserved`].
    pub fn reserved(self, bytes: Range<u64>) -> Builder {
        self.said(|firmware| firmware.reserved(bytes).map(|_| ()))
    }

    /// Says that bytes hold zeros. See [`FirmwareMap::zeroed`].
    pub fn zeroed(self, bytes: Range<u64>) -> Builder {
        self.said(|firmware| firmware.zeroed(bytes).map(|_| ()))
    }

    /// Says which node bytes belong to. See [`FirmwareMap::node`].
    pub fn node(self, bytes: Range<u64>, node: NodeId) -> Builder {
        self.said(|firmware| firmware.node(bytes, node).map(|_| ()))
    }

    /// Takes another configuration, its number of CPUs included.
    pub fn config(mut self, config: Config) -> Builder {
        self.config = config;
        self
    }

    fn said(mut self, say: impl FnOnce(&mut FirmwareMap<RANGES>) -> Result<(), FirmwareError>) -> Builder {
        if self.refused.is_none() {
            self.refused = say(&mut self.firmware).err();
        }
        self
    }

    /// Says how much memory [`build_in`](Builder::build_in) needs.
    ///
    /// # Errors
    /// That of the first range that was refused; as [`FirmwareMap::regions`] and [`Pageyard::layout`].
    pub fn layout(&self) -> Result<MetadataLayout, FirmwareError> {
        self.refused.map_or(Ok(()), Err)?;
        Ok(Pageyard::<TryLock>::layout(&self.firmware.regions()?.map(), &self.config)?)
    }

    /// Builds an instance whose metadata lies in the caller's memory.
    ///
    /// # Errors
    /// As [`layout`](Builder::layout) and [`Pageyard::new`].
    pub fn build_in(self, metadata: Metadata<'_>) -> Result<Pageyard<'_, TryLock>, FirmwareError> {
        self.build_in_with(TryLock, metadata)
    }

    /// Builds one with another protection of the lists.
    ///
    /// # Errors
    /// As [`build_in`](Builder::build_in).
    pub fn build_in_with<P: PerCpu>(
        self,
        percpu: P,
        metadata: Metadata<'_>,
    ) -> Result<Pageyard<'_, P>, FirmwareError> {
        self.refused.map_or(Ok(()), Err)?;
        Ok(Pageyard::new(&self.firmware.regions()?.map(), self.config, percpu, metadata)?)
    }

    /// Builds an instance whose metadata comes from the global allocator.
    ///
    /// # Errors
    /// As [`build_in`](Builder::build_in), and [`Pageyard::owned`].
    #[cfg(feature = "alloc")]
    pub fn build(self) -> Result<OwnedPageyard<TryLock>, FirmwareError> {
        self.refused.map_or(Ok(()), Err)?;
        Ok(Pageyard::owned(&self.firmware.regions()?.map(), self.config, TryLock)?)
    }
}
