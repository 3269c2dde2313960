//! The order of this host's free lists and per-CPU lists, read out of its kernel's memory as debuggers do.
//!
//! `/proc/kcore` shows that memory to root, and begins with the kernel's own description of what dump tools need of it:
//! where nodes and sections are, and how large structures are and where their members lie. Nothing is stopped
//! meanwhile, so a list that changes while it is walked is begun anew, and one that goes on changing is left out.

pub(super) mod kcore;
mod percpu;

use crate::btf::TYPES;
use kcore::Kcore;
use pageyard_trace::{FreeBlock, MAX_FRAMES};
use percpu::PerCpuLists;
use std::collections::HashSet;
use std::path::Path;

/// How often a list that changes is walked.
const TRIES: u32 = 3;

/// Blocks of a list beyond which it is taken to go in a circle.
const MOST_BLOCKS: u64 = 1 << 24;

/// The bits of a section's word that are flags; what remains is where its first frame's page would be if the section
/// began with frame 0.
const SECTION_FLAGS: u64 = 0xfff;

/// The kernel's symbols.
const SYMBOLS: &str = "/proc/kallsyms";

/// The blocks on a host's lists, list after list.
pub struct Lists {
    /// Those of free lists before those of per-CPU lists.
    pub blocks: Vec<FreeBlock>,
    /// Why the per-CPU lists are not among them.
    pub percpu_not_read: Option<String>,
}

/// Reads the free lists of all zones, and the lists of these CPUs.
///
/// # Errors
/// Why they cannot be read: not root, a locked-down kernel, one without `/proc/kcore`, or one that describes itself
/// otherwise.
pub fn lists(cpus: &[u32]) -> Result<Lists, String> {
    let host = Host::find(Kcore::open(Path::new("/proc/kcore"))?)?;
    let mut blocks = host.free_blocks()?;
    let types = std::fs::read(TYPES).map_err(|e| format!("{TYPES}: {e}"));
    let lists = types.and_then(|types| PerCpuLists::find(&host.kcore, &types, Path::new(SYMBOLS), cpus));
    // They change faster, so they are read last.
    let percpu = lists.and_then(|lists| host.cached_blocks(&lists));
    let percpu_not_read = percpu.map(|cached| blocks.extend(cached)).err();
    Ok(Lists { blocks: once(blocks), percpu_not_read })
}

/// Leaves out blocks that were met before: one that goes to another list meanwhile may be met on both.
fn once(mut blocks: Vec<FreeBlock>) -> Vec<FreeBlock> {
    let mut met = HashSet::new();
    blocks.retain(|block| met.insert(block.pfn));
    blocks
}

/// Where free lists are in the kernel's memory.
struct Host {
    kcore: Kcore,
    /// The page of frame 0, and the size of a page's structure.
    pages: u64,
    page_size: u64,
    /// Within a page: the links of the list that it is on.
    lru: u64,
    /// The nodes.
    nodes: Vec<u64>,
}

impl Host {
    fn find(kcore: Kcore) -> Result<Host, String> {
        let nodes = match kcore.symbol("contig_page_data") {
            Ok(only) => vec![only],
            Err(_) => {
                let (table, all) = (kcore.symbol("node_data")?, kcore.number("LENGTH(node_data)")?);
                let nodes: Result<Vec<u64>, String> = (0..all).map(|n| kcore.word(table + 8 * n)).collect();
                nodes?.into_iter().filter(|node| *node != 0).collect()
            }
        };
        let (page_size, lru) = (kcore.number("SIZE(page)")?, kcore.number("OFFSET(page.lru)")?);
        let mut host = Host { pages: 0, page_size, lru, nodes, kcore };
        host.pages = host.first_page()?;
        Ok(host)
    }

    /// Finds the page of frame 0 from the first section that has pages.
    ///
    /// # Linux
    /// `sparse_encode_mem_map`; sections are found through a table of tables, of a page each.
    fn first_page(&self) -> Result<u64, String> {
        let kcore = &self.kcore;
        let roots = kcore.symbol("mem_section")?;
        let size = kcore.number("SIZE(mem_section)")?;
        let map = kcore.number("OFFSET(mem_section.section_mem_map)")?;
        for n in 0..kcore.number("LENGTH(mem_section)")? {
            let root = kcore.word(roots + 8 * n)?;
            for section in (0..4096 / size.max(1)).take_while(|_| root != 0) {
                match kcore.word(root + section * size + map)? & !SECTION_FLAGS {
                    0 => {}
                    pages => return Ok(pages),
                }
            }
        }
        Err("its kernel names no section of memory".into())
    }

    fn free_blocks(&self) -> Result<Vec<FreeBlock>, String> {
        let number = |name| self.kcore.number(name);
        let (areas, area_size) = (number("OFFSET(zone.free_area)")?, number("SIZE(free_area)")?);
        let (lists, list_size) = (number("OFFSET(free_area.free_list)")?, number("SIZE(list_head)")?);
        let (orders, types) = (number("LENGTH(zone.free_area)")?, number("LENGTH(free_area.free_list)")?);
        let mut blocks = Vec::new();
        for zone in self.zones()? {
            for (order, kind) in (0..orders).flat_map(|order| (0..types).map(move |kind| (order, kind))) {
                let head = zone + areas + order * area_size + lists + kind * list_size;
                let (order, migratetype) = (order as u8, kind as i8);
                let list = self.list(head, order).into_iter();
                blocks.extend(list.map(|pfn| FreeBlock { pfn, order, migratetype, cpu: None }));
            }
        }
        Ok(blocks)
    }

    fn cached_blocks(&self, lists: &PerCpuLists) -> Result<Vec<FreeBlock>, String> {
        let mut blocks = Vec::new();
        for zone in self.zones()? {
            for (cpu, order, migratetype, head) in lists.of_zone(&self.kcore, zone)? {
                let list = self.list(head, order).into_iter();
                blocks.extend(list.map(|pfn| FreeBlock { pfn, order, migratetype, cpu: Some(cpu) }));
            }
        }
        Ok(blocks)
    }

    /// Returns the addresses of all zones.
    fn zones(&self) -> Result<Vec<u64>, String> {
        let number = |name| self.kcore.number(name);
        let (zones, all) =
            (number("OFFSET(pglist_data.node_zones)")?, number("OFFSET(pglist_data.nr_zones)")?);
        let size = number("SIZE(zone)")?;
        let mut found = Vec::new();
        for node in &self.nodes {
            // A word of 32 bits.
            let n = self.kcore.word(node + all)? & 0xffff_ffff;
            found.extend((0..n.min(8)).map(|n| node + zones + n * size));
        }
        Ok(found)
    }

    /// Walks a list, and anew where it changes meanwhile; nothing where it goes on changing.
    fn list(&self, head: u64, order: u8) -> Vec<u64> {
        (0..TRIES).find_map(|_| self.walk(head, order)).unwrap_or_default()
    }

    /// Walks a list; `None` where it changed meanwhile.
    fn walk(&self, head: u64, order: u8) -> Option<Vec<u64>> {
        let next = |at: u64| self.kcore.word(at).ok();
        let mut blocks = Vec::new();
        let mut at = next(head)?;
        while at != head {
            let into = at.checked_sub(self.lru)?.checked_sub(self.pages)?;
            let pfn = into / self.page_size;
            // What is no page of a block of this order was taken off the list meanwhile.
            let is_block = into.is_multiple_of(self.page_size) && pfn.trailing_zeros() >= order.into();
            if !is_block || pfn > MAX_FRAMES || blocks.len() as u64 > MOST_BLOCKS {
                return None;
            }
            blocks.push(pfn);
            at = next(at)?;
        }
        Some(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::kcore::written;
    use super::*;
    use crate::btf::made_of;
    use std::io::Write;

    /// Where the made-up kernel has its parts: addresses that are offsets in its memory.
    const NODE: u64 = 0x1000;
    const ROOTS: u64 = 0x2000;
    const SECTIONS: u64 = 0x3000;
    const PAGES: u64 = 0x10_0000;
    const ZONE: u64 = NODE + 256;
    /// Where each CPU's own data begins; where that of CPU 1 does; and that CPU's lists.
    const PARTS: u64 = 0x4000;
    const PART: u64 = 0x200;
    const PERCPU: u64 = 0x5000;

    const ABOUT: &str = "OSRELEASE=test
SYMBOL(node_data)=500
LENGTH(node_data)=2
SYMBOL(mem_section)=2000
LENGTH(mem_section)=4
SIZE(mem_section)=16
OFFSET(mem_section.section_mem_map)=0
SIZE(page)=64
OFFSET(page.lru)=8
OFFSET(pglist_data.node_zones)=256
OFFSET(pglist_data.nr_zones)=8
SIZE(zone)=512
OFFSET(zone.free_area)=64
SIZE(free_area)=48
OFFSET(free_area.free_list)=0
LENGTH(zone.free_area)=3
LENGTH(free_area.free_list)=2
SIZE(list_head)=16
";

    /// Makes a kernel with one node of one zone, whose lists are `lists`: where each begins, and its blocks in order.
    fn kernel(about: &str, lists: &[(u64, &[u64])]) -> Result<Host, String> {
        let mut memory = vec![0; (PAGES + 64 * 64) as usize];
        let mut put = |at: u64, word: u64| {
            if let Some(slot) = memory.get_mut(at as usize..at as usize + 8) {
                slot.copy_from_slice(&word.to_le_bytes());
            }
        };
        put(0x500, NODE);
        // The first section has no pages; the second one begins at frame 0 and has flags.
        put(ROOTS, SECTIONS);
        put(SECTIONS + 16, PAGES | 0xf);
        put(NODE + 8, 1);
        put(ZONE + 32, PERCPU - PART);
        put(PARTS + 8, PART);
        let heads = (0..3).flat_map(|o| (0..2).map(move |k| free(o, k)));
        heads.chain((0..14).map(cached)).for_each(|head| put(head, head));
        for (head, blocks) in lists {
            let links: Vec<u64> = blocks.iter().map(|pfn| PAGES + 64 * pfn + 8).collect();
            let all = [&[*head], links.as_slice(), &[*head]].concat();
            all.windows(2).for_each(|two| put(two[0], two[1]));
        }
        let file = written(about, &memory);
        Host::find(Kcore::open(file.path())?)
    }

    /// Where a free list begins.
    fn free(order: u64, kind: u64) -> u64 {
        ZONE + 64 + 48 * order + 16 * kind
    }

    /// Where a list of CPU 1 begins.
    fn cached(number: u64) -> u64 {
        PERCPU + 48 + 16 * number
    }

    #[test]
    fn lists_are_read_in_their_order() {
        let read = |lists: &[(u64, &[u64])]| {
            let blocks = kernel(ABOUT, lists).unwrap().free_blocks().unwrap();
            blocks.iter().map(|b| (b.pfn, b.order, b.migratetype, b.cpu)).collect::<Vec<_>>()
        };
        let listed = [(7, 0, 1, None), (3, 0, 1, None), (5, 0, 1, None), (12, 2, 0, None), (8, 2, 0, None)];
        assert_eq!(read(&[(free(0, 1), &[7, 3, 5]), (free(2, 0), &[12, 8])]), listed);
        assert_eq!(read(&[]), []);
    }

    #[test]
    fn lists_of_a_cpu_are_read_in_their_order() {
        let host = kernel(ABOUT, &[(cached(1), &[9, 4]), (cached(5), &[6]), (free(0, 1), &[7])]).unwrap();
        let mut symbols = tempfile::NamedTempFile::new().unwrap();
        writeln!(symbols, "{PARTS:x} D __per_cpu_offset").unwrap();
        let find =
            |structures: &[_]| PerCpuLists::find(&host.kcore, &made_of(structures), symbols.path(), &[1]);
        let lists = find(&[("zone", "per_cpu_pageset", 32, 1), ("per_cpu_pages", "lists", 48, 14)]).unwrap();
        let blocks = host.cached_blocks(&lists).unwrap();
        let read: Vec<_> = blocks.iter().map(|b| (b.pfn, b.order, b.migratetype, b.cpu)).collect();
        assert_eq!(read, [(9, 0, 1, Some(1)), (4, 0, 1, Some(1)), (6, 1, 2, Some(1))]);
        let why = |structures: &[_]| find(structures).map(|_| ()).unwrap_err();
        assert!(why(&[("zone", "pageset", 32, 1)]).contains("where zone.per_cpu_pageset is"));
        let three = [("zone", "per_cpu_pageset", 32, 1), ("per_cpu_pages", "lists", 48, 3)];
        assert!(why(&three).contains("3 per-CPU lists"));
    }

    #[test]
    fn a_list_that_leads_astray_is_left_out() {
        // Frame 6 begins no block of order 2; frame 200 has no page.
        for astray in [6, 200] {
            let host = kernel(ABOUT, &[(free(2, 0), &[8, astray]), (free(0, 0), &[1])]).unwrap();
            let only = FreeBlock { pfn: 1, order: 0, migratetype: 0, cpu: None };
            assert_eq!(host.free_blocks().unwrap(), [only], "{astray}");
        }
    }

    #[test]
    fn a_block_that_is_met_twice_is_told_once() {
        let block = |pfn, order| FreeBlock { pfn, order, migratetype: 0, cpu: None };
        assert_eq!(once(vec![block(4, 0), block(8, 2), block(4, 1)]), [block(4, 0), block(8, 2)]);
    }

    #[test]
    fn a_kernel_that_does_not_describe_itself_is_said() {
        let why = |about: &str| kernel(about, &[]).and_then(|host| host.free_blocks()).unwrap_err();
        assert!(why("").contains("does not describe itself"));
        assert!(why(&ABOUT.replace("SIZE(page)", "SIZE(leaf)")).contains("does not say SIZE(page)"));
        assert!(why(&ABOUT.replace("node_data)=500", "nodes)=500")).contains("where node_data is"));
        assert!(
            why(&ABOUT.replace("mem_section)=2000", "mem_section)=f000000")).contains("the address f000000")
        );
        let nothing = Kcore::open(Path::new("/nowhere")).map(|_| ()).unwrap_err();
        assert!(nothing.contains("/nowhere: "), "{nothing}");
    }
}
