//! A kernel's description of its memory, read word by word: how it was broken into lines does not matter, nor what
//! stands between them.

use pageyard::NR_ORDERS;

use super::{HostZone, LoggedPool, LoggedZone};
use crate::snapshot::MAX_FRAMES;

/// More zones than any machine has, and more pools of huge pages.
pub(super) const MAX_ZONES: usize = 4096;

/// Counters that a failure keeps; kernels print some thirty.
pub(super) const MAX_COUNTERS: usize = 64;

/// A kernel's description of its memory. Sizes are in KiB.
#[derive(Default)]
pub(super) struct Memory {
    pub counters: Vec<(String, u64)>,
    pub zones: Vec<LoggedZone>,
    pub pools: Vec<LoggedPool>,
    pub swap: Option<(u64, u64)>,
    /// The same counters of each node.
    of_nodes: Vec<(String, u8, u64)>,
    /// All frames that there are.
    pub frames: Option<u64>,
    /// Those of zones that the kernel's own memory is not in.
    pub high_frames: Option<u64>,
    /// The smallest block that was printed.
    smallest: Option<u64>,
    section: Section,
    node: u8,
}

/// Where the next word belongs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Elsewhere,
    /// Counters of the whole host, in frames.
    Host,
    /// Counters of a node, in KiB.
    Node,
    Zone(usize),
    Blocks(usize),
    /// A zone's blocks once more, or those of a zone that is passed over.
    OtherBlocks,
    Protection(usize),
    Pool(usize),
}

impl Memory {
    /// Reads the words of a report, in their order.
    pub(super) fn of(words: &[&str]) -> Memory {
        let mut memory = Memory::default();
        let mut at = 0;
        while at < words.len() {
            at += memory.words(&words[at..]).max(1);
        }
        memory
    }

    /// Reads the next words, and returns how many.
    fn words(&mut self, words: &[&str]) -> usize {
        let word = words[0];
        let next = words.get(1).copied().unwrap_or_default();
        match word {
            "Mem-Info:" | "Mem-info:" => self.section = Section::Host,
            "Node" => {
                let Ok(node) = next.trim_end_matches([',', ':']).parse() else { return 1 };
                self.node = node;
                self.section = Section::Node;
                return 2;
            }
            "lowmem_reserve[]:" | "protections[]:" => {
                self.section = match self.zones.len() {
                    0 => Section::Elsewhere,
                    n => Section::Protection(n - 1),
                };
            }
            "Free" | "Total" if next == "swap" => return self.swap(words),
            "pages" if next == "RAM" => return 2,
            _ if next == "pages" && words.get(2) == Some(&"RAM") => self.frames = word.parse().ok(),
            _ if next == "pages" && words.get(2) == Some(&"HighMem/MovableOnly") => {
                self.high_frames = word.parse().ok();
            }
            _ if next == "total" && words.get(2) == Some(&"pagecache") => {
                self.count("pagecache", word.parse().ok());
                self.section = Section::Elsewhere;
            }
            _ => self.word(word, next),
        }
        1
    }

    fn word(&mut self, word: &str, next: &str) {
        if self.begins_zone(word, next) {
            return;
        }
        match self.section {
            Section::Blocks(zone) => self.block(zone, word),
            Section::OtherBlocks if word == "=" => self.section = Section::Elsewhere,
            Section::OtherBlocks => {}
            Section::Protection(zone) => match word.parse::<i64>() {
                Ok(n) if self.zones[zone].protection.len() < HostZone::ALL.len() => {
                    let frames = u64::try_from(n).unwrap_or(0);
                    // No kernel has more than that: what it says of this zone is damaged.
                    self.zones[zone].has_marks &= frames <= MAX_FRAMES;
                    self.zones[zone].protection.push(frames.min(MAX_FRAMES));
                }
                _ => {
                    self.section = Section::Elsewhere;
                    self.elsewhere(word);
                }
            },
            _ => self.elsewhere(word),
        }
    }

    /// Begins a zone's line, `DMA32 free:932kB ..`, or that of its blocks, `DMA32: 7*4kB ..`.
    fn begins_zone(&mut self, word: &str, next: &str) -> bool {
        let name = word.strip_suffix(':').unwrap_or(word);
        // Behind what another CPU wrote into the line.
        let torn = || HostZone::ALL.into_iter().find(|zone| name.ends_with(zone.name()));
        let is_line = next.starts_with("free:");
        let kind = HostZone::from_name(name).or_else(|| is_line.then(torn).flatten());
        let Some(kind) = kind else { return false };
        let at = self.zones.iter().position(|z| (z.node, z.kind) == (self.node, kind));
        if word.len() > name.len() {
            let zone = at.or_else(|| self.new_zone(kind));
            self.section = match zone {
                Some(zone) if self.zones[zone].sizes.is_empty() => Section::Blocks(zone),
                _ => Section::OtherBlocks,
            };
            return true;
        }
        if !is_line {
            return false;
        }
        self.section = match at {
            // Another report's, or the same twice.
            Some(zone) if self.zones[zone].has_marks => Section::Elsewhere,
            Some(zone) => Section::Zone(zone),
            None => self.new_zone(kind).map_or(Section::Elsewhere, Section::Zone),
        };
        true
    }

    fn new_zone(&mut self, kind: HostZone) -> Option<usize> {
        if self.zones.len() >= MAX_ZONES {
            return None;
        }
        self.zones.push(LoggedZone::new(self.node, kind));
        Some(self.zones.len() - 1)
    }

    /// Reads one word that names itself.
    fn elsewhere(&mut self, word: &str) {
        if let Some((name, value)) = word.split_once('=')
            && let Some(name) = name.strip_prefix("hugepages_")
        {
            self.pool(name, value);
            return;
        }
        let Some((name, value)) = word.split_once(':') else { return };
        let is_name = !name.is_empty()
            && name.len() <= 32
            && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_' || b == b'(' || b == b')');
        if !is_name {
            return;
        }
        let name = name.to_ascii_lowercase();
        match (size(value), value.trim_end_matches(',').parse::<u64>()) {
            (Some(kib), _) => self.sized(&name, kib),
            (None, Ok(frames)) if self.section == Section::Host => self.count(&name, Some(frames)),
            // A report whose beginning was cut off.
            (None, Ok(frames)) if self.zones.is_empty() && HOST.contains(&name.as_str()) => {
                self.section = Section::Host;
                self.count(&name, Some(frames));
            }
            _ => {}
        }
    }

    /// Enters a size of a zone or a node.
    fn sized(&mut self, name: &str, kib: u64) {
        let Section::Zone(zone) = self.section else {
            let node = self.node;
            let is_new = || !self.of_nodes.iter().any(|(known, of, _)| known == name && *of == node);
            if self.section == Section::Node && self.of_nodes.len() < MAX_COUNTERS && is_new() {
                self.of_nodes.push((name.to_owned(), node, kib));
            }
            return;
        };
        let zone = &mut self.zones[zone];
        *match name {
            "free" => &mut zone.free,
            "boost" => &mut zone.boost,
            "min" => {
                zone.has_marks = true;
                &mut zone.min
            }
            "low" => &mut zone.low,
            "high" => &mut zone.high,
            // What is free of the reserve follows it since 6.13, and is what counts.
            "reserved_highatomic" | "free_highatomic" => &mut zone.highatomic,
            "managed" => &mut zone.managed,
            // Kernels before 3.9 have this alone.
            "present" => &mut zone.present,
            "free_pcp" => &mut zone.pcp,
            "free_cma" => &mut zone.cma,
            _ => return,
        } = kib;
    }

    fn count(&mut self, name: &str, frames: Option<u64>) {
        let Some(frames) = frames.filter(|n| *n <= MAX_FRAMES) else { return };
        if self.counters.len() < MAX_COUNTERS && !self.counters.iter().any(|(known, _)| known == name) {
            self.counters.push((name.to_owned(), frames));
        }
    }

    /// Reads `7*4kB`, the types `(UM)` of the block before, and the sum behind `=`.
    fn block(&mut self, zone: usize, word: &str) {
        let zone = &mut self.zones[zone];
        if let Some((n, kib)) = block(word) {
            // What a size is the order of is known when the smallest is.
            self.smallest = Some(self.smallest.map_or(kib, |least| least.min(kib)));
            if zone.sizes.len() < NR_ORDERS {
                zone.sizes.push((kib, n, String::new()));
            }
        } else if let Some(types) = word.strip_prefix('(').and_then(|w| w.strip_suffix(')'))
            && types.len() <= 8
            && types.bytes().all(|b| b.is_ascii_uppercase())
            && let Some((.., last)) = zone.sizes.last_mut()
        {
            *last = types.to_owned();
        } else if word == "=" {
            self.section = Section::Elsewhere;
        } else if word.contains(':') {
            self.section = Section::Elsewhere;
            self.elsewhere(word);
        }
    }

    /// Reads `hugepages_total=4`, and the others of its line.
    fn pool(&mut self, name: &str, value: &str) {
        let number = || value.parse().ok().or_else(|| size(value)).filter(|n: &u64| *n <= MAX_FRAMES);
        if name == "total" {
            if self.pools.len() < MAX_ZONES {
                self.pools.push(LoggedPool {
                    node: self.node,
                    total: number().unwrap_or(0),
                    ..LoggedPool::default()
                });
                self.section = Section::Pool(self.pools.len() - 1);
            }
            return;
        }
        let Section::Pool(pool) = self.section else { return };
        match (name, number()) {
            ("free", Some(n)) => self.pools[pool].free = n,
            // KiB, until the size of a frame is known.
            ("size", Some(kib)) => self.pools[pool].frames = kib,
            _ => {}
        }
    }

    /// Reads `Free swap  = 0kB` and `Total swap = 0kB`; where lines were broken, the `=` may be missing.
    fn swap(&mut self, words: &[&str]) -> usize {
        let at = if words.get(2) == Some(&"=") { 3 } else { 2 };
        let Some(kib) = words.get(at).and_then(|word| size(word.trim_start_matches('='))) else { return 2 };
        let (free, total) = self.swap.get_or_insert((0, 0));
        *if words[0] == "Free" { free } else { total } = kib;
        at + 1
    }

    /// Returns the KiB of a frame, where the report says it: the same counter in frames and in KiB, a processor whose
    /// frames have one size, the smallest block, or all memory in both.
    pub(super) fn frame_kib(&self, is_x86: bool) -> Option<u64> {
        let is_one = |kib: &u64| kib.is_power_of_two() && (4..=256).contains(kib);
        let by_counters =
            self.counters.iter().filter(|(_, frames)| *frames >= 16).find_map(|(name, frames)| {
                let of_nodes =
                    self.of_nodes.iter().filter(|(of_node, ..)| of_node == name).map(|(.., kib)| *kib);
                let kib = of_nodes.fold(0, u64::saturating_add);
                Some(kib / frames).filter(|one| is_one(one) && one * frames == kib)
            });
        let present: u64 = self.zones.iter().fold(0, |sum, z| sum.saturating_add(z.present));
        let by_all = self.frames.filter(|n| *n > 0).map(|frames| present / frames);
        // What is free in all zones: they are not shown all, and change meanwhile, so it has to fit well.
        let free: u64 =
            self.zones.iter().filter(|z| z.has_marks).fold(0, |sum, z| sum.saturating_add(z.free));
        let by_free =
            self.counters.iter().find(|(name, frames)| name == "free" && *frames >= 16).and_then(|(_, n)| {
                [4u64, 8, 16, 32, 64].into_iter().find(|kib| free.abs_diff(kib * n) <= free / 50)
            });
        // The first sizes of a list can be cut off.
        let of_x86 = is_x86.then_some(4);
        by_counters.or(of_x86).or(self.smallest.filter(is_one)).or(by_all.filter(is_one)).or(by_free)
    }
}

/// Counters of the whole host by which a report is known whose beginning was cut off.
const HOST: [&str; 8] = [
    "active_anon",
    "active_file",
    "inactive_anon",
    "inactive_file",
    "slab_reclaimable",
    "slab_unreclaimable",
    "unevictable",
    "active",
];

/// Reads `7*4kB`; some pages show `*` as `_`.
pub(super) fn block(word: &str) -> Option<(u64, u64)> {
    let (n, kib) = word.split_once(['*', '_'])?;
    let n = n.parse().ok().filter(|n| *n <= MAX_FRAMES)?;
    Some((n, size(kib).filter(|kib| *kib > 0)?))
}

/// Reads `932kB`, as KiB.
fn size(word: &str) -> Option<u64> {
    let number = word.trim_end_matches(',').strip_suffix("kB").or_else(|| word.strip_suffix("KB"))?;
    number.parse().ok().filter(|kib| *kib <= MAX_FRAMES * 64)
}

impl LoggedZone {
    fn new(node: u8, kind: HostZone) -> LoggedZone {
        LoggedZone {
            node,
            kind,
            has_marks: false,
            free: 0,
            boost: 0,
            min: 0,
            low: 0,
            high: 0,
            highatomic: 0,
            present: 0,
            managed: 0,
            pcp: 0,
            cma: 0,
            protection: Vec::new(),
            blocks: Vec::new(),
            types: Vec::new(),
            sizes: Vec::new(),
        }
    }

    /// Turns sizes into frames of so many KiB, and blocks by size into blocks by order.
    pub(super) fn in_frames(&mut self, kib: u64) {
        for size in [
            &mut self.free,
            &mut self.boost,
            &mut self.min,
            &mut self.low,
            &mut self.high,
            &mut self.highatomic,
            &mut self.present,
            &mut self.managed,
            &mut self.pcp,
            &mut self.cma,
        ] {
            *size /= kib;
        }
        if self.managed == 0 {
            self.managed = self.present;
        }
        for (size, n, types) in std::mem::take(&mut self.sizes) {
            let order = (size / kib).max(1).ilog2() as usize;
            if order >= NR_ORDERS || n > MAX_FRAMES >> order {
                continue;
            }
            self.blocks.resize(self.blocks.len().max(order + 1), 0);
            self.types.resize(self.types.len().max(order + 1), String::new());
            self.blocks[order] = n;
            self.types[order] = types;
        }
        if !self.has_marks {
            // Its own line is missing; what is free its blocks say.
            self.free = self.blocks.iter().enumerate().map(|(order, n)| n << order).sum();
        }
    }
}
