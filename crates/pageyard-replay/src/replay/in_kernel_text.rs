//! A kernel's replay as text: what it adds to its report, and engines side by side.

use super::kernel_report::{Beside, InKernel, Parted};
use super::report::EngineReport;
use super::timeline::Sample;
use crate::text::{count, percent, shown};
use pageyard::Request;
use std::fmt;

impl InKernel {
    /// Writes what stands in the place of an engine's times.
    pub(super) fn write_text(&self, report: &EngineReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  kernel        Linux {} in a guest: ready after {:.0} s, its rows took {:.1} s there; it is emulated, so no call is timed",
            shown(&self.release),
            report.seconds.open.as_secs_f64(),
            report.seconds.replay.as_secs_f64()
        )?;
        if self.frames_not_mapped > 0 {
            writeln!(
                f,
                "  not mapped    {} frames of the recording are held for good: the guest's kernel needs as many itself",
                count(self.frames_not_mapped)
            )?;
        }
        if self.blocks_misplaced > 0 {
            writeln!(
                f,
                "  misplaced     {} free blocks were not as recorded when it opened",
                count(self.blocks_misplaced)
            )?;
        }
        write!(
            f,
            "  beside        {} of {} requests got the frame that they get of {} in the same opening",
            count(self.same_as_reference),
            count(self.requests),
            self.reference
        )?;
        match self.first_otherwise {
            Some(first) => writeln!(f, "; request {} is the first that did not", count(first))?,
            None => writeln!(f)?,
        }
        self.parted.as_ref().map_or(Ok(()), |parted| parted.write_text(f))?;
        self.beside.as_ref().map_or(Ok(()), |beside| beside.write_text(self.requests, f))
    }
}

impl Beside {
    fn write_text(&self, requests: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = shown(&self.engine);
        let others = count(self.other_frame);
        writeln!(
            f,
            "  and           {others} of {} requests got another frame than in {name}",
            count(requests)
        )?;
        let Some(first) = &self.first else { return Ok(()) };
        writeln!(
            f,
            "  the first     request {}: {} on CPU {}: {} here, {} there",
            count(first.number),
            first.request,
            first.cpu,
            got(first.here),
            got(first.there)
        )
    }
}

fn got(pfn: Option<u64>) -> String {
    pfn.map_or("nothing".to_owned(), |pfn| format!("frame {pfn}"))
}

/// Returns a request in words.
pub(super) fn described(request: &Request) -> String {
    let Request { order, migratetype, highest_zone, flags, .. } = request;
    let flags: Vec<&str> = flags.iter_names().map(|(name, _)| name).collect();
    let flags = if flags.is_empty() { "no flags".to_owned() } else { flags.join(" | ") };
    format!("order {}, {migratetype}, up to zone {highest_zone}, {flags}", order.get())
}

impl Parted {
    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kernel, reference) = (got(self.kernel), got(self.reference));
        write!(
            f,
            "  parted        {} on CPU {}: {kernel}, by the reference {reference}",
            self.request, self.cpu
        )?;
        match &self.counters[..] {
            [] => writeln!(f, ", which took it from a CPU's list")?,
            counters => writeln!(f, ", which counted {}", counters.join(", "))?,
        }
        match (&self.rule, self.same_with_rule) {
            (Some(rule), Some(same)) => {
                writeln!(f, "  rule          the first {} requests agree with {rule}", count(same))
            }
            _ => {
                writeln!(f, "  rule          no other rule of the reference, alone, lets more requests agree")
            }
        }
    }
}

/// Writes what the engines came to, one line each.
pub(super) fn side_by_side(engines: &[EngineReport], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let name = |e: &EngineReport| shown(&e.name);
    let width = engines.iter().map(|e| name(e).chars().count()).max().unwrap_or(0).max(12);
    writeln!(
        f,
        "{:<width$}  fallbacks  refused  huge frames  unusable[9]  apart from the host by blocks, frames  free blocks of order 0, 1, ..",
        "Side by side"
    )?;
    for e in engines {
        let last = |of: fn(&Sample) -> Option<f64>| percent(e.samples.last().and_then(of));
        let fallbacks: u64 = e.fallbacks.iter().flatten().flatten().sum();
        let fallbacks =
            if e.fallbacks.is_some() { count(fallbacks) } else { count(e.stats[pageyard::Counter::Extfrag]) };
        let apart = match &e.prediction {
            Some(p) => format!("{:.1} %, {:.1} %", p.distance.distance_pct, p.distance.distance_frames_pct),
            None => "not known".to_owned(),
        };
        let mut orders = vec![0; 11];
        for (_, row) in &e.buddyinfo {
            orders.iter_mut().zip(row).for_each(|(sum, n)| *sum += n);
        }
        let orders: Vec<String> = orders.into_iter().map(|n: u64| n.to_string()).collect();
        writeln!(
            f,
            "{:<width$}  {fallbacks:>9}  {:>7}  {:>11}  {:>11}  {apart:>37}  {}",
            name(e),
            count(e.failures.allocs),
            last(|s| s.free_huge_pct),
            last(|s| s.unusable_index.map(|index| 100.0 * index)),
            orders.join(" ")
        )?;
    }
    Ok(())
}
