//! The verdict on `zonelist`, from its rows.

use super::{CALLED, ENGINE, INLINED, NODES, OPTITER};
use crate::experiment::Rows;
use crate::experiment::subject::batches;

pub(super) fn verdict(rows: &Rows) -> String {
    let mut lines = vec![sweep(rows), instructions(rows), nodes(rows), engine(rows)];
    lines.retain(|l| !l.is_empty());
    lines.join("\n")
}

fn gains(rows: &Rows, kind: &str, column: &str) -> Vec<f64> {
    let gain = |n: usize| rows.get(&format!("gain {kind} alloc-odr0-{n}"), column);
    let mut all: Vec<f64> = batches(false).into_iter().filter_map(gain).collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}

fn sweep(rows: &Rows) -> String {
    let all = gains(rows, "turn by turn", INLINED);
    let (Some(low), Some(high)) = (all.first(), all.last()) else { return String::new() };
    let middle = all[all.len() / 2];
    let saved = all.iter().filter(|g| **g > 0.0).count();
    let published = gains(rows, "Min", OPTITER);
    let printed = match (published.first(), published.last()) {
        (Some(l), Some(h)) => format!("published: {l:.1} to {h:.1} %"),
        _ => "published figures are not available".into(),
    };
    let sign = if saved == all.len() {
        "reproduced in sign at every batch"
    } else if middle > 0.0 {
        "reproduced in sign at the median batch"
    } else {
        "not reproduced in time"
    };
    format!(
        "Time: {sign} ({saved} of {}): inlined takes a frame in {low:.1} to {high:.1} % less than called, {middle:.1} % at the \
         median batch ({printed}).",
        all.len()
    )
}

fn instructions(rows: &Rows) -> String {
    let count =
        |metric: &str, column: &str| rows.get(&format!("instructions of alloc and free, {metric}"), column);
    match (count("no mask", CALLED), count("no mask", INLINED)) {
        (Some(called), Some(inlined)) => {
            let masked = match (count("mask installed", CALLED), count("mask installed", INLINED)) {
                (Some(c), Some(i)) => format!("; with a mask installed {c:.0} and {i:.0}"),
                _ => String::new(),
            };
            format!(
                "Instructions of a frame taken and given back: {called:.0} called, {inlined:.0} inlined, {:.1} % fewer{masked}.",
                (called - inlined) / called * 100.0
            )
        }
        _ => String::new(),
    }
}

fn nodes(rows: &Rows) -> String {
    let at = |mask: &str| {
        let of = |n: &u8| {
            let nodes = if *n == 1 { "1 node".into() } else { format!("{n} nodes") };
            rows.get(&format!("gain turn by turn, alloc-odr0-64, {nodes}, {mask}"), INLINED)
        };
        let all: Vec<String> = NODES.iter().filter_map(of).map(|g| format!("{g:+.1}")).collect();
        (!all.is_empty()).then(|| format!("{mask} {} %", all.join("/")))
    };
    let all: Vec<String> =
        ["no mask", "mask installed", "mask changed during walks"].iter().filter_map(|m| at(m)).collect();
    format!("Inlined against called on 1/2/4/8 nodes, batch 64: {}.", all.join("; "))
}

fn engine(rows: &Rows) -> String {
    let of = |what: &str| {
        let at = |n: &u8| {
            let nodes = if *n == 1 { "1 node".into() } else { format!("{n} nodes") };
            rows.get(&format!("more than one zone, turn by turn, {what}-odr0-64, {nodes}"), ENGINE)
        };
        NODES.iter().filter_map(at).map(|g| format!("{g:+.1}")).collect::<Vec<_>>().join("/")
    };
    format!(
        "The engine on three zones of 1/2/4/8 nodes against a single zone, batch 64: taking {} %, taking and giving back {} %.",
        of("alloc"),
        of("total")
    )
}
