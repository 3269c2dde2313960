//! Every reader as a function of bytes, and small good inputs to corrupt: for fuzzing.
//!
//! Each function returns, whatever the bytes. Its findings are discarded.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use pageyard::Context;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use crate::error::TraceError;
use crate::event::{Columns, Event, EventKind, FAILED};
use crate::free_lists::FreeBlock;
use crate::kernel_log::{self as logged, KernelLog};
use crate::meta::Meta;
use crate::moves::{Move, MoveKind, MoveReader};
use crate::pq::Table;
use crate::proctext::{Buddyinfo, Pagetypeinfo, Vmstat, Zoneinfo};
use crate::reader::{EventReader, event_columns};
use crate::samples::{HostSample, SampleReader};
use crate::snapshot::{FrameKind, Run, Snapshot};
use crate::source::Input;
use crate::thread_names::ThreadNames;
use crate::writer::{MovesWriter, SamplesWriter, TraceWriter, schema, write_events};

/// A reader, by its name in `fuzz/`.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Reads bytes to their end.
    pub read: fn(&[u8]),
}

/// Every reader.
pub const TARGETS: [Target; 9] = [
    Target { name: "events", read: events },
    Target { name: "snapshot", read: snapshot },
    Target { name: "free_lists", read: free_lists },
    Target { name: "moves", read: moves },
    Target { name: "samples", read: samples },
    Target { name: "meta", read: meta },
    Target { name: "thread_names", read: thread_names },
    Target { name: "proctext", read: proctext },
    Target { name: "kernel_log", read: kernel_log },
];

/// Makes an input of bytes.
#[must_use]
pub fn input(bytes: &[u8]) -> Input {
    Input::memory("input", bytes.to_vec())
}

/// Checks that a message can be shown to a user.
///
/// # Panics
/// When it is not.
pub fn presentable<T>(result: Result<T, TraceError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(e) => {
            let text = e.to_string();
            assert!(text.lines().count() == 1 && text.len() < 1000, "{text}");
            None
        }
    }
}

/// Reads `events.parquet`.
pub fn events(bytes: &[u8]) {
    for columns in [Columns::All, Columns::Replay] {
        let open = || {
            let table = Table::open(input(bytes), event_columns(columns))?;
            EventReader::new(table, columns, &Meta::new(4), Some(1 << 22))
        };
        let Some(mut reader) = presentable(open()) else { continue };
        let mut batch = Vec::new();
        while presentable(reader.next_batch(&mut batch)) == Some(true) {}
    }
}

/// Reads `before.parquet`.
pub fn snapshot(bytes: &[u8]) {
    presentable(Snapshot::read(input(bytes)));
}

/// Reads `free_lists.parquet`.
pub fn free_lists(bytes: &[u8]) {
    presentable(FreeBlock::read(input(bytes)));
}

/// Reads `moves.parquet`.
pub fn moves(bytes: &[u8]) {
    let Some(mut reader) = presentable(MoveReader::open(input(bytes), 4)) else { return };
    let mut batch = Vec::new();
    while presentable(reader.next_batch(&mut batch)) == Some(true) {}
}

/// Reads `samples.parquet`.
pub fn samples(bytes: &[u8]) {
    let zones = vec![(0, "Normal".to_owned())];
    let Some(mut reader) = presentable(SampleReader::open(input(bytes), 4, Some(zones))) else { return };
    while presentable(reader.next_sample()).flatten().is_some() {}
}

/// Reads `meta.json`.
pub fn meta(bytes: &[u8]) {
    presentable(Meta::read(&input(bytes)));
}

/// Reads `thread_names.json`.
pub fn thread_names(bytes: &[u8]) {
    presentable(ThreadNames::read(&input(bytes)));
}

/// Reads each of the texts of `/proc`.
pub fn proctext(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    presentable(Buddyinfo::parse(&text).map(drop));
    presentable(Zoneinfo::parse(&text).map(drop));
    presentable(Pagetypeinfo::parse(&text).map(drop));
    presentable(Vmstat::parse(&text).map(drop));
}

/// Reads a kernel's log.
pub fn kernel_log(bytes: &[u8]) {
    presentable(KernelLog::read("log", bytes).map(drop));
}

/// Makes small good inputs for the target `name`.
///
/// # Panics
/// When no temporary folder can be written.
#[must_use]
pub fn seeds(name: &str) -> Vec<Vec<u8>> {
    match name {
        "events" => parquet_seeds(),
        "snapshot" => vec![with_trace(|folder| folder.join("before.parquet"))],
        "free_lists" => vec![with_trace(|folder| folder.join("free_lists.parquet"))],
        "moves" => vec![with_trace(|folder| folder.join("moves.parquet"))],
        "samples" => vec![with_trace(|folder| folder.join("samples.parquet"))],
        "thread_names" => vec![br#"{"1": "systemd", "812": "cc1"}"#.to_vec(), b"{}".to_vec()],
        "meta" => vec![with_trace(|folder| folder.join("meta.json"))],
        "proctext" => {
            let texts = some_texts();
            vec![
                texts.buddyinfo.into(),
                texts.pagetypeinfo.into(),
                texts.zoneinfo.into(),
                texts.vmstat.into(),
            ]
        }
        "kernel_log" => logged::seeds(),
        _ => Vec::new(),
    }
}

/// Makes events of every kind.
#[must_use]
pub fn some_events() -> Vec<Event> {
    (0..200u64)
        .map(|i| {
            let kind = EventKind::ALL[(i % 7 % 5) as usize];
            let order = if i % 3 == 0 { (i % 11) as u8 } else { 0 };
            let pfn = if i == 21 && kind == EventKind::Alloc { FAILED } else { (i * 37 % 2048) << order };
            let context = Context::ALL[(i % 4) as usize];
            let (cpu, tid) = ((i % 3) as u32, (i % 9) as u32);
            let migratetype = (i % 7) as i8 - 1;
            Event {
                time_ns: i * 10,
                pfn,
                gfp: 0xcc0,
                tid,
                cpu,
                kind,
                order,
                migratetype,
                context,
                irqs_off: i % 2 == 0,
            }
        })
        .collect()
}

fn some_texts() -> crate::meta::ProcTexts {
    crate::meta::ProcTexts {
        buddyinfo: "Node 0, zone   Normal   1400    169     73 \n".into(),
        pagetypeinfo: "Page block order: 9\nPages per block:  512\n\nFree pages count per migrate type at order       0      1\n\
            Node    0, zone   Normal, type    Unmovable      0      4 \nNode    0, zone   Normal, type      Movable >100000      8 \n\n\
            Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic          CMA      Isolate \n\
            Node 0, zone   Normal           12           33            1            0            0            0 \n"
            .into(),
        zoneinfo: "Node 0, zone   Normal\n  per-node stats\n      nr_inactive_anon 14\n  pages free     3840\n        boost    0\n\
            \x20       min      16\n        low      20\n        high     24\n        spanned  4095\n        present  3998\n\
            \x20       managed  3840\n        cma      0\n        protection: (0, 2950, 23900)\n      nr_free_pages 3840\n\
            \x20 pagesets\n    cpu: 0\n              count:    7\n              high:     14\n              batch:    1\n\
            \x20 vm stats threshold: 4\n  node_unreclaimable:  0\n  start_pfn:           1\n"
            .into(),
        vmstat: "nr_free_pages 5049\ncompact_stall 0\ncompact_success 0\npgalloc_normal 123\n".into(),
    }
}

/// Writes a small trace and returns one of its files.
fn with_trace(file: impl Fn(&std::path::Path) -> std::path::PathBuf) -> Vec<u8> {
    let folder = std::env::temp_dir().join(format!(
        "pageyard-seed-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let path = folder.join("seed.trace");
    let make = || -> Result<Vec<u8>, TraceError> {
        let mut writer = TraceWriter::create(&path)?;
        for event in some_events() {
            writer.push(&event)?;
        }
        let blocks = (0..200u64).map(|i| FreeBlock {
            pfn: 8 * (i ^ 5),
            order: 3,
            migratetype: (i % 3) as i8,
            cpu: (i > 150).then_some(1),
        });
        writer.free_lists(&blocks.collect::<Vec<_>>())?;
        let mut moves = MovesWriter::default();
        for i in 0..50u32 {
            let kind = MoveKind::ALL[(i % 6) as usize];
            let (time_ns, pfn, to) = (u64::from(i), u64::from(i) * 8, u64::from(i) * 16);
            moves.push(
                &writer,
                Move { time_ns, cpu: 1, tid: i, kind, pfn, to, order: 3, scanned: i, done: 1, failed: 0 },
            )?;
        }
        moves.finish(&writer, true)?;
        let mut samples = SamplesWriter::default();
        for i in 0..9 {
            let texts = some_texts();
            let sample = HostSample::of_texts(i * 100, &texts.buddyinfo, &texts.zoneinfo, &texts.vmstat)?;
            samples.push(&writer, &sample)?;
        }
        samples.finish(&writer)?;
        let mut map = Snapshot::default();
        for i in 0..200u64 {
            let kind = FrameKind::ALL[(i % 10) as usize];
            let frames = if i == 199 { 1 << 22 } else { 8 };
            map.runs.push(Run { pfn: i * 8, frames, kind, thp: i % 5 == 0, unevictable: false });
        }
        let mut meta = Meta::new(4);
        meta.gfp_bits.insert("__GFP_IO".to_owned(), 6);
        (meta.before, meta.after) = (Some(some_texts()), Some(some_texts()));
        writer.finish(meta, Some(&map), Some(&map))?;
        let file = file(&path);
        std::fs::read(&file)
            .map_err(|e| TraceError::Unreadable { file: file.display().to_string(), why: e.to_string() })
    };
    std::fs::create_dir_all(&folder).expect("a temporary folder can be made");
    let bytes = make();
    std::fs::remove_dir_all(&folder).expect("a temporary folder can be removed");
    bytes.expect("a temporary folder can be written to")
}

/// Writes `events.parquet` in every supported compression: without any, corruption reaches the contents.
fn parquet_seeds() -> Vec<Vec<u8>> {
    let level = ZstdLevel::try_new(3).expect("a level of Zstandard");
    let path = std::env::temp_dir().join(format!(
        "pageyard-seed-{}-{:?}.parquet",
        std::process::id(),
        std::thread::current().id()
    ));
    let files =
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(level)].map(|compression| {
            let properties = WriterProperties::builder().set_compression(compression).build();
            let write = || -> Result<Vec<u8>, parquet::errors::ParquetError> {
                let file = BufWriter::new(File::create(&path)?);
                let mut writer = SerializedFileWriter::new(
                    file,
                    schema(&event_columns(Columns::All))?,
                    Arc::new(properties),
                )?;
                write_events(&mut writer, &some_events())?;
                write_events(&mut writer, &some_events()[199..])?;
                writer.close()?;
                Ok(std::fs::read(&path)?)
            };
            write().expect("a temporary file can be written")
        });
    std::fs::remove_file(&path).expect("a temporary file can be removed");
    files.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_good() {
        for target in TARGETS {
            let seeds = seeds(target.name);
            assert!(!seeds.is_empty(), "{}", target.name);
            for seed in &seeds {
                (target.read)(seed);
            }
        }
        let mut rows = 0;
        for seed in seeds("events") {
            let table = Table::open(input(&seed), event_columns(Columns::All)).unwrap();
            let mut reader = EventReader::new(table, Columns::All, &Meta::new(4), Some(1 << 22)).unwrap();
            let mut batch = Vec::new();
            while reader.next_batch(&mut batch).unwrap() {
                rows += batch.len();
            }
        }
        assert_eq!(rows, 603);
        assert!(Snapshot::read(input(&seeds("snapshot")[0])).is_ok());
        assert!(FreeBlock::read(input(&seeds("free_lists")[0])).is_ok());
        assert!(Meta::read(&input(&seeds("meta")[0])).is_ok());
        assert!(MoveReader::open(input(&seeds("moves")[0]), 4).is_ok());
        let zones = vec![(0, "Normal".to_owned())];
        let samples = SampleReader::open(input(&seeds("samples")[0]), 4, Some(zones)).unwrap();
        assert_eq!(samples.count(), Ok(9));
        let text = |i: usize| String::from_utf8(seeds("proctext")[i].clone()).unwrap();
        Buddyinfo::parse(&text(0)).unwrap();
        Pagetypeinfo::parse(&text(1)).unwrap();
        Zoneinfo::parse(&text(2)).unwrap();
        Vmstat::parse(&text(3)).unwrap();
    }
}
