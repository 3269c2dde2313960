//! The requests that failed: what they asked for, what was free then, and why, as far as a trace shows.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use pageyard::{Context, Gfp, GfpMap, Migratetype, Order, Request, RequestFlags, ZoneKind, metrics};

use crate::error::TraceError;
use crate::event::{Columns, Event};
use crate::meta::Meta;
use crate::moves::{Move, MoveReader};
use crate::proctext::{Zoneinfo, ZoneinfoZone};
use crate::trace::Trace;

use super::ORDERS;
use super::free::FreeFrames;

/// Failures that are described one by one.
pub const FAILURES_SHOWN: usize = 20;

/// Kinds of failures that are distinguished; if a file invents more, the rest are counted together.
const MAX_KINDS: usize = 10_000;

/// Why a request got nothing, by what was free then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// Fewer frames were free than were asked for.
    OutOfMemory,
    /// What was free was kept back by watermarks and reserves.
    BelowWatermark,
    /// Enough was free above the watermarks, in blocks that were too small.
    Fragmented,
    /// A large enough block was free above the watermarks: it lay in a per-CPU list, or in a reserve, or on a node that the
    /// request was not allowed.
    Unexplained,
}

impl FailureReason {
    /// Returns words for people: those of the document, with spaces.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            FailureReason::OutOfMemory => "out of memory",
            FailureReason::BelowWatermark => "below watermark",
            FailureReason::Fragmented => "fragmented",
            FailureReason::Unexplained => "unexplained",
        }
    }
}

/// One request that got nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedRequest {
    /// Nanoseconds since the recording started.
    pub time_ns: u64,
    /// What was asked for, and by which thread.
    pub kind: FailureKind,
    /// The CPU.
    pub cpu: u32,
    /// Free blocks by order in the zones that the request could use; `None` where the trace has no snapshot.
    pub free_blocks: Option<[u64; ORDERS]>,
    /// Why; `None` where the trace has no snapshot or no `zoneinfo`.
    pub reason: Option<FailureReason>,
}

impl FailedRequest {
    /// Returns how many blocks of its order the free blocks made.
    #[must_use]
    pub fn suitable_blocks(&self) -> Option<u64> {
        self.free_blocks.map(|blocks| metrics::suitable_blocks(&blocks, self.kind.order.into()))
    }

    /// Returns the order of the largest free block.
    #[must_use]
    pub fn largest_free_order(&self) -> Option<usize> {
        self.free_blocks.and_then(|blocks| blocks.iter().rposition(|n| *n > 0))
    }
}

/// What tells failures apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailureKind {
    /// The order.
    pub order: u8,
    /// The kernel's gfp bits.
    pub gfp: u32,
    /// The migratetype's number, or -1.
    pub migratetype: i8,
    /// What the CPU was doing, by [`Context::ALL`].
    pub context: u8,
    /// The thread.
    pub tid: u32,
}

impl FailureKind {
    pub(super) fn of(event: &Event) -> FailureKind {
        let Event { order, gfp, migratetype, context, tid, .. } = *event;
        FailureKind { order, gfp, migratetype, context: context as u8, tid }
    }

    pub(super) fn context(&self) -> &'static str {
        Context::ALL.get(usize::from(self.context)).map_or("unknown", |c| c.name())
    }
}

/// The requests that got nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failures {
    /// The first of them, in order of time.
    pub first: Vec<FailedRequest>,
    /// How many there were of each kind.
    pub kinds: BTreeMap<FailureKind, u64>,
}

impl Failures {
    /// Counts one.
    pub(super) fn count(&mut self, event: &Event) {
        let kind = FailureKind::of(event);
        if self.kinds.len() < MAX_KINDS || self.kinds.contains_key(&kind) {
            *self.kinds.entry(kind).or_default() += 1;
        }
    }

    /// Describes the first of them: rereads the trace up to there, following what is free.
    ///
    /// # Errors
    /// As reading the trace for the first time.
    pub(super) fn describe(&mut self, trace: &Trace) -> Result<(), TraceError> {
        if self.kinds.is_empty() {
            return Ok(());
        }
        let meta = trace.meta();
        let mut free = trace.before()?.as_ref().and_then(FreeFrames::new);
        let zones = meta.before.as_ref().and_then(|texts| Zoneinfo::parse(&texts.zoneinfo).ok());
        let map = gfp_map(meta);
        let mut moves = Moves::new(trace.moves()?);
        let mut events = trace.events(Columns::All)?;
        let mut batch = Vec::new();
        while events.next_batch(&mut batch)? {
            for event in &batch {
                if let Some(free) = &mut free {
                    moves.until(event.time_ns, |row| free.moved(row))?;
                    free.event(event);
                }
                if event.failed() {
                    let free = free.as_ref().map(|free| (free, zones.as_ref()));
                    self.first.push(failed(event, &map, free));
                    if self.first.len() == FAILURES_SHOWN {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the most frequent kinds, at most `most` of them.
    pub(super) fn most_frequent(&self, most: usize) -> Vec<(FailureKind, u64)> {
        let mut kinds: Vec<_> = self.kinds.iter().map(|(kind, n)| (*kind, *n)).collect();
        kinds.sort_by_key(|(kind, n)| (std::cmp::Reverse(*n), *kind));
        kinds.truncate(most);
        kinds
    }
}

/// Rows about moves, handed over as time goes on.
struct Moves {
    reader: Option<MoveReader>,
    waiting: Vec<Move>,
    next: usize,
}

impl Moves {
    fn new(reader: Option<MoveReader>) -> Moves {
        Moves { reader, waiting: Vec::new(), next: 0 }
    }

    /// Hands over what happened before `time`.
    fn until(&mut self, time: u64, mut take: impl FnMut(&Move)) -> Result<(), TraceError> {
        while let Some(reader) = &mut self.reader {
            while let Some(row) = self.waiting.get(self.next) {
                if row.time_ns > time {
                    return Ok(());
                }
                take(row);
                self.next += 1;
            }
            self.next = 0;
            if !reader.next_batch(&mut self.waiting)? {
                self.reader = None;
            }
        }
        Ok(())
    }
}

fn failed(event: &Event, map: &GfpMap, free: Option<(&FreeFrames, Option<&Zoneinfo>)>) -> FailedRequest {
    let order = Order::new(event.order).unwrap_or_default();
    let recorded = usize::try_from(event.migratetype).ok().and_then(|m| Migratetype::ALL.get(m).copied());
    let request = Request::from_gfp(event.gfp, map, order, recorded);
    let (mut free_blocks, mut reason) = (None, None);
    if let Some((free, zones)) = free {
        let zones = zones.map(|info| usable(info, request.highest_zone)).unwrap_or_default();
        if zones.is_empty() {
            free_blocks = Some(free.blocks(0, u64::MAX));
        } else {
            let of_zones: Vec<_> =
                zones.iter().map(|(zone, span)| (*zone, free.blocks(span.start, span.end))).collect();
            free_blocks = Some(std::array::from_fn(|o| of_zones.iter().map(|(_, blocks)| blocks[o]).sum()));
            reason = Some(why(&of_zones, &request));
        }
    }
    FailedRequest {
        time_ns: event.time_ns,
        kind: FailureKind::of(event),
        cpu: event.cpu,
        free_blocks,
        reason,
    }
}

/// Returns the zones that a request may use, and the frames that they span.
fn usable(info: &Zoneinfo, highest: ZoneKind) -> Vec<(&ZoneinfoZone, std::ops::Range<u64>)> {
    let zones = info.zones.iter().filter(|z| kind_of(&z.name).is_some_and(|kind| kind <= highest));
    zones.filter_map(|z| z.start_pfn.map(|start| (z, start..start.saturating_add(z.spanned)))).collect()
}

fn kind_of(name: &str) -> Option<ZoneKind> {
    ZoneKind::from_name(name)
}

/// Says why a request failed in zones with these free blocks.
///
/// # Linux
/// `__zone_watermark_ok`, with the recorded watermarks and the first of the discounts for urgent requests.
fn why(zones: &[(&ZoneinfoZone, [u64; ORDERS])], request: &Request) -> FailureReason {
    let order = request.order.index();
    let mut all = 0;
    let mut fragmented = false;
    for (zone, blocks) in zones {
        let free = metrics::free_frames(blocks);
        all += free;
        let min = if request.flags.contains(RequestFlags::HIGH) { zone.min - zone.min / 2 } else { zone.min };
        let protected = zone.protection.get(request.highest_zone.index()).copied().unwrap_or(0);
        if free.saturating_sub((1 << order) - 1) <= min + protected {
            continue;
        }
        if metrics::suitable_blocks(blocks, order) > 0 {
            return FailureReason::Unexplained;
        }
        fragmented = true;
    }
    if fragmented {
        FailureReason::Fragmented
    } else if all < 1 << order {
        FailureReason::OutOfMemory
    } else {
        FailureReason::BelowWatermark
    }
}

pub(super) fn gfp_map(meta: &Meta) -> GfpMap {
    GfpMap::from_names(meta.gfp_bits.iter().map(|(name, bit)| (name.as_str(), *bit)))
}

/// Writes gfp bits by name, with the kernel's names for the usual combinations.
pub(super) struct GfpNames(pub(super) Gfp, pub(super) u32);

impl GfpNames {
    /// Reads a kernel's bits.
    pub(super) fn new(raw: u32, map: &GfpMap) -> GfpNames {
        let unknown = (0..32).map(|bit| 1 << bit).filter(|&bit| raw & bit != 0 && map.decode(bit).is_empty());
        GfpNames(map.decode(raw), unknown.sum())
    }
}

impl fmt::Display for GfpNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RECLAIM: Gfp = Gfp::DIRECT_RECLAIM.union(Gfp::KSWAPD_RECLAIM);
        const KERNEL: Gfp = RECLAIM.union(Gfp::IO).union(Gfp::FS);
        const USER: Gfp = KERNEL.union(Gfp::HARDWALL);
        // Huge pages of user processes: what may reclaim nothing, and what may reclaim directly.
        const LIGHT: Gfp = USER
            .difference(RECLAIM)
            .union(Gfp::HIGHMEM)
            .union(Gfp::MOVABLE)
            .union(Gfp::COMP)
            .union(Gfp::NOMEMALLOC)
            .union(Gfp::NOWARN);
        // Larger ones first.
        const USUAL: [(&str, Gfp); 10] = [
            ("GFP_TRANSHUGE", LIGHT.union(Gfp::DIRECT_RECLAIM)),
            ("GFP_TRANSHUGE_LIGHT", LIGHT),
            ("GFP_HIGHUSER_MOVABLE", USER.union(Gfp::HIGHMEM).union(Gfp::MOVABLE)),
            ("GFP_HIGHUSER", USER.union(Gfp::HIGHMEM)),
            ("GFP_USER", USER),
            ("GFP_KERNEL", KERNEL),
            ("GFP_NOFS", RECLAIM.union(Gfp::IO)),
            ("GFP_NOIO", RECLAIM),
            ("GFP_ATOMIC", Gfp::HIGH.union(Gfp::KSWAPD_RECLAIM)),
            ("GFP_NOWAIT", Gfp::KSWAPD_RECLAIM),
        ];
        let mut words = Vec::new();
        let mut rest = self.0;
        if let Some((name, flags)) = USUAL.into_iter().find(|(_, flags)| rest.contains(*flags)) {
            words.push(name.to_owned());
            rest -= flags;
        }
        words.extend(rest.iter_names().map(|(name, _)| format!("__GFP_{name}")));
        if self.1 != 0 || words.is_empty() {
            words.push(format!("{:#x}", self.1));
        }
        f.write_str(&words.join("|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gfp_flags_are_named_as_kernel_code_has_them() {
        let name = |raw| GfpNames::new(raw, &GfpMap::LINUX_6_18).to_string();
        assert_eq!(name(0xcc0), "GFP_KERNEL");
        assert_eq!(name(0x820), "GFP_ATOMIC");
        assert_eq!(name(0x140cca), "GFP_HIGHUSER_MOVABLE|__GFP_COMP");
        assert_eq!(name(0x3c24ca), "GFP_TRANSHUGE|__GFP_THISNODE");
        assert_eq!(name(0x1c20ca), "GFP_TRANSHUGE_LIGHT");
        assert_eq!(name(0x2920), "GFP_ATOMIC|__GFP_ZERO|__GFP_NOWARN");
        assert_eq!(name(1 << 31 | 1 << 9), "0x80000200");
        assert_eq!(name(0), "0x0");
    }

    #[test]
    fn the_reason_is_what_was_free() {
        let zone = ZoneinfoZone {
            name: "Normal".into(),
            min: 100,
            protection: vec![0; 5],
            ..ZoneinfoZone::default()
        };
        let of = |order: u8, blocks: [u64; ORDERS], flags| {
            let request = Request::new(Order::new(order).unwrap(), Migratetype::Movable).with(flags);
            why(&[(&zone, blocks)], &request)
        };
        let small = [1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let plain = RequestFlags::empty();
        assert_eq!(of(3, small, plain), FailureReason::Fragmented);
        assert_eq!(of(0, small, plain), FailureReason::Unexplained);
        assert_eq!(of(10, small, plain), FailureReason::OutOfMemory);
        let few = [90, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(of(0, few, plain), FailureReason::BelowWatermark);
        assert_eq!(of(0, few, RequestFlags::HIGH), FailureReason::Unexplained);
        assert_eq!(of(1, few, RequestFlags::HIGH), FailureReason::Fragmented);
    }
}
