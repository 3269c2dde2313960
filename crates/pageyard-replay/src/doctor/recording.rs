//! The failures of a recording.

use std::collections::BTreeMap;

use pageyard::{GfpMap, ZoneKind};
use pageyard_trace::kernel_log::HostZone;
use pageyard_trace::{
    Columns, FailureKind, HostSample, Meta, Pageblocks, ProcTexts, Trace, TraceError, Trust, TrustLevel,
};

use super::diagnosis::{Diagnosis, Gathering, Source};
use super::facts::{Asked, Facts};

/// Kinds of failures that are told apart.
const MOST_KINDS: usize = 1000;

/// Explains the failures of a recording; of one without failures, what would fail at its end. `progress` is told how
/// many rows were read.
///
/// # Errors
/// When the trace cannot be read.
pub fn of_trace(trace: &Trace, progress: &mut dyn FnMut(u64)) -> Result<Diagnosis, TraceError> {
    let meta = trace.meta();
    let mut all = Gathering::new(Source::Trace, Some(meta.kernel.clone()));
    let mut trust = Trust::of(meta, trace.rows()?);
    let map = GfpMap::from_names(meta.gfp_bits.iter().map(|(name, bit)| (name.as_str(), *bit)));
    let opening = state(meta, meta.before.as_ref(), || trace.before())?;
    let is_known = opening.is_some();
    if !is_known {
        let why = "the recording has no texts of its host, so nothing can be said of its memory";
        trust.lower(TrustLevel::Limited, why.to_owned());
    }
    let opening = opening.unwrap_or_default();
    let mut samples = Vec::new();
    if let Some(mut reader) = trace.samples()? {
        while let Some(sample) = reader.next_sample()? {
            samples.push(sample);
        }
    }
    if samples.is_empty() && is_known {
        let why =
            "the recording has no samples of its host: failures are judged by memory as it was when it began";
        trust.lower(TrustLevel::Limited, why.to_owned());
    }
    let has_lost = trust.lost > 0;
    all.trusted(trust);
    let times: Vec<u64> = samples.iter().map(|sample| sample.time_ns).collect();
    let (kinds, left_out) = failures(trace, &times, progress)?;
    for ((kind, sample), count) in &kinds {
        let asked = Asked::new(kind.order, map.decode(kind.gfp));
        if asked.is_first_try() {
            all.first_tries += count;
            continue;
        }
        let facts = match sample.and_then(|sample| samples.get(sample)) {
            Some(sample) if is_known => at(&opening, sample),
            _ => opening.clone(),
        };
        all.failed(&asked, &facts, *count, None);
    }
    if all.first_tries > 0 {
        let first_tries = all.first_tries;
        all.note(format!(
            "{first_tries} refused requests are first tries for a huge page on one node (__GFP_THISNODE), after which the kernel asks every node: they are by design, and not counted."
        ));
    }
    if left_out > 0 {
        all.note(format!(
            "{left_out} failures were not looked at: there are more than {MOST_KINDS} kinds of them and samples before them."
        ));
    }
    if !kinds.is_empty()
        && is_known
        && let Some(longest) = times.windows(2).map(|pair| pair[1] - pair[0]).max()
    {
        all.note(format!(
            "A failure is judged by the sample of the host before it, which can be {:.2} s old.",
            longest as f64 / 1e9
        ));
    }
    if all.is_empty() && is_known {
        all.nothing_failed();
        all.note(match has_lost {
            false if all.first_tries > 0 => "No other request failed while it was recorded.",
            false => "No request failed while it was recorded.",
            true => {
                "No failed request was seen while it was recorded; the events that were lost may hold some."
            }
        });
        let end = state(meta, meta.after.as_ref(), || trace.after())?.unwrap_or(opening);
        for asked in Asked::usual(&end) {
            all.tried(&asked, &end);
        }
    }
    Ok(all.finish())
}

/// Counts failures by their kind and the sample before them, where there is one.
type Kinds = BTreeMap<(FailureKind, Option<usize>), u64>;

/// Returns them, and the number of failures beyond [`MOST_KINDS`].
fn failures(trace: &Trace, times: &[u64], progress: &mut dyn FnMut(u64)) -> Result<(Kinds, u64), TraceError> {
    let (mut kinds, mut left_out) = (Kinds::new(), 0);
    let mut events = trace.events(Columns::All)?;
    let mut batch = Vec::new();
    while events.next_batch(&mut batch)? {
        for event in batch.iter().filter(|event| event.failed()) {
            let sample = times.partition_point(|time| *time <= event.time_ns).checked_sub(1);
            // Threads do not matter here.
            let kind = FailureKind { tid: 0, context: 0, ..FailureKind::of(event) };
            if kinds.len() < MOST_KINDS || kinds.contains_key(&(kind, sample)) {
                *kinds.entry((kind, sample)).or_default() += 1;
            } else {
                left_out += 1;
            }
        }
        progress(events.rows_read());
    }
    Ok((kinds, left_out))
}

/// Reads what a host was like at one end of a recording.
fn state(
    meta: &Meta,
    texts: Option<&ProcTexts>,
    picture: impl FnOnce() -> Result<Option<pageyard_trace::Snapshot>, TraceError>,
) -> Result<Option<Facts>, TraceError> {
    let Some(texts) = texts.filter(|texts| !texts.zoneinfo.is_empty()) else { return Ok(None) };
    let (kernel, settings) = (Some(meta.kernel.clone()), meta.settings.clone());
    let facts = Facts { kernel, settings, ..Facts::of_texts(texts, "")? };
    Ok(Some(match picture()? {
        Some(snapshot) => facts.with_contents(&Pageblocks::of(&snapshot)),
        None => facts,
    }))
}

/// Returns a state with the free blocks and lists of a sample.
fn at(opening: &Facts, sample: &HostSample) -> Facts {
    let mut facts = opening.clone();
    for zone in &mut facts.zones {
        let is_this = |node: u8, kind: ZoneKind| (node, HostZone::from(kind)) == (zone.node, zone.kind);
        if let Some(blocks) = sample.free_blocks.iter().find(|b| is_this(b.node, b.zone)) {
            zone.free = pageyard::metrics::free_frames(&blocks.counts);
            zone.blocks.clone_from(&blocks.counts);
            // A sample has no types.
            zone.types.clear();
        }
        zone.pcp = sample.lists.iter().filter(|l| is_this(l.node, l.zone)).map(|l| l.frames).sum();
    }
    facts.free_anywhere = Some(facts.zones.iter().map(|z| z.free).sum());
    facts
}
