//! The host's own record of its free blocks before, during and after the recording. A replay is compared with it but
//! never steered by it.

use crate::error::ReplayError;
use crate::limits;
use pageyard::proctext::LINUX_ORDERS;
use pageyard::{Frames, Order, Pfn, ZoneSpan, block};
use pageyard_trace::proctext::Buddyinfo;
use pageyard_trace::{FrameKind, HostSample, ProcTexts, Snapshot, Trace, TraceError};

/// A zone's free blocks by order.
pub type Blocks = [u64; LINUX_ORDERS];

/// Samples after which it is looked whether there is memory for twice as many.
const LOOK: usize = 4096;

/// A host's free blocks, by the zones of a replay's machine.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Before the recording, where the trace says.
    pub before: Option<Vec<Blocks>>,
    /// After it, where the trace says.
    pub after: Option<Vec<Blocks>>,
    /// Meanwhile, by nanoseconds from its start; none where the trace has no samples.
    pub samples: Vec<(u64, Vec<Blocks>)>,
}

impl Host {
    /// Reads what a trace says of the zones `spans`.
    ///
    /// # Errors
    /// [`ReplayError::Trace`] where a text, a snapshot or a sample cannot be read; [`ReplayError::NoRoom`].
    pub fn read(trace: &Trace, spans: &[ZoneSpan]) -> Result<Host, ReplayError> {
        let meta = trace.meta();
        let before = recorded(meta.before.as_ref(), || trace.before(), spans)?;
        let after = recorded(meta.after.as_ref(), || trace.after(), spans)?;
        let mut samples = Vec::new();
        if let Some(mut reader) = trace.samples()? {
            let bytes =
                size_of::<(u64, Vec<Blocks>)>() + size_of_val(spans) + spans.len() * size_of::<Blocks>();
            while let Some(sample) = reader.next_sample()? {
                if samples.len() >= LOOK && samples.len().is_power_of_two() {
                    let need = 2 * (samples.len() * bytes) as u64;
                    limits::check("the samples of the host", need, "record with a larger --sample-ms")?;
                }
                samples.push((sample.time_ns, of_sample(&sample, spans)));
            }
        }
        Ok(Host { before, after, samples })
    }

    /// Returns whether there is anything to compare a replay with.
    pub fn is_known(&self) -> bool {
        self.after.is_some() || !self.samples.is_empty()
    }

    /// Returns the sample nearest to a time that it was still recorded at.
    pub fn near(&self, time_ns: u64) -> Option<&[Blocks]> {
        let next = self.samples.partition_point(|(at, _)| *at < time_ns);
        let after = self.samples.get(next)?;
        let before = next.checked_sub(1).map(|i| &self.samples[i]);
        let nearer = before.filter(|(at, _)| time_ns - at < after.0 - time_ns);
        Some(&nearer.unwrap_or(after).1)
    }
}

/// Returns recorded rows: from the text of `buddyinfo`, or else from the snapshot's free runs, cut as the buddy rule
/// allows.
fn recorded(
    texts: Option<&ProcTexts>,
    snapshot: impl Fn() -> Result<Option<Snapshot>, TraceError>,
    spans: &[ZoneSpan],
) -> Result<Option<Vec<Blocks>>, ReplayError> {
    let mut rows = vec![[0u64; LINUX_ORDERS]; spans.len()];
    if let Some(texts) = texts.filter(|t| !t.buddyinfo.is_empty()) {
        for z in &Buddyinfo::parse(&texts.buddyinfo)?.zones {
            enter(&mut rows, spans, z.node, &z.name, &z.counts);
        }
        return Ok(Some(rows));
    }
    let Some(snapshot) = snapshot()? else { return Ok(None) };
    for run in snapshot.runs.iter().filter(|r| r.kind == FrameKind::Free) {
        for (row, zone) in rows.iter_mut().zip(spans) {
            let start = run.pfn.max(zone.start.0);
            let end = (run.pfn + run.frames).min(zone.end().0);
            if start < end {
                for b in block::blocks(Pfn(start), Frames(end - start), Order::of(10)) {
                    row[b.order.index()] += 1;
                }
            }
        }
    }
    Ok(Some(rows))
}

fn of_sample(sample: &HostSample, spans: &[ZoneSpan]) -> Vec<Blocks> {
    let mut rows = vec![[0u64; LINUX_ORDERS]; spans.len()];
    for z in &sample.free_blocks {
        enter(&mut rows, spans, z.node, z.zone.name(), &z.counts);
    }
    rows
}

/// Enters the counts of a zone in its row; those of a zone that the machine lacks are left out.
fn enter(rows: &mut [Blocks], spans: &[ZoneSpan], node: u8, name: &str, counts: &[u64]) {
    let at = spans.iter().position(|s| s.node.0 == node && s.kind.name() == name);
    if let Some(row) = at.and_then(|at| rows.get_mut(at)) {
        row.iter_mut().zip(counts).for_each(|(row, n)| *row = *n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_sample_is_found_as_long_as_there_are_any() {
        let row = |n| vec![[n; LINUX_ORDERS]];
        let host = Host { samples: vec![(10, row(1)), (20, row(2)), (40, row(3))], ..Host::default() };
        for (time, n) in [(0, 1), (10, 1), (14, 1), (15, 2), (20, 2), (29, 2), (30, 3), (40, 3)] {
            assert_eq!(host.near(time), Some(&row(n)[..]), "at {time}");
        }
        assert_eq!(host.near(41), None);
        assert_eq!(Host::default().near(0), None);
    }
}
