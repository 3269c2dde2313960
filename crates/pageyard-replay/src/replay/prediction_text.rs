//! A replay's prediction as text: how far it is from the host, beside what that is worth.

use super::distance::{ComparedWithHost, Distance, DistanceAt};
use super::moved::MoveCounts;
use super::prediction::{EndDistance, Prediction};
use super::report::EngineReport;
use crate::text::count;
use pageyard::proctext::LINUX_ORDERS;
use std::fmt;

/// Rows of a table over time; a document has all of them.
const ROWS: usize = 8;

impl EngineReport {
    pub(super) fn write_prediction(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(prediction) = &self.prediction {
            prediction.write_end(f)?;
        }
        if let Some(distance) = &self.distance {
            distance.write_repeat(f)?;
            distance.write_over_time(f)?;
        }
        if let Some(prediction) = &self.prediction {
            prediction.write_zones(f)?;
        }
        match &self.moves {
            Some(moves) if moves.seen + moves.inferred + moves.unknown > 0 => moves.write(f),
            _ => Ok(()),
        }
    }
}

impl MoveCounts {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let carried_out = match self.carried_out {
            0 => String::new(),
            frames => format!(" and {} of them moved here too", count(frames)),
        };
        writeln!(
            f,
            "  moves         of the frames that the host moved, {} were seen{carried_out}, {} inferred, {} are unknown",
            count(self.seen),
            count(self.inferred),
            count(self.unknown)
        )?;
        let Some(check) = &self.check else { return Ok(()) };
        writeln!(
            f,
            "    of {} frames that were hidden, {} were inferred; of {} freed where they went, {}, where {} were claimed; {} inferred beyond the host's count",
            count(check.hidden),
            count(check.inferred),
            count(check.freed),
            count(check.freed_inferred),
            count(check.freed_claimed),
            count(check.beyond_count)
        )
    }
}

impl Prediction {
    /// Says how far the end is from the host's, and from a prediction that nothing changes.
    fn write_end(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  prediction    {:.1} % apart from the host's end by free blocks, {:.1} % by frames; free huge frames {} predicted, {} recorded",
            self.distance.distance_pct,
            self.distance.distance_frames_pct,
            count(self.free_huge_frames.predicted),
            count(self.free_huge_frames.recorded)
        )?;
        let Some(EndDistance { distance_pct: blocks, distance_frames_pct: frames }) = self.unchanged else {
            return Ok(());
        };
        let closer = if self.distance.distance_pct < blocks { "closer than" } else { "no closer than" };
        writeln!(
            f,
            "    by free blocks that is {closer} saying that nothing changed, which is {blocks:.1} % apart by free blocks, {frames:.1} % by frames"
        )
    }

    fn write_zones(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "    {:<20}", "free blocks by order")?;
        for order in 0..LINUX_ORDERS {
            write!(f, "{order:>7}")?;
        }
        writeln!(f)?;
        for ((zone, predicted), (_, recorded)) in self.predicted.iter().zip(&self.recorded) {
            for (what, row) in [("predicted", predicted), ("recorded", recorded)] {
                write!(f, "    {zone:<8} {what:<11}")?;
                for n in row {
                    write!(f, "{n:>7}")?;
                }
                writeln!(f)?;
            }
        }
        for l in &self.lists {
            writeln!(
                f,
                "    {:<8} CPU {}'s lists: {} frames predicted, {} recorded; limit {} predicted, {} recorded",
                l.zone,
                l.cpu,
                count(l.predicted.count),
                count(l.recorded.count),
                count(l.predicted.high),
                count(l.recorded.high)
            )?;
        }
        Ok(())
    }
}

impl ComparedWithHost {
    /// Says how far the host was from itself, where it was recorded twice.
    fn write_repeat(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(end) = self.baselines.host_repeat.as_ref().and_then(|repeat| repeat.end) else {
            return Ok(());
        };
        writeln!(
            f,
            "    the host itself, in the other recording (--repeat), is {:.1} % apart by free blocks, {:.1} % by frames",
            end.blocks_pct, end.frames_pct
        )
    }

    /// Writes a few moments as a table: the engine, and each baseline that there is.
    fn write_over_time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = &self.engine.over_time;
        if all.is_empty() {
            return Ok(());
        }
        writeln!(f, "    apart from the host over time, in percent, by free blocks / by frames")?;
        let columns =
            [("nothing changed", &self.baselines.no_change), ("host again", &self.baselines.host_repeat)];
        let columns: Vec<_> =
            columns.iter().filter_map(|(name, baseline)| Some((*name, baseline.as_ref()?))).collect();
        write!(f, "    {:>12} {:>17}", "at", "this engine")?;
        for (name, _) in &columns {
            write!(f, " {name:>17}")?;
        }
        writeln!(f)?;
        let n = all.len().min(ROWS);
        for i in 0..n {
            let at = &all[i * (all.len() - 1) / (n - 1).max(1)];
            write!(f, "    {:>10.2} s {:>17}", at.time_ns as f64 / 1e9, cell(Some(at.distance)))?;
            for (_, baseline) in &columns {
                write!(f, " {:>17}", cell(find(&baseline.over_time, at.time_ns)))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Finds the distance at the time of a sample.
fn find(over_time: &[DistanceAt], time_ns: u64) -> Option<Distance> {
    let at = over_time.binary_search_by_key(&time_ns, |d| d.time_ns).ok()?;
    Some(over_time[at].distance)
}

fn cell(distance: Option<Distance>) -> String {
    distance.map_or_else(|| "-".to_owned(), |d| format!("{:.1} / {:.1}", d.blocks_pct, d.frames_pct))
}
