//! `bench fault`: what it takes until memory can be used, by the kernel's ways and the arena's.
//!
//! Every path ends with a byte of each page written, as a program would; giving memory back is not timed. What is
//! mapped is the same on all paths.
//!
//! * `kernel`: fresh memory, faulted in page by page as it is written to;
//! * `populate`: fresh memory, faulted in at once with `MADV_POPULATE_WRITE` before it is written to;
//! * `arena-known-zero`: zeroed blocks of an arena that was faulted in before and knows that it is zeros. What that
//!   cost is `populate`'s row;
//! * `arena-recycled`: zeroed blocks of memory that was written to and freed, cleared as it is handed out;
//! * `arena-first`: zeroed blocks of an arena that was not faulted in, so the kernel clears.

use super::{Noise, SAMPLES, Skipped};
use crate::clear::FEWEST_COUNTED;
use crate::harness::clock::now_ns;
use crate::harness::machine::{InterferenceWatch, Machine};
use crate::harness::noise::Disturbance;
use crate::harness::sampler::{Sample, Sampler};
use crate::harness::samples::Samples;
use crate::harness::team::{OVERLAP, Pinned, Span, cpus, overlap};
use pageyard::{AllocError, Order, PAGE_SIZE};
use pageyard_arena::backing::{Backing, BackingError, Mapping, PageSize, Prefault};
use pageyard_arena::{Arena, ArenaBuilder, ArenaError, Block};
use pageyard_trace::Document;
use serde::Serialize;
use std::mem::MaybeUninit;
use std::sync::Barrier;

/// How memory comes to be usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Path {
    /// The kernel's demand faults.
    Kernel,
    /// Faulted in at once.
    Populate,
    /// The arena's, known to be zeros.
    ArenaKnownZero,
    /// The arena's, written to before.
    ArenaRecycled,
    /// The arena's, not faulted in.
    ArenaFirst,
}

impl Path {
    /// Every one, in the order of reports; the first is measured once more at the end of each turn.
    pub const ALL: [Path; 5] =
        [Path::Kernel, Path::Populate, Path::ArenaKnownZero, Path::ArenaRecycled, Path::ArenaFirst];

    /// Returns its name, as documents have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Path::Kernel => "kernel",
            Path::Populate => "populate",
            Path::ArenaKnownZero => "arena-known-zero",
            Path::ArenaRecycled => "arena-recycled",
            Path::ArenaFirst => "arena-first",
        }
    }
}

/// The settings to measure.
#[derive(Clone, Debug)]
pub struct FaultOptions {
    /// Samples of each row.
    pub samples: usize,
    /// The kinds of memory.
    pub backings: Vec<Backing>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Bytes of memory for each thread.
    pub memory: usize,
}

impl FaultOptions {
    /// Every backing, with 1 GiB a thread.
    #[must_use]
    pub fn full() -> FaultOptions {
        let backings = vec![
            Backing::AnonymousBase,
            Backing::Anonymous,
            Backing::HugeTlb(PageSize::Huge2M),
            Backing::HugeTlb(PageSize::Huge1G),
        ];
        FaultOptions { samples: SAMPLES, backings, threads: vec![1, 2], memory: 1 << 30 }
    }

    /// Anonymous memory, 128 MiB of it on one thread.
    #[must_use]
    pub fn quick() -> FaultOptions {
        let backings = vec![Backing::AnonymousBase, Backing::Anonymous];
        FaultOptions { backings, threads: vec![1], memory: 128 << 20, ..FaultOptions::full() }
    }
}

/// One row.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultRow {
    /// The kind of memory.
    pub backing: &'static str,
    /// Bytes of a page, which is also what the arena hands out at a time.
    pub page_bytes: u64,
    /// How it comes to be usable.
    pub path: Path,
    /// Threads, each with memory of its own.
    pub threads: usize,
    /// Bytes of memory for each thread.
    pub bytes: u64,
    /// Gigabytes (10^9 bytes) a second of all threads together, the median.
    pub gbps_median: f64,
    /// The standard deviation of the samples.
    pub gbps_stdev: f64,
    /// The median as a multiple of that of the kernel's demand faults over the same backing; left out where those were
    /// not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_kernel: Option<f64>,
}

/// The cost of making memory usable. The kernel's path, first and last in each turn, has to agree.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Faulted {
    /// Where it was measured.
    pub machine: Machine,
    /// Whether fewer settings were measured than the benchmark has.
    pub quick: bool,
    /// The disturbance seen during the run.
    pub disturbance: Disturbance,
    /// Samples of each row.
    pub samples: usize,
    /// The rows.
    pub rows: Vec<FaultRow>,
    /// How an arena starts that is not faulted in; left out where the host refuses so much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// The measurements that were skipped, each with the reason.
    pub skipped: Vec<Skipped>,
}

impl Document for Faulted {
    const SCHEMA: &'static str = "pageyard.bench-fault/2";
}

/// The cost of starting an arena that is not faulted in.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Start {
    /// Its size.
    pub bytes: u64,
    /// Milliseconds to map it, the median.
    pub mapping_ms: f64,
    /// Milliseconds to build the arena over the mapping, the median.
    pub arena_ms: f64,
    /// The longest of them.
    pub arena_ms_max: f64,
}

/// Measures. `progress` is told how many of how many settings are done.
#[must_use]
pub fn fault(options: &FaultOptions, progress: &mut dyn FnMut(u64, u64)) -> Faulted {
    let mut result = Faulted { machine: Machine::measured(), samples: options.samples, ..Faulted::default() };
    let cpus = cpus();
    let all = (options.backings.len() * options.threads.len()) as u64;
    let mut done = 0;
    for backing in &options.backings {
        for threads in &options.threads {
            if *threads > cpus.len() {
                let why = format!("it needs {threads} CPUs, and this process may use {}", cpus.len());
                result.skipped.push(Skipped { allocator: backing.name(), why });
            } else {
                match measure(*backing, options, &cpus[..*threads]) {
                    Ok((rows, noise)) => {
                        if rows.len() < Path::ALL.len() {
                            let why = "threads did not run together, other work had their CPUs".to_owned();
                            result.skipped.push(Skipped { allocator: backing.name(), why });
                        }
                        result.rows.extend(rows);
                        result.disturbance.add(&noise);
                    }
                    Err(why) => {
                        result.skipped.push(Skipped { allocator: backing.name(), why: why.to_string() });
                    }
                }
            }
            done += 1;
            progress(done, all);
        }
    }
    match start(options.samples) {
        Ok(start) => result.start = Some(start),
        Err(why) => result.skipped.push(Skipped { allocator: "arena's start", why: why.to_string() }),
    }
    // A backing is refused whatever the number of threads.
    result.skipped.dedup();
    result
}

/// Bytes of the arena whose start is timed.
const STARTED: usize = 16 << 30;

fn start(samples: usize) -> Result<Start, Refusal> {
    let (mut mapped, mut built) = (Vec::new(), Vec::new());
    // What clears is measured once a process, and not here.
    let _ = pageyard_arena::clear::Clearer::of_this_machine();
    for _ in 0..samples {
        let begin = now_ns();
        let mapping = Mapping::new(STARTED, Backing::Anonymous)?;
        let between = now_ns();
        drop(mapping);
        // Memory that it maps itself, because that alone is known to be zeros.
        let again = now_ns();
        let arena = Arena::builder().size(STARTED).build()?;
        let end = now_ns();
        drop(arena);
        mapped.push((between - begin) as f64 / 1e6);
        built.push((end - again).saturating_sub(between - begin) as f64 / 1e6);
    }
    let [mapped, built] = [mapped, built].map(Samples::new);
    Ok(Start {
        bytes: STARTED as u64,
        mapping_ms: mapped.median(),
        arena_ms: built.median(),
        arena_ms_max: built.max(),
    })
}

/// Measures every path over one backing.
fn measure(
    backing: Backing,
    options: &FaultOptions,
    cpus: &[usize],
) -> Result<(Vec<FaultRow>, Noise), Refusal> {
    // What is refused is refused before anything is measured.
    drop(Mapping::new(options.memory * cpus.len(), backing)?);
    let mut turns: Vec<Path> = Path::ALL.into_iter().chain([Path::Kernel]).collect();
    let mut failed = None;
    let watch = InterferenceWatch::start();
    let series = Sampler::new(options.samples).run(&mut turns, |path| {
        match sample(*path, backing, options.memory, cpus) {
            Ok(gbps) => Sample::from(gbps.map(|gbps| [gbps])),
            Err(why) => {
                failed = Some(why);
                Sample::Impossible
            }
        }
    });
    if let Some(why) = failed {
        return Err(why);
    }
    let series: Vec<Samples> = series.into_iter().map(|[gbps]| gbps).collect();
    let noise = Noise::of([&series[0], &series[Path::ALL.len()]].map(Samples::median), &watch);
    let rows = Path::ALL.into_iter().zip(&series).filter(|(_, s)| s.len() >= FEWEST_COUNTED);
    let kernel = rows.clone().find(|(path, _)| *path == Path::Kernel).map(|(_, samples)| samples.median());
    let row = |(path, samples): (Path, &Samples)| FaultRow {
        backing: backing.name(),
        page_bytes: backing.page_size().bytes() as u64,
        path,
        threads: cpus.len(),
        bytes: options.memory as u64,
        gbps_median: samples.median(),
        gbps_stdev: samples.deviation(),
        x_kernel: kernel.map(|kernel| samples.median() / kernel.max(0.01)),
    };
    Ok((rows.map(row).collect(), noise))
}

/// Takes a sample: gigabytes a second of all threads together; none where they did not run at the same time.
fn sample(path: Path, backing: Backing, bytes: usize, cpus: &[usize]) -> Result<Option<f64>, Refusal> {
    let start = Barrier::new(cpus.len());
    let ran: Vec<Result<Span, Refusal>> = std::thread::scope(|scope| {
        let start = &start;
        let threads: Vec<_> = cpus
            .iter()
            .map(|cpu| {
                scope.spawn(move || {
                    let _pinned = Pinned::to(*cpu);
                    one(path, backing, bytes, start)
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let spans = ran.into_iter().collect::<Result<Vec<Span>, Refusal>>()?;
    let gbps = spans.iter().map(|span| bytes as f64 / span.ns().max(1) as f64).sum();
    Ok((overlap(&spans) >= OVERLAP).then_some(gbps))
}

/// Runs one path on this thread, and says when.
fn one(path: Path, backing: Backing, bytes: usize, start: &Barrier) -> Result<Span, Refusal> {
    let prepared = Prepared::new(path, backing, bytes);
    // Whether or not this thread can go on, the others wait for it.
    start.wait();
    let mut prepared = prepared?;
    let begin = now_ns();
    let blocks = prepared.run(path)?;
    let end = now_ns();
    drop(blocks);
    Ok(Span { start: begin, end })
}

/// The memory that a path begins with.
enum Prepared {
    Mapped(Mapping),
    Arena(Box<Arena>, Order),
}

fn prefault() -> Prefault<'static> {
    Prefault { threads: 1, progress: &|_, _| () }
}

impl Prepared {
    fn new(path: Path, backing: Backing, bytes: usize) -> Result<Prepared, Refusal> {
        if matches!(path, Path::Kernel | Path::Populate) {
            return Ok(Prepared::Mapped(Mapping::new(bytes, backing)?));
        }
        let arena: ArenaBuilder<'_> = Arena::builder().size(bytes).backing(backing);
        let arena = if path == Path::ArenaFirst { arena } else { arena.prefault(prefault()) };
        let arena = Box::new(arena.build()?);
        let order = backing.page_size().order();
        if path == Path::ArenaRecycled {
            drop(take(&arena, order)?);
        }
        Ok(Prepared::Arena(arena, order))
    }

    /// Makes the memory usable, and uses it; what it took goes back when the caller lets go of it.
    fn run(&mut self, path: Path) -> Result<Vec<Block<&Arena>>, Refusal> {
        match self {
            Prepared::Mapped(mapping) => {
                if path == Path::Populate {
                    mapping.prefault(&prefault())?;
                }
                let pages = mapping.as_bytes_mut().chunks_mut(PAGE_SIZE as usize);
                pages.for_each(|page| page[0] = MaybeUninit::new(1));
                Ok(Vec::new())
            }
            Prepared::Arena(arena, order) => take(arena, *order),
        }
    }
}

/// Takes all blocks of an arena, zeroed, and writes a byte of each page.
fn take(arena: &Arena, order: Order) -> Result<Vec<Block<&Arena>>, Refusal> {
    let count = (arena.mapping().bytes() / PAGE_SIZE as usize) >> order.get();
    let mut blocks = Vec::with_capacity(count);
    for _ in 0..count {
        let mut block = arena.alloc_zeroed(order)?;
        block.chunks_mut(PAGE_SIZE as usize).for_each(|page| page[0] = 1);
        blocks.push(block);
    }
    Ok(blocks)
}

/// Why a path cannot be measured.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Backing(#[from] BackingError),
    #[error(transparent)]
    Arena(#[from] ArenaError),
    #[error("the arena has no block: {0}")]
    Block(#[from] AllocError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_measured_and_what_the_host_refuses_is_said() {
        let options = FaultOptions { samples: 3, memory: 4 << 20, ..FaultOptions::quick() };
        let result = fault(&options, &mut |_, _| ());
        assert_eq!(
            (result.rows.len(), result.disturbance.settings),
            (2 * Path::ALL.len(), 2),
            "{:?}",
            result.skipped
        );
        assert!(result.rows.iter().all(|r| r.gbps_median > 0.0 && r.gbps_median.is_finite()));
        let options = FaultOptions { memory: 1 << 50, ..options };
        let result = fault(&options, &mut |_, _| ());
        assert!(result.rows.is_empty());
        let refused = result.skipped.iter().filter(|s| s.allocator.starts_with("anonymous"));
        assert_eq!(refused.clone().count(), 2, "{:?}", result.skipped);
        assert!(refused.clone().all(|s| s.why.contains("memory")), "{:?}", result.skipped);
    }

    #[test]
    fn what_was_written_to_is_cleared_again_and_what_is_known_to_be_zeros_is_not() {
        let prepared = |path| Prepared::new(path, Backing::Anonymous, 4 << 20).unwrap();
        for (path, known) in
            [(Path::ArenaKnownZero, true), (Path::ArenaRecycled, false), (Path::ArenaFirst, true)]
        {
            let Prepared::Arena(arena, order) = prepared(path) else { panic!("it is an arena's") };
            let block = arena.alloc(order).unwrap();
            assert_eq!(block.was_zeroed(), known, "{}", path.name());
        }
    }
}
