//! A replay's series as tables for other programs. `docs/design/json.md` says what the columns hold.

use super::refusals::Refusal;
use super::report::{EngineReport, ReplayReport};
use crate::error::ReplayError;
use pageyard::proctext::{LINUX_ORDERS, linux_orders};
use pageyard::{Migratetype, ZoneStats};
use pageyard_trace::TraceError;
use pageyard_trace::failures::GfpNames;
use pageyard_trace::series::{Cell, Column, Kind, SeriesFolder, SeriesFormat, SeriesTable};
use std::path::Path;

const SAMPLES: &[Column] = &[
    ("engine", Kind::Name),
    ("sample", Kind::Count),
    ("seconds", Kind::Number),
    ("free_frames", Kind::Count),
    ("cached_frames", Kind::Count),
    ("unheld_frames", Kind::Count),
    ("free_huge_frames_pct_of_optimum", Kind::NumberIfKnown),
    ("unusable_index", Kind::NumberIfKnown),
    ("extfrag_index", Kind::NumberIfKnown),
];

const ZONES: &[Column] = &[
    ("engine", Kind::Name),
    ("sample", Kind::Count),
    ("seconds", Kind::Number),
    ("node", Kind::Count),
    ("zone", Kind::Name),
    ("free_frames", Kind::Count),
    ("cached_frames", Kind::Count),
    ("min_frames", Kind::Count),
    ("low_frames", Kind::Count),
    ("high_frames", Kind::Count),
    ("boost_frames", Kind::Count),
    ("highatomic_frames", Kind::Count),
    ("managed_frames", Kind::Count),
];

const BLOCKS: &[Column] = &[
    ("engine", Kind::Name),
    ("sample", Kind::Count),
    ("seconds", Kind::Number),
    ("node", Kind::Count),
    ("zone", Kind::Name),
    ("order", Kind::Count),
    ("migratetype", Kind::Name),
    ("free_blocks", Kind::Count),
];

const PAGEBLOCKS: &[Column] = &[
    ("engine", Kind::Name),
    ("sample", Kind::Count),
    ("seconds", Kind::Number),
    ("node", Kind::Count),
    ("zone", Kind::Name),
    ("migratetype", Kind::Name),
    ("pageblocks", Kind::Count),
];

const FAILURES: &[Column] = &[
    ("engine", Kind::Name),
    ("seconds", Kind::Number),
    ("refused_on_host", Kind::Flag),
    ("cpu", Kind::Count),
    ("thread", Kind::Count),
    ("gfp", Kind::Name),
    ("gfp_bits", Kind::Count),
    ("order", Kind::Count),
    ("migratetype", Kind::Name),
    ("context", Kind::Name),
    ("reason", Kind::Name),
    ("free_frames", Kind::Count),
    ("suitable_blocks", Kind::Count),
    ("free_blocks_0", Kind::Count),
    ("free_blocks_1", Kind::Count),
    ("free_blocks_2", Kind::Count),
    ("free_blocks_3", Kind::Count),
    ("free_blocks_4", Kind::Count),
    ("free_blocks_5", Kind::Count),
    ("free_blocks_6", Kind::Count),
    ("free_blocks_7", Kind::Count),
    ("free_blocks_8", Kind::Count),
    ("free_blocks_9", Kind::Count),
    ("free_blocks_10", Kind::Count),
];

impl ReplayReport {
    /// Writes the series of a replay that kept them ([`super::ReplayOptions::series`]) to a folder at `path`, where
    /// nothing or an empty folder is.
    ///
    /// # Errors
    /// [`ReplayError::Trace`] when the folder cannot be made or written; nothing is left there then.
    pub fn write_series(&self, path: &Path, format: SeriesFormat) -> Result<(), ReplayError> {
        let folder = SeriesFolder::create(path, format)?;
        self.table(folder.table("samples", SAMPLES)?, EngineReport::sample_rows)?;
        self.table(folder.table("zones", ZONES)?, EngineReport::zone_rows)?;
        self.table(folder.table("blocks", BLOCKS)?, EngineReport::block_rows)?;
        self.table(folder.table("pageblocks", PAGEBLOCKS)?, EngineReport::pageblock_rows)?;
        self.table(folder.table("failures", FAILURES)?, EngineReport::failure_rows)?;
        Ok(folder.finish()?)
    }

    /// Completes a table of rows from every engine.
    fn table(
        &self,
        mut table: SeriesTable,
        rows: impl Fn(&EngineReport, &mut SeriesTable) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        self.engines.iter().try_for_each(|engine| rows(engine, &mut table))?;
        table.finish()
    }
}

impl EngineReport {
    fn sample_rows(&self, table: &mut SeriesTable) -> Result<(), TraceError> {
        (0..).zip(&self.samples).try_for_each(|(n, s)| {
            table.row(&[
                Cell::Name(&self.name),
                Cell::Count(n),
                Cell::Number(s.seconds),
                Cell::Count(s.free),
                Cell::Count(s.cached),
                Cell::Count(s.unheld),
                Cell::NumberIfKnown(s.free_huge_pct),
                Cell::NumberIfKnown(s.unusable_index),
                Cell::NumberIfKnown(s.extfrag_index),
            ])
        })
    }

    /// Calls `each` with every zone at every sample, and with the cells that name the two.
    fn zones_over_time(
        &self,
        mut each: impl FnMut([Cell<'_>; 5], &ZoneStats) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        for ((n, sample), zones) in (0..).zip(&self.samples).zip(&self.zones) {
            for z in zones {
                let names = [
                    Cell::Name(&self.name),
                    Cell::Count(n),
                    Cell::Number(sample.seconds),
                    Cell::Count(z.span.node.0.into()),
                    Cell::Name(z.span.kind.name()),
                ];
                each(names, z)?;
            }
        }
        Ok(())
    }

    fn zone_rows(&self, table: &mut SeriesTable) -> Result<(), TraceError> {
        self.zones_over_time(|[engine, n, seconds, node, zone], z| {
            let marks = &z.watermarks;
            let [free, cached, min, low, high, boost, highatomic, managed] =
                [z.free, z.cached, marks.min, marks.low, marks.high, z.boost, z.highatomic, z.span.managed]
                    .map(|frames| Cell::Count(frames.0));
            table.row(&[
                engine, n, seconds, node, zone, free, cached, min, low, high, boost, highatomic, managed,
            ])
        })
    }

    fn block_rows(&self, table: &mut SeriesTable) -> Result<(), TraceError> {
        let types = self.types();
        self.zones_over_time(|[engine, n, seconds, node, zone], z| {
            for m in &types {
                let row = linux_orders(&z.free_blocks.map(|by_type| by_type[m.index()]));
                for (order, blocks) in (0..).zip(row) {
                    let (order, m) = (Cell::Count(order), Cell::Name(m.name()));
                    table.row(&[engine, n, seconds, node, zone, order, m, Cell::Count(blocks)])?;
                }
            }
            Ok(())
        })
    }

    fn pageblock_rows(&self, table: &mut SeriesTable) -> Result<(), TraceError> {
        let types = self.types();
        self.zones_over_time(|[engine, n, seconds, node, zone], z| {
            types.iter().try_for_each(|m| {
                let blocks = Cell::Count(z.pageblocks[m.index()]);
                table.row(&[engine, n, seconds, node, zone, Cell::Name(m.name()), blocks])
            })
        })
    }

    /// Returns the types that requests have, and the others that any zone had at any sample.
    fn types(&self) -> Vec<Migratetype> {
        let has = |z: &ZoneStats, m: Migratetype| {
            z.pageblocks[m.index()] > 0 || z.free_blocks.iter().any(|by_type| by_type[m.index()] > 0)
        };
        let occurs = |m: &Migratetype| {
            Migratetype::REQUESTED.contains(m) || self.zones.iter().flatten().any(|z| has(z, *m))
        };
        Migratetype::ALL.into_iter().filter(occurs).collect()
    }

    fn failure_rows(&self, table: &mut SeriesTable) -> Result<(), TraceError> {
        for Refusal { request, on_host_too } in &self.refusals.first {
            let kind = &request.kind;
            let gfp = GfpNames::new(kind.gfp, &self.refusals.gfp).to_string();
            let free: [u64; LINUX_ORDERS] = request.free_blocks.unwrap_or_default();
            let cells = [
                Cell::Name(&self.name),
                Cell::Number(request.time_ns as f64 / 1e9),
                Cell::Flag(*on_host_too),
                Cell::Count(request.cpu.into()),
                Cell::Count(kind.tid.into()),
                Cell::Name(&gfp),
                Cell::Count(kind.gfp.into()),
                Cell::Count(kind.order.into()),
                Cell::Name(kind.migratetype()),
                Cell::Name(kind.context()),
                Cell::Name(request.reason.map_or("", |reason| reason.name())),
                Cell::Count(request.free_frames().unwrap_or(0)),
                Cell::Count(request.suitable_blocks().unwrap_or(0)),
            ];
            let cells: Vec<Cell<'_>> = cells.into_iter().chain(free.map(Cell::Count)).collect();
            table.row(&cells)?;
        }
        Ok(())
    }
}
