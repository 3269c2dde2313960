//! `/proc/vmallocinfo`: areas of the kernel's own address space by the function that asked for them.

use std::collections::BTreeMap;

use pageyard_trace::text::shown;
use pageyard_trace::{MAX_FRAMES, TraceError};
use serde::Serialize;

use super::largest::Largest;

/// A function that called `vmalloc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VmallocCaller {
    /// Its name, with its module where it has one; an address where the kernel does not give names.
    pub caller: String,
    /// Areas that it has.
    pub areas: u64,
    /// Frames in them.
    pub frames: u64,
}

/// The most names that are told apart; a kernel has a few hundred callers.
const MAX_CALLERS: usize = 1 << 16;

/// Reads the text, adds up areas by caller, and keeps the largest callers.
///
/// Areas that map memory which is not theirs (`ioremap`, `vmap`) and areas that are given back but still have their
/// addresses hold no frames and are passed over.
///
/// # Errors
/// At the first line that does not begin with a range of addresses and a size, or that claims more frames than any
/// machine has; and where there are more callers than any kernel has.
pub(super) fn parse(text: &str) -> Result<Largest<VmallocCaller>, TraceError> {
    let mut callers: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong =
            |what: &str| TraceError::Text { file: "vmallocinfo", line: index + 1, what: what.to_owned() };
        let area = area(line).ok_or_else(|| wrong("it is not an area as Linux prints it"))?;
        let Some((caller, frames)) = area else { continue };
        if callers.len() == MAX_CALLERS && !callers.contains_key(&caller) {
            return Err(wrong("it names one caller more than any kernel has"));
        }
        let sum = callers.entry(caller).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(frames));
    }
    let callers =
        callers.into_iter().map(|(caller, (areas, frames))| VmallocCaller { caller, areas, frames });
    Ok(Largest::of(callers.collect(), |caller| caller.frames))
}

/// Reads `0xffff-0xffff 20480 kernel_clone+0x94/0x3e0 [module] pages=4 vmalloc N0=4`: the caller and its frames;
/// `Some(None)` for an area without frames of its own, `None` for another text.
fn area(line: &str) -> Option<Option<(String, u64)>> {
    let mut words = line.split_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    if !(from.starts_with("0x") && to.starts_with("0x")) {
        return None;
    }
    words.next()?.parse::<u64>().ok()?;
    let rest: Vec<&str> = words.collect();
    let pages = rest.iter().position(|word| word.starts_with("pages="));
    let Some(pages) = pages.filter(|_| rest.contains(&"vmalloc")) else { return Some(None) };
    let frames = rest[pages]["pages=".len()..].parse().ok().filter(|&frames| frames <= MAX_FRAMES)?;
    let caller = match &rest[..pages] {
        [] => "not named".to_owned(),
        [function, module @ ..] => {
            let name = function.split_once('+').map_or(*function, |(name, _)| name);
            [&[name], module].concat().join(" ")
        }
    };
    Some(Some((shown(&caller), frames)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
        0x0000000000001adb-0x000000008ab71ca3   20480 kernel_clone+0x94/0x3e0 pages=4 vmalloc N0=4\n\
        0x0000000000234047-0x000000008830beec   20480 unpurged vm_area\n\
        0x0000000000245803-0x00000000608ca3e4   20480 kernel_clone+0x10/0x3e0 pages=4 vmalloc N0=1 N1=3\n\
        0x00000000f45e75c6-0x0000000068c4d7f6   20480 irq_init_percpu_irqstack+0xca/0x100 vmap\n\
        0x0000000068c4d7f6-0x0000000080e7c370    8192 acpi_os_map_iomem+0x1bc/0x1e0 phys=0x00000000000a0000 ioremap\n\
        0x00000000a580422a-0x0000000002077c11 4198400 load_module+0x12/0x34 [xt_set] pages=1024 vmalloc vpages N0=1024\n\
        0x00000000a580422b-0x0000000002077c12    8192 0xffffffff81234567 pages=1 vmalloc N0=1\n\
        0x00000000a580422c-0x0000000002077c13    8192 pages=1 vmalloc user N0=1\n\n\
        0x00000000a580422d-0x0000000002077c14    4096 vm_map_ram\n";

    #[test]
    fn areas_are_added_up_by_caller() {
        let found = parse(TEXT).unwrap();
        let named: Vec<_> = found.largest.iter().map(|c| (c.caller.as_str(), c.areas, c.frames)).collect();
        assert_eq!(
            named,
            [
                ("load_module [xt_set]", 1, 1024),
                ("kernel_clone", 2, 8),
                ("0xffffffff81234567", 1, 1),
                ("not named", 1, 1)
            ]
        );
    }

    #[test]
    fn lines_that_are_no_area_are_named() {
        let error = |line: &str| parse(&format!("\n{line}\n")).unwrap_err().to_string();
        for line in [
            "x",
            "0x1-0x2",
            "0x1-0x2 many",
            "0x1 4096 f+0x1/0x2 pages=1 vmalloc",
            "0x1-0x2 4096 f pages=-1 vmalloc",
            "0x1-0x2 4096 f pages=18446744073709551615 vmalloc",
        ] {
            assert_eq!(error(line), "vmallocinfo, line 2: it is not an area as Linux prints it", "{line}");
        }
        assert!(parse("").unwrap().largest.is_empty());
    }

    #[test]
    fn names_from_nowhere_do_not_fill_memory() {
        let text: String =
            (0..=MAX_CALLERS).map(|n| format!("0x1-0x2 8192 f{n} pages=1 vmalloc\n")).collect();
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.ends_with("it names one caller more than any kernel has"), "{error}");
        let all_but_one = text[..text.trim_end().rfind('\n').unwrap()].to_owned() + "\n";
        let found = parse(&all_but_one).unwrap();
        assert_eq!(found.others + found.largest.len() as u64, MAX_CALLERS as u64);
    }

    #[test]
    fn a_name_cannot_command_a_terminal() {
        let found = parse("0x1-0x2 8192 \u{1b}[31m+0x1/0x2 pages=1 vmalloc\n").unwrap();
        assert_eq!(found.largest[0].caller, "\\u{1b}[31m");
    }
}
