use super::*;
use pageyard_trace::fleet::{FleetNumber as N, FleetRow, path_of, write_rows};
use std::path::Path;

/// The first second of 28 November 2026.
const NOW: u64 = 1_795_824_000;

/// A row of five minutes.
fn row(start_s: u64, kernel: &str, of: &[(N, u64)]) -> FleetRow {
    let mut row = FleetRow::of(kernel);
    let always =
        [(N::StartS, start_s), (N::WindowMs, 300_000), (N::SampledMs, 299_000), (N::Frames, 100_000)];
    always.iter().chain(of).for_each(|(number, n)| row[*number] = *n);
    row
}

fn write(folder: &Path, host: &str, rows: &[FleetRow]) {
    write_rows(&path_of(folder, host, rows[0][N::StartS], "rows").unwrap(), rows).unwrap();
}

fn fleet(folder: &Path, cohorts: &Cohorts) -> Fleet {
    read(folder, &Days::default(), cohorts, NOW + 9000, &mut |_, _| ()).unwrap()
}

#[test]
fn hosts_are_ordered_by_what_is_worse() {
    let folder = tempfile::tempdir().unwrap();
    for host in 0..20 {
        let of = [(N::Failures, host / 19), (N::FreeFrames, 10_000 + 100 * host), (N::FreeHugeFrames, 5000)];
        let rows = [row(NOW, "Linux 6.18", &of), row(NOW + 300, "Linux 6.18", &of)];
        write(folder.path(), &format!("web-{host}"), &rows);
    }
    let fleet = fleet(folder.path(), &Cohorts::None);
    assert_eq!((fleet.hosts.len(), fleet.rows, fleet.left_out.len()), (20, 40, 0));
    assert_eq!(fleet.sentence(), "Requests failed on 1 of 20 hosts, most on web-19: 12 an hour.");
    let of = |name: &str| fleet.spreads().into_iter().find(|spread| spread.figure.name == name).unwrap();
    let free = of("free memory");
    assert_eq!(free.hosts[0], ("web-0", 10.0));
    assert!((free.quantile(0.1) - 10.2).abs() < 0.11 && (free.quantile(0.5) - 11.0).abs() < 0.11);
    assert!(fleet.spreads().iter().all(|spread| spread.figure.name != "pageblocks that the kernel pins"));
}

#[test]
fn cohorts_differ_by_more_than_their_hosts_do_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    for host in 0..40u64 {
        let spread = host * 7 % 11;
        let of = |kernel: u64| [(N::Failures, spread + 30 * kernel), (N::FreeFrames, 20_000 + 300 * spread)];
        // Each host was updated.
        let rows = [row(NOW, "Linux 6.18", &of(0)), row(NOW + 300, "Linux 7.2", &of(1))];
        write(folder.path(), &format!("web-{host}"), &rows);
    }
    let fleet = fleet(folder.path(), &Cohorts::Kernel);
    assert_eq!(fleet.cohorts, [("Linux 6.18".to_owned(), 40), ("Linux 7.2".to_owned(), 40)]);
    let found = fleet.differences("Linux 6.18", "Linux 7.2");
    let differ: Vec<&str> = found.iter().filter(|d| d.differs()).map(|d| d.figure.name).collect();
    assert_eq!(differ, ["requests that failed"]);
    assert!(found[0].low < 360.0 && 360.0 < found[0].high, "{} to {}", found[0].low, found[0].high);
    let few = Cohorts::listed("host,cohort\nweb-1,a\nweb-2,a\n\nweb-3,b\n").unwrap();
    let few = super::read(folder.path(), &Days::default(), &few, NOW + 9000, &mut |_, _| ()).unwrap();
    assert!(
        few.differences("a", "b").is_empty() && few.to_string().contains("not compared, each needs 5 hosts")
    );
    assert_eq!(few.left_out[0].count, 74, "{:?}", few.left_out);
    for bad in ["web-1", "web-1,a\nweb-1,b"] {
        assert!(Cohorts::listed(bad).is_err(), "{bad}");
    }
}

#[test]
fn rows_that_cannot_be_true_are_counted_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let starts = [NOW, NOW, NOW + 60, NOW + 299, NOW + 600, 86_400 * 5, NOW + 30 * 86_400];
    write(folder.path(), "db-1", &starts.map(|start| row(start, "Linux 6.18", &[])));
    let other = path_of(folder.path(), "db-2", NOW, "rows").unwrap();
    std::fs::create_dir_all(other.parent().unwrap()).unwrap();
    std::fs::write(&other, "no rows").unwrap();
    let fleet = fleet(folder.path(), &Cohorts::None);
    assert_eq!((fleet.hosts.len(), fleet.rows), (1, 3));
    let counts: Vec<(&str, u64)> = fleet.left_out.iter().map(|left| (left.what, left.count)).collect();
    let expected = [
        ("files that are not rows of this schema", 1),
        ("rows of a moment that the host has a row of already", 1),
        ("rows of a time that the host has a row of already, in part", 1),
        ("rows that begin before 2020: the host's clock is wrong", 1),
        ("rows that begin in the future: the host's clock is wrong", 1),
    ];
    assert_eq!(counts, expected);
    let days = Days { since: "2026-11-29".to_owned(), until: String::new() };
    let none = read(folder.path(), &days, &Cohorts::None, NOW, &mut |_, _| ()).unwrap();
    assert_eq!(none.sentence(), "There are no rows of any host.");
}
