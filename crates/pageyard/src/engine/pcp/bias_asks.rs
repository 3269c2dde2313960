//! Which CPUs ask for pageblocks to be biased to them: those that do not lose them again.

use crate::engine::geometry::LINE_WORDS;
use pageyard_core::units::CpuId;
use pageyard_sync::{A64, Carver, Relaxed};

/// How often the pause of a CPU doubles that loses its pageblocks: to one in 65,536.
const DOUBLINGS: u64 = 16;
/// Pageblocks that it has to keep for its next pause to be half as long: more than are under way from one CPU to
/// another.
const HALVES: u64 = 64;

// Words of a CPU, on a cache line of their own.
/// Pageblocks that were biased to it.
const ARMED: usize = 0;
/// How many of them were taken away again.
const REVOKED: usize = 1;
/// How many of these it knows of.
const KNOWN: usize = 2;
/// How often its pause has doubled.
const DOUBLED: usize = 3;
/// Pageblocks that it lets pass.
const PAUSE: usize = 4;
/// How often it has asked since it lost one, or since its pause was halved.
const KEPT: usize = 5;

/// How often pageblocks were biased to CPUs for checking frees, and how often that was taken back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BiasStats {
    /// Pageblocks that were biased to a CPU.
    pub armed: u64,
    /// Of those, revocations: a free came from another CPU, or another CPU took the pageblock over. Each costs a
    /// barrier.
    pub revoked: u64,
}

/// Each CPU's record of the pageblocks biased to it.
// ORDER: Relaxed, everywhere: hints and counts order nothing.
pub(crate) struct BiasAsks<'m>(&'m [A64]);

impl<'m> BiasAsks<'m> {
    /// Carves that of `cpus` CPUs.
    pub(crate) fn carve(carver: &mut Carver<'m>, cpus: usize) -> BiasAsks<'m> {
        BiasAsks(carver.zeroed(cpus * LINE_WORDS))
    }

    fn of(&self, cpu: CpuId) -> Option<&'m [A64]> {
        self.0.chunks_exact(LINE_WORDS).nth(cpu.index())
    }

    /// Returns whether a CPU asks for no bias at this pageblock, because it lost some: each loss doubles how many
    /// pageblocks it lets pass, and as long as it loses none that halves again, step by step.
    pub(crate) fn pauses(&self, cpu: CpuId) -> bool {
        let Some(own) = self.of(cpu) else { return true };
        let (lost, known) = (own[REVOKED].load(Relaxed), own[KNOWN].load(Relaxed));
        let doubled = own[DOUBLED].load(Relaxed);
        if lost != known {
            let doubled = doubled.saturating_add(lost.wrapping_sub(known)).min(DOUBLINGS);
            own[KNOWN].store(lost, Relaxed);
            own[DOUBLED].store(doubled, Relaxed);
            own[PAUSE].store(1 << doubled, Relaxed);
            own[KEPT].store(0, Relaxed);
            return true;
        }
        let pause = own[PAUSE].load(Relaxed);
        if pause > 0 {
            own[PAUSE].store(pause - 1, Relaxed);
            return true;
        }
        let kept = own[KEPT].load(Relaxed) + 1;
        if kept >= HALVES {
            own[DOUBLED].store(doubled.saturating_sub(1), Relaxed);
        }
        own[KEPT].store(kept % HALVES, Relaxed);
        false
    }

    /// Notes that a pageblock was biased to a CPU.
    pub(crate) fn armed(&self, cpu: CpuId) {
        self.add(cpu, ARMED);
    }

    /// Notes that one was taken away from it.
    pub(crate) fn revoked(&self, cpu: CpuId) {
        self.add(cpu, REVOKED);
    }

    fn add(&self, cpu: CpuId, which: usize) {
        if let Some(own) = self.of(cpu) {
            own[which].fetch_add(1, Relaxed);
        }
    }

    /// Returns the counts, of all CPUs together.
    pub(crate) fn stats(&self) -> BiasStats {
        let sum = |which: usize| self.0.chunks_exact(LINE_WORDS).map(|own| own[which].load(Relaxed)).sum();
        BiasStats { armed: sum(ARMED), revoked: sum(REVOKED) }
    }
}

#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_loses_pageblocks_pauses_longer_each_time_and_begins_again() {
        let mut memory = [0u8; 1024];
        let mut carver = Carver::of(&mut memory);
        let asks = BiasAsks::carve(&mut carver, 2);
        assert!(carver.fits());
        let (cpu, other) = (CpuId(1), CpuId(0));
        let until_it_asks = || (0..).find(|_| !asks.pauses(cpu)).unwrap();
        assert_eq!(until_it_asks(), 0);
        for pause in [2, 4, 8] {
            asks.revoked(cpu);
            // The one that finds out, and those of the pause.
            assert_eq!(until_it_asks(), 1 + pause);
        }
        assert!(!asks.pauses(other) && asks.pauses(CpuId(2)));
        for _ in 0..100 {
            asks.revoked(cpu);
        }
        assert_eq!(until_it_asks(), 1 + (1 << DOUBLINGS), "a burst of losses is one long pause");
        // That it asks once more was one of them.
        assert!((1..10 * HALVES).all(|_| until_it_asks() == 0), "none is lost any more");
        asks.revoked(cpu);
        assert_eq!(until_it_asks(), 1 + (1 << (DOUBLINGS - 10 + 1)));
        asks.armed(other);
        assert_eq!(asks.stats(), BiasStats { armed: 1, revoked: 104 });
    }
}
