//! Where a kernel has its per-CPU lists. What it says for dump tools leaves them out; its description of its types and
//! its table of symbols have them.

use super::kcore::Kcore;
use crate::btf::Btf;
use std::path::Path;

/// Lists for single blocks: three types of each order up to 3.
const SMALL: u32 = 12;

/// The types that those lists are of.
const TYPES: u32 = 3;

/// The order of a huge page, and movable memory by the kernel's number.
const HUGE: u8 = 9;
const MOVABLE: i8 = 1;

/// Where per-CPU lists are.
pub(super) struct PerCpuLists {
    /// Within a zone: the address of its lists, less a CPU's part.
    zone_at: u64,
    /// Within those: the first list.
    lists_at: u64,
    /// For each list, the order of its blocks and its type.
    lists: Vec<(u8, i8)>,
    /// For each CPU, where its part of such an address begins.
    parts: Vec<(u32, u64)>,
}

impl PerCpuLists {
    /// Finds them; `types` is the kernel's description of its types, `symbols` the file of its symbols.
    ///
    /// # Errors
    /// Why they cannot be read: until 5.13 kernels have other lists.
    pub(super) fn find(
        kcore: &Kcore,
        types: &[u8],
        symbols: &Path,
        cpus: &[u32],
    ) -> Result<PerCpuLists, String> {
        let types = Btf::parse(types).ok_or("its description of types cannot be understood")?;
        let at = |structure, member| {
            let at = types.offset_of(structure, member);
            at.map(u64::from).ok_or_else(|| format!("its kernel does not say where {structure}.{member} is"))
        };
        let (zone_at, lists_at) = (at("zone", "per_cpu_pageset")?, at("per_cpu_pages", "lists")?);
        let number = types.length_of("per_cpu_pages", "lists").unwrap_or(0);
        let lists =
            lists(number).ok_or_else(|| format!("its kernel has {number} per-CPU lists of a zone"))?;
        let table = address("__per_cpu_offset", symbols)?;
        let part = |cpu: &u32| Ok((*cpu, kcore.word(table + 8 * u64::from(*cpu))?));
        let parts = cpus.iter().map(part).collect::<Result<_, String>>()?;
        Ok(PerCpuLists { zone_at, lists_at, lists, parts })
    }

    /// Iterates over a zone's lists: the CPU, the order and type of a list, and where it begins.
    pub(super) fn of_zone(
        &self,
        kcore: &Kcore,
        zone: u64,
    ) -> Result<impl Iterator<Item = (u32, u8, i8, u64)>, String> {
        let all = kcore.word(zone + self.zone_at)?;
        let cpus = self.parts.iter().map(move |(cpu, part)| (*cpu, all.wrapping_add(*part)));
        Ok(cpus.flat_map(move |(cpu, here)| {
            let heads = (0..).map(move |n| here.wrapping_add(self.lists_at + 16 * n));
            self.lists.iter().zip(heads).map(move |((order, m), head)| (cpu, *order, *m, head))
        }))
    }
}

/// Returns the orders and types of so many lists; `None` where that many are not known.
///
/// # Linux
/// `order_to_pindex`: since 6.10 huge pages have two lists, of movable memory and of other memory; before, one.
fn lists(number: u32) -> Option<Vec<(u8, i8)>> {
    let huge: &[i8] = match number.checked_sub(SMALL)? {
        0 => &[],
        1 => &[MOVABLE],
        2 => &[0, MOVABLE],
        _ => return None,
    };
    let small = (0..SMALL).map(|n| ((n / TYPES) as u8, (n % TYPES) as i8));
    Some(small.chain(huge.iter().map(|m| (HUGE, *m))).collect())
}

/// Finds the address of a symbol.
fn address(symbol: &str, symbols: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(symbols).map_err(|e| format!("{}: {e}", symbols.display()))?;
    let mut lines = text.lines().map(|line| line.split_whitespace());
    let found = lines.find_map(|mut words| {
        let address = words.next()?;
        (words.nth(1)? == symbol).then(|| u64::from_str_radix(address, 16).ok())?
    });
    found.filter(|at| *at != 0).ok_or_else(|| format!("{} does not show {symbol}", symbols.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lists_of_known_kernels_have_orders_and_types() {
        let of = |number| lists(number).unwrap();
        assert_eq!(of(12)[..4], [(0, 0), (0, 1), (0, 2), (1, 0)]);
        assert_eq!(of(13)[11..], [(3, 2), (9, 1)]);
        assert_eq!(of(14)[12..], [(9, 0), (9, 1)]);
        assert_eq!([0, 3, 11, 15].map(lists), [None, None, None, None]);
    }

    #[test]
    fn a_symbol_is_found_or_said_to_be_hidden() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "ffff0010 D other\nffff0020 D __per_cpu_offset\n00000000 D hidden").unwrap();
        assert_eq!(address("__per_cpu_offset", file.path()), Ok(0xffff_0020));
        for missing in ["hidden", "none"] {
            assert!(
                address(missing, file.path()).unwrap_err().ends_with(&format!("does not show {missing}"))
            );
        }
    }
}
