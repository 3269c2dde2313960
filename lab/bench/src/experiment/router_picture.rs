//! A sweep as a page: its lines and its table.

use super::{Claim, ClaimOutcome, ExperimentReport, Made, Plot, Rows, Series, Settings};
use crate::error::BenchError;
use crate::harness::machine::Machine;
use crate::router::{RouterSweep, SweepRow};
use std::path::Path;

/// Picks a figure of a row.
type Figure = fn(&SweepRow) -> f64;

impl RouterSweep {
    /// Writes the sweep as a page.
    ///
    /// # Errors
    /// [`BenchError::Report`] where the name does not end in `.html` or the file cannot be written.
    pub fn write(&self, path: &Path, quick: bool) -> Result<(), BenchError> {
        self.report(quick).write(path)
    }

    fn report(&self, quick: bool) -> ExperimentReport {
        let smallest = self.smallest.iter().map(|s| {
            format!(
                "with {} the smallest rings that keep 99 % of the best rate are RX {} and TX {}",
                s.coalescing, s.rx_ring, s.tx_ring
            )
        });
        ExperimentReport {
            name: "router",
            about: "rings and coalescing of a simulated router",
            machine: Machine::this().to_string(),
            claims: vec![self.rule_as_claim()],
            plots: self.plots(),
            rows: self.as_rows(),
            notes: smallest.collect(),
            settings: Settings::default(),
            samples: None,
            quick,
            cannot_show: if quick { "every other ring size, and half of the ways of coalescing" } else { "" },
            columns: &[("us", "receive interrupts wait so long after the first packet")],
            made: Made::now(),
        }
    }

    fn rule_as_claim(&self) -> Claim {
        let right = self.rule.iter().filter(|r| r.holds).count();
        let each: Vec<String> = self
            .rule
            .iter()
            .map(|r| match r.smallest_ring {
                None => format!("{}: {}, and no ring kept the rate", r.coalescing, r.predicted_ring),
                Some(smallest) => format!("{}: {} for {smallest}", r.coalescing, r.predicted_ring),
            })
            .collect();
        Claim::document("The optimal ring is the packet rate over the interrupt rate")
            .asked("the smallest ring that keeps 99 % of the best rate, at each coalescing")
            .measured(
                ClaimOutcome::of(right == self.rule.len()),
                format!("right for {right} of {} ({})", self.rule.len(), each.join("; ")),
            )
    }

    fn as_rows(&self) -> Rows {
        let mut rows = Rows::default();
        let figures: [(&'static str, &'static str, Figure); 4] = [
            ("Gbit/s sent", "Gbit/s", |r| r.figures.out_gbit),
            ("Interrupts a second", "1/s", |r| r.figures.interrupts_per_s),
            ("Packets dropped", "%", |r| r.figures.dropped_pct),
            ("Frames in flight at most", "", |r| r.figures.in_flight_max as f64),
        ];
        for (section, unit, figure) in figures {
            rows.section(section);
            for row in &self.rows {
                let metric = format!("{section}: RX {}, TX {}", row.rx_ring, row.tx_ring);
                rows.add(metric, row.coalescing.clone(), figure(row), unit);
            }
        }
        rows
    }

    fn plots(&self) -> Vec<Plot> {
        // Lines over the receive ring, with the largest transmit ring.
        let tx = self.rows.iter().map(|r| r.tx_ring).max().unwrap_or(0);
        let plot = |title: &str, y: &'static str, figure: Figure| Plot {
            title: format!("{title}, TX {tx}"),
            x: "receive descriptors of a queue",
            y,
            series: self
                .rule
                .iter()
                .map(|rule| Series {
                    name: rule.coalescing.clone(),
                    points: self
                        .rows
                        .iter()
                        .filter(|r| r.coalescing == rule.coalescing && r.tx_ring == tx)
                        .map(|r| (r.rx_ring as f64, figure(r)))
                        .collect(),
                })
                .collect(),
        };
        vec![
            plot("Sent", "Gbit/s", |r| r.figures.out_gbit),
            plot("Dropped", "% of packets", |r| r.figures.dropped_pct),
            plot("Interrupts", "thousands a second", |r| r.figures.interrupts_per_s / 1e3),
            plot("Memory traffic", "GB/s", |r| r.figures.memory_read_gbyte + r.figures.memory_written_gbyte),
        ]
    }
}

#[cfg(test)]
mod tests {
    use crate::router::sweep;
    use crate::router::test::small;

    #[test]
    fn a_sweep_is_a_page() {
        let found = sweep(&small(&[("run-us", "100")]), true, &mut |_, _| ()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("r.html");
        found.write(&page, true).unwrap();
        let html = std::fs::read_to_string(page).unwrap();
        assert_eq!(html.matches("<svg").count(), 4, "a chart for each figure");
        assert!(html.contains("RX 4096, TX 1024") && html.contains("packet rate over the interrupt rate"));
        assert!(found.write(&folder.path().join("r.txt"), true).unwrap_err().to_string().contains(".html"));
    }
}
