//! The engine's variants that one thread uses at a time.
#![allow(unsafe_code, reason = "benchmarks give these to one thread only")]

use pageyard::{Alone, Config, Exclusive, MapError, MemoryMap, OwnedPageyard, Pageyard};

/// Makes the exclusive variant for a benchmark on one thread.
///
/// # Errors
/// [`MapError`].
pub(crate) fn exclusive_on_one_thread(
    map: &MemoryMap<'_>,
    config: Config,
) -> Result<OwnedPageyard<Exclusive>, MapError> {
    // SAFETY: its callers are the benchmarks, which give it to one thread only.
    Pageyard::owned(map, config, unsafe { Exclusive::by_instance() })
}

/// Makes the variant without locked checks for a benchmark on one thread.
///
/// # Errors
/// [`MapError`].
pub(crate) fn alone_on_one_thread(
    map: &MemoryMap<'_>,
    config: Config,
) -> Result<OwnedPageyard<Alone>, MapError> {
    // SAFETY: its callers are the benchmarks, which give it to one thread only.
    Pageyard::owned(map, config, unsafe { Alone::by_instance() })
}
