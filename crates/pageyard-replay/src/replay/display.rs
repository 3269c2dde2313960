//! A replay's report as text: the results first, their certainty last.

use super::failures::Failures;
use super::in_kernel_text;
use super::report::{EngineReport, ReplayReport};
use super::timeline::Sample;
use crate::latency::LatencySummary;
use crate::text::{bytes, count, percent, shown, sparkline};
use pageyard::{Counter, PAGE_SIZE};
use std::fmt;

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (t, c) = (&self.trace, &self.trace.counts);
        write!(f, "{}", self.trust)?;
        let seen = if t.lost > 0 { " seen" } else { "" };
        let kernel = if t.kernel.is_empty() { String::new() } else { format!("{}, ", shown(&t.kernel)) };
        writeln!(
            f,
            "{}: {} events{seen} in {:.1} s on {} CPUs, {kernel}{} managed",
            shown(&t.name),
            count(c.events),
            t.seconds,
            t.cpus,
            bytes(t.managed.as_bytes())
        )?;
        if t.taken_away.0 > 0 {
            writeln!(
                f,
                "  {} were taken away (--memory), first what no event names",
                bytes(t.taken_away.as_bytes())
            )?;
        }
        writeln!(
            f,
            "  {} allocations{seen} ({} failed on the host), {} frees",
            count(c.allocs),
            count(c.failed),
            count(c.frees)
        )?;
        for engine in &self.engines {
            writeln!(f)?;
            engine.fmt(f)?;
        }
        if self.engines.len() > 1 && self.engines.iter().any(|e| e.kernel.is_some()) {
            writeln!(f)?;
            in_kernel_text::side_by_side(&self.engines, f)?;
        }
        writeln!(f)?;
        self.quality(f)
    }
}

impl ReplayReport {
    /// The quality of the trace, on which every other number depends.
    fn quality(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (t, c, o) = (&self.trace, &self.trace.counts, &self.trace.opening.counts);
        writeln!(f, "Trace quality")?;
        writeln!(
            f,
            "  {:>11}  frees of what no row allocated{}: older blocks, or parts; {} of frames that are not held were left out",
            count(c.unknown_frees),
            share(t.unknown_frees_pct, "frees"),
            count(c.unresolved_frees)
        )?;
        writeln!(
            f,
            "  {:>11}  allocations of a frame still held, its free unseen{}",
            count(c.reallocations),
            share(t.reallocations_pct, "allocations")
        )?;
        if c.moves > 0 {
            writeln!(
                f,
                "  {:>11}  blocks that the host moved were followed; {} frees of what had moved away",
                count(c.moves),
                count(c.freed_after_moves)
            )?;
        }
        if c.outside > 0 {
            writeln!(
                f,
                "  {:>11}  rows name frames outside the memory map; they were left out",
                count(c.outside)
            )?;
        }
        if !t.opening.snapshot {
            return writeln!(
                f,
                "  There is no snapshot: the replay opened with all memory free, up to the end that the trace names or the highest frame of an event."
            );
        }
        writeln!(
            f,
            "  {:>11}  frames opened in per-CPU lists: {}{} because their first event takes them out, {} to make up the recorded count",
            count(t.opening.cached_frames),
            match o.cached_by_list {
                0 => String::new(),
                listed => format!("{} that are recorded there, ", count(listed)),
            },
            count(o.cached_by_event),
            count(o.cached_by_count)
        )?;
        writeln!(f, "  {:>11}  frames freed unseen before their first event", count(o.freed_unseen))?;
        writeln!(
            f,
            "  {:>11}  pageblocks whose type an event or a free list names, and {} guessed from their contents",
            count(o.types_by_event),
            count(o.types_by_contents)
        )?;
        match t.opening.managed_mismatch_frames {
            None | Some(0) => Ok(()),
            Some(frames) => writeln!(
                f,
                "  {:>11}  frames by which the snapshot and the zones disagree about what is managed",
                count(frames)
            ),
        }
    }
}

impl fmt::Display for EngineReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Kernels are told apart by what they were made of.
        let name = if self.kernel.is_some() { &self.name } else { self.engine };
        write!(f, "{}", shown(name))?;
        for setting in self.settings.iter().map(|(knob, value)| format!("{knob}={value}")) {
            if !name.contains(&setting) {
                write!(f, ", {}", shown(&setting))?;
            }
        }
        writeln!(f)?;
        match &self.kernel {
            Some(kernel) => kernel.write_text(self, f)?,
            None => self.times(f)?,
        }
        if let Some(w) = &self.waiting {
            writeln!(
                f,
                "  threads       {}, one a CPU; {} frees waited for their allocation on another CPU, {:.1} ms in all (not in the latencies)",
                w.threads,
                count(w.waits),
                w.wait_ns as f64 / 1e6
            )?;
            if let (Some(share), Some(revoked)) = (w.biased_share, w.revocations) {
                writeln!(
                    f,
                    "  bias          {:.1} % of frees on the CPU that the pageblock was biased to; taken back {} times",
                    share * 100.0,
                    count(revoked)
                )?;
            }
        }
        self.opening(f)?;
        self.outcome(f)?;
        if let Some(n) = self.failed_on_purpose {
            writeln!(f, "  on purpose    {} of those failures", count(n))?;
        }
        match (&self.early, &self.slow_path) {
            (Some(early), _) => early.write_text(f)?,
            (None, None) if self.failures.refused_where_host_served > 0 && self.kernel.is_none() => writeln!(
                f,
                "  freed early   nothing; --slow-path reclaim,compaction lets the engine reclaim where memory is short"
            )?,
            _ => {}
        }
        if let Some(totals) = &self.slow_path {
            totals.write_text(&self.stats, f)?;
        }
        self.fragmentation(f)?;
        self.soundness(f)?;
        self.write_prediction(f)?;
        if !self.leaves_out.is_empty() {
            writeln!(f, "  left out      {}", self.leaves_out)?;
        }
        Ok(())
    }
}

impl EngineReport {
    /// How fast it was.
    fn times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.seconds;
        let rate = self.events_per_s.map_or_else(|| "-".to_owned(), |n| format!("{:.2}", n / 1e6));
        writeln!(
            f,
            "  rate          {rate} million events/s from the first byte to the last row (opening {:.2} s, read {:.2} s, replay {:.2} s)",
            s.open.as_secs_f64(),
            s.read.as_secs_f64(),
            s.replay.as_secs_f64()
        )?;
        let timed = self.one_call_timed_in.map_or_else(String::new, |n| format!("  (1 call in {n} timed)"));
        writeln!(f, "  allocate      {}{timed}", latency(self.alloc))?;
        writeln!(f, "  free          {}", latency(self.free))
    }

    /// How the opening state differs from the recorded one, if it does.
    fn opening(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let o = &self.opened;
        if o.left_in_zones > 0 {
            writeln!(
                f,
                "  opening       {} of the recorded per-CPU lists lie in the zones instead: these lists may not hold them",
                size(o.left_in_zones)
            )?;
        }
        for short in &o.short {
            writeln!(
                f,
                "  opening       zone {} opens short of memory: {} free, {} below its low watermark",
                short.zone,
                size(short.free_frames),
                size(short.short_frames)
            )?;
        }
        Ok(())
    }

    fn outcome(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &self.failures;
        write!(f, "  refused       {} requests", count(e.allocs))?;
        if e.allocs > 0 {
            let reasons = [
                (e.by_reason.below_watermark, "below the watermark"),
                (e.by_reason.fragmented, "fragmented"),
                (e.by_reason.out_of_memory, "out of memory"),
                (e.by_reason.bad_request, "bad request"),
            ];
            let why: Vec<String> = reasons
                .iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, why)| format!("{} {why}", count(*n)))
                .collect();
            let orders: Vec<String> = e
                .by_order
                .iter()
                .enumerate()
                .filter(|(_, n)| **n > 0)
                .map(|(o, n)| format!("{} of order {o}", count(*n)))
                .collect();
            write!(f, ": {}; {}", why.join(", "), orders.join(", "))?;
        }
        writeln!(f)?;
        if e.refused_where_host_served + e.served_where_host_failed > 0 {
            writeln!(
                f,
                "                {} that the host served, while {} that the host refused were served here",
                count(e.refused_where_host_served),
                count(e.served_where_host_failed)
            )?;
        }
        self.refusals.write(f)?;
        let kinds: Vec<String> =
            self.fallback_kinds().map(|(a, b, n)| format!("{} {a} from {b}", count(n))).collect();
        let kinds = if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) };
        writeln!(f, "  fallbacks     {}{kinds}", count(self.stats[Counter::Extfrag]))?;
        let slow = self.stats[Counter::AllocSlow];
        let least = self.least_free_frames;
        let why = match (slow, self.least_spare_frames) {
            (0, spare) => format!(
                ": the fewest free were {}, {} above all low marks together",
                size(least),
                size(spare)
            ),
            (_, 0) => format!(
                ": memory ran out; the fewest free were {}, below all low marks together ({})",
                size(least),
                size(self.low_watermark_frames)
            ),
            (_, spare) => format!(
                ": the fewest free were {}, {} above all low marks together, but no zone allowed had a block that fits",
                size(least),
                size(spare)
            ),
        };
        writeln!(f, "  low watermark {} requests found no zone above it{why}", count(slow))
    }

    fn fragmentation(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else { return Ok(()) };
        let most = self.samples.iter().map(|s| s.unheld).max().unwrap_or(0) as f64;
        let shown = thinned(&self.samples);
        let width = shown.len();
        writeln!(f, "  over time     {:>19}  {:<width$}  {:>10}", "start", "", "end")?;
        for (name, frames) in [("free", (|s| s.free) as fn(&Sample) -> u64), ("in CPU lists", |s| s.cached)] {
            writeln!(
                f,
                "    {name:<12}{:>19}  {}  {:>10}",
                size(frames(first)),
                sparkline(shown.iter().map(|s| Some(frames(s) as f64)), 0.0, most),
                size(frames(last))
            )?;
        }
        for (name, value) in [
            ("huge frames", (|s| s.free_huge_pct) as fn(&Sample) -> Option<f64>),
            ("unusable[9]", |s| s.unusable_index.map(|index| index * 100.0)),
        ] {
            writeln!(
                f,
                "    {name} {:>19}  {}  {:>10}",
                percent(value(first)),
                sparkline(shown.iter().map(|s| value(s)), 0.0, 100.0),
                percent(value(last))
            )?;
        }
        let index =
            |s: &Sample| s.extfrag_index.map_or_else(|| "-".to_owned(), |index| format!("{index:.3}"));
        writeln!(
            f,
            "    extfrag[9]  {:>19}  {}  {:>10}",
            index(first),
            sparkline(shown.iter().map(|s| s.extfrag_index), -1.0, 1.0),
            index(last)
        )?;
        match self.llfree_score {
            None => Ok(()),
            Some(score) => writeln!(
                f,
                "  LLFree score  {score:.2}: the mean of the share of huge frames, sampled as LLFree's replay does"
            ),
        }
    }

    fn soundness(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let audit = match &self.audit {
            Ok(c) => format!("clean over {} frames", count(c.managed.0)),
            Err(e) => format!("FAILED: {e}"),
        };
        writeln!(
            f,
            "  soundness     {}; audit {audit}; {:.2} bytes of metadata a frame",
            self.broken_promises(),
            self.metadata_bytes_per_frame
        )
    }

    /// Returns the counts of what an engine must not do, in words; frames are counted as leaked by a clean audit alone.
    #[must_use]
    pub fn broken_promises(&self) -> String {
        let leaked = self.leaked_frames.map_or_else(String::new, |n| format!("{n} leaked frames, "));
        let Failures { double_allocations, refused_frees, .. } = self.failures;
        format!("{double_allocations} double allocations, {leaked}{refused_frees} frees refused")
    }
}

/// Writes a share of something as a percentage in brackets, and nothing where there is no such thing.
fn share(pct: Option<f64>, of: &str) -> String {
    pct.map_or_else(String::new, |pct| format!(" ({pct:.2} % of {of})"))
}

/// Writes latencies, and a dash where no call was timed.
fn latency(of: Option<LatencySummary>) -> String {
    of.map_or_else(
        || "-".to_owned(),
        |l| format!("mean {:.0} ns, median {} ns, 99 % {} ns, max {} ns", l.mean, l.p50, l.p99, count(l.max)),
    )
}

/// Picks as many samples as fit beside their values, the first and the last among them.
fn thinned(samples: &[Sample]) -> Vec<&Sample> {
    /// Samples in a line.
    const MOST: usize = 60;
    let n = samples.len().min(MOST);
    (0..n).map(|i| &samples[i * (samples.len() - 1) / (n - 1).max(1)]).collect()
}

fn size(frames: u64) -> String {
    bytes(frames * PAGE_SIZE)
}
