//! Page, batch and whole: extents of all sizes, cold and hot, on one thread and two.

use super::extent::{DOCUMENTS, Extent, column, size};
use crate::clear::{ClearSetting, FEWEST_COUNTED, Mode, PAGE, Region, Way, sample};
use crate::error::BenchError;
use crate::experiment::{Rows, Run};
use crate::harness::sampler::SAMPLES;
use crate::harness::samples::Samples;
use crate::harness::team::cpus;
use pageyard_arena::clear::Primitive;

const COLD: &str = "Cold extents";
const GAINS: &str = "More than a page at a time";
const HOT: &str = "Hot extents";

/// The metric of a cold extent.
pub(super) fn cold(extent: usize, threads: usize) -> String {
    format!("{} cold, {}", size(extent), threads_text(threads))
}

/// The metric of a hot one.
pub(super) fn hot(extent: usize) -> String {
    format!("{} hot", size(extent))
}

/// The metric of what one call for all of an extent gains over pages, turn by turn.
pub(super) fn gain_of(extent: usize, threads: usize) -> String {
    format!("gain {}", cold(extent, threads))
}

fn threads_text(threads: usize) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

/// The largest extent that is measured hot.
pub(super) const LARGEST_HOT: usize = 1 << 21;

pub(super) fn measure(extent: &Extent, run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let (samples, cpus) = (run.samples.unwrap_or(SAMPLES), cpus());
    let regions = cpus.len().min(2);
    let memory = (0..regions).map(|_| Region::new(extent.memory)).collect::<Result<Vec<_>, _>>();
    let mut memory = memory
        .map_err(|why| BenchError::Experiment { why: format!("there is no memory to clear: {why}") })?;
    let mut settings: Vec<ClearSetting> =
        extent.sizes.iter().map(|extent| ClearSetting { extent: *extent, cold: true, threads: 1 }).collect();
    settings.extend([PAGE, LARGEST_HOT].map(|extent| ClearSetting { extent, cold: false, threads: 1 }));
    let both = [LARGEST_HOT, extent.largest()].map(|extent| ClearSetting { extent, cold: true, threads: 2 });
    settings.extend(both.into_iter().filter(|s| s.threads <= regions));
    if regions < 2 {
        run.note("two threads were not measured: this process may use one CPU");
    }
    for (done, setting) in settings.iter().enumerate() {
        run.at("extents", done, settings.len());
        one(*setting, samples, extent, &mut memory, &cpus, run, rows);
    }
    Ok(())
}

/// Ways that are measured at a setting: all of them where targets compare them, the document's and ours elsewhere.
fn ways(setting: ClearSetting, extent: &Extent) -> Vec<Way> {
    let all = [PAGE, LARGEST_HOT, extent.largest()].contains(&setting.extent);
    let documents = |way: &Way| {
        [Some(DOCUMENTS), Some(Primitive::Memset), None].contains(&way.primitive)
            && (way.primitive != Some(Primitive::Memset) || way.mode == Mode::Page)
    };
    Way::available().filter(|way| way.differs_at(setting.extent) && (all || documents(way))).collect()
}

fn one(
    setting: ClearSetting,
    samples: usize,
    extent: &Extent,
    memory: &mut [Region],
    cpus: &[usize],
    run: &mut Run<'_>,
    rows: &mut Rows,
) {
    let page = Way { primitive: Some(DOCUMENTS), mode: Mode::Page };
    let mut ways = ways(setting, extent);
    // The same variant once more, at the end of each turn.
    ways.push(page);
    let series = sample(setting, samples, &mut ways, memory, cpus);
    let metric = match setting.cold {
        true => cold(setting.extent, setting.threads),
        false => hot(setting.extent),
    };
    rows.section(if setting.cold { COLD } else { HOT });
    for (way, samples) in ways.iter().zip(&series).take(ways.len() - 1) {
        if samples.len() >= FEWEST_COUNTED {
            rows.add(&metric, column(*way), samples.median(), "GB/s");
            rows.add(format!("+- {metric}"), column(*way), deviation_pct(samples), "%");
        }
    }
    let Some(first) = ways.iter().position(|way| *way == page) else { return };
    let (first, second) = (&series[first], &series[ways.len() - 1]);
    let apart = -first.paired_gain(second);
    rows.add(format!("A/A {metric}"), column(page), apart, "% apart");
    run.check_pair(&metric, apart);
    if !setting.cold {
        return;
    }
    rows.section(GAINS);
    for (way, samples) in ways.iter().zip(&series) {
        if way.primitive == Some(DOCUMENTS) && way.mode != Mode::Page {
            // A rate: what is gained is the inverse of what is saved.
            let gained = -first.paired_gain(samples);
            rows.add(gain_of(setting.extent, setting.threads), column(*way), gained, "%");
        }
    }
}

fn deviation_pct(samples: &Samples) -> f64 {
    100.0 * samples.deviation() / samples.mean()
}
