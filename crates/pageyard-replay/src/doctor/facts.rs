//! The facts known of a host when a request failed, from any of these: its log, its `/proc`, or a recording.

use std::collections::BTreeMap;

use pageyard::{Gfp, Order, ZoneKind, metrics};
use pageyard_trace::failures::{GfpNames, gfp_of_names};
use pageyard_trace::kernel_log::{LoggedFailure, LoggedKind};
use pageyard_trace::proctext::{Buddyinfo, Pagetypeinfo, Vmstat, Zoneinfo};
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
}

impl Asked {
    /// Makes a request.
    #[must_use]
    pub fn new(order: u8, gfp: Gfp) -> Asked {
        Asked { order, gfp, nodes: None, killed: false }
    }

    /// Returns requests whose failure is noticed: single frames and network buffers of callers that cannot wait, memory
    /// for 32-bit devices where a host has higher zones too, and huge pages.
    #[must_use]
    pub fn usual(facts: &Facts) -> Vec<Asked> {
        let atomic = Gfp::HIGH | Gfp::KSWAPD_RECLAIM;
        let huge = gfp_of_names("GFP_TRANSHUGE");
        let mut all = vec![Asked::new(0, atomic), Asked::new(3, atomic), Asked::new(9, huge)];
        let has = |kind: ZoneKind| facts.zones.iter().any(|z| z.kind == kind);
        if has(ZoneKind::Dma32) && has(ZoneKind::Normal) {
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
    pub fn highest(&self) -> ZoneKind {
        if self.gfp.contains(Gfp::DMA) {
            ZoneKind::Dma
        } else if self.gfp.contains(Gfp::DMA32) {
            ZoneKind::Dma32
        } else if self.gfp.contains(Gfp::MOVABLE | Gfp::HIGHMEM) {
            ZoneKind::Movable
        } else {
            ZoneKind::Normal
        }
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
    pub kind: ZoneKind,
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
    /// Free blocks by order.
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The zones that are known.
    pub zones: Vec<Zone>,
    /// Free frames of the whole host; a log shows only the zones that a request may use.
    pub free_anywhere: Option<u64>,
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
        let nodes = request.nodes.clone().or_else(|| request.mems_allowed.clone().filter(shown));
        let asked = Asked {
            order: request.order,
            gfp: request.gfp,
            nodes,
            killed: request.kind == LoggedKind::Killed,
        };
        let counter = |name: &str| failure.counter(name);
        let sum = |names: &[&str]| {
            names.iter().map(|name| counter(name)).try_fold(0u64, |sum, n| Some(sum.saturating_add(n?)))
        };
        let file = sum(&["active_file", "inactive_file"]);
        let zones = failure.zones.iter().map(|z| Zone {
            node: z.node,
            kind: z.kind,
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
        let facts = Facts {
            kernel: failure.kernel.clone(),
            zones: zones.collect(),
            free_anywhere: counter("free"),
            pools: pools(failure.pools.iter().map(|p| Pool {
                frames: p.frames,
                total: p.total,
                free: p.free,
            })),
            lru: sum(&["active_anon", "inactive_anon", "unevictable"]).zip(file).map(|(a, f)| a + f),
            file,
            slab_reclaimable: counter("slab_reclaimable"),
            slab_unreclaimable: counter("slab_unreclaimable"),
            swap_free: failure.swap.map(|(free, _)| free),
            spoilt: None,
            settings: BTreeMap::new(),
        };
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
            let Some(kind) = ZoneKind::from_name(&z.name) else { continue };
            let is_this = |node: u8, name: &str| node == z.node && name == z.name;
            let blocks = buddy.zones.iter().find(|b| is_this(b.node, &b.name));
            let blocks = blocks.map(|b| b.counts.clone()).unwrap_or_default();
            let by_type = types.zones.iter().find(|t| is_this(t.node, &t.name));
            let counter = |name: &str| z.counters.get(name).copied().unwrap_or(0);
            zones.push(Zone {
                node: z.node,
                kind,
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
        let file = counter("nr_active_file").zip(counter("nr_inactive_file")).map(|(a, b)| a + b);
        let anon = counter("nr_active_anon").zip(counter("nr_inactive_anon")).map(|(a, b)| a + b);
        let kib = |name: &str| number(meminfo, name);
        let pool = || {
            let frames = kib("Hugepagesize")? / FRAME_KIB;
            Some(Pool { frames, total: kib("HugePages_Total")?, free: kib("HugePages_Free")? })
        };
        Ok(Facts {
            free_anywhere: Some(zones.iter().map(|z| z.free).sum()).filter(|_| !zones.is_empty()),
            zones,
            pools: pools(pool().into_iter()),
            lru: anon.zip(file).map(|(a, f)| a + f + counter("nr_unevictable").unwrap_or(0)),
            file,
            slab_reclaimable: counter("nr_slab_reclaimable"),
            slab_unreclaimable: counter("nr_slab_unreclaimable"),
            swap_free: kib("SwapFree").map(|kib| kib / FRAME_KIB),
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

    /// Returns a setting, as a number.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<u64> {
        self.settings.get(name)?.trim().parse().ok()
    }

    /// Returns the frames of all zones that are known.
    #[must_use]
    pub fn managed(&self) -> u64 {
        self.zones.iter().map(|z| z.managed).sum()
    }

    /// Returns what reclaim could give back without swap.
    #[must_use]
    pub fn reclaimable(&self) -> Option<u64> {
        Some(self.file? + self.slab_reclaimable.unwrap_or(0))
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

    /// Returns how many blocks of an order its free blocks make.
    #[must_use]
    pub fn suitable(&self, order: u8) -> u64 {
        metrics::suitable_blocks(&self.blocks, Order::new(order).unwrap_or_default().index())
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
