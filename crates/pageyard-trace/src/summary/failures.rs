//! The requests that failed: what they asked for, what was free then, and why, as far as a trace shows.

use pageyard::{GfpMap, Migratetype, Order, Request, RequestFlags, ZoneKind, metrics};

use crate::error::TraceError;
use crate::event::{Columns, Event};
use crate::failures::{ByKind, FAILURES_SHOWN, FailedRequest, FailureKind, FailureReason, ORDERS};
use crate::meta::Meta;
use crate::moves::{Move, MoveReader};
use crate::proctext::{Zoneinfo, ZoneinfoZone};
use crate::trace::Trace;

use super::free::FreeFrames;

/// The requests that got nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failures {
    /// The first of them, in order of time.
    pub first: Vec<FailedRequest>,
    /// How many there were of each kind.
    pub kinds: ByKind<u64>,
}

impl Failures {
    /// Counts one.
    pub(super) fn count(&mut self, event: &Event) {
        if let Some(n) = self.kinds.of(FailureKind::of(event)) {
            *n += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

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
