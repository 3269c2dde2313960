//! The content of memory, as tables for people. Several moments stand side by side, each under a heading.

use super::{FramesByKind, Pageblocks, Spoiler};
use crate::proctext::Pagetypeinfo;
use crate::snapshot::FrameKind;
use crate::text::{Grid, grouped, percent, size};

/// Writes frames by kind.
#[must_use]
pub fn frames_table(moments: &[(&str, &FramesByKind)]) -> Grid {
    let mut grid = Grid::new([""].into_iter().chain(moments.iter().flat_map(|(when, _)| [*when, "size"])));
    for kind in FrameKind::ALL {
        let frames = |(_, frames): &(&str, &FramesByKind)| frames[kind.index()];
        if moments.iter().any(|m| frames(m) > 0) {
            let cells = moments.iter().flat_map(|m| [grouped(frames(m)), size(frames(m))]);
            grid.row([kind.name().to_owned()].into_iter().chain(cells));
        }
    }
    grid
}

/// Writes pageblocks by the content that is hardest to move.
#[must_use]
pub fn pageblocks_table(moments: &[(&str, &Pageblocks)]) -> Grid {
    let mut grid = Grid::new([""].into_iter().chain(moments.iter().flat_map(|(when, _)| [*when, "share"])));
    for spoiler in Spoiler::ALL {
        if moments.iter().any(|(_, blocks)| blocks.count(spoiler) > 0) {
            let cells = moments
                .iter()
                .flat_map(|(_, blocks)| [grouped(blocks.count(spoiler)), percent(blocks.share(spoiler))]);
            grid.row([spoiler.meaning().to_owned()].into_iter().chain(cells));
        }
    }
    grid
}

/// Writes pageblocks by migratetype, a row for each zone.
#[must_use]
pub fn types_table(moments: &[(&str, &Pagetypeinfo)]) -> Grid {
    let zones = || moments.iter().flat_map(|(when, info)| info.zones.iter().map(move |zone| (*when, zone)));
    let mut names: Vec<&String> = zones().flat_map(|(_, zone)| zone.blocks.keys()).collect();
    names.sort();
    names.dedup();
    let mut grid = Grid::new([""].into_iter().chain(names.iter().map(|n| n.as_str())));
    for (when, zone) in zones() {
        let node = if zone.node == 0 { String::new() } else { format!(" (node {})", zone.node) };
        let title = format!("{}{node} {when}", zone.name);
        let counts = names.iter().map(|n| grouped(zone.blocks.get(*n).copied().unwrap_or(0)));
        grid.row([title.trim_end().to_owned()].into_iter().chain(counts));
    }
    grid
}
