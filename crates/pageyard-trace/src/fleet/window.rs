//! A window that is being counted, and those of a recording.

use std::time::Duration;

use pageyard::{Order, PAGEBLOCK_ORDER, metrics};

use super::row::{FleetNumber as N, FleetRow};
use crate::contents::{Pageblocks, Spoiler};
use crate::error::TraceError;
use crate::event::{Columns, Event, EventKind, FAILED};
use crate::proctext::Zoneinfo;
use crate::samples::HostSample;
use crate::trace::Trace;

/// A window of a host that is being counted.
#[derive(Clone, Debug)]
pub struct FleetWindow {
    row: FleetRow,
    /// The sample that counters rise from, and the newest.
    first: Option<HostSample>,
    last: Option<HostSample>,
    samples: u64,
    free: u64,
    free_huge: u64,
    listed: u64,
}

impl FleetWindow {
    /// Begins one of a host with this kernel, so many CPUs and so many frames.
    #[must_use]
    pub fn new(kernel: &str, cpus: u64, frames: u64, start_s: u64) -> FleetWindow {
        let mut row = FleetRow::of(kernel);
        (row[N::Cpus], row[N::Frames], row[N::StartS]) = (cpus, frames, start_s);
        FleetWindow { row, first: None, last: None, samples: 0, free: 0, free_huge: 0, listed: 0 }
    }

    /// Counts something that is known by itself.
    pub fn add(&mut self, number: N, n: u64) {
        self.row[number] = self.row[number].saturating_add(n);
    }

    /// Counts an event.
    pub fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Alloc if event.pfn == FAILED => self.add(N::Failures, 1),
            EventKind::AllocExtfrag => self.add(N::Fallbacks, 1),
            _ => {}
        }
    }

    /// Counts a sample of the kernel's texts.
    pub fn sample(&mut self, sample: &HostSample) {
        for zone in &sample.free_blocks {
            self.free += metrics::free_frames(&zone.counts);
            let huge = zone.counts.iter().enumerate().skip(usize::from(PAGEBLOCK_ORDER.get()));
            let frames = |order: usize| Order::new(order as u8).map_or(0, |order| order.frames().0);
            self.free_huge += huge.map(|(order, blocks)| blocks.saturating_mul(frames(order))).sum::<u64>();
        }
        self.listed += sample.lists.iter().map(|list| list.frames).sum::<u64>();
        self.samples += 1;
        self.first.get_or_insert_with(|| sample.clone());
        self.last = Some(sample.clone());
    }

    /// Notes what pageblocks hold.
    pub fn pageblocks(&mut self, blocks: &Pageblocks) {
        let no_memory = [Spoiler::Absent, Spoiler::WhollyOther, Spoiler::HugeTlb];
        let pinned = [Spoiler::Slab, Spoiler::PageTable, Spoiler::Other];
        let count =
            |spoilers: [Spoiler; 3]| spoilers.map(|spoiler| blocks.count(spoiler)).iter().sum::<u64>();
        self.row[N::Pageblocks] = blocks.total() - count(no_memory);
        self.row[N::PinnedPageblocks] = count(pinned);
    }

    /// Ends it after so long, and begins the next one of the host, at `next_s`.
    pub fn end(&mut self, length: Duration, next_s: u64) -> FleetRow {
        let mut row = self.row.clone();
        row[N::WindowMs] = length.as_millis() as u64;
        if let (Some(first), Some(last)) = (&self.first, &self.last) {
            row[N::SampledMs] = last.time_ns.saturating_sub(first.time_ns) / 1_000_000;
            let means = [
                (N::FreeFrames, self.free),
                (N::FreeHugeFrames, self.free_huge),
                (N::ListedFrames, self.listed),
            ];
            for (number, sum) in means {
                row[number] = sum / self.samples.max(1);
            }
            for number in N::ALL {
                let rise = |name: &&str| Some(last.counter(name)?.saturating_sub(first.counter(name)?));
                row[number] += number.counters().iter().filter_map(rise).sum::<u64>();
            }
        }
        let last = self.last.take();
        *self = FleetWindow::new(&row.kernel, row[N::Cpus], row[N::Frames], next_s);
        // What rose since the last sample belongs to the next window.
        self.first = last;
        row
    }
}

/// Returns the rows of a recording that began at `start_s`, in seconds since 1970: one for each `window`, the last of
/// which may be shorter. `progress` is told how many of how many events are counted.
///
/// # Errors
/// [`TraceError`] where the recording cannot be read.
///
/// # Panics
/// When `window` is shorter than a second.
pub fn rows_of_trace(
    trace: &Trace,
    start_s: u64,
    window: Duration,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<FleetRow>, TraceError> {
    assert!(window >= Duration::from_secs(1), "a window of {window:?}");
    let meta = trace.meta();
    let zoneinfo = meta.before.as_ref().map_or("", |texts| &texts.zoneinfo);
    let frames = Zoneinfo::parse(zoneinfo)?.zones.iter().map(|zone| zone.managed).sum();
    let (length, each) = (Duration::from_nanos(meta.duration_ns.max(1)), window.as_nanos() as u64);
    let new =
        |at: u64| FleetWindow::new(&meta.kernel, meta.cpus.into(), frames, start_s + at * window.as_secs());
    let count = meta.duration_ns.max(1).div_ceil(each);
    let mut windows: Vec<FleetWindow> = (0..count).map(new).collect();
    let at = |time_ns: u64| (time_ns / each).min(count - 1) as usize;
    let mut events = trace.events(Columns::Replay)?;
    let mut batch = Vec::new();
    while events.next_batch(&mut batch)? {
        batch.iter().for_each(|event| windows[at(event.time_ns)].event(event));
        progress(events.rows_read(), events.rows());
    }
    if let Some(mut samples) = trace.samples()? {
        let mut last: Option<HostSample> = None;
        while let Some(sample) = samples.next_sample()? {
            let window = &mut windows[at(sample.time_ns)];
            if window.first.is_none() {
                window.first = last.take();
            }
            window.sample(&sample);
            last = Some(sample);
        }
    }
    let ends = windows.len() - 1;
    // Nobody knows when they were lost.
    windows[ends].add(N::LostEvents, meta.lost);
    if let Some(after) = trace.after()? {
        windows[ends].pageblocks(&Pageblocks::of(&after));
    }
    let rows =
        windows.iter_mut().enumerate().map(|(n, of)| of.end((length - window * n as u32).min(window), 0));
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::ZoneBlocks;
    use pageyard::ZoneKind;

    fn sample(second: u64, free: u64, stalls: u64) -> HostSample {
        let counts = vec![free, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
        let free_blocks = vec![ZoneBlocks { node: 0, zone: ZoneKind::Normal, counts }];
        let counters = vec![("allocstall_dma32", 1), ("allocstall_normal", stalls), ("compact_stall", 9)];
        HostSample { time_ns: second * 1_000_000_000, free_blocks, lists: Vec::new(), counters }
    }

    #[test]
    fn a_window_has_means_and_rises_and_the_next_one_goes_on_from_it() {
        let mut window = FleetWindow::new("Linux 6.18", 2, 1000, 1_795_000_000);
        [sample(1, 10, 5), sample(3, 20, 7)].iter().for_each(|s| window.sample(s));
        window.add(N::Failures, 3);
        let row = window.end(Duration::from_secs(4), 1_795_000_004);
        let of = |row: &FleetRow, numbers: [N; 6]| numbers.map(|n| row[n]);
        let seen =
            [N::SampledMs, N::FreeFrames, N::FreeHugeFrames, N::DirectReclaims, N::Compactions, N::Failures];
        assert_eq!(of(&row, seen), [2000, 1551, 1536, 2, 0, 3]);
        window.sample(&sample(5, 30, 17));
        let row = window.end(Duration::from_secs(4), 1_795_000_004);
        assert_eq!(of(&row, seen), [2000, 1566, 1536, 10, 0, 0]);
        assert_eq!((row[N::StartS], row[N::WindowMs]), (1_795_000_004, 4000));
        let row = window.end(Duration::from_secs(4), 1_795_000_004);
        assert_eq!((row[N::SampledMs], row[N::DirectReclaims]), (0, 0), "it was not sampled");
    }
}
