//! The lines of `page_owner`.

use pageyard_trace::{MAX_ORDER, shown};
use std::io::{self, BufRead, Read};

/// The longest line that is kept; the rest of a longer one is passed over.
const LONGEST: u64 = 1 << 12;

/// Functions of a stack that are kept; the kernel keeps sixteen.
const DEEPEST: usize = 64;

/// An allocation that is not freed yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Allocation {
    pub(super) pfn: u64,
    pub(super) order: u8,
    /// Whether it was asked for as movable.
    pub(super) movable: bool,
    /// Functions, the innermost first.
    pub(super) stack: Vec<String>,
}

/// A part of the list.
pub(super) enum Parsed<'a> {
    Allocation(&'a Allocation),
    /// One whose order or frame cannot be read.
    Unreadable,
}

/// Reads the list, and hands over one allocation after the other.
pub(super) fn each(
    mut text: impl BufRead,
    progress: &mut dyn FnMut(u64),
    take: &mut dyn FnMut(Parsed<'_>),
) -> io::Result<()> {
    let mut line = Vec::new();
    let mut bytes = 0;
    let mut part = Part::None;
    let mut allocation = Allocation::default();
    loop {
        line.clear();
        let read = (&mut text).take(LONGEST).read_until(b'\n', &mut line)?;
        bytes += read as u64;
        if read == 0 {
            break;
        }
        if !line.ends_with(b"\n") {
            bytes += pass_over(&mut text)?;
        }
        let words = String::from_utf8_lossy(&line);
        let words = words.trim_end();
        if let Some(rest) = words.strip_prefix("Page allocated via order ") {
            part.end(&allocation, take);
            progress(bytes);
            let order = rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
            allocation.stack.clear();
            allocation.order = order.unwrap_or(u8::MAX);
            part = if allocation.order <= MAX_ORDER { Part::Order } else { Part::Bad };
        } else if let Some(rest) = words.strip_prefix("PFN ") {
            let mut rest = rest.split_whitespace();
            match (part, rest.next().and_then(number)) {
                (Part::Order, Some(pfn)) => {
                    allocation.pfn = pfn;
                    // `type Movable Block 4 type Movable`: the first is what was asked for.
                    allocation.movable = rest.next() == Some("type") && rest.next() == Some("Movable");
                    part = Part::Whole;
                }
                (Part::None, _) => {}
                _ => part = Part::Bad,
            }
        } else if words.starts_with(' ') && allocation.stack.len() < DEEPEST {
            let function = words.trim_start();
            let (name, rest) = function.split_once('+').unwrap_or((function, ""));
            let module = rest.split_once(' ').map_or("", |(_, module)| module);
            allocation.stack.push(shown(format!("{name} {module}").trim_end()));
        }
    }
    part.end(&allocation, take);
    progress(bytes);
    Ok(())
}

/// How much of an allocation was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    None,
    Order,
    Whole,
    Bad,
}

impl Part {
    fn end(self, allocation: &Allocation, take: &mut dyn FnMut(Parsed<'_>)) {
        match self {
            Part::None => {}
            Part::Whole => take(Parsed::Allocation(allocation)),
            Part::Order | Part::Bad => take(Parsed::Unreadable),
        }
    }
}

/// Passes the rest of a line over; returns its length.
fn pass_over(text: &mut impl BufRead) -> io::Result<u64> {
    let mut bytes = 0;
    loop {
        let there = text.fill_buf()?;
        let end = there.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let n = end.unwrap_or(there.len());
        text.consume(n);
        bytes += n as u64;
        if end.is_some() || n == 0 {
            return Ok(bytes);
        }
    }
}

/// Reads a frame number; kernels before 5.19 write it in decimal.
fn number(word: &str) -> Option<u64> {
    word.strip_prefix("0x").map_or_else(|| word.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
}

/// How the names of the allocator's own functions begin.
const ALLOCATOR: [&str; 27] = [
    "__alloc_frozen_pages",
    "__alloc_pages",
    "__folio_alloc",
    "__get_free_page",
    "__kmalloc",
    "__kmem_cache_alloc",
    "__kvmalloc",
    "__pcs_",
    "__set_page_owner",
    "__slab_alloc",
    "___kmalloc",
    "___slab_alloc",
    "alloc_from_pcs",
    "alloc_frozen_pages",
    "alloc_pages",
    "alloc_slab_page",
    "allocate_slab",
    "folio_alloc",
    "get_free_pages",
    "get_page_from_freelist",
    "kmalloc",
    "kmem_cache_alloc",
    "kvmalloc",
    "new_slab",
    "post_alloc_hook",
    "prep_new_page",
    "vma_alloc_folio",
];

/// Returns the first function of a stack that is not the allocator's, or its outermost one.
pub(super) fn caller(stack: &[String]) -> &str {
    let own = |name: &&String| !ALLOCATOR.iter().any(|prefix| name.starts_with(prefix));
    stack.iter().find(own).or(stack.last()).map_or("no stack", String::as_str)
}
