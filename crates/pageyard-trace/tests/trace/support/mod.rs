//! Fixtures that the tests share: random numbers that repeat, and a small trace.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};

use pageyard::Context;
use pageyard_trace::{
    Event, EventKind, FAILED, FrameKind, Meta, ProcTexts, Run, Snapshot, Trace, TraceWriter,
};

/// SplitMix64: small, and the same numbers on every machine. Source: Steele, Lea and Flood, 2014.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Frames of the small trace's memory.
pub const MEMORY: u64 = 1 << 20;

pub fn events(random: &mut Random, n: usize) -> Vec<Event> {
    let mut time = 0;
    (0..n)
        .map(|_| {
            time += random.next() % 1000;
            let order = (random.next() % 11) as u8;
            let kind = EventKind::ALL[random.below(5)];
            let pfn = (random.next() % MEMORY) & !((1 << order) - 1);
            let failed = kind == EventKind::Alloc && random.next().is_multiple_of(8);
            Event {
                time_ns: time,
                pfn: if failed { FAILED } else { pfn },
                gfp: random.next() as u32,
                tid: random.next() as u32 % 50,
                cpu: random.next() as u32 % 4,
                kind,
                order,
                migratetype: (random.next() % 7) as i8 - 1,
                context: Context::ALL[random.below(4)],
                irqs_off: random.next() & 1 == 1,
            }
        })
        .collect()
}

pub fn memory(random: &mut Random) -> Snapshot {
    let mut runs = Vec::new();
    let mut pfn = 0;
    while pfn < MEMORY {
        let frames = (1 + random.next() % 5000).min(MEMORY - pfn);
        let kind = FrameKind::ALL[random.below(10)];
        runs.push(Run {
            pfn,
            frames,
            kind,
            thp: random.next() & 1 == 1,
            unevictable: random.next() & 1 == 1,
        });
        pfn += frames;
    }
    Snapshot { runs }
}

pub fn meta() -> Meta {
    let mut meta = Meta::new(4);
    meta.kernel = "Linux 6.18".to_owned();
    meta.duration_ns = 1_000_000;
    meta.gfp_bits.insert("__GFP_IO".to_owned(), 6);
    meta.before =
        Some(ProcTexts { buddyinfo: "Node 0, zone Normal 1 2 3\n".to_owned(), ..ProcTexts::default() });
    meta
}

/// Writes a small trace and returns its folder and its events.
pub fn small_trace(folder: &Path, n: usize) -> (PathBuf, Vec<Event>) {
    let mut random = Random(n as u64);
    let path = folder.join("small.trace");
    let events = events(&mut random, n);
    let memory = memory(&mut random);
    let mut writer = TraceWriter::create(&path).unwrap();
    for event in &events {
        writer.push(event).unwrap();
    }
    writer.finish(meta(), Some(&memory), Some(&memory)).unwrap();
    (path, events)
}

/// Writes a small trace as those before checksums were: its files can be exchanged.
pub fn old_trace(folder: &Path, n: usize) -> (PathBuf, Vec<Event>) {
    let (path, events) = small_trace(folder, n);
    edit_meta(&path, |meta| drop(meta.as_object_mut().unwrap().remove("checksums").unwrap()));
    (path, events)
}

/// Changes what a trace says of itself.
pub fn edit_meta(path: &Path, edit: impl FnOnce(&mut serde_json::Value)) {
    let file = path.join("meta.json");
    let mut meta = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    edit(&mut meta);
    fs::write(file, serde_json::to_vec(&meta).unwrap()).unwrap();
}

/// Reads everything that a trace has.
pub fn read_all(path: &Path) -> Result<Vec<Event>, pageyard_trace::TraceError> {
    let trace = Trace::open(path)?;
    trace.before()?;
    trace.after()?;
    let mut reader = trace.events(pageyard_trace::Columns::All)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch)? {
        all.extend_from_slice(&batch);
    }
    Ok(all)
}

pub fn copy_trace(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for name in ["events.parquet", "before.parquet", "after.parquet", "meta.json"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}
