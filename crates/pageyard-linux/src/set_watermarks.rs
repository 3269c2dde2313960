//! Watermarks that change while requests run, as when their sysctls are written. Layer: the allocator, above its state.

use crate::allocator::LinuxAllocator;
use crate::boot::Managed;
use pageyard_core::ZoneSpan;
use pageyard_core::watermark::{WatermarkKnobs, watermarks};

impl LinuxAllocator {
    /// Computes watermarks, reserves and the limits of per-CPU lists anew, from these settings and the frames that are
    /// managed. Boosts end. Marks that [`Config::zone_marks`](crate::Config::zone_marks) gave are replaced, too.
    ///
    /// Nothing is allocated or freed: lists that are too long now shrink with the next frees and ticks, and the
    /// background reclaimer is woken by the next request that finds too little. Requests may run meanwhile; one of them
    /// may see some zones, or some watermarks of one zone, as they were before. [`LinuxAllocator::config`] goes on
    /// saying what the allocator was made with; the watermarks that hold are in the zone's statistics.
    ///
    /// # Linux
    /// `setup_per_zone_wmarks`, which writing `vm.min_free_kbytes` and `vm.watermark_scale_factor` calls, and
    /// `setup_per_zone_lowmem_reserve`. Writing `vm.watermark_boost_factor` or `vm.lowmem_reserve_ratio` alone leaves
    /// boosts in Linux.
    pub fn set_watermarks(&self, knobs: &WatermarkKnobs) {
        let spans: Vec<ZoneSpan> = self.zones.iter().map(|z| z.span).collect();
        for zone in &self.zones {
            let managed = Managed::new(&spans, zone.span.node, knobs);
            let marks =
                watermarks(&zone.span, managed.lowmem, managed.min_free_kbytes, knobs.watermark_scale_factor);
            {
                let _locked = zone.lock();
                zone.set_marks(marks, &managed, knobs);
                zone.boost.set(0);
            }
            let limits = zone.limits(&self.config);
            for pages in &zone.pcps {
                pages.lock().set_limits(&self.config, limits);
            }
        }
    }
}
