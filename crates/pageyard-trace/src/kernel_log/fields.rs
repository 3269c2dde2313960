//! Lines of a kernel's description of its memory.

use pageyard::{NR_ORDERS, ZoneKind};

use super::{LoggedPool, LoggedZone};
use crate::snapshot::MAX_FRAMES;

/// More zones than any machine has, and more pools of huge pages.
pub(super) const MAX_ZONES: usize = 4096;

/// Counters that a failure keeps; kernels print some thirty.
pub(super) const MAX_COUNTERS: usize = 64;

/// Reads the release in `CPU: 0 PID: 1 Comm: init Not tainted 6.12.117-amd64 #1`.
///
/// # Linux
/// `dump_stack_print_info`
pub(super) fn release(text: &str) -> Option<String> {
    if !text.starts_with("CPU: ") {
        return None;
    }
    let before = text.split(" #").next()?;
    let release = before.split_whitespace().last()?;
    let numbers = release.split(['.', '-']).take(2).filter(|n| n.parse::<u16>().is_ok()).count();
    (numbers == 2 && release.len() <= 64 && release.is_ascii()).then(|| release.to_owned())
}

/// Reads `Free swap  = 0kB` or `Total swap = 0kB`.
pub(super) fn swap(text: &str) -> Option<(Option<u64>, Option<u64>)> {
    let size = |name: &str| size(text.strip_prefix(name)?.trim_start().strip_prefix('=')?.trim());
    match (size("Free swap"), size("Total swap")) {
        (None, None) => None,
        both => Some(both),
    }
}

/// Splits `Node 0 DMA32 ..`. A kernel without nodes prints the zone alone.
pub(super) fn node(text: &str) -> Option<(u8, &str)> {
    if let Some(rest) = text.strip_prefix("Node ") {
        let (node, rest) = rest.split_once(' ')?;
        return Some((node.parse().ok()?, rest));
    }
    let name = text.split([' ', ':']).next()?;
    ZoneKind::from_name(name).map(|_| (0, text))
}

/// Reads `hugepages_total=4 hugepages_free=0 hugepages_surp=0 hugepages_size=2048kB`; its frames are KiB.
pub(super) fn pool(node: u8, text: &str) -> Option<LoggedPool> {
    let of = |name: &str| {
        let value = text.split_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix('='))?;
        value.parse().ok().or_else(|| size(value)).filter(|n| *n <= MAX_FRAMES)
    };
    Some(LoggedPool {
        node,
        frames: of("hugepages_size").filter(|kib| *kib > 0)?,
        total: of("hugepages_total")?,
        free: of("hugepages_free")?,
    })
}

/// Reads `free:932kB min:2432kB ..`; sizes stay KiB.
pub(super) fn zone(node: u8, kind: ZoneKind, text: &str) -> LoggedZone {
    let of = |name: &str| {
        let value = text.split_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(size).unwrap_or(0)
    };
    LoggedZone {
        node,
        kind,
        free: of("free"),
        boost: of("boost"),
        min: of("min"),
        low: of("low"),
        high: of("high"),
        highatomic: of("reserved_highatomic"),
        // Kernels before 3.9 have `present` alone.
        managed: Some(of("managed")).filter(|n| *n > 0).unwrap_or_else(|| of("present")),
        pcp: of("free_pcp"),
        cma: of("free_cma"),
        protection: Vec::new(),
        blocks: Vec::new(),
        types: Vec::new(),
    }
}

/// Returns whether a line goes on with `7*4kB (U) ..`.
pub(super) fn is_blocks(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    block(first).is_some() || first.starts_with('(') || first == "="
}

/// Adds `7*4kB (UM) 5*8kB (H) .. = 932kB` to a zone, and returns the KiB of a frame: the size of the first block.
pub(super) fn blocks(text: &str, frame_kib: u64, zone: &mut LoggedZone) -> Option<u64> {
    let mut frame = (!zone.blocks.is_empty()).then_some(frame_kib);
    for word in text.split_whitespace() {
        if word == "=" {
            break;
        }
        if let Some((n, kib)) = block(word) {
            let frame = *frame.get_or_insert(kib);
            // Blocks come by order; one that is missing was lost with a piece of the line.
            let order = (kib / frame.max(1)).max(1).ilog2() as usize;
            if order >= NR_ORDERS || n > MAX_FRAMES >> order {
                continue;
            }
            zone.blocks.resize(zone.blocks.len().max(order + 1), 0);
            zone.types.resize(zone.types.len().max(order + 1), String::new());
            zone.blocks[order] = n;
        } else if let Some(types) = word.strip_prefix('(').and_then(|w| w.strip_suffix(')'))
            && types.len() <= 8
            && types.bytes().all(|b| b.is_ascii_uppercase())
            && let Some(last) = zone.types.last_mut()
        {
            *last = types.to_owned();
        }
    }
    frame
}

/// Reads `7*4kB`.
fn block(word: &str) -> Option<(u64, u64)> {
    let (n, kib) = word.split_once('*')?;
    Some((n.parse().ok()?, size(kib).filter(|kib| *kib > 0)?))
}

/// Reads `932kB`, as KiB.
fn size(word: &str) -> Option<u64> {
    let number = word.strip_suffix("kB").or_else(|| word.strip_suffix("KB"))?;
    number.parse().ok().filter(|kib| *kib <= MAX_FRAMES * 64)
}

/// Reads `active_anon:609 inactive_anon:0 ..`, whose numbers are frames.
pub(super) fn counts(text: &str) -> Vec<(String, u64)> {
    let pair = |word: &str| {
        let (name, value) = word.split_once(':')?;
        let fits = name.len() <= 32 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let value: u64 = value.parse().ok().filter(|n| *n <= MAX_FRAMES)?;
        fits.then(|| (name.to_owned(), value))
    };
    text.split_whitespace().take(MAX_COUNTERS).map_while(pair).collect()
}
