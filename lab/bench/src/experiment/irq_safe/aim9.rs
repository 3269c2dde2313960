//! aim9's `page_test` and `brk_test`: what a program sees of the allocator, through this machine's kernel, through an
//! arena, and over the reference with each protection of its lists.

use super::subjects::{BEFORE, ENGINE, PROTECTIONS, VANILLA};
use crate::clear::{PAGE, Region};
use crate::error::BenchError;
use crate::experiment::machines::{protection, reference, single};
use crate::experiment::unsafely::{grow_break, touch_pages};
use crate::experiment::{Published, Rows, Run, Samples};
use crate::harness::clock::now_ns;
use crate::harness::sampler::{FEWEST, Sample};
use pageyard::{CpuId, Cx, Frames, Migratetype, NodeId, Order, PageAllocator, Pfn, Request, ZoneKind};
use pageyard_arena::backing::Prefault;
use pageyard_arena::clear::{Extent, Primitive};
use pageyard_arena::rseq::Rseq;
use pageyard_arena::{Arena, ArenaBuilder};
use pageyard_linux::LinuxAllocator;
use std::mem::MaybeUninit;

const SECTION: &str = "aim9";

/// The column of this machine's kernel.
pub(super) const KERNEL: &str = "kernel";

/// The metric that the document's point is about.
pub(super) const VARIES: &str = "CoeffVar page_test";

/// The same of the reference before the patch, measured again.
pub(super) const VARIES_AGAIN: &str = "A/A CoeffVar page_test";

/// Pages that one turn of `page_test` touches.
const PAGES: usize = 256;

/// The distance by which `brk_test` moves the break, and the order of a block of that size.
const BREAK: usize = 1 << 17;
const BREAK_ORDER: Order = Order::of(5);

/// Memory of an arena, and of a reference: 64 MiB.
const MEMORY: usize = 64 << 20;

/// A way to memory.
enum Way {
    Kernel,
    Arena(Box<dyn Works>),
    /// The reference with a protection, and whether this is the first one again.
    Reference(&'static str, Box<LinuxAllocator>, bool),
}

/// An arena, whatever protects its lists.
trait Works {
    /// Takes zeroed pages, writes a byte of each and gives them back.
    fn pages(&self, turns: usize) -> bool;
    /// Takes a block and gives it back.
    fn breaks(&self, times: usize) -> bool;
}

impl<P: pageyard::PerCpu> Works for Arena<P> {
    fn pages(&self, turns: usize) -> bool {
        let mut table = Vec::with_capacity(PAGES);
        (0..turns).all(|_| {
            for _ in 0..PAGES {
                let Ok(mut page) = self.alloc_zeroed(Order::ZERO) else { return false };
                page[0] = 1;
                table.push(page);
            }
            table.clear();
            true
        })
    }

    fn breaks(&self, times: usize) -> bool {
        (0..times).all(|_| self.alloc(BREAK_ORDER).is_ok())
    }
}

/// Makes an arena with sequences, or with what this machine has in their place.
fn arena() -> Result<Box<dyn Works>, BenchError> {
    let prefault = Prefault { threads: 1, progress: &|_, _| () };
    let builder: ArenaBuilder<'_> = Arena::<Rseq>::builder().size(MEMORY).prefault(prefault);
    let why = |why: pageyard_arena::ArenaError| BenchError::Experiment { why: why.to_string() };
    match Rseq::new() {
        Ok(sequences) => Ok(Box::new(builder.build_with(sequences).map_err(why)?)),
        Err(_) => Ok(Box::new(builder.build_locked().map_err(why)?)),
    }
}

/// The loop of a page fault over the reference: a frame is taken, cleared and put into a table, as many as `page_test`
/// touches; then all of them go back.
fn faults(allocator: &LinuxAllocator, memory: &mut [MaybeUninit<u8>], turns: usize) -> bool {
    const CX: Cx = Cx::on(CpuId(0));
    let request = single();
    let mut table = [Pfn(0); PAGES];
    (0..turns).all(|_| {
        for entry in &mut table {
            let Ok(pfn) = allocator.alloc(&CX, &request) else { return false };
            let at = pfn.0 as usize * PAGE;
            let Some(mut page) = memory.get_mut(at..at + PAGE).and_then(Extent::new) else { return false };
            // SAFETY: it bypasses no caches.
            #[allow(unsafe_code, reason = "each page is cleared without a fence, as the document's are")]
            unsafe {
                Primitive::RepStosb.write(&mut page);
            }
            *entry = pfn;
        }
        table.iter().all(|pfn| allocator.free(&CX, *pfn, Order::ZERO).is_ok())
    })
}

/// Takes a block as large as the break moves by, and gives it back, as the arena does: past the lists, which keep no
/// blocks of that order.
fn blocks(allocator: &LinuxAllocator, times: usize) -> bool {
    const CX: Cx = Cx::on(CpuId(0));
    let request = Request::new(BREAK_ORDER, Migratetype::Movable);
    (0..times).all(|_| {
        allocator.alloc(&CX, &request).is_ok_and(|pfn| allocator.free(&CX, pfn, BREAK_ORDER).is_ok())
    })
}

pub(super) fn measure(run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let turns = if run.quick { 20 } else { 200 };
    let zone = pageyard::Region::managed(Pfn(0), Frames((MEMORY / PAGE) as u64), NodeId(0), ZoneKind::Normal);
    let mut memory = Region::new(MEMORY).map_err(|why| BenchError::Experiment { why: why.to_string() })?;
    let mut ways = vec![Way::Kernel, Way::Arena(arena()?)];
    for (column, again) in PROTECTIONS.iter().map(|p| (p, false)).chain([(&PROTECTIONS[0], true)]) {
        let config = run.settings.linux(super::subjects::PRESET, &column.knobs())?;
        ways.push(Way::Reference(column.column, Box::new(reference(&[zone], &config)?), again));
    }
    run.at("aim9", 0, 2);
    let pages = run.sampler().run(&mut ways, |way| {
        rate(PAGES * turns, || match way {
            Way::Kernel => touch_pages(PAGES * PAGE, turns),
            Way::Arena(arena) => arena.pages(turns),
            Way::Reference(_, allocator, _) => faults(allocator, memory.bytes(), turns),
        })
    });
    run.at("aim9", 1, 2);
    let times = 100 * turns;
    let breaks = run.sampler().run(&mut ways, |way| {
        rate(times, || match way {
            Way::Kernel => grow_break(BREAK as isize, times),
            Way::Arena(arena) => arena.breaks(times),
            Way::Reference(_, allocator, _) => blocks(allocator, times),
        })
    });
    rows.section(SECTION);
    for (test, series) in [("page_test", pages), ("brk_test", breaks)] {
        for (way, [samples]) in ways.iter().zip(&series) {
            row(way, test, samples, run, rows);
        }
        let of = |again: bool| {
            let same = |way: &Way| matches!(way, Way::Reference(BEFORE, _, is) if *is == again);
            ways.iter().position(same).map(|i| &series[i][0])
        };
        if let (Some(first), Some(second)) = (of(false), of(true)) {
            rows.add(format!("A/A Hmean {test}"), BEFORE, first.paired_gain(second), "% apart");
        }
    }
    run.note(
        "aim9's column `kernel` is this machine's own kernel, which was not built with and without the patch: page_test maps, \
         touches and unmaps 1 MiB a turn, brk_test moves the break up and down by 128 KiB; the arena takes as many zeroed \
         pages, which were used before, and blocks of 128 KiB; the reference takes, clears and notes as many frames, and takes such blocks",
    );
    run.note(protection(&run.settings));
    Ok(())
}

/// Returns operations a second.
fn rate(operations: usize, work: impl FnOnce() -> bool) -> Sample<1> {
    let start = now_ns();
    match work() {
        true => Sample::Counts([operations as f64 * 1e9 / (now_ns() - start) as f64]),
        false => Sample::Impossible,
    }
}

fn row(way: &Way, test: &str, samples: &Samples, run: &mut Run<'_>, rows: &mut Rows) {
    let column = match way {
        Way::Kernel => KERNEL,
        Way::Arena(_) => ENGINE,
        Way::Reference(column, ..) => column,
    };
    let varies = samples.deviation() / samples.mean() * 100.0;
    if samples.len() < FEWEST {
        run.note(format!("{test} of {column} was not measured: memory was refused"));
    } else if matches!(way, Way::Reference(_, _, true)) {
        rows.add(format!("A/A CoeffVar {test}"), BEFORE, varies, "%");
    } else {
        rows.add(format!("Hmean {test}"), column, samples.harmonic_mean(), "1/s");
        rows.add(format!("Stddev {test}"), column, samples.deviation(), "1/s");
        rows.add(format!("CoeffVar {test}"), column, varies, "%");
        rows.add(format!("Max {test}"), column, samples.max(), "1/s");
    }
}

pub(super) fn published(tables: &Published, rows: &mut Rows) {
    rows.section(SECTION);
    for line in tables.lines("aim9") {
        let metric = line.text("metric");
        let unit = if metric.starts_with("CoeffVar") { "%" } else { "1/s" };
        rows.add(metric, VANILLA, line.number("vanilla"), unit);
        rows.add(metric, super::subjects::IRQSAFE, line.number("irqsafe"), unit);
    }
}
