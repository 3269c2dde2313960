//! Reading what this host reports of its memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use pageyard_trace::contents::{self, FramesByKind};
use pageyard_trace::proctext::{Buddyinfo, Pagetypeinfo, Vmstat, Zoneinfo};
use pageyard_trace::source::reason;
use pageyard_trace::{HugeFrames, Pageblocks, TraceError, ZoneFragmentation};
use serde::Serialize;

use super::allocinfo::{self, AllocationSite};
use super::answer::{self, Answer};
use super::asked::AskedFor;
use super::compactable::Compactable;
use super::counted::counted;
use super::culprits::{Culprit, Culprits, Sources};
use super::kpageflags::{self, BuddyMarks};
use super::largest::Largest;
use super::slabinfo::{self, SlabCache};
use super::vmallocinfo::{self, VmallocCaller};

/// The most text that is read from one file: `/proc/zoneinfo` of a host with thousands of CPUs and dozens of nodes has
/// a few MiB, and so has `/proc/vmallocinfo` of one with tens of thousands of threads.
const MAX_TEXT: u64 = 64 << 20;

/// A zone's reserves, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watermarks {
    /// Below it, ordinary requests fail.
    pub min: u64,
    /// Below it, reclaim is woken.
    pub low: u64,
    /// At it, reclaim stops.
    pub high: u64,
    /// Frames that the zone hands out.
    pub managed: u64,
    /// Frames in per-CPU lists.
    pub pcp: u64,
}

/// One zone that has memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostZone {
    /// Its free memory.
    #[serde(flatten)]
    pub fragmentation: ZoneFragmentation,
    /// Its reserves, where `zoneinfo` could be read.
    #[serde(flatten)]
    pub watermarks: Option<Watermarks>,
    /// The zone's answer to a request, by order; empty where `zoneinfo` could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answer>,
}

/// Sums over the zones, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostTotals {
    /// Free frames.
    pub free_frames: u64,
    /// Frames that the zones hand out, where `zoneinfo` could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_frames: Option<u64>,
    /// Frames in per-CPU lists, where `zoneinfo` could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcp_frames: Option<u64>,
    /// Huge frames among the free memory.
    pub free_huge_frames: HugeFrames,
}

/// The state of this host's memory, as far as the caller may read it.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSummary {
    /// The kind of request that the zones' answers are for.
    pub asked: AskedFor,
    /// The zones.
    pub zones: Vec<HostZone>,
    /// Frames by what they hold, where `kpageflags` could be read.
    pub frames: Option<FramesByKind>,
    /// The content of frames of kind [`pageyard_trace::FrameKind::Other`], as far as the kernel counts it.
    pub culprits: Option<Culprits>,
    /// Whether those are exact.
    pub marks: Option<BuddyMarks>,
    /// Pageblocks by what spoils them, where `kpageflags` could be read.
    pub pageblocks: Option<Pageblocks>,
    /// The possible gain of compaction, zone by zone, if `kpageflags` and `zoneinfo` could be read.
    pub compactable: Option<Vec<Compactable>>,
    /// The largest object caches, where `slabinfo` could be read.
    pub slab: Option<Largest<SlabCache>>,
    /// The largest callers of `vmalloc`, where `vmallocinfo` could be read.
    pub vmalloc: Option<Largest<VmallocCaller>>,
    /// The places in the kernel's source that hold most, where `allocinfo` is there and could be read.
    pub sites: Option<Largest<AllocationSite>>,
    /// Memory that the kernel counts by use, whatever marks its frames have.
    pub counted: Vec<Culprit>,
    /// Pageblocks by migratetype, where `pagetypeinfo` could be read.
    pub pagetypes: Option<Pagetypeinfo>,
    /// Counters since the host started, where `vmstat` could be read.
    pub vmstat: Option<Vmstat>,
    /// Sources that could not be read, and why: a sentence each.
    pub not_read: Vec<String>,
}

impl HostSummary {
    /// Examines this host, and judges it for a kind of request.
    ///
    /// `kpageflags`, `pagetypeinfo`, `slabinfo` and `vmallocinfo` are readable by root only; without them a part is
    /// left out, and [`HostSummary::not_read`] says so.
    ///
    /// # Errors
    /// When nothing can be read: this is not Linux, or `/proc` is not mounted.
    pub fn collect(asked: AskedFor) -> Result<HostSummary, TraceError> {
        HostSummary::collect_from(Path::new("/proc"), asked)
    }

    /// Examines a host whose files are in `proc` instead of `/proc`.
    ///
    /// # Errors
    /// As [`HostSummary::collect`].
    pub fn collect_from(proc: &Path, asked: AskedFor) -> Result<HostSummary, TraceError> {
        let mut host = Collector { proc, not_read: Vec::new() };
        let buddy = host.text("buddyinfo", Buddyinfo::parse, "free memory by order");
        let zoneinfo = host.text("zoneinfo", Zoneinfo::parse, "watermarks, and which orders would fail");
        let pagetypes = host.text("pagetypeinfo", Pagetypeinfo::parse, "pageblocks by migratetype");
        let vmstat = host.text("vmstat", Vmstat::parse, "counters of compaction");
        let whole = |text: &str| Ok(text.to_owned());
        let meminfo = host.text("meminfo", whole, "what the kernel's own memory is used for");
        let slab = host.text("slabinfo", slabinfo::parse, "the largest object caches");
        let vmalloc = host.text("vmallocinfo", vmallocinfo::parse, "the largest callers of vmalloc");
        // Most kernels are built without it.
        let profiled = proc.join("allocinfo").exists();
        let sites = profiled.then(|| host.text("allocinfo", allocinfo::parse, "what each place allocated"));
        // A kernel without sockets has none.
        let sockstat = std::fs::read_to_string(proc.join("net/sockstat")).unwrap_or_default();
        let path = proc.join("kpageflags");
        let picture = match kpageflags::capture(&path) {
            Ok(picture) => Some(picture),
            Err(e) => {
                host.missing(&e, "what the pageblocks hold, and what compaction could win");
                None
            }
        };
        if buddy.is_none() && zoneinfo.is_none() && picture.is_none() {
            return Err(TraceError::Unreadable {
                file: proc.display().to_string(),
                why: "it holds neither buddyinfo nor zoneinfo: this needs Linux with /proc mounted"
                    .to_owned(),
            });
        }
        let zones = buddy.map(|buddy| zones_of(asked, &buddy, zoneinfo.as_ref())).unwrap_or_default();
        let frames = picture.as_ref().map(|p| contents::frames(&p.snapshot));
        let culprits = frames.as_ref().map(|frames| {
            Culprits::of(&Sources {
                frames,
                vmstat: vmstat.as_ref(),
                meminfo: meminfo.as_deref().unwrap_or_default(),
                sockstat: &sockstat,
                zoneinfo: zoneinfo.as_ref(),
            })
        });
        Ok(HostSummary {
            asked,
            zones,
            frames,
            culprits,
            marks: picture.as_ref().map(|p| p.marks),
            pageblocks: picture.as_ref().map(|p| Pageblocks::of(&p.snapshot)),
            compactable: (picture.as_ref().zip(zoneinfo.as_ref()))
                .map(|(picture, info)| Compactable::of(&picture.snapshot, info)),
            slab,
            vmalloc,
            sites: sites.flatten(),
            counted: counted(vmstat.as_ref(), meminfo.as_deref()),
            pagetypes,
            vmstat,
            not_read: host.not_read,
        })
    }

    /// Adds the zones up, where free memory by order is known.
    #[must_use]
    pub fn totals(&self) -> Option<HostTotals> {
        let sum = |frames: fn(Watermarks) -> u64| {
            let mut known = self.zones.iter().filter_map(|z| z.watermarks).map(frames).peekable();
            known.peek().is_some().then(|| known.sum())
        };
        let zones = self.fragmentation();
        (!zones.is_empty()).then(|| HostTotals {
            free_frames: zones.iter().map(|z| z.free_frames).sum(),
            managed_frames: sum(|w| w.managed),
            pcp_frames: sum(|w| w.pcp),
            free_huge_frames: HugeFrames::of(&zones),
        })
    }

    /// Returns the zones' free memory.
    pub(super) fn fragmentation(&self) -> Vec<ZoneFragmentation> {
        self.zones.iter().map(|z| z.fragmentation.clone()).collect()
    }

    /// Returns, for each order, the best answer of any zone; empty where it is not known.
    #[must_use]
    pub fn answers(&self) -> Vec<Answer> {
        let orders = self.zones.iter().map(|z| z.answers.len()).max().unwrap_or(0);
        (0..orders)
            .filter_map(|o| self.zones.iter().filter_map(|z| z.answers.get(o).copied()).min())
            .collect()
    }
}

fn zones_of(asked: AskedFor, buddy: &Buddyinfo, info: Option<&Zoneinfo>) -> Vec<HostZone> {
    (buddy.zones.iter().enumerate())
        .map(|(index, line)| {
            let zone = info.and_then(|info| Some((info, answer::zone_of(info, buddy, index)?)));
            HostZone {
                fragmentation: ZoneFragmentation::of(line),
                watermarks: zone.map(|(_, z)| Watermarks {
                    min: z.min,
                    low: z.low,
                    high: z.high,
                    managed: z.managed,
                    pcp: z.pcp_frames(),
                }),
                answers: zone
                    .map(|(info, z)| {
                        answer::answers(asked, &line.counts, z, answer::protection(asked, info, z))
                    })
                    .unwrap_or_default(),
            }
        })
        .collect()
}

struct Collector<'a> {
    proc: &'a Path,
    not_read: Vec<String>,
}

impl Collector<'_> {
    /// Reads one text, or notes why it cannot be read and what is missing without it.
    fn text<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, TraceError>,
        purpose: &str,
    ) -> Option<T> {
        let path = self.proc.join(name);
        let read = || -> Result<T, TraceError> {
            let unreadable = |e: std::io::Error| TraceError::Unreadable {
                file: path.display().to_string(),
                why: reason(&e),
            };
            let mut bytes = Vec::new();
            let file = File::open(&path).map_err(unreadable)?;
            file.take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(unreadable)?;
            if bytes.len() as u64 > MAX_TEXT {
                return Err(TraceError::Unreadable {
                    file: path.display().to_string(),
                    why: "it has more than 64 MiB of text".to_owned(),
                });
            }
            parse(&String::from_utf8_lossy(&bytes))
        };
        match read() {
            Ok(value) => Some(value),
            Err(e) => {
                self.missing(&e, purpose);
                None
            }
        }
    }

    fn missing(&mut self, error: &TraceError, purpose: &str) {
        let root = match error {
            TraceError::Unreadable { why, .. } if why.starts_with("Permission") => " (it needs root)",
            _ => "",
        };
        self.not_read.push(format!("{error}{root}, so this is left out: {purpose}."));
    }
}
