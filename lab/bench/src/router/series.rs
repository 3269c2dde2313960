//! Settings and what came of them as a table for other programs.

use super::count::DROPS;
use super::report::RouterFigures;
use super::sweep::SweepRow;
use crate::error::BenchError;
use pageyard_trace::series::{Cell, Column, Kind, SeriesFolder, SeriesFormat};
use std::path::Path;

const ROUTER: &[Column] = &[
    ("rx_ring", Kind::Count),
    ("tx_ring", Kind::Count),
    ("coalescing", Kind::Name),
    ("keeps", Kind::Flag),
    ("offered_pps", Kind::Number),
    ("in_pps", Kind::Number),
    ("out_pps", Kind::Number),
    ("out_gbit", Kind::Number),
    ("dropped_pct", Kind::Number),
    ("drops_per_s_card", Kind::Number),
    ("drops_per_s_rx_ring", Kind::Number),
    ("drops_per_s_no_frame", Kind::Number),
    ("drops_per_s_vlan", Kind::Number),
    ("drops_per_s_qdisc", Kind::Number),
    ("drops_per_s_tx_ring", Kind::Number),
    ("interrupts_per_s", Kind::Number),
    ("packets_per_interrupt", Kind::NumberIfKnown),
    ("packets_per_poll", Kind::NumberIfKnown),
    ("packets_per_doorbell", Kind::NumberIfKnown),
    ("cpu_pct_mean", Kind::Number),
    ("cpu_pct_max", Kind::Number),
    ("in_flight_mean", Kind::Number),
    ("in_flight_max", Kind::Count),
    ("held_max", Kind::Count),
    ("held_max_x_llc", Kind::Number),
    ("sojourn_us", Kind::NumberIfKnown),
    ("recycled_pct", Kind::NumberIfKnown),
    ("cold_headers_pct", Kind::NumberIfKnown),
    ("memory_read_gbyte", Kind::Number),
    ("memory_written_gbyte", Kind::Number),
    ("memory_pct", Kind::Number),
    ("zone_lock_wait_pct", Kind::Number),
];

/// Writes rows as the table `router` in a folder at `path`, where nothing or an empty folder is.
///
/// # Errors
/// [`BenchError::Trace`] when the folder cannot be made or written; nothing is left there then.
pub fn write_series<'a>(
    rows: impl IntoIterator<Item = &'a SweepRow>,
    path: &Path,
    format: SeriesFormat,
) -> Result<(), BenchError> {
    let folder = SeriesFolder::create(path, format)?;
    let mut table = folder.table("router", ROUTER)?;
    for row in rows {
        table.row(&cells(row))?;
    }
    table.finish()?;
    Ok(folder.finish()?)
}

fn cells(row: &SweepRow) -> Vec<Cell<'_>> {
    let f: &RouterFigures = &row.figures;
    let mut cells = vec![
        Cell::Count(row.rx_ring),
        Cell::Count(row.tx_ring),
        Cell::Name(&row.coalescing),
        Cell::Flag(row.keeps),
    ];
    cells.extend([f.offered_pps, f.in_pps, f.out_pps, f.out_gbit, f.dropped_pct].map(Cell::Number));
    cells.extend(DROPS.iter().map(|(_, place)| Cell::Number(f.drops(place))));
    cells.push(Cell::Number(f.interrupts_per_s));
    cells.extend(
        [f.packets_per_interrupt, f.packets_per_poll, f.packets_per_doorbell].map(Cell::NumberIfKnown),
    );
    cells.extend([f.cpu_pct_mean, f.cpu_pct_max, f.in_flight_mean].map(Cell::Number));
    cells.extend([f.in_flight_max, f.held_max].map(Cell::Count));
    cells.push(Cell::Number(f.held_max_x_llc));
    cells.extend([f.sojourn_us, f.recycled_pct, f.cold_headers_pct].map(Cell::NumberIfKnown));
    cells.extend(
        [f.memory_read_gbyte, f.memory_written_gbyte, f.memory_pct, f.zone_lock_wait_pct].map(Cell::Number),
    );
    cells
}

#[cfg(test)]
mod tests {
    use super::super::run::route;
    use super::super::test::small;
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let figures = route(&small(&[("run-us", "100")])).unwrap().figures;
        let row = SweepRow { rx_ring: 64, tx_ring: 128, coalescing: "8 us".into(), keeps: true, figures };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("series");
        write_series([&row, &row], &path, SeriesFormat::Csv).unwrap();
        let text = std::fs::read_to_string(path.join("router.csv")).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().nth(1).unwrap().starts_with("64,128,8 us,true,"), "{text}");
        for line in text.lines() {
            assert_eq!(line.split(',').count(), ROUTER.len());
        }
        assert!(write_series([&row], &path, SeriesFormat::Csv).is_err(), "what is there is kept");
    }
}
