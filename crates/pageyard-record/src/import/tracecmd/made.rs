//! Files as trace-cmd writes them, made up: for tests, and as seeds for fuzzing.

use pageyard_trace::Event;

use super::super::made::{described, raw, systems};

/// The pages of a made-up file, and its form.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    cpus: Vec<Vec<Vec<u8>>>,
    /// The time of the last event of each CPU.
    times: Vec<u64>,
    clock: &'static str,
    missed: Option<u64>,
}

const PAGE: usize = 4096;

impl Made {
    /// Starts a file of two CPUs.
    pub(crate) fn new() -> Made {
        Made { cpus: vec![Vec::new(); 2], times: vec![0; 2], clock: "mono", missed: None }
    }

    #[cfg(test)]
    pub(crate) fn clock(mut self, clock: &'static str) -> Made {
        self.clock = clock;
        self
    }

    /// Says that so many events are missing before the last page of each CPU.
    #[cfg(test)]
    pub(crate) fn missed(mut self, events: u64) -> Made {
        self.missed = Some(events);
        self
    }

    /// Adds an allocation, or a free.
    pub(crate) fn event(&mut self, event: &Event) {
        let (cpu, time) = (event.cpu as usize % 2, event.time_ns);
        let raw = raw(event);
        let mut bytes = Vec::new();
        let begin = |pages: &mut Vec<Vec<u8>>| {
            let mut page = time.to_le_bytes().to_vec();
            page.extend([0; 8]);
            pages.push(page);
        };
        let pages = &mut self.cpus[cpu];
        if pages.last().is_none_or(|page| page.len() + raw.len() + 24 > PAGE - 8) {
            begin(pages);
            self.times[cpu] = time;
        }
        let mut delta = time.saturating_sub(self.times[cpu]);
        if delta >> 27 != 0 {
            bytes.extend((30 | (delta as u32 & 0x7ff_ffff) << 5).to_le_bytes());
            bytes.extend(((delta >> 27) as u32).to_le_bytes());
            delta = 0;
        }
        bytes.extend(((raw.len() as u32 / 4) | ((delta as u32) << 5)).to_le_bytes());
        bytes.extend(&raw);
        self.times[cpu] = self.times[cpu].max(time);
        if let Some(page) = pages.last_mut() {
            page.extend(bytes);
        }
    }

    /// Returns the pages of each CPU, full.
    fn pages(&self) -> Vec<Vec<u8>> {
        let full = |pages: &Vec<Vec<u8>>| {
            let last = pages.len().wrapping_sub(1);
            let pages = pages.iter().enumerate().map(|(i, page)| {
                let mut page = page.clone();
                let len = page.len() as u64 - 16;
                let missed = self.missed.filter(|_| i == last);
                let commit = len | if missed.is_some() { 3 << 30 } else { 0 };
                page[8..16].copy_from_slice(&commit.to_le_bytes());
                page.extend(missed.unwrap_or(0).to_le_bytes());
                page.resize(PAGE, 0);
                page
            });
            pages.collect::<Vec<_>>().concat()
        };
        self.cpus.iter().map(full).collect()
    }

    fn head(&self, version: u8) -> Vec<u8> {
        let mut out = b"\x17\x08\x44tracing".to_vec();
        out.extend([b'0' + version, 0, 0, 8]);
        out.extend(4096u32.to_le_bytes());
        out
    }

    fn common_options() -> Vec<u8> {
        let stat = b"CPU: 0\nentries: 9\noverrun: 0\ndropped events: 0\n\0";
        [
            option(5, b"Linux a-host 6.18.44-somewhere x86_64\0"),
            option(2, stat),
            option(8, &2u32.to_le_bytes()),
        ]
        .concat()
    }

    /// Returns the file in version 6.
    pub(crate) fn version_6(&self) -> Vec<u8> {
        let mut out = self.head(6);
        out.extend(described(false));
        out.extend(2u32.to_le_bytes());
        out.extend(b"options  \0");
        out.extend(option(4, format!("local [{}] global\n\0", self.clock).as_bytes()));
        out.extend(Made::common_options());
        out.extend([0; 2]);
        out.extend(b"flyrecord\0");
        let mut at = (out.len() + 32).next_multiple_of(PAGE) as u64;
        let pages = self.pages();
        for pages in &pages {
            out.extend(at.to_le_bytes());
            out.extend((pages.len() as u64).to_le_bytes());
            at += pages.len() as u64;
        }
        out.resize(out.len().next_multiple_of(PAGE), 0);
        out.extend(pages.concat());
        out
    }

    /// Returns the file in version 7, compressed with `compression` if it is not `none`.
    pub(crate) fn version_7(&self, compression: &str) -> Vec<u8> {
        let mut out = self.head(7);
        out.extend(format!("{compression}\x001.5\0").as_bytes());
        let options_at = out.len();
        out.extend([0; 8]);
        let formats = out.len() as u64;
        out.extend(section(18, compression, &systems(false)));
        let buffer_at = out.len() as u64;
        out.extend([3, 0, u8::from(compression != "none"), 0]);
        out.extend([0; 12]);
        let mut table = Vec::new();
        for (cpu, pages) in self.pages().iter().enumerate() {
            let at = out.len() as u64;
            out.extend(chunks(compression, pages));
            table.extend((cpu as u32).to_le_bytes());
            table.extend(at.to_le_bytes());
            table.extend((out.len() as u64 - at).to_le_bytes());
        }
        let clock = format!("\0{}\0", self.clock);
        let buffer =
            [&buffer_at.to_le_bytes()[..], clock.as_bytes(), &4096u32.to_le_bytes(), &2u32.to_le_bytes()];
        let second = out.len() as u64;
        out.extend(section(
            0,
            "none",
            &[option(3, &[&buffer.concat()[..], &table].concat()), done(0)].concat(),
        ));
        let first = out.len() as u64;
        out[options_at..options_at + 8].copy_from_slice(&first.to_le_bytes());
        let options = [Made::common_options(), option(18, &formats.to_le_bytes()), done(second)].concat();
        out.extend(section(0, compression, &options));
        out
    }
}

fn option(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(data.len() as u32).to_le_bytes(), data].concat()
}

/// Ends the options of a section: where the next one is.
fn done(next: u64) -> Vec<u8> {
    option(0, &next.to_le_bytes())
}

fn packed(compression: &str, bytes: &[u8]) -> Vec<u8> {
    match compression {
        "zstd" => zstd::stream::encode_all(bytes, 1).expect("memory for compressing"),
        "zlib" => {
            use std::io::Write;
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory for compressing")
        }
        _ => bytes.to_vec(),
    }
}

/// Returns bytes behind their lengths, compressed and not.
fn sized(compression: &str, bytes: &[u8]) -> Vec<u8> {
    let packed = packed(compression, bytes);
    [&(packed.len() as u32).to_le_bytes()[..], &(bytes.len() as u32).to_le_bytes(), &packed].concat()
}

fn section(kind: u16, compression: &str, bytes: &[u8]) -> Vec<u8> {
    let compressed = compression != "none";
    let body = if compressed { sized(compression, bytes) } else { bytes.to_vec() };
    let mut out = kind.to_le_bytes().to_vec();
    out.extend([u8::from(compressed), 0, 0, 0, 0, 0]);
    out.extend((body.len() as u64).to_le_bytes());
    out.extend(body);
    out
}

/// Returns pages as a buffer's section holds them: as they are, or in chunks of two.
fn chunks(compression: &str, pages: &[u8]) -> Vec<u8> {
    if compression == "none" {
        return pages.to_vec();
    }
    let chunks: Vec<Vec<u8>> = pages.chunks(2 * PAGE).map(|chunk| sized(compression, chunk)).collect();
    [&(chunks.len() as u32).to_le_bytes()[..], &chunks.concat()].concat()
}
