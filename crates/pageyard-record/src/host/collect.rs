//! Reading what this host reports of its memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use pageyard_trace::FrameKind;
use pageyard_trace::TraceError;
use pageyard_trace::ZoneFragmentation;
use pageyard_trace::proctext::{Buddyinfo, Pagetypeinfo, Vmstat, Zoneinfo};
use pageyard_trace::source::reason;
use serde::Serialize;

use super::answer::{self, Answer};
use super::culprits::{Culprits, Sources};
use super::kpageflags::{self, BuddyMarks};
use super::pageblocks::Pageblocks;

/// The most text that is read from one file: `/proc/zoneinfo` of a host with thousands of CPUs and dozens of nodes has
/// a few MiB.
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
    /// The zone's answer to a request that may use any zone, by order; empty where `zoneinfo` could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answer>,
}

/// What this host's memory is like now, as far as the caller may know.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSummary {
    /// The zones.
    pub zones: Vec<HostZone>,
    /// Frames by [`FrameKind`], where `kpageflags` could be read.
    pub frames: Option<[u64; FrameKind::ALL.len()]>,
    /// What frames of kind [`FrameKind::Other`] hold, as far as the kernel counts.
    pub culprits: Option<Culprits>,
    /// Whether those are exact.
    pub marks: Option<BuddyMarks>,
    /// Pageblocks by what spoils them, where `kpageflags` could be read.
    pub pageblocks: Option<Pageblocks>,
    /// Pageblocks by migratetype, where `pagetypeinfo` could be read.
    pub pagetypes: Option<Pagetypeinfo>,
    /// Counters since the host started, where `vmstat` could be read.
    pub vmstat: Option<Vmstat>,
    /// What could not be read, and why: a sentence each.
    pub not_read: Vec<String>,
}

impl HostSummary {
    /// Examines this host.
    ///
    /// `kpageflags` and `pagetypeinfo` are readable by root only; without them a part is left out, and
    /// [`HostSummary::not_read`] says so.
    ///
    /// # Errors
    /// When nothing can be read: this is not Linux, or `/proc` is not mounted.
    pub fn collect() -> Result<HostSummary, TraceError> {
        HostSummary::collect_from(Path::new("/proc"))
    }

    /// Examines a host whose files are in `proc` instead of `/proc`.
    ///
    /// # Errors
    /// As [`HostSummary::collect`].
    pub fn collect_from(proc: &Path) -> Result<HostSummary, TraceError> {
        let mut host = Collector { proc, not_read: Vec::new() };
        let buddy = host.text("buddyinfo", Buddyinfo::parse, "free memory by order");
        let zones = host.text("zoneinfo", Zoneinfo::parse, "watermarks, and which orders would fail");
        let pagetypes = host.text("pagetypeinfo", Pagetypeinfo::parse, "pageblocks by migratetype");
        let vmstat = host.text("vmstat", Vmstat::parse, "counters of compaction");
        let whole = |text: &str| Ok(text.to_owned());
        let meminfo = host.text("meminfo", whole, "what the kernel's own memory is used for");
        // A kernel without sockets has none.
        let sockstat = std::fs::read_to_string(proc.join("net/sockstat")).unwrap_or_default();
        let path = proc.join("kpageflags");
        let picture = match kpageflags::capture(&path) {
            Ok(picture) => Some(picture),
            Err(e) => {
                host.missing(&e, "what the pageblocks hold");
                None
            }
        };
        if buddy.is_none() && zones.is_none() && picture.is_none() {
            return Err(TraceError::Unreadable {
                file: proc.display().to_string(),
                why: "it holds neither buddyinfo nor zoneinfo: this needs Linux with /proc mounted"
                    .to_owned(),
            });
        }
        let zones = buddy.map(|buddy| zones_of(&buddy, zones.as_ref())).unwrap_or_default();
        let frames = picture.as_ref().map(|p| FrameKind::ALL.map(|kind| p.snapshot.frames(kind)));
        let culprits = frames.as_ref().map(|frames| {
            Culprits::of(&Sources {
                frames,
                vmstat: vmstat.as_ref(),
                meminfo: meminfo.as_deref().unwrap_or_default(),
                sockstat: &sockstat,
                pcp: zones.iter().filter_map(|z| z.watermarks).map(|w| w.pcp).sum(),
            })
        });
        Ok(HostSummary {
            zones,
            frames,
            culprits,
            marks: picture.as_ref().map(|p| p.marks),
            pageblocks: picture.as_ref().map(|p| Pageblocks::of(&p.snapshot)),
            pagetypes,
            vmstat,
            not_read: host.not_read,
        })
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

fn zones_of(buddy: &Buddyinfo, info: Option<&Zoneinfo>) -> Vec<HostZone> {
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
                    .map(|(info, z)| answer::answers(&line.counts, z, answer::protection(info, z)))
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
            file.take(MAX_TEXT).read_to_end(&mut bytes).map_err(unreadable)?;
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
