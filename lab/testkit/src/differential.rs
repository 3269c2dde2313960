//! Two engines side by side, asked the same: they must agree wherever the interface leaves no choice.
//!
//! Each is judged by the naive model first, as in a [`Session`]. What the model cannot decide, because it depends on
//! the engine's watermarks, the other engine does: with equal zones and equal watermarks, both must refuse the same
//! requests because of them, to the frame. Which frame is granted, and therefore whether memory is fragmented, is each
//! engine's own; a grant that only one of them can make is given back, so that both hold blocks of the same orders.

use crate::engine::{Build, Verdict};
use crate::generate::{Bytes, Generator, Numbers, PROFILES, Profile};
use crate::judge;
use crate::maps::{self, Map};
use crate::op::Op;
use crate::session::Session;
use crate::tally::Tally;
use core::fmt;
use core::ops::AddAssign;
use pageyard::{AllocError, CpuId, CpuSet, FreeError, Migratetype, Order, PageAllocator, Request, ZoneId};
use std::mem::discriminant;

/// CPUs of each engine.
const CPUS: u32 = 2;

/// Operations between comparisons of all counts.
const CHECK_EVERY: u64 = 512;

/// How often two engines answered what.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Agreement {
    /// Operations.
    pub ops: u64,
    /// Requests that both granted.
    pub granted: u64,
    /// Requests that both refused for the same reason.
    pub refused: u64,
    /// Requests answered alike only once no frame was in a list.
    pub after_drain: u64,
    /// Requests answered differently where each may: one found a block, the other none, or their zones differ.
    pub placement: u64,
    /// Requests whose answer the watermarks decided.
    pub by_watermark: u64,
    /// Wrong frees, splits and claims that both refused.
    pub wrong: u64,
}

impl AddAssign for Agreement {
    fn add_assign(&mut self, other: Agreement) {
        self.ops += other.ops;
        self.granted += other.granted;
        self.refused += other.refused;
        self.after_drain += other.after_drain;
        self.placement += other.placement;
        self.by_watermark += other.by_watermark;
        self.wrong += other.wrong;
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Agreement { ops, granted, refused, after_drain, placement, by_watermark, wrong } = self;
        write!(
            f,
            "{ops} operations: {granted} requests granted by both and {refused} refused ({by_watermark} by a \
             watermark), {after_drain} of them after a drain; {placement} by one of the two; {wrong} wrong calls refused"
        )
    }
}

/// Two sessions on one machine.
pub struct Pair<A, B> {
    first: Session<A>,
    second: Session<B>,
    /// The largest order that both serve.
    largest: Order,
    /// Their answers so far, counted.
    pub agreement: Agreement,
}

impl<A: PageAllocator, B: PageAllocator> Pair<A, B> {
    /// Makes both engines.
    ///
    /// # Panics
    /// As [`Session::new`].
    pub fn new(first: &impl Build<Engine = A>, second: &impl Build<Engine = B>, map: &Map) -> Pair<A, B> {
        let largest = first.largest_order().min(second.largest_order());
        let sessions = (Session::new(first, &map.regions, CPUS), Session::new(second, &map.regions, CPUS));
        Pair { first: sessions.0, second: sessions.1, largest, agreement: Agreement::default() }
    }

    /// Runs one operation on both, and compares the answers.
    ///
    /// # Errors
    /// Says what is wrong with an answer, or how they differ.
    pub fn apply(&mut self, op: Op) -> Verdict {
        self.agreement.ops += 1;
        match op {
            // Only one of them serves these.
            Op::Alloc { request, .. } | Op::BulkAlloc { request, .. } if request.order > self.largest => {
                Ok(())
            }
            Op::Alloc { cpu, request } => self.alloc(cpu, &request),
            Op::BulkAlloc { cpu, request, count } => self.bulk(cpu, &request, count),
            Op::Claim { pfn, order, migratetype } => {
                let claimed = self.first.claim(pfn, order, migratetype)?.is_ok();
                let also = self.second.claim(pfn, order, migratetype)?.is_ok();
                self.agreement.wrong += u64::from(!claimed && !also);
                self.even(u64::from(claimed), u64::from(also))
            }
            _ => {
                let before = (self.first.tally, self.second.tally);
                self.first.apply(op)?;
                self.second.apply(op)?;
                let refused = wrong_frees(self.first.tally) - wrong_frees(before.0);
                let also = wrong_frees(self.second.tally) - wrong_frees(before.1);
                // Frames that are named by their numbers are held in one of the two, perhaps.
                let by_number = matches!(op, Op::FreeAt { .. } | Op::SplitAt { .. });
                if !by_number && refused != also {
                    return Err(format!("{op:?}: the first refused {refused} frames, the second {also}"));
                }
                self.agreement.wrong += refused.min(also);
                self.holds_the_same(&op)
            }
        }
    }

    fn holds_the_same(&self, op: &Op) -> Verdict {
        let (first, second) = (self.first.model.allocated, self.second.model.allocated);
        if first == second {
            Ok(())
        } else {
            Err(format!("after {op:?} one holds {first} frames, the other {second}"))
        }
    }

    /// Gives back what only one of the two was granted, the newest of its blocks.
    fn even(&mut self, first: u64, second: u64) -> Verdict {
        for _ in second..first {
            give_back(&mut self.first)?;
        }
        for _ in first..second {
            give_back(&mut self.second)?;
        }
        Ok(())
    }

    fn alloc(&mut self, cpu: CpuId, request: &Request) -> Verdict {
        for drained in [false, true] {
            let decided = drained && self.is_decided(request);
            let first = self.first.alloc(cpu, request)?;
            let second = self.second.alloc(cpu, request)?;
            let alike = match (first, second) {
                (Ok(_), Ok(_)) => {
                    self.agreement.granted += 1;
                    true
                }
                (Err(one), Err(other)) if discriminant(&one) == discriminant(&other) => {
                    self.agreement.refused += 1;
                    self.agreement.by_watermark +=
                        u64::from(matches!(one, AllocError::BelowWatermark { .. }));
                    true
                }
                _ => {
                    self.even(u64::from(first.is_ok()), u64::from(second.is_ok()))?;
                    false
                }
            };
            if alike {
                self.agreement.after_drain += u64::from(drained);
                return Ok(());
            }
            if decided && !is_placement(request.order, first.err(), second.err()) {
                return Err(format!("{request:?} on {cpu:?}: one answers {first:?}, the other {second:?}"));
            }
            self.first.drain(CpuSet::All);
            self.second.drain(CpuSet::All);
        }
        self.agreement.placement += 1;
        Ok(())
    }

    fn bulk(&mut self, cpu: CpuId, request: &Request, count: u32) -> Verdict {
        // A call that came back with less may be followed by a single request, which both sessions hold.
        let before = (self.first.held.len(), self.second.held.len());
        self.first.bulk_alloc(cpu, request, count)?;
        self.second.bulk_alloc(cpu, request, count)?;
        let (first, second) = (self.first.held.len() - before.0, self.second.held.len() - before.1);
        if first == second {
            self.agreement.granted += first as u64;
        } else {
            self.agreement.placement += 1;
        }
        self.even(first as u64, second as u64)
    }

    /// Returns whether watermarks and counts, which are equal, decide about a request: one zone may serve it, nothing
    /// is reserved there, and no frame is out of reach.
    fn is_decided(&self, request: &Request) -> bool {
        let mut allowed = self.first.model.allowed(request).map(|z| z.id);
        let (Some(zone), None) = (allowed.next(), allowed.next()) else { return false };
        let (Some(first), Some(second)) =
            (self.first.engine.zone_stats(zone), self.second.engine.zone_stats(zone))
        else {
            return false;
        };
        let reserved = |stats: &pageyard::ZoneStats| {
            stats.highatomic.0 > 0 || stats.pageblocks[Migratetype::HighAtomic.index()] > 0
        };
        first.free == second.free
            && first.watermarks == second.watermarks
            && first.protection == second.protection
            && first.boost == second.boost
            && !reserved(&first)
            && !reserved(&second)
            && !judge::may_strand(&self.first.engine, &self.first.model)
            && !judge::may_strand(&self.second.engine, &self.second.model)
    }

    /// Compares watermarks and everything that is counted, and frees what is held.
    ///
    /// # Errors
    /// Names the first count that differs.
    pub fn finish(&mut self) -> Verdict {
        self.first.finish()?;
        self.second.finish()?;
        for zone in 0..self.first.model.zones().len() {
            let id = ZoneId(zone as u16);
            let (first, second) = (self.first.engine.zone_stats(id), self.second.engine.zone_stats(id));
            let kept =
                |stats: Option<pageyard::ZoneStats>| stats.map(|s| (s.free, s.watermarks, s.protection));
            if kept(first) != kept(second) {
                return Err(format!("zone {id} at the end: {:?} and {:?}", kept(first), kept(second)));
            }
        }
        Ok(())
    }
}

/// Returns whether two different answers are only about where blocks lie: one found a block or both passed the
/// watermarks. A single frame lies anywhere.
fn is_placement(order: Order, first: Option<AllocError>, second: Option<AllocError>) -> bool {
    let found_or_none = |why| matches!(why, None | Some(AllocError::Fragmented { .. }));
    order > Order::ZERO && found_or_none(first) && found_or_none(second)
}

fn give_back<E: PageAllocator>(session: &mut Session<E>) -> Verdict {
    let Some(last) = session.held.len().checked_sub(1) else { return Ok(()) };
    let given = session.free_held(CpuId(0), last)?;
    given.map_err(|why: FreeError| format!("what one of the two was granted could not be given back: {why}"))
}

fn wrong_frees(tally: Tally) -> u64 {
    tally.free_outside
        + tally.free_not_allocated
        + tally.free_wrong_order
        + tally.free_not_head
        + tally.free_misaligned
        + tally.free_no_cpu
        + tally.free_busy
}

/// Asks two engines the same random operations, of every profile on every map, until `ops` were made.
///
/// # Panics
/// Where they differ, with the last operations.
pub fn random<A: Build, B: Build>(first: &A, second: &B, seed: u64, ops: u64) -> Agreement {
    let maps = maps::random();
    let each = ops.div_ceil((maps.len() * PROFILES.len()) as u64).clamp(1, 100_000);
    let mut seeds = fastrand::Rng::with_seed(seed);
    let mut all = Agreement::default();
    while all.ops < ops {
        for map in &maps {
            for profile in &PROFILES {
                let mut left = each;
                let numbers = fastrand::Rng::with_seed(seeds.u64(..));
                all += run(first, second, map, *profile, numbers, |_| {
                    let more = left > 0;
                    left = left.saturating_sub(1);
                    more
                });
            }
        }
    }
    all
}

/// Asks two engines what the bytes say.
///
/// # Panics
/// Where they differ, with the last operations.
pub fn from_bytes<A: Build, B: Build>(first: &A, second: &B, bytes: &[u8]) -> Agreement {
    let (map, profile, bytes) = match *bytes {
        [map, profile, ref rest @ ..] => (map, profile, rest),
        _ => return Agreement::default(),
    };
    let small = [maps::plain(2048), maps::ragged(), maps::firmware(), maps::numa()];
    let map = &small[usize::from(map) % small.len()];
    let profile = PROFILES[usize::from(profile) % PROFILES.len()];
    run(first, second, map, profile, Bytes::new(bytes), |bytes| !bytes.is_empty())
}

fn run<A: Build, B: Build, N: Numbers>(
    first: &A,
    second: &B,
    map: &Map,
    profile: Profile,
    numbers: N,
    mut goes_on: impl FnMut(&N) -> bool,
) -> Agreement {
    const SHOWN: usize = 12;
    let mut pair = Pair::new(first, second, map);
    let mut generator = Generator::new(profile, numbers);
    let mut last = std::collections::VecDeque::with_capacity(SHOWN);
    let mut verdict = Ok(());
    while verdict.is_ok() && goes_on(&generator.numbers) {
        let op = match pair.agreement.ops % CHECK_EVERY {
            0 => Op::Check,
            _ => generator.next(&pair.first.model),
        };
        if last.len() == SHOWN {
            last.pop_front();
        }
        last.push_back(op);
        verdict = pair.apply(op);
    }
    let verdict = verdict.and_then(|()| pair.finish());
    if let Err(why) = verdict {
        panic!(
            "{} and {}, profile \"{}\", map \"{}\", after {} operations: {why}\nthe last of them:\n{last:#?}",
            first.name(),
            second.name(),
            profile.name,
            map.name,
            pair.agreement.ops
        );
    }
    pair.agreement
}
