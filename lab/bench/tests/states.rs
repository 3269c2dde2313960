//! The fragmentation bank: every state in every degree, measured by what does not make it, opened by engines, and
//! reached by engines that follow its calls.

use pageyard::{
    Config, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator, Pageyard, Pfn, Region,
    Request, TryLock, ZoneId, ZoneKind, metrics,
};
use pageyard_bench::states::{
    BANK, Level, Load, MOST_OFF, Measured, Memory, State, StateTrace, StatesDocument, follow, make,
    write_calls,
};
use pageyard_linux::LinuxAllocator;
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{ReplayOptions, Sample, replay};
use pageyard_trace::{Columns, Event, EventKind, Summary, Trace};
use std::path::{Path, PathBuf};

/// The least in which every state can be made.
const GIB: u64 = 1 << 30;

/// Every state in every degree.
fn all() -> impl Iterator<Item = (&'static State, Level)> {
    BANK.iter().flat_map(|state| Level::ALL.map(|level| (state, level)))
}

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("states-{name}"));
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn calls(memory: &Memory) -> String {
    let mut text = Vec::new();
    write_calls(memory, "of a test", &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Gives an empty allocator over memory from a frame on.
fn with_map<T>(first: u64, bytes: u64, make: impl Fn(&MemoryMap<'_>) -> T) -> T {
    let regions = [Region::managed(Pfn(first), Frames(bytes / 4096), NodeId(0), ZoneKind::Normal)];
    make(&MemoryMap::new(&regions).unwrap())
}

fn linux(bytes: u64) -> LinuxAllocator {
    with_map(1 << 20, bytes, |map| LinuxAllocator::new(map, &pageyard_linux::Config::linux_6_18()).unwrap())
}

#[test]
fn every_state_opens_engines_in_the_degree_that_is_asked_of_it() {
    assert!(BANK.len() >= 6);
    let folder = folder("open");
    let engines = EngineSpec::parse_all(&["pageyard-exclusive", "linux-6.18"], &[]).unwrap();
    for (state, level) in all() {
        let (name, asked) = (format!("{}-{}", state.name, level.name()), state.asked(level));
        let opening = StateTrace::of(&make(state, level, GIB, 7).unwrap(), 7).unwrap();
        let measured = opening.measure().unwrap();
        assert!(asked.off(&measured.degree) <= MOST_OFF, "{name}: {asked:?}, {measured:?}");
        let trace = opening.write(&folder.join(format!("{name}.trace")), &name, None).unwrap();
        // What any recording is measured by, from the files.
        let read =
            Measured::of(&trace.before().unwrap().unwrap(), &trace.meta().before.as_ref().unwrap().buddyinfo);
        assert_eq!(read.unwrap(), measured, "{name}");
        assert_eq!(Summary::of(&trace, |_| ()).unwrap().json()["events"], 0, "{name}");
        let report = replay(&trace, &engines, &ReplayOptions::default(), &mut |_, _, _| ()).unwrap();
        for engine in &report.engines {
            // No row changes anything, so the engine's own free lists at the end are those at the opening.
            let [(_, blocks)] = &engine.buddyinfo[..] else { panic!("{name}: {:?}", engine.buddyinfo) };
            let index: Vec<_> =
                (0..blocks.len()).filter_map(|o| metrics::unusable_index(blocks, o)).collect();
            assert_eq!(index, measured.unusable_index_by_order, "{name}, {}", engine.name);
            let free = metrics::free_frames(blocks) as f64 / (GIB / 4096) as f64;
            assert_eq!(free, measured.degree.free_share, "{name}, {}", engine.name);
            assert!(engine.audit.is_ok(), "{name}, {}", engine.name);
        }
    }
}

#[test]
fn an_allocator_that_follows_the_calls_has_the_free_blocks_of_the_state() {
    for (state, level) in all() {
        let name = format!("{}, {}", state.name, level.name());
        let memory = make(state, level, GIB, 7).unwrap();
        let wanted = StateTrace::of(&memory, 7).unwrap().measure().unwrap();
        let list = calls(&memory);
        let (linux, yard) =
            (linux(GIB), with_map(0, GIB, |map| Pageyard::owned(map, Config::new(1), TryLock).unwrap()));
        let engines: [&dyn PageAllocator; 2] = [&linux, &yard];
        for engine in engines {
            let got = follow(engine, &list).unwrap().measure(engine).unwrap();
            assert_eq!(got, wanted, "{name}");
            engine.audit().unwrap();
        }
    }
}

#[test]
fn what_a_state_imitates_is_seen_in_its_free_blocks() {
    let index = |name: &str| {
        let memory = make(State::find(name).unwrap(), Level::High, GIB, 3).unwrap();
        StateTrace::of(&memory, 3).unwrap().measure().unwrap().unusable_index_by_order
    };
    let rings = index("network-rings");
    assert!(rings[3] < 0.001 && rings[4] > 0.3, "buffers of order 3 leave holes of order 3: {rings:?}");
    let slab = index("slab-clustered");
    assert!(slab[2] < 0.001 && slab[3] > 0.3, "slabs of order 2: {slab:?}");
    let full = index("cache-full");
    assert!(full[1] > 0.8, "single frames: {full:?}");
    let scatter = index("slab-scatter");
    assert!(scatter[3] < 0.1 && scatter[9] > 0.85, "few frames spoil whole pageblocks: {scatter:?}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let folder = folder("seed");
    let state = State::find("thp-partly-returned").unwrap();
    let files = |name: &str, seed| {
        let path = folder.join(name);
        let memory = make(state, Level::Middle, GIB, seed).unwrap();
        StateTrace::of(&memory, seed).unwrap().write(&path, "of a test", None).unwrap();
        let names = ["meta.json", "events.parquet", "before.parquet", "free_lists.parquet"];
        (names.map(|name| std::fs::read(path.join(name)).unwrap()), calls(&memory))
    };
    let first = files("a.trace", 5);
    assert!(first == files("b.trace", 5));
    let other = files("c.trace", 6);
    assert!(first.0[2] != other.0[2] && first.0[3] != other.0[3] && first.1 != other.1);
}

#[test]
fn a_recorded_host_gives_a_state_with_its_huge_frames() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/guest-6.1-files.trace");
    let trace = Trace::open(&path).unwrap();
    let snapshot = trace.before().unwrap().unwrap();
    let (memory, places) = Memory::recorded(&snapshot, &Load::pageblocks(&trace).unwrap()).unwrap();
    let measured = StateTrace::of(&memory, 1).unwrap().measure().unwrap();
    let kept = pageyard_trace::Pageblocks::of(&memory.snapshot());
    let host = pageyard_trace::Pageblocks::of(&snapshot);
    assert_eq!(kept.count(pageyard_trace::Spoiler::Free), host.count(pageyard_trace::Spoiler::Free));
    assert_eq!(kept.count(pageyard_trace::Spoiler::Slab), host.count(pageyard_trace::Spoiler::Slab));
    let engine = linux(memory.frames().as_bytes());
    assert_eq!(follow(&engine, &calls(&memory)).unwrap().measure(&engine).unwrap(), measured);

    // It goes on as the host did: the same frames come and go.
    let state = StateTrace::of(&memory, 1).unwrap();
    let path = folder("load").join("files.trace");
    let loaded = state.write(&path, "of a test", Some(&Load::of(&trace, &places))).unwrap();
    assert_eq!(loaded.rows().unwrap(), trace.rows().unwrap());
    assert!(loaded.moves().unwrap().is_some() && loaded.meta().gfp_bits == trace.meta().gfp_bits);
    let (mut events, mut batch, mut taken) = (loaded.events(Columns::All).unwrap(), Vec::new(), 0);
    while events.next_batch(&mut batch).unwrap() {
        taken += batch.iter().map(frames_taken).sum::<i64>();
    }
    let engines = EngineSpec::parse_all(&["linux-6.1"], &[]).unwrap();
    let report = replay(&loaded, &engines, &ReplayOptions::default(), &mut |_, _, _| ()).unwrap();
    let engine = &report.engines[0];
    assert!(engine.is_sound(), "{engine}");
    let free = |s: &Sample| (s.free + s.cached) as i64;
    let fewer = free(&engine.samples[0]) - engine.samples.last().map_or(0, free);
    assert!(taken.abs() > 1024 && (taken - fewer).abs() < 64, "{taken} frames were taken, {fewer} here");
}

#[test]
fn the_state_of_a_guest_that_aged_opens_in_its_own_degree() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/states/guest-6.12-aged.trace");
    let trace = Trace::open(&path).unwrap();
    let text = &trace.meta().before.as_ref().unwrap().buddyinfo;
    let measured = Measured::of(&trace.before().unwrap().unwrap(), text).unwrap().degree;
    assert!(measured.unusable_index > 0.4 && measured.unmovable_pageblock_share > 0.2, "{measured:?}");
    let engines = EngineSpec::parse_all(&["pageyard-exclusive", "linux-6.12"], &[]).unwrap();
    for engine in replay(&trace, &engines, &ReplayOptions::default(), &mut |_, _, _| ()).unwrap().engines {
        let [(_, blocks)] = &engine.buddyinfo[..] else { panic!("{:?}", engine.buddyinfo) };
        assert_eq!(metrics::unusable_index(blocks, 9), Some(measured.unusable_index), "{}", engine.name);
        assert!(engine.audit.is_ok(), "{}", engine.name);
    }
}

/// Returns how many frames an event takes from free memory.
fn frames_taken(event: &Event) -> i64 {
    let frames = 1 << event.order;
    match event.kind {
        EventKind::Alloc if !event.failed() => frames,
        EventKind::Free => -frames,
        _ => 0,
    }
}

#[test]
fn a_degree_that_memory_is_too_small_for_is_refused_with_a_size_that_is_not() {
    for (state, level) in all() {
        let refused = make(state, level, 16 << 20, 1).unwrap_err().to_string();
        let (_, size) = refused.split_once("; take ").unwrap_or_else(|| panic!("{refused}"));
        let (number, unit) = size.split_once(' ').unwrap();
        let unit = if unit == "GiB" { GIB } else { 1 << 20 };
        let bytes = (number.parse::<f64>().unwrap() * unit as f64) as u64;
        let measured = StateTrace::of(&make(state, level, bytes, 1).unwrap(), 1).unwrap().measure().unwrap();
        assert!(state.asked(level).off(&measured.degree) <= MOST_OFF, "{refused}");
    }
    assert!(StatesDocument::all(Some((64 << 20, 1))).is_err());
    assert!(State::find("slab\u{1b}").unwrap_err().to_string().contains("there are cache-evicted, "));
}

#[test]
fn memory_that_a_list_is_not_for_is_refused_and_left_as_it_was() {
    let list = "pageyard-calls 1\nhold 4096\n";
    let refused = |engine: &dyn PageAllocator| {
        let free = engine.zone_stats(ZoneId(0)).unwrap().free;
        let why = follow(engine, list).unwrap_err().to_string();
        assert_eq!(engine.zone_stats(ZoneId(0)).unwrap().free, free);
        why
    };
    assert!(refused(&linux(32 << 20)).contains("make the state with another --memory"));
    let shifted = |map: &MemoryMap<'_>| Pageyard::owned(map, Config::new(1), TryLock).unwrap();
    assert!(refused(&with_map(512, 16 << 20, shifted)).contains("a multiple of 1024"));
    let used = linux(16 << 20);
    used.alloc(&Cx::on(CpuId(0)), &Request::new(Order::of(4), Migratetype::Movable)).unwrap();
    assert!(refused(&used).contains("all must be"));
    let regions = [(0, ZoneKind::Dma), (4096, ZoneKind::Normal)]
        .map(|(first, kind)| Region::managed(Pfn(first), Frames(4096), NodeId(0), kind));
    let two = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config::new(1), TryLock).unwrap();
    assert!(refused(&two).contains("2 zones with memory"));
}

#[test]
fn lines_that_are_no_calls_are_refused_with_their_number() {
    for (lines, says) in [
        ("", "begins with the line `pageyard-calls 1`"),
        ("pageyard-calls 2\nhold 4096", "begins with the line"),
        ("pageyard-calls 1", "the list has no call"),
        ("pageyard-calls 1\nfree 0 1", "in line 2: it is no call"),
        ("pageyard-calls 1\n# a remark\nhold", "in line 3: it is no call"),
        ("pageyard-calls 1\nhold -1", "in line 2: it is no call"),
        ("pageyard-calls 1\nhold 4096\nhold 4096", "in line 3: it is no call"),
        ("pageyard-calls 1\nhold 4096\nfree 4095 2", "there are no 2 frames from 4095"),
        ("pageyard-calls 1\nhold 4096\nfree 18446744073709551615 2", "there are no 2 frames"),
        ("pageyard-calls 1\nhold 4096\nfree 7 2\nfree 8 1", "in line 4: frame 8 is not held any more"),
        ("pageyard-calls 1\nhold 4096\nplace 0 4", "placed up to order 3"),
        ("pageyard-calls 1\nhold 4096\nplace 5 1", "no block of order 1 begins at frame 5"),
        ("pageyard-calls 1\nhold 4096\nplace 8 0\nplace 8 0", "frame 8 is not held any more"),
        ("pageyard-calls 1\nhold 4096\nfree 0 64\nplace 1024 0", "the allocator gave frame"),
        ("pageyard-calls 1\nhold 4096\nmelt 1", "in line 3: it is no call"),
    ] {
        let why = follow(&linux(16 << 20), lines).unwrap_err().to_string();
        assert!(why.contains(says), "{lines:?}: {why}");
    }
}
