//! Engines whose constructors demand a promise, each made where the promise is kept.
#![allow(unsafe_code, reason = "benchmarks and experiments keep what these demand")]

use pageyard::{Config, MapError, MemoryMap, OwnedPageyard, Pageyard};
use pageyard_linux::LinuxAllocator;
use pageyard_replay::engine::{Engine, NotBuilt, Visit};

/// Builds an engine and hands it over, to one thread if it is for one.
pub(crate) fn on<V: Visit>(engine: &Engine, map: &MemoryMap<'_>, visit: V) -> Result<V::Output, NotBuilt> {
    // SAFETY: `Subjects` makes an engine for one thread a subject for one thread, `candidate` takes one for a load on
    //         one thread alone, primitives and counts run on one thread.
    unsafe { engine.on(map, visit) }
}

/// Makes the variant by restartable sequences that the kernel knows nothing of, to be stepped through.
///
/// # Errors
/// [`MapError`].
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) fn pretending_on_one_thread(
    map: &MemoryMap<'_>,
    config: Config,
) -> Result<OwnedPageyard<pageyard_arena::rseq::Rseq>, MapError> {
    // SAFETY: its caller is a process that counts locked instructions: one thread of it uses the engine, none of its
    //         signal handlers does, and it registers no thread.
    Pageyard::owned(map, config, unsafe { pageyard_arena::rseq::Rseq::pretending(pageyard::CpuId(0)) })
}

/// The same with pageblocks biased to CPUs.
///
/// # Errors
/// [`MapError`].
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) fn pretending_biased_on_one_thread(
    map: &MemoryMap<'_>,
    config: Config,
) -> Result<OwnedPageyard<pageyard_arena::rseq::BiasedRseq>, MapError> {
    // SAFETY: as above.
    let rseq = unsafe { pageyard_arena::rseq::Rseq::pretending(pageyard::CpuId(0)) };
    Pageyard::owned(map, config, rseq.biased())
}

/// Makes a reference without locks on its per-CPU lists.
///
/// # Errors
/// [`MapError`].
pub(super) fn by_cpu(
    map: &MemoryMap<'_>,
    config: &pageyard_linux::Config,
) -> Result<LinuxAllocator, MapError> {
    // SAFETY: 1. Experiments give each CPU number to one thread at a time, and wait for it before they use the number
    // again.
    //         2. They audit and read statistics when no thread runs. 3. They hold a quarter of the memory at most, and
    //         the caller has checked that watermarks keep back less than half of it, so no request fails and drains the
    //         lists.
    unsafe { LinuxAllocator::by_cpu(map, config) }
}
