//! Recording this host: needs root and tracefs, and says so where it lacks them.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pageyard_record::record::{INSIDE_BYTES, Recorded, Recorder, Through};
use pageyard_trace::{Columns, Event, EventKind, MoveKind, Summary, Trace};

/// One recording at a time: their events would be each other's.
static ONE: Mutex<()> = Mutex::new(());

/// Records while `work` runs; `None`, with the reason printed, where that cannot be done here.
fn record(folder: &Path, work: impl FnOnce()) -> Option<(Trace, Recorded)> {
    let recorder = match Recorder::prepare(&folder.join("out.trace")) {
        Ok(recorder) => recorder,
        Err(why) => {
            println!("skipped: {why}");
            return None;
        }
    };
    let (wake, _other) = UnixStream::pair().unwrap();
    let mut running = recorder.start().unwrap();
    work();
    for _ in 0..3 {
        running.wait(wake.as_fd(), Duration::from_millis(20)).unwrap();
    }
    Some(running.finish().unwrap())
}

/// Fills a file in memory with frames, and drops it.
fn fill(frames: usize) {
    let mut file = File::create("/dev/shm/pageyard-recording").unwrap();
    fs::remove_file("/dev/shm/pageyard-recording").unwrap();
    for _ in 0..frames {
        file.write_all(&[1; 4096]).unwrap();
    }
}

#[test]
fn a_recording_is_a_trace_that_says_what_happened() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let Some((trace, mut recorded)) = record(folder.path(), || fill(20_000)) else { return };
    assert_eq!((recorded.lost, recorded.late), (0, 0), "{recorded:?}");
    let summary = Summary::of(&trace, |_| {}).unwrap();
    assert_eq!(summary.by_kind, recorded.by_kind);
    assert!(summary.allocs.count >= 20_000, "{recorded:?}");
    // The job's own frames came and went while it was recorded, whatever other processes did meanwhile; but for those
    // that wait in a batch for the kernel's lists of pages in use, up to 31 on every CPU that the job ran on, and are
    // freed when that is drained.
    let waiting = 31 * u64::from(recorded.cpus);
    assert!(summary.frees.count + waiting >= 20_000, "{recorded:?}");
    assert!(summary.allocated_and_freed().count + waiting >= 20_000, "{recorded:?}");
    assert_eq!(summary.allocs.count - summary.failed.count, summary.granted.iter().flatten().sum::<u64>());
    let meta = trace.meta();
    let version = meta.kernel.strip_prefix("Linux ").unwrap();
    assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{version}");
    assert!(version.chars().all(|c| c.is_ascii_digit() || c == '.'), "{version}");
    assert!(meta.gfp_bits.contains_key("__GFP_IO") || meta.gfp_bits.is_empty());
    // The job is this process's own.
    let mut own = 0;
    let mut events = trace.events(Columns::All).unwrap();
    let mut batch = Vec::new();
    while events.next_batch(&mut batch).unwrap() {
        let of_recorder = |e: &&Event| e.kind == EventKind::Alloc && meta.recorder_threads.contains(&e.tid);
        own += batch.iter().filter(of_recorder).count();
    }
    assert!(own >= 20_000 && own as u64 <= summary.allocs.count, "{own} by {:?}", meta.recorder_threads);
    let (before, after) = (meta.before.as_ref().unwrap(), meta.after.as_ref().unwrap());
    assert!(before.buddyinfo.contains("zone") && after.vmstat.contains("nr_free_pages"));
    let map = trace.before().unwrap().unwrap();
    assert!(map.end() > 1000 && trace.after().unwrap().unwrap().end() == map.end());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "something besides the trace was left");
    assert!(recorded.overhead().is_none_or(|share| share > 0.0), "{recorded:?}");
    // Events that would have taken more time than there was were priced while the host was slower.
    recorded.event_ns = Some(1e9);
    assert_eq!(recorded.overhead(), None, "{recorded:?}");
}

#[test]
fn what_happens_while_the_first_snapshot_is_taken_is_recorded() {
    let info = rustix::system::sysinfo();
    if info.totalram as u64 * u64::from(info.mem_unit) > INSIDE_BYTES {
        return println!("skipped: this host has more memory than is read while events are recorded");
    }
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let recorder = match Recorder::prepare(&folder.path().join("out.trace")) {
        Ok(recorder) => recorder,
        Err(why) => return println!("skipped: {why}"),
    };
    let started = AtomicBool::new(false);
    let begun = Instant::now();
    let running = std::thread::scope(|scope| {
        // ORDER: Relaxed: it only ends the loop.
        scope.spawn(|| {
            while !started.load(Ordering::Relaxed) {
                fill(100);
            }
        });
        let running = recorder.start();
        started.store(true, Ordering::Relaxed);
        running.unwrap()
    });
    let took = begun.elapsed();
    let (trace, _) = running.finish().unwrap();
    assert!(u128::from(trace.meta().duration_ns) > took.as_nanos() / 2, "the trace begins with the snapshot");
    let mut events = trace.events(Columns::Replay).unwrap();
    let mut batch = Vec::new();
    let mut early = 0;
    while events.next_batch(&mut batch).unwrap() {
        early += batch.iter().filter(|e| u128::from(e.time_ns) < took.as_nanos() / 2).count();
    }
    assert!(early > 100, "{early} rows in the first half of {took:?}");
}

/// Records for half a second, and returns the trace and what was said of it.
fn sampled(folder: &Path, every: Option<Duration>) -> Option<(Trace, Recorded)> {
    let recorder = match Recorder::prepare(&folder.join("out.trace")) {
        Ok(recorder) => recorder.sample_every(every).unwrap(),
        Err(why) => {
            println!("skipped: {why}");
            return None;
        }
    };
    let (wake, _other) = UnixStream::pair().unwrap();
    let mut running = recorder.start().unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(500) {
        fill(2000);
        running.wait(wake.as_fd(), Duration::from_millis(200)).unwrap();
    }
    Some(running.finish().unwrap())
}

#[test]
fn the_host_is_sampled_at_both_ends_and_in_between() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let Some((trace, recorded)) = sampled(folder.path(), Some(Duration::from_millis(50))) else { return };
    let sampling = recorded.sampling.unwrap();
    assert!(sampling.taken >= 4 && sampling.left_out == 0 && sampling.cpu_seconds > 0.0, "{recorded:?}");
    assert!(recorded.sampling_pct().is_some_and(|pct| (0.0..50.0).contains(&pct)), "{recorded:?}");
    assert!(sampling.cpu_seconds <= recorded.own_seconds, "{recorded:?}");
    let mut reader = trace.samples().unwrap().unwrap();
    let (mut times, mut freed) = (Vec::new(), Vec::new());
    while let Some(sample) = reader.next_sample().unwrap() {
        times.push(sample.time_ns);
        freed.push(sample.counter("pgfree").unwrap());
        assert!(!sample.free_blocks.is_empty() && !sample.lists.is_empty());
    }
    assert_eq!(times.len() as u64, sampling.taken);
    // The first at once, the last just before the end; how punctual the others are is the machine's affair.
    assert!(times[0] < 100_000_000 && *times.last().unwrap() <= trace.meta().duration_ns, "{times:?}");
    assert!(*times.last().unwrap() >= 500_000_000, "{times:?}");
    assert!(freed.is_sorted() && freed.last().unwrap() - freed[0] >= 2000, "{freed:?}");
    let summary = Summary::of(&trace, |_| {}).unwrap().sampled.unwrap();
    assert_eq!(summary.samples, sampling.taken);
    assert!(recorded.document("out.trace", None).text().contains("one each 50 ms"));
}

#[test]
fn sampling_can_be_turned_off() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let Some((trace, recorded)) = sampled(folder.path(), None) else { return };
    assert_eq!(recorded.sampling, None);
    assert!(trace.samples().unwrap().is_none());
    assert!(!recorded.document("out.trace", None).text().contains("samples"));
}

#[test]
fn compaction_is_told_and_moved_frames_are_followed() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    // Memory with holes in it, so that there is something to compact.
    let mut memory: Vec<Vec<u8>> = (0..4096).map(|i| vec![i as u8 | 1; 16_384]).collect();
    let mut keep = false;
    memory.retain(|_| {
        keep = !keep;
        keep
    });
    let compact = || {
        if let Err(why) = fs::write("/proc/sys/vm/compact_memory", "1") {
            println!("no compaction can be asked for: {why}");
        }
    };
    let Some((trace, recorded)) = record(folder.path(), compact) else { return };
    drop(memory);
    let Some(rows) = recorded.moves else {
        println!("skipped: this kernel tells nothing of compaction");
        return;
    };
    let mut reader = trace.moves().unwrap().unwrap();
    assert_eq!(reader.rows(), rows);
    let (mut moves, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).unwrap() {
        moves.extend(batch.iter().filter(|m| m.kind == MoveKind::Move).copied());
    }
    assert_eq!(moves.len() as u64, recorded.moved);
    let end = trace.before().unwrap().unwrap().end();
    assert!(moves.iter().all(|m| m.pfn < end && m.to < end && m.pfn != m.to));
    // A frame whose contents moved is freed soon after: the pairing is right, and not by chance.
    let mut frees = std::collections::HashMap::<u64, Vec<u64>>::new();
    let mut events = trace.events(Columns::All).unwrap();
    let mut batch = Vec::new();
    while events.next_batch(&mut batch).unwrap() {
        for event in batch.iter().filter(|e| e.kind == EventKind::Free && e.order == 0) {
            frees.entry(event.pfn).or_default().push(event.time_ns);
        }
    }
    let small: Vec<_> = moves.iter().filter(|m| m.order == 0).collect();
    let freed = |pfn: u64, time: u64| {
        frees.get(&pfn).is_some_and(|t| t.iter().any(|t| t.abs_diff(time) < 50_000_000))
    };
    let right = small.iter().filter(|m| freed(m.pfn, m.time_ns)).count();
    println!("{rows} rows, {} moves; the old frame of {right} of {} was freed", moves.len(), small.len());
    assert!(small.len() < 100 || right * 10 >= small.len() * 8, "{right} of {}", small.len());
}

/// Returns the instances of the kernel's tracer that are this process's.
fn own_instances() -> usize {
    let own = format!("pageyard-{}", std::process::id());
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .filter(|root| Path::new(root).join("instances").join(&own).exists())
        .count()
}

#[test]
fn both_kinds_of_buffers_tell_the_same() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    for (through, kind) in [(Through::Cheapest, "tracefs"), (Through::Perf, "perf")] {
        let folder = tempfile::tempdir().unwrap();
        let recorder = match Recorder::prepare_through(&folder.path().join("out.trace"), through) {
            Ok(recorder) => recorder,
            Err(why) => {
                println!("skipped: {why}");
                return;
            }
        };
        let running = recorder.start().unwrap();
        fill(20_000);
        let (trace, recorded) = running.finish().unwrap();
        if recorded.buffers != kind {
            println!("skipped: {:?}", recorded.not_cheapest);
            continue;
        }
        assert_eq!(own_instances(), 0, "{kind}: the kernel still has its buffers");
        assert_eq!((recorded.lost, recorded.late, recorded.impossible), (0, 0, 0), "{recorded:?}");
        let mut events = trace.events(Columns::All).unwrap();
        let (mut batch, mut by_tid, mut last) = (Vec::new(), std::collections::HashMap::new(), 0);
        while events.next_batch(&mut batch).unwrap() {
            for event in batch.iter().filter(|e| e.kind == EventKind::Alloc && e.order == 0 && !e.failed()) {
                assert!(event.time_ns >= last, "{kind}");
                last = event.time_ns;
                *by_tid.entry(event.tid).or_insert(0) += 1;
            }
        }
        assert!(by_tid.values().any(|&frames| frames >= 20_000), "{kind}: {by_tid:?}");
    }
}

#[test]
fn a_recording_that_is_dropped_leaves_no_buffers() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    match Recorder::prepare(&folder.path().join("out.trace")) {
        Ok(recorder) => drop(recorder.start().unwrap()),
        Err(why) => println!("skipped: {why}"),
    }
    assert_eq!(own_instances(), 0);
}

#[test]
fn what_cannot_be_recorded_leaves_nothing_behind() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken.trace");
    fs::create_dir(&taken).unwrap();
    let text = Recorder::prepare(&taken).err().unwrap().to_string();
    assert!(text.lines().count() == 1, "{text}");
    let text = Recorder::prepare(&folder.path().join("none/out.trace")).err().unwrap().to_string();
    assert!(text.lines().count() == 1, "{text}");
    // A recording that is dropped is none.
    if let Ok(recorder) = Recorder::prepare(&folder.path().join("out.trace")) {
        drop(recorder.start().unwrap());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn waiting_ends_when_there_is_something_to_wake_up_for() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let recorder = match Recorder::prepare(&folder.path().join("out.trace")) {
        Ok(recorder) => recorder,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let (wake, mut other) = UnixStream::pair().unwrap();
    let mut running = recorder.start().unwrap();
    other.write_all(b"x").unwrap();
    let start = Instant::now();
    running.wait(wake.as_fd(), Duration::from_secs(30)).unwrap();
    assert!(start.elapsed() < Duration::from_secs(20));
}
