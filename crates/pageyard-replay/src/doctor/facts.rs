//! The facts known of a host when a request failed, from any of these: its log, its `/proc`, or a recording.

use std::collections::BTreeMap;

use pageyard::{Gfp, PAGEBLOCK_ORDER};
use pageyard_trace::failures::{GfpNames, gfp_of_names};
use pageyard_trace::kernel_log::{HostZone, LoggedFailure, LoggedKind};
use pageyard_trace::proctext::{Buddyinfo, Pagetypeinfo, Vmstat, Zoneinfo, balloon};
use pageyard_trace::text::size_of_kib;
use pageyard_trace::{Pageblocks, ProcTexts, Spoiler, TraceError};

/// A request that failed, or might.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The order.
    pub order: u8,
    /// Its gfp flags.
    pub gfp: Gfp,
    /// The nodes that it was restricted to, where it was and they are known.
    pub nodes: Option<Vec<u8>>,
    /// Whether the kernel killed a process for it.
    pub killed: bool,
    /// Whether its order and flags are known.
    pub is_shown: bool,
}

impl Asked {
    /// Makes a request.
    #[must_use]
    pub fn new(order: u8, gfp: Gfp) -> Asked {
        Asked { order, gfp, nodes: None, killed: false, is_shown: true }
    }

    /// Returns requests whose failure is noticed: single frames and network buffers of callers that cannot wait, memory
    /// for 32-bit devices where a host has higher zones too, and huge pages.
    #[must_use]
    pub fn usual(facts: &Facts) -> Vec<Asked> {
        let atomic = Gfp::HIGH | Gfp::KSWAPD_RECLAIM;
        let huge = gfp_of_names("GFP_TRANSHUGE");
        let mut all = vec![Asked::new(0, atomic), Asked::new(3, atomic), Asked::new(9, huge)];
        let has = |kind: HostZone| facts.zones.iter().any(|z| z.kind == kind);
        if has(HostZone::Dma32) && has(HostZone::Normal) {
            all.insert(2, Asked::new(0, atomic | Gfp::DMA32));
        }
        all
    }

    /// Returns its frames.
    #[must_use]
    pub fn frames(&self) -> u64 {
        1 << self.order
    }

    /// Returns whether it can wait for reclaim and compaction.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.gfp.contains(Gfp::DIRECT_RECLAIM)
    }

    /// Returns the highest zone that it may use.
    ///
    /// # Linux
    /// `gfp_zone`
    #[must_use]
    pub fn highest(&self) -> HostZone {
        if self.gfp.contains(Gfp::DMA) {
            HostZone::Dma
        } else if self.gfp.contains(Gfp::DMA32) {
            HostZone::Dma32
        } else if self.gfp.contains(Gfp::MOVABLE | Gfp::HIGHMEM) {
            HostZone::Movable
        } else if self.gfp.contains(Gfp::HIGHMEM) {
            HostZone::HighMem
        } else {
            HostZone::Normal
        }
    }

    /// Returns whether it is a first try for a huge page on one node: the kernel asks every node next, so its failure
    /// is by design.
    ///
    /// # Linux
    /// `alloc_pages_mpol` (`alloc_pages_vma` before 5.19)
    #[must_use]
    pub fn is_first_try(&self) -> bool {
        self.order >= PAGEBLOCK_ORDER.get() && self.waits() && self.gfp.contains(Gfp::THISNODE | Gfp::MOVABLE)
    }

    /// Returns whether it is urgent: it may go below the reserve, and cannot wait.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.gfp.contains(Gfp::HIGH) && !self.waits() && !self.gfp.contains(Gfp::NOMEMALLOC)
    }

    /// Returns whether what is set aside for urgent requests counts as free for it.
    ///
    /// # Linux
    /// `ALLOC_RESERVES` (`ALLOC_HARDER` before 6.3)
    #[must_use]
    pub fn has_reserves(&self) -> bool {
        self.gfp.contains(Gfp::HIGH) || !self.waits()
    }

    /// Returns the kernel's letter for its migratetype.
    #[must_use]
    pub fn letter(&self) -> char {
        match () {
            () if self.gfp.contains(Gfp::MOVABLE) => 'M',
            () if self.gfp.contains(Gfp::RECLAIMABLE) => 'E',
            () => 'U',
        }
    }

    /// Returns its flags as people know them.
    #[must_use]
    pub fn names(&self) -> String {
        GfpNames::of(self.gfp).to_string()
    }
}

/// A zone, in frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// The NUMA node.
    pub node: u8,
    /// The zone.
    pub kind: HostZone,
    /// Whether its watermarks are known; without them its blocks alone are.
    pub has_marks: bool,
    /// Free, in the free lists.
    pub free: u64,
    /// How far the watermarks are raised for now.
    pub boost: u64,
    /// The lowest watermark, with the boost.
    pub min: u64,
    /// The highest.
    pub high: u64,
    /// Set aside for urgent requests of several frames.
    pub highatomic: u64,
    /// Handed out by the zone.
    pub managed: u64,
    /// In per-CPU lists.
    pub pcp: u64,
    /// Free frames of contiguous areas.
    pub cma: u64,
    /// Frames kept back from requests for each higher zone.
    pub protection: Vec<u64>,
    /// Free blocks by order; empty where they are not known.
    pub blocks: Vec<u64>,
    /// By order, the letters of the types on whose lists those lie; empty where that is not known.
    pub types: Vec<String>,
}

/// Huge pages that are set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Frames of each.
    pub frames: u64,
    /// How many there are.
    pub total: u64,
    /// How many are not in use.
    pub free: u64,
}

/// Pageblocks by what keeps them from being whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spoilt {
    /// Those that hold something which cannot be moved.
    pub unmovable: u64,
    /// Those that hold only what can.
    pub movable: u64,
    /// All that are the allocator's.
    pub all: u64,
}

/// The known facts. Numbers are frames; an unknown value is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// KiB of a frame.
    pub frame_kib: u64,
    /// All frames of the host, where the zones do not say.
    pub frames: Option<u64>,
    /// Whether the kernel has memory that its own contents cannot lie in, as 32-bit kernels do.
    pub has_high: bool,
    /// Whether each smaller order is checked on its own (before 4.4).
    pub checks_each_order: bool,
    /// The functions of the stack, where a log has it.
    pub functions: Vec<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The zones that are known.
    pub zones: Vec<Zone>,
    /// Free frames of the whole host; a log shows only the zones that a request may use.
    pub free_anywhere: Option<u64>,
    /// Held by a balloon, for the hypervisor.
    pub ballooned: Option<u64>,
    /// Huge pages set aside.
    pub pools: Vec<Pool>,
    /// Page cache and anonymous memory, on the lists for reclaim.
    pub lru: Option<u64>,
    /// Of these, page cache: what reclaim can give back without swap.
    pub file: Option<u64>,
    /// Object caches that reclaim can shrink.
    pub slab_reclaimable: Option<u64>,
    /// Those that it cannot.
    pub slab_unreclaimable: Option<u64>,
    /// Free swap.
    pub swap_free: Option<u64>,
    /// Pageblocks by what spoils them.
    pub spoilt: Option<Spoilt>,
    /// Settings by their names below `/proc/sys`.
    pub settings: BTreeMap<String, String>,
}

impl Facts {
    /// Takes them from a failure that a kernel logged.
    #[must_use]
    pub fn of_log(failure: &LoggedFailure) -> (Asked, Facts) {
        let request = &failure.request;
        // A process that may use every node that is shown is not restricted.
        let shown = |nodes: &Vec<u8>| !failure.zones.iter().all(|z| nodes.contains(&z.node));
        let mut asked = Asked {
            order: request.order,
            gfp: request.gfp,
            nodes: request.nodes.clone(),
            killed: request.kind == LoggedKind::Killed,
            is_shown: request.mode.is_some() || request.kind == LoggedKind::Killed,
        };
        let counter = |name: &str| failure.counter(name);
        let sum = |names: &[&str]| {
            names.iter().map(|name| counter(name)).try_fold(0u64, |sum, n| Some(sum.saturating_add(n?)))
        };
        let file = sum(&["active_file", "inactive_file"]);
        let anon = sum(&["active_anon", "inactive_anon"]);
        let zones = failure.zones.iter().map(|z| Zone {
            node: z.node,
            kind: z.kind,
            has_marks: z.has_marks,
            free: z.free,
            boost: z.boost,
            min: z.min,
            high: z.high,
            highatomic: z.highatomic,
            managed: z.managed,
            pcp: z.pcp,
            cma: z.cma,
            protection: z.protection.clone(),
            blocks: z.blocks.clone(),
            types: z.types.clone(),
        });
        let mut facts = Facts {
            frame_kib: failure.frame_kib.unwrap_or(FRAME_KIB),
            frames: failure.frames,
            has_high: failure.high_frames.is_some_and(|frames| frames > 0)
                || failure.zones.iter().any(|z| z.kind == HostZone::HighMem),
            checks_each_order: false,
            functions: failure.functions.clone(),
            kernel: failure.kernel.clone(),
            zones: zones.collect(),
            free_anywhere: counter("free"),
            ballooned: None,
            pools: pools(failure.pools.iter().map(|p| Pool {
                frames: p.frames,
                total: p.total,
                free: p.free,
            })),
            // Before 2.6.28 page cache and anonymous memory have one list.
            lru: anon
                .zip(file)
                .map(|(a, f)| a.saturating_add(f).saturating_add(counter("unevictable").unwrap_or(0)))
                .or_else(|| sum(&["active", "inactive"])),
            file: file.or_else(|| counter("pagecache")),
            slab_reclaimable: counter("slab_reclaimable"),
            slab_unreclaimable: counter("slab_unreclaimable").or_else(|| counter("slab")),
            swap_free: failure.swap.map(|(free, _)| free),
            spoilt: None,
            settings: BTreeMap::new(),
        };
        // The killer is called for requests that can wait alone, of the kernel at the least.
        if asked.killed && request.mode.is_none() {
            asked.gfp = gfp_of_names("GFP_KERNEL");
        }
        // Flags are printed by name since 4.6.
        let is_old =
            facts.release().map_or(request.names.is_empty() && request.mode.is_some(), |r| r < (4, 4));
        facts.checks_each_order = is_old;
        // Before 4.4 this bit said that a request can wait.
        const WAIT: u32 = 0x10;
        if is_old && request.names.is_empty() && request.mode.is_some_and(|bits| bits & WAIT != 0) {
            asked.gfp |= Gfp::DIRECT_RECLAIM | Gfp::KSWAPD_RECLAIM;
        }
        // One that cannot wait asks every node, whatever the process may use that it interrupted.
        if asked.waits() {
            asked.nodes = asked.nodes.or_else(|| request.mems_allowed.clone().filter(shown));
        }
        (asked, facts)
    }

    /// Takes them from Linux's own texts. A text that is empty says nothing.
    ///
    /// # Errors
    /// When a text cannot be read.
    pub fn of_texts(texts: &ProcTexts, meminfo: &str) -> Result<Facts, TraceError> {
        let buddy = Buddyinfo::parse(&texts.buddyinfo)?;
        let info = Zoneinfo::parse(&texts.zoneinfo)?;
        let types = Pagetypeinfo::parse(&texts.pagetypeinfo)?;
        let vmstat = Vmstat::parse(&texts.vmstat)?;
        let mut zones = Vec::new();
        for z in info.zones.iter().filter(|z| z.managed > 0) {
            let Some(kind) = HostZone::from_name(&z.name) else { continue };
            let is_this = |node: u8, name: &str| node == z.node && name == z.name;
            let blocks = buddy.zones.iter().find(|b| is_this(b.node, &b.name));
            let blocks = blocks.map(|b| b.counts.clone()).unwrap_or_default();
            let by_type = types.zones.iter().find(|t| is_this(t.node, &t.name));
            let counter = |name: &str| z.counters.get(name).copied().unwrap_or(0);
            zones.push(Zone {
                node: z.node,
                kind,
                has_marks: true,
                free: z.free,
                boost: z.boost,
                min: z.min,
                high: z.high,
                highatomic: counter("nr_reserved_highatomic"),
                managed: z.managed,
                pcp: z.pcp_frames(),
                cma: counter("nr_free_cma"),
                protection: z.protection.clone(),
                types: by_type.map(|t| letters(t, blocks.len())).unwrap_or_default(),
                blocks,
            });
        }
        let counter = |name: &str| vmstat.get(name);
        let file =
            counter("nr_active_file").zip(counter("nr_inactive_file")).map(|(a, b)| a.saturating_add(b));
        let anon =
            counter("nr_active_anon").zip(counter("nr_inactive_anon")).map(|(a, b)| a.saturating_add(b));
        let kib = |name: &str| number(meminfo, name);
        let frame_kib = frame_kib(kib("MemTotal"), zones.iter().map(|z| z.managed).sum());
        let pool = || {
            let frames = kib("Hugepagesize")? / frame_kib;
            Some(Pool { frames, total: kib("HugePages_Total")?, free: kib("HugePages_Free")? })
        };
        Ok(Facts {
            frame_kib,
            free_anywhere: Some(zones.iter().map(|z| z.free).sum()).filter(|_| !zones.is_empty()),
            zones,
            ballooned: balloon(Some(&vmstat), kib("Balloon").map(|kib| kib / frame_kib)),
            pools: pools(pool().into_iter()),
            lru: anon
                .zip(file)
                .map(|(a, f)| a.saturating_add(f).saturating_add(counter("nr_unevictable").unwrap_or(0))),
            file,
            slab_reclaimable: counter("nr_slab_reclaimable"),
            slab_unreclaimable: counter("nr_slab_unreclaimable"),
            swap_free: kib("SwapFree").map(|kib| kib / frame_kib),
            spoilt: unmovable_types(&types),
            ..Facts::default()
        })
    }

    /// Adds what each pageblock holds, which says more than its type.
    #[must_use]
    pub fn with_contents(mut self, blocks: &Pageblocks) -> Facts {
        let count = |kinds: &[Spoiler]| kinds.iter().map(|kind| blocks.count(*kind)).sum::<u64>();
        let unmovable = count(&[Spoiler::Unevictable, Spoiler::Slab, Spoiler::PageTable, Spoiler::Other]);
        let movable = blocks.count(Spoiler::Movable);
        let all = unmovable + movable + count(&[Spoiler::Free, Spoiler::HugeTlb]);
        self.spoilt = Some(Spoilt { unmovable, movable, all }).filter(|s| s.all > 0);
        self
    }

    /// Writes frames as a size.
    #[must_use]
    pub fn size(&self, frames: u64) -> String {
        size_of_kib(frames.saturating_mul(self.frame_kib))
    }

    /// Returns how many frames a zone keeps from requests that can use zones up to `highest`.
    ///
    /// A kernel lists one number for each zone that it was built with, which its log does not name.
    #[must_use]
    pub fn kept_from(&self, zone: &Zone, highest: HostZone) -> u64 {
        use HostZone::{Device, Dma, Dma32, HighMem, Movable, Normal};
        let has_high = self.has_high;
        let has_dma32 = self.zones.iter().any(|z| z.kind == Dma32);
        let built_with: &[HostZone] = match (zone.protection.len(), has_high) {
            (0 | 1, _) => &[Normal],
            (2, _) => &[Normal, Movable],
            (3, true) => &[Normal, HighMem, Movable],
            (3, false) if has_dma32 => &[Dma32, Normal, Movable],
            (3, false) => &[Dma, Normal, Movable],
            (_, true) => &[Dma, Normal, HighMem, Movable],
            (_, false) => &[Dma, Dma32, Normal, Movable, Device],
        };
        // A zone that the kernel was built without is the one below it.
        let at = built_with.iter().rposition(|kind| *kind <= highest).unwrap_or(0);
        zone.protection.get(at).copied().unwrap_or(0)
    }

    /// Returns a setting, as a number.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<u64> {
        self.settings.get(name)?.trim().parse().ok()
    }

    /// Returns the frames of all zones that are known.
    #[must_use]
    pub fn managed(&self) -> u64 {
        let known: u64 = self.zones.iter().map(|z| z.managed).sum();
        // Of a line that was cut.
        let is_missing = self.zones.is_empty() || self.zones.iter().any(|z| z.managed == 0 && z.free > 0);
        if is_missing { known.max(self.frames.unwrap_or(0)) } else { known }
    }

    /// Returns what reclaim could give back without swap.
    #[must_use]
    pub fn reclaimable(&self) -> Option<u64> {
        Some(self.file?.saturating_add(self.slab_reclaimable.unwrap_or(0)))
    }

    /// Returns anonymous memory, which swap could take.
    #[must_use]
    pub fn anon(&self) -> Option<u64> {
        self.lru?.checked_sub(self.file?)
    }

    /// Returns the frames of huge pages that are set aside.
    #[must_use]
    pub fn pooled(&self) -> u64 {
        self.pools.iter().fold(0, |sum: u64, p| sum.saturating_add(p.total.saturating_mul(p.frames)))
    }

    /// Returns the major and minor number of the kernel's release.
    #[must_use]
    pub fn release(&self) -> Option<(u32, u32)> {
        let release = self.kernel.as_deref()?.trim_start_matches("Linux ");
        let mut numbers = release.split(['.', '-', '+']).map(|n| n.parse::<u32>().ok());
        Some((numbers.next()??, numbers.next()??))
    }
}

impl Zone {
    /// Returns its name, with its node where that is not the first.
    #[must_use]
    pub fn title(&self) -> String {
        match self.node {
            0 => self.kind.name().to_owned(),
            node => format!("{} (node {node})", self.kind.name()),
        }
    }

    /// Returns how many blocks of an order the blocks make that lie on lists of types other than `closed`. A block of
    /// which the type is not known counts.
    #[must_use]
    pub fn suitable(&self, order: u8, closed: &[char]) -> u64 {
        let blocks = self.blocks.iter().enumerate().skip(usize::from(order));
        blocks.fold(0, |sum: u64, (at, n)| {
            let types = self.types.get(at).map_or("", String::as_str);
            let is_closed = !types.is_empty() && types.chars().all(|letter| closed.contains(&letter));
            let parts = n.saturating_mul(1 << (at - usize::from(order)));
            if is_closed { sum } else { sum.saturating_add(parts) }
        })
    }

    /// Returns whether a block of at least an order lies on a list of one of these types; `None` where types are not
    /// known.
    #[must_use]
    pub fn has_of_type(&self, order: u8, letters: &[char]) -> Option<bool> {
        if self.types.is_empty() {
            return None;
        }
        let rows = self.blocks.iter().zip(&self.types).skip(usize::from(order));
        Some(rows.filter(|(n, _)| **n > 0).any(|(_, types)| types.contains(letters)))
    }
}

const FRAME_KIB: u64 = pageyard::PAGE_SIZE / 1024;

/// Returns the KiB of a frame, from all memory in KiB and in frames.
fn frame_kib(total: Option<u64>, managed: u64) -> u64 {
    let ratio = total.and_then(|kib| kib.checked_div(managed)).unwrap_or(FRAME_KIB);
    // The two are read one after the other, and may differ by a few frames.
    [4u64, 8, 16, 32, 64]
        .into_iter()
        .min_by_key(|size| size.abs_diff(ratio.saturating_add(1)))
        .unwrap_or(FRAME_KIB)
}

impl Default for Facts {
    fn default() -> Facts {
        Facts {
            frame_kib: FRAME_KIB,
            frames: None,
            has_high: false,
            checks_each_order: false,
            functions: Vec::new(),
            kernel: None,
            zones: Vec::new(),
            free_anywhere: None,
            ballooned: None,
            pools: Vec::new(),
            lru: None,
            file: None,
            slab_reclaimable: None,
            slab_unreclaimable: None,
            swap_free: None,
            spoilt: None,
            settings: BTreeMap::new(),
        }
    }
}

/// Leaves out pools without pages.
fn pools(all: impl Iterator<Item = Pool>) -> Vec<Pool> {
    all.filter(|p| p.total > 0 && p.frames > 0).collect()
}

/// Reads the number of `MemFree:   100 kB`.
fn number(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The kernel's letters for migratetypes, as it prints them in its log.
const LETTERS: [(&str, char); 6] = [
    ("Unmovable", 'U'),
    ("Movable", 'M'),
    ("Reclaimable", 'E'),
    ("HighAtomic", 'H'),
    ("CMA", 'C'),
    ("Isolate", 'I'),
];

fn letters(zone: &pageyard_trace::proctext::PagetypeinfoZone, orders: usize) -> Vec<String> {
    let has = |name: &str, order: usize| {
        zone.free.get(name).and_then(|free| free.counts.get(order)).is_some_and(|n| *n > 0)
    };
    (0..orders)
        .map(|order| LETTERS.iter().filter(|(name, _)| has(name, order)).map(|(_, letter)| *letter).collect())
        .collect()
}

/// Counts pageblocks by their types: the best that is known where the frames themselves cannot be looked at.
fn unmovable_types(types: &Pagetypeinfo) -> Option<Spoilt> {
    let sum = |names: &[&str]| {
        types.zones.iter().map(|z| names.iter().filter_map(|n| z.blocks.get(*n)).sum::<u64>()).sum::<u64>()
    };
    let unmovable = sum(&["Unmovable", "Reclaimable", "HighAtomic"]);
    let movable = sum(&["Movable", "CMA"]);
    Some(Spoilt { unmovable, movable, all: unmovable + movable }).filter(|s| s.all > 0)
}
