//! `bench mixed`: its shares are those of the recordings that ship, and the documented example of a row can be read.

use pageyard_bench::external::External;
use pageyard_bench::mixed::{MixedRow, RECORDED};
use pageyard_trace::{Summary, Trace};
use std::path::Path;

#[test]
fn the_orders_of_a_mixed_load_are_those_of_the_recordings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces");
    let mut by_order = vec![0; 11];
    for name in ["build", "net", "fork", "net-order0"] {
        let summary =
            Summary::of(&Trace::open(&folder.join(format!("{name}.trace"))).unwrap(), |_| ()).unwrap();
        let orders = &summary.json()["by_order"];
        for (sum, n) in by_order.iter_mut().zip(orders.as_array().unwrap()) {
            *sum += n.as_u64().unwrap();
        }
    }
    for (order, recorded) in RECORDED {
        assert_eq!(by_order[order.index()], recorded, "{order:?}: {by_order:?}");
    }
    assert_eq!(by_order.iter().sum::<u64>(), 2_678_930);
    assert_eq!(RECORDED.iter().map(|(_, n)| n).sum::<u64>(), 2_678_930 - 556);
}

#[test]
fn the_example_of_the_documentation_is_a_file_of_rows() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = page.split_once("```json\n").unwrap().1.split_once("```").unwrap().0;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("example.json");
    std::fs::write(&file, example).unwrap();
    let external = External::<MixedRow>::read(&file).unwrap();
    let row = &external.rows[0];
    assert_eq!((external.rows.len(), &*row.allocator, row.ns_median), (1, "mine", 31.5));
}
