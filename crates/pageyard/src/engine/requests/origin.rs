//! Which nodes requests were served from: the counters `numa_*`.
//!
//! A hit costs nothing: each list counts what callers popped, and a hit pops a list of the zone where the CPU's walk
//! begins. The other requests are counted when they are served, and what they popped of lists is taken off again.

use crate::engine::geometry::LINE_WORDS;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::pcp::tuning::ListIdx;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use pageyard_core::clear::Clear;
use pageyard_core::observer::Observer;
use pageyard_core::request::Request;
use pageyard_core::stats::{Counter, Stats};
use pageyard_core::units::{CpuId, Pfn};
use pageyard_sync::Relaxed;

// Words of a CPU's line of efforts: blocks that requests popped of lists after they had missed, of zones of the CPU's
// node and of others.
const POPPED_LATE: [usize; 2] = [1, 2];
const _: () = assert!(POPPED_LATE[1] < LINE_WORDS);

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Notes that a request which had missed popped a list after all.
    pub(super) fn note_late_pop(&self, cpu: CpuId, zone: &Zone<'_>) {
        if self.zonelists.several_nodes() {
            // ORDER: Relaxed: a counter orders nothing.
            self.efforts[cpu.index() * LINE_WORDS + POPPED_LATE[self.is_foreign(cpu, zone)]]
                .fetch_add(1, Relaxed);
        }
    }

    /// Notes where a request that had missed was served from.
    ///
    /// # Linux
    /// `zone_statistics`. Difference: a block that compaction captured counts like any other.
    pub(super) fn note_origin(&self, cpu: CpuId, request: &Request, pfn: Pfn) {
        if !self.zonelists.several_nodes() {
            return;
        }
        let Some((zone, _)) = self.zone_of(pfn) else { return };
        let preferred = self.walk(cpu, request).next().map(|zone| zone.pageblocks.span.node);
        if preferred == Some(zone.pageblocks.span.node) {
            self.count(cpu, Counter::NumaHit, 1);
        } else {
            self.count(cpu, Counter::NumaMiss, 1);
        }
        let near = [Counter::NumaLocal, Counter::NumaOther];
        self.count(cpu, near[self.is_foreign(cpu, zone)], 1);
    }

    /// Adds to the counters what lists say of hits.
    pub(crate) fn add_origins(&self, stats: &mut Stats) {
        if !self.zonelists.several_nodes() {
            return;
        }
        for cpu in (0..self.config.cpus).map(CpuId) {
            let mut popped = [0u64; 2];
            for zone in self.zones {
                let of_zone: u64 = ListIdx::all().map(|list| zone.lists.get(cpu, list).traffic().0).sum();
                popped[self.is_foreign(cpu, zone)] += of_zone;
            }
            // ORDER: Relaxed: a counter orders nothing. A pop that is counted here and not yet there must not make a
            // huge number.
            let late = POPPED_LATE.map(|word| self.efforts[cpu.index() * LINE_WORDS + word].load(Relaxed));
            let [local, other] = [0, 1].map(|i| popped[i].saturating_sub(late[i]));
            stats[Counter::NumaHit] += local + other;
            stats[Counter::NumaLocal] += local;
            stats[Counter::NumaOther] += other;
        }
        // What was served elsewhere was to come from some node.
        stats[Counter::NumaForeign] = stats[Counter::NumaMiss];
    }

    /// Says, as an index, whether a zone belongs to another node than a CPU.
    fn is_foreign(&self, cpu: CpuId, zone: &Zone<'_>) -> usize {
        usize::from(zone.pageblocks.span.node != self.zonelists.home(cpu))
    }
}
