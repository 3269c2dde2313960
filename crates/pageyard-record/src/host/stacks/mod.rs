//! Linux's `page_owner`: which stacks asked for the frames that keep pageblocks from becoming huge frames.
//!
//! A kernel with `CONFIG_PAGE_OWNER` that was started with `page_owner=on` keeps the stack of each allocation, and
//! lists those that are not freed yet in the order of their frames.

mod document;
mod parse;

pub use document::{StackDocument, StacksDocument};

use pageyard::PAGEBLOCK_ORDER;
use pageyard_trace::source::reason;
use pageyard_trace::{Document, MAX_FRAMES, TraceError, shown};
use parse::{Allocation, Parsed};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Where the kernel has the list.
pub const PAGE_OWNER: &str = "/sys/kernel/debug/page_owner";

/// Frames in a pageblock.
const BLOCK: u64 = PAGEBLOCK_ORDER.frames().0;

/// Callers that are told apart; those that come later are put together.
const MOST: usize = 1 << 16;

/// The name of callers that are put together.
const OTHERS: &str = "other callers";

/// The allocations of one caller that cannot be moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackShare {
    /// The first function of the stack that is not the allocator's.
    pub caller: String,
    /// Pageblocks in which it has a frame.
    pub pageblocks: u64,
    /// Of those, the ones in which nothing else stands in the way.
    pub alone: u64,
    /// Frames.
    pub frames: u64,
    /// The stack of its first allocation, innermost function first.
    pub stack: Vec<String>,
}

/// The stacks that keep pageblocks from becoming huge frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// Allocations that are not freed yet.
    pub allocations: u64,
    /// Pageblocks with a frame that cannot be moved.
    pub lost_pageblocks: u64,
    /// By caller, that of the most pageblocks first.
    pub callers: Vec<StackShare>,
    /// Allocations that could not be read: their order or frame number is missing or impossible.
    pub unreadable: u64,
}

impl Stacks {
    /// Reads a list: [`PAGE_OWNER`], or a copy of another host's. `progress` is told how many bytes are read.
    ///
    /// # Errors
    /// When it cannot be read, with what to do where the kernel has none; and when nothing in it is an allocation.
    pub fn read(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<Stacks, TraceError> {
        let name = shown(&path.to_string_lossy());
        let file = File::open(path).map_err(|e| {
            let mut why = reason(&e);
            if path == Path::new(PAGE_OWNER) {
                why += match e.kind() {
                    std::io::ErrorKind::PermissionDenied => " (it needs root)",
                    _ => {
                        ": the kernel needs CONFIG_PAGE_OWNER and the parameter page_owner=on when it starts, and debugfs must be mounted"
                    }
                };
            }
            TraceError::Unreadable { file: name.clone(), why }
        })?;
        let unreadable = |e: std::io::Error| TraceError::Unreadable { file: name.clone(), why: reason(&e) };
        let stacks = Stacks::of(BufReader::with_capacity(1 << 20, file), progress).map_err(unreadable)?;
        if stacks.allocations == 0 {
            return Err(TraceError::Unreadable {
                file: name,
                why: "nothing in it is an allocation as page_owner lists them".to_owned(),
            });
        }
        Ok(stacks)
    }

    fn of(text: impl BufRead, progress: &mut dyn FnMut(u64)) -> std::io::Result<Stacks> {
        let mut sums = Sums::default();
        parse::each(text, progress, &mut |parsed| match parsed {
            Parsed::Allocation(allocation) => sums.take(allocation),
            Parsed::Unreadable => sums.found.unreadable += 1,
        })?;
        Ok(sums.finish())
    }
}

/// The sums so far. The list is in the order of frames, so one pageblock after the other is complete.
#[derive(Default)]
struct Sums {
    found: Stacks,
    callers: BTreeMap<String, StackShare>,
    block: u64,
    /// The callers in the pageblock under way.
    here: BTreeSet<String>,
}

impl Sums {
    fn take(&mut self, allocation: &Allocation) {
        self.found.allocations += 1;
        if allocation.movable {
            return;
        }
        let frames = 1u64 << allocation.order;
        if allocation.pfn > MAX_FRAMES - frames {
            self.found.unreadable += 1;
            return;
        }
        let name = parse::caller(&allocation.stack);
        let known = self.callers.contains_key(name) || self.callers.len() < MOST;
        let name = if known { name } else { OTHERS };
        let share = self.callers.entry(name.to_owned()).or_insert_with(|| StackShare {
            caller: name.to_owned(),
            stack: allocation.stack.clone(),
            ..StackShare::default()
        });
        share.frames += frames;
        let blocks = allocation.pfn / BLOCK..=(allocation.pfn + frames - 1) / BLOCK;
        for block in blocks {
            if block != self.block {
                self.end_block();
                self.block = block;
            }
            if !self.here.contains(name) {
                self.here.insert(name.to_owned());
            }
        }
    }

    fn end_block(&mut self) {
        let here = std::mem::take(&mut self.here);
        self.found.lost_pageblocks += u64::from(!here.is_empty());
        let alone = u64::from(here.len() == 1);
        for name in here {
            if let Some(share) = self.callers.get_mut(&name) {
                share.pageblocks += 1;
                share.alone += alone;
            }
        }
    }

    fn finish(mut self) -> Stacks {
        self.end_block();
        let mut callers: Vec<StackShare> = self.callers.into_values().collect();
        callers.sort_by(|a, b| (b.pageblocks, b.frames, &a.caller).cmp(&(a.pageblocks, a.frames, &b.caller)));
        Stacks { callers, ..self.found }
    }
}

impl Document for StacksDocument<'_> {
    const SCHEMA: &'static str = "pageyard.summary-stacks/1";
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Page allocated via order 0, mask 0x2dc2(GFP_KERNEL|__GFP_NOWARN), pid 1, tgid 1 (swapper/0), ts 1 ns
PFN 0x200 type Unmovable Block 1 type Unmovable Flags 0x0(node=0|zone=1)
 post_alloc_hook+0xc0/0xd0
 get_page_from_freelist+0x1/0x2
 __alloc_frozen_pages_noprof+0x1/0x2
 alloc_pages_mpol+0x1/0x2
 pte_alloc_one+0x14/0x60
 do_fault+0x1/0x2

Page allocated via order 1, mask 0x40dc0(GFP_KERNEL|__GFP_COMP), pid 7, ts 2 ns, free_ts 0 ns
PFN 516 type Unmovable Block 1 type Movable Flags 0x0()
 allocate_slab+0x1/0x2
 ___slab_alloc+0x1/0x2
 kmem_cache_alloc_noprof+0x1/0x2
 ext4_alloc_inode+0x1/0x2 [ext4]

Page allocated via order 0, mask 0x1(GFP_HIGHUSER_MOVABLE), pid 7, ts 2 ns
PFN 0x800 type Movable Block 4 type Movable Flags 0x0()
 vma_alloc_folio_noprof+0x1/0x2
 do_anonymous_page+0x1/0x2
Page has been migrated, last migrate reason: compaction

Page allocated via order 10, mask 0x1(GFP_KERNEL), pid 7, ts 2 ns
PFN 0xc00 type Unmovable Block 6 type Unmovable Flags 0x0()
 dma_alloc_pages+0x1/0x2
 driver_open+0x1/0x2 [driver]

Page allocated via order 99, mask 0x1(GFP_KERNEL), pid 7, ts 2 ns
PFN 0xf00 type Unmovable Block 7 type Unmovable Flags 0x0()
 driver_open+0x1/0x2

Page allocated via order 0, mask 0x1(GFP_KERNEL), pid 7, ts 2 ns
PFN what type Unmovable
";

    #[test]
    fn pageblocks_are_added_up_by_the_first_function_that_is_not_the_allocator_s() {
        let stacks = Stacks::of(TEXT.as_bytes(), &mut |_| ()).unwrap();
        let of: Vec<_> =
            stacks.callers.iter().map(|s| (s.caller.as_str(), s.pageblocks, s.alone, s.frames)).collect();
        assert_eq!(
            of,
            [
                ("dma_alloc_pages", 2, 2, 1024),
                ("ext4_alloc_inode [ext4]", 1, 0, 2),
                ("pte_alloc_one", 1, 0, 1)
            ]
        );
        assert_eq!((stacks.allocations, stacks.lost_pageblocks, stacks.unreadable), (4, 3, 2));
        assert_eq!(stacks.callers[0].stack, ["dma_alloc_pages", "driver_open [driver]"]);
    }

    #[test]
    fn a_list_that_is_not_there_says_what_the_kernel_needs() {
        let folder = tempfile::tempdir().unwrap();
        let error = Stacks::read(&folder.path().join("none"), &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("none") && !error.contains("page_owner=on"), "{error}");
        std::fs::write(folder.path().join("other"), "hello\n").unwrap();
        let error = Stacks::read(&folder.path().join("other"), &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("nothing in it is an allocation"), "{error}");
    }

    #[test]
    fn callers_from_nowhere_and_lines_without_end_do_not_fill_memory() {
        let mut text = String::new();
        for n in 0..MOST + 10 {
            text += &format!(
                "Page allocated via order 0, mask 0x1(X), pid 1\nPFN {n} type Unmovable\n f{n}+0x1/0x2\n\n"
            );
        }
        text += &"x".repeat(1 << 20);
        let stacks = Stacks::of(text.as_bytes(), &mut |_| ()).unwrap();
        assert_eq!(stacks.callers.len(), MOST + 1);
        assert_eq!(stacks.callers.iter().find(|s| s.caller == OTHERS).unwrap().frames, 10);
        let odd = Stacks::of(
            &b"\xff\xfe\nPage allocated via order 0\nPFN 1 type \x1b[2J\n \x1b[2J+0x1\n"[..],
            &mut |_| (),
        );
        assert!(!odd.unwrap().callers[0].caller.contains('\u{1b}'));
    }
}
