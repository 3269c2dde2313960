//! The first line of a failure: who asked for what, and what kind of failure it is.

use pageyard::Gfp;

use super::line::without_prefix;
use crate::failures::gfp_of_names;
use crate::text::shown;

/// Nodes that can be told apart.
const MOST_NODES: usize = 256;

/// The longest name of a process, in bytes.
///
/// # Linux
/// `TASK_COMM_LEN`, less its NUL
const LONGEST_COMM: usize = 15;

/// The kind of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoggedKind {
    /// A request was refused: `page allocation failure`.
    #[default]
    Refused,
    /// A request waited for so many milliseconds: `page allocation stalls`, of 4.9 to 4.14; or XFS said that it has
    /// been trying for long.
    Stalled {
        /// How long, where the line says it.
        ms: Option<u64>,
    },
    /// A process was killed for it: `invoked oom-killer`.
    Killed,
    /// A memory control group is at its limit, and a process of it was killed.
    Group {
        /// The group's name, where it was printed.
        name: String,
        /// Its usage, in KiB.
        usage_kib: Option<u64>,
        /// Its limit, in KiB.
        limit_kib: Option<u64>,
    },
    /// A request for virtually contiguous memory failed.
    Vmalloc {
        /// Its size in bytes, where it was printed.
        bytes: Option<u64>,
        /// Whether addresses were lacking, not frames.
        lacks_addresses: bool,
    },
    /// A cache of kernel objects could not grow.
    Slab {
        /// The cache.
        cache: String,
    },
    /// A contiguous area could not give a range.
    Contiguous {
        /// Frames that were asked for.
        frames: u64,
        /// The error: 16 is EBUSY, a frame of the range could not be moved; 12 is ENOMEM.
        error: u32,
    },
    /// A pool of huge pages could not be filled.
    HugePool {
        /// Huge pages that were asked for.
        asked: u64,
        /// Those that the pool got.
        got: u64,
    },
}

impl LoggedKind {
    /// Returns the name that documents and metrics use.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            LoggedKind::Refused => "allocation_failure",
            LoggedKind::Stalled { .. } => "stall",
            LoggedKind::Killed => "oom_killer",
            LoggedKind::Group { .. } => "memory_control_group",
            LoggedKind::Vmalloc { .. } => "vmalloc",
            LoggedKind::Slab { .. } => "slub",
            LoggedKind::Contiguous { .. } => "cma",
            LoggedKind::HugePool { .. } => "hugetlb_pool",
        }
    }

    /// Returns whether its report has no description of memory.
    #[must_use]
    pub fn has_no_memory(&self) -> bool {
        match self {
            LoggedKind::Slab { .. } | LoggedKind::Contiguous { .. } | LoggedKind::HugePool { .. } => true,
            LoggedKind::Vmalloc { lacks_addresses, .. } => *lacks_addresses,
            _ => false,
        }
    }
}

/// A request as the kernel printed it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoggedRequest {
    /// The kind of report.
    pub kind: LoggedKind,
    /// The process that ran then, made fit to be shown. In an interrupt it did not ask itself.
    pub comm: String,
    /// The order.
    pub order: u8,
    /// The kernel's bits, where they were printed.
    pub mode: Option<u32>,
    /// The flags, by their names where they are printed, else by the bits that all kernels have in common.
    pub gfp: Gfp,
    /// The flags as they were printed; empty where the kernel prints bits alone.
    pub names: String,
    /// The nodes that the request was restricted to, where it was.
    pub nodes: Option<Vec<u8>>,
    /// The nodes that the process may use, where they were printed.
    pub mems_allowed: Option<Vec<u8>>,
    /// Whether the killer says that a cpuset or a policy limited it to nodes.
    pub is_limited: bool,
}

impl LoggedRequest {
    /// Reads the first line of a failure; anything else is `None`. What it names of the request may stand in the next
    /// lines: see [`LoggedRequest::more`].
    ///
    /// # Linux
    /// `warn_alloc` (`warn_alloc_failed` before 4.10), `dump_header` of the killer, `__vmalloc_node_range`,
    /// `slab_out_of_memory`, `cma_alloc`, `hugetlb_hstate_alloc_pages`.
    pub(super) fn parse(text: &str) -> Option<LoggedRequest> {
        let (kind, comm, rest) = refused(text)
            .or_else(|| stalled(text))
            .or_else(|| killed(text))
            .or_else(|| vmalloc(text))
            .or_else(|| slab(text))
            .or_else(|| contiguous(text))
            .or_else(|| huge_pool(text))?;
        let mut request = LoggedRequest { kind, comm: shown(name_of(comm)), ..LoggedRequest::default() };
        request.more(rest);
        if let (LoggedKind::Vmalloc { .. }, Some((_, order))) = (&request.kind, split(rest, "page order ")) {
            request.order = order
                .split(',')
                .next()
                .and_then(|n| n.parse().ok())
                .filter(|n| usize::from(*n) < pageyard::NR_ORDERS)
                .unwrap_or(0);
        }
        // An order that no kernel has is no kernel's line.
        let order = value(rest, "order").and_then(|v| v.parse::<u64>().ok()).unwrap_or(0);
        (order < pageyard::NR_ORDERS as u64).then_some(request)
    }

    /// Returns whether a line of a log, as `dmesg` prints it, is the first of a report.
    #[must_use]
    pub fn begins(line: &str) -> bool {
        LoggedRequest::parse(without_prefix(line).text).is_some()
    }

    /// Returns whether its order or flags may still follow.
    pub(super) fn is_open(&self) -> bool {
        self.mode.is_none()
    }

    /// Reads what a line says of the request: its order, flags and nodes.
    pub(super) fn more(&mut self, text: &str) {
        let order = value(text, "order").and_then(|v| v.parse::<u8>().ok());
        if let Some(order) = order.filter(|&o| usize::from(o) < pageyard::NR_ORDERS) {
            self.order = order;
        }
        self.mems(text);
        let mode = ["mode", "gfp_mask", "gfp"].iter().find_map(|name| value(text, name));
        let Some(mode) = mode.filter(|_| self.mode.is_none()) else { return };
        let Some(digits) = mode.strip_prefix("0x") else { return };
        let Ok(bits) = u32::from_str_radix(digits, 16) else { return };
        // Behind the bits, in parentheses.
        let after = text.find(mode).map_or("", |at| &text[at + mode.len()..]);
        let names = after.strip_prefix('(').and_then(|a| a.split(')').next()).unwrap_or_default();
        let names = if names.len() <= 512 && !names.contains(' ') { names } else { "" };
        self.mode = Some(bits);
        self.gfp = if names.is_empty() { common(bits) } else { gfp_of_names(names) };
        self.names = shown(names);
    }

    /// Reads what the rest of the report says of its kind.
    pub(super) fn finish(&mut self, text: &str) {
        self.is_limited = text.contains("CONSTRAINT_CPUSET") || text.contains("CONSTRAINT_MEMORY_POLICY");
        let marks =
            ["CONSTRAINT_MEMCG", " as a result of limit of ", "mem_cgroup_oom", "mem_cgroup_out_of_memory"];
        let is_group = marks.iter().any(|mark| text.contains(mark));
        if self.kind == LoggedKind::Killed && is_group {
            self.kind = LoggedKind::Group { name: String::new(), usage_kib: None, limit_kib: None };
        }
        let behind = |mark: &str| {
            let (_, rest) = split(text, mark)?;
            rest.split([',', ' ', '\n']).find(|word| !word.is_empty())
        };
        match &mut self.kind {
            LoggedKind::Group { name, usage_kib, limit_kib } => {
                let of = |mark| behind(mark)?.trim_end_matches("kB").parse().ok();
                (*usage_kib, *limit_kib) = (of("memory: usage "), of_limit(text));
                let named = behind("oom_memcg=")
                    .or_else(|| behind(" as a result of limit of "))
                    .or_else(|| behind("stats for "));
                *name = shown(named.unwrap_or_default().trim_end_matches(':'));
            }
            LoggedKind::Contiguous { error, .. } if *error == 0 => {
                *error = behind("ret: -").and_then(|n| n.parse().ok()).unwrap_or(0);
            }
            LoggedKind::Slab { cache } => *cache = shown(behind("cache: ").unwrap_or_default()),
            _ => {}
        }
    }

    /// Reads `mems_allowed=0-1`, which older kernels print in a line of its own.
    pub(super) fn mems(&mut self, text: &str) {
        if let Some(mems) = value(text, "mems_allowed").and_then(list) {
            self.mems_allowed = Some(mems);
        }
        self.nodes = self.nodes.take().or_else(|| value(text, "nodemask").and_then(list));
        if text.contains("CONSTRAINT_CPUSET") {
            self.nodes = self.nodes.take().or_else(|| self.mems_allowed.clone());
        }
    }
}

/// A kind, what stands before its mark, and the rest of the line.
type Beginning<'a> = (LoggedKind, &'a str, &'a str);

fn split<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let at = text.find(mark)?;
    Some((&text[..at], &text[at + mark.len()..]))
}

fn refused(text: &str) -> Option<Beginning<'_>> {
    let marks = ["page allocation failure", "vmemmap alloc failure"];
    let (before, rest) = marks.iter().find_map(|mark| split(text, mark))?;
    // Before 3.x a full stop came behind it. Where several CPUs wrote at once the name stands in another line.
    let is_one =
        (before.is_empty() || before.ends_with(": ")) && (rest.is_empty() || rest.starts_with([':', '.']));
    let says = rest.trim_matches([':', '.', ' ']);
    (is_one && (says.is_empty() || value(says, "order").is_some())).then_some((
        LoggedKind::Refused,
        before,
        rest.trim_start_matches([':', '.']),
    ))
}

fn stalled(text: &str) -> Option<Beginning<'_>> {
    if let Some((before, rest)) = split(text, "page allocation stalls for ") {
        let ms = rest.split("ms").next().and_then(|n| n.parse().ok());
        return Some((LoggedKind::Stalled { ms }, before, rest));
    }
    let (before, rest) = split(text, "ossible memory allocation deadlock")?;
    Some((LoggedKind::Stalled { ms: None }, before, rest))
}

fn killed(text: &str) -> Option<Beginning<'_>> {
    if let Some((before, rest)) = split(text, " invoked oom-killer:") {
        return Some((LoggedKind::Killed, before, rest));
    }
    // The last line, where the first was cut off.
    let group = LoggedKind::Group { name: String::new(), usage_kib: None, limit_kib: None };
    let marks = [
        ("Memory cgroup out of memory: Kill", group.clone()),
        ("Memory cgroup stats for ", group),
        ("Out of memory: Kill", LoggedKind::Killed),
    ];
    marks.into_iter().find_map(|(mark, kind)| split(text, mark).map(|(_, rest)| (kind, "", rest)))
}

fn vmalloc(text: &str) -> Option<Beginning<'_>> {
    if let Some((before, rest)) = split(text, "vmap allocation for size ") {
        let bytes = rest.split(' ').next().and_then(|n| n.parse().ok());
        return Some((LoggedKind::Vmalloc { bytes, lacks_addresses: true }, before, rest));
    }
    let marks = ["vmalloc: allocation failure", "vmalloc error: ", "vmalloc size "];
    let (before, rest) = marks.iter().find_map(|mark| split(text, mark))?;
    let bytes =
        rest.split([' ', ',', ':']).find_map(|word| word.parse::<u64>().ok()).filter(|bytes| *bytes > 0);
    let lacks_addresses = rest.contains("vm_struct allocation failed");
    Some((LoggedKind::Vmalloc { bytes, lacks_addresses }, before, rest))
}

fn slab(text: &str) -> Option<Beginning<'_>> {
    let (before, rest) = split(text, ": Unable to allocate memory on node ")?;
    before.contains("SLUB").then_some(()).or_else(|| before.contains("SLAB").then_some(()))?;
    // `gfp=0xd0` in parentheses until 4.x.
    Some((LoggedKind::Slab { cache: String::new() }, "", rest.trim_start_matches(|c: char| c != 'g')))
}

fn contiguous(text: &str) -> Option<Beginning<'_>> {
    let (_, rest) = split(text, "cma_alloc")?;
    let (_, rest) = split(rest, "alloc failed")?;
    let number = |name| value(rest, name).and_then(|v| v.trim_start_matches('-').parse::<u64>().ok());
    // The size is in frames; a blank stands before the number.
    let frames = split(rest, "req-size:")
        .and_then(|(_, after)| after.trim_start().split(' ').next()?.parse().ok())
        .or_else(|| number("req-size"))?;
    let error = split(rest, "ret:")
        .and_then(|(_, after)| after.trim().trim_start_matches('-').parse().ok())
        .unwrap_or(0);
    Some((LoggedKind::Contiguous { frames, error }, "", ""))
}

fn huge_pool(text: &str) -> Option<Beginning<'_>> {
    let (_, rest) = split(text, "HugeTLB: allocating ")?;
    let asked = rest.split(' ').next()?.parse().ok()?;
    let (_, got) = split(rest, "Only allocated ")?;
    let got = got.split(' ').next()?.parse().ok()?;
    Some((LoggedKind::HugePool { asked, got }, "", ""))
}

/// Reads `memory: usage 524288kB, limit 524288kB, failcnt 83`.
fn of_limit(text: &str) -> Option<u64> {
    let (_, rest) = split(text, "memory: usage ")?;
    let (_, limit) = split(rest.lines().next()?, "limit ")?;
    limit.split([',', ' ']).next()?.trim_end_matches("kB").parse().ok()
}

/// Cuts what a logger put before a process's name, which is short.
fn name_of(before: &str) -> &str {
    let before = before.trim().trim_end_matches(':');
    let name = before.rsplit(']').next().unwrap_or(before);
    let name = name.rsplit(": ").next().unwrap_or(name).trim();
    match name.char_indices().rev().nth(LONGEST_COMM - 1) {
        Some((at, _)) => &name[at..],
        None => name,
    }
}

/// Finds `NAME:VALUE` or `NAME=VALUE`. A value ends at a blank, a parenthesis, or a comma before another name.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let starts = text.match_indices(name).map(|(at, _)| at);
    let at = starts.into_iter().find(|&at| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| c == ' ' || c == ',') && text[at + name.len()..].starts_with([':', '='])
    })?;
    let rest = &text[at + name.len() + 1..];
    let is_end = |(at, c): (usize, char)| match c {
        ' ' | '(' | ')' => true,
        ',' => !rest[at + 1..].starts_with(|c: char| c.is_ascii_digit()),
        _ => false,
    };
    let end = rest.char_indices().find(|&c| is_end(c)).map_or(rest.len(), |(at, _)| at);
    Some(&rest[..end])
}

/// Reads `0-3,8`, nodes. `(null)` is no restriction.
fn list(text: &str) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u8, u8) = (first.parse().ok()?, last.parse().ok()?);
        all.extend(first..=last);
        // A kernel names each once.
        if all.len() > MOST_NODES {
            return None;
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Reads the bits that every kernel numbers alike. Whether a request can wait is not among them: one that may start
/// input and output, or call into a file system, can.
fn common(bits: u32) -> Gfp {
    let known = [
        (0x01, Gfp::DMA),
        (0x02, Gfp::HIGHMEM),
        (0x04, Gfp::DMA32),
        (0x08, Gfp::MOVABLE),
        (0x20, Gfp::HIGH),
        (0x40, Gfp::IO | Gfp::DIRECT_RECLAIM | Gfp::KSWAPD_RECLAIM),
        (0x80, Gfp::FS | Gfp::DIRECT_RECLAIM | Gfp::KSWAPD_RECLAIM),
    ];
    known.iter().filter(|(bit, _)| bits & bit != 0).fold(Gfp::empty(), |all, (_, gfp)| all | *gfp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> LoggedRequest {
        LoggedRequest::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn each_kernels_first_line_is_read() {
        let old = read("swapper/0: page allocation failure. order:3, mode:0x4020");
        assert_eq!((old.order, old.mode, old.comm.as_str()), (3, Some(0x4020), "swapper/0"));
        assert_eq!(old.gfp, Gfp::HIGH);
        assert_eq!(read("cc1: page allocation failure: order:9, mode:0x24280ca").gfp & Gfp::IO, Gfp::IO);
        let named = read(
            "kworker/u8:1: page allocation failure: order:4, mode:0x26040c0(GFP_KERNEL|__GFP_COMP|__GFP_NOTRACK)",
        );
        assert!(named.gfp.contains(Gfp::DIRECT_RECLAIM | Gfp::COMP | Gfp::FS) && named.nodes.is_none());
        let nodes = read(
            "a b: page allocation failure: order:0, mode:0x480020(GFP_ATOMIC), nodemask=0-1,3,cpuset=/,mems_allowed=0-3",
        );
        assert_eq!((nodes.nodes, nodes.mems_allowed), (Some(vec![0, 1, 3]), Some(vec![0, 1, 2, 3])));
        assert_eq!(nodes.comm, "a b");
        let any = read("x: page allocation failure: order:0, mode:0x820(GFP_ATOMIC), nodemask=(null)");
        assert_eq!(any.nodes, None);
        let mut split = any;
        split.mems("x cpuset=/ mems_allowed=0");
        assert_eq!(split.mems_allowed, Some(vec![0]));
        let killed = read(
            "python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
        );
        assert_eq!((killed.kind, killed.order), (LoggedKind::Killed, 0));
        assert!(killed.gfp.contains(Gfp::MOVABLE | Gfp::HARDWALL));
    }

    #[test]
    fn every_kind_of_report_is_known_by_its_first_line() {
        let group = |text| matches!(read(text).kind, LoggedKind::Group { .. });
        assert!(group("Memory cgroup out of memory: Killed process 4242 (java) total-vm:1kB"));
        let stall =
            read("x: page allocation stalls for 10048ms, order:0, mode:0x14200ca(GFP_HIGHUSER_MOVABLE)");
        assert_eq!((stall.kind, stall.order), (LoggedKind::Stalled { ms: Some(10_048) }, 0));
        let vmalloc = read("x: vmalloc: allocation failure: 4096 bytes, mode:0xcc0(GFP_KERNEL)");
        assert_eq!(vmalloc.kind, LoggedKind::Vmalloc { bytes: Some(4096), lacks_addresses: false });
        let error =
            read("q: vmalloc error: size 0, page order 9, failed to allocate pages, mode:0xdc2(GFP_KERNEL)");
        assert_eq!(
            (error.kind, error.order),
            (LoggedKind::Vmalloc { bytes: None, lacks_addresses: false }, 9)
        );
        let vmap = read("vmap allocation for size 1052672 failed: use vmalloc=<size> to increase size");
        assert_eq!(vmap.kind, LoggedKind::Vmalloc { bytes: Some(1_052_672), lacks_addresses: true });
        let slub = read("SLUB: Unable to allocate memory on node -1, gfp=0xa20(GFP_ATOMIC)");
        assert_eq!((slub.kind, slub.mode), (LoggedKind::Slab { cache: String::new() }, Some(0xa20)));
        assert_eq!(read("SLUB: Unable to allocate memory on node -1 (gfp=0xd0)").mode, Some(0xd0));
        let stats = "Memory cgroup stats for /kubepods/a: cache:0KB rss:613460KB";
        assert!(matches!(read(stats).kind, LoggedKind::Group { .. }));
        let cma = read("cma: cma_alloc: reserved: alloc failed, req-size: 256 pages, ret: -16");
        assert_eq!(cma.kind, LoggedKind::Contiguous { frames: 256, error: 16 });
        let pool =
            read("HugeTLB: allocating 512 of page size 2.00 MiB failed.  Only allocated 300 hugepages.");
        assert_eq!(pool.kind, LoggedKind::HugePool { asked: 512, got: 300 });
    }

    #[test]
    fn a_first_line_in_pieces_is_put_together() {
        let mut read = read("swapper/0: page allocation failure:");
        assert!(read.is_open());
        read.more("order:2, mode:0x2280020(GFP_ATOMIC|__GFP_NOTRACK)");
        assert_eq!((read.order, read.is_open()), (2, false));
        assert!(read.gfp.contains(Gfp::HIGH) && read.comm == "swapper/0");
        assert_eq!(
            name_of("07-13 08:41:51 <4>[30.6s][pid:1361,cpu5,sMgr]sManagerService: "),
            "sManagerService"
        );
    }

    #[test]
    fn what_is_no_first_line_is_none() {
        for text in [
            "",
            "see page allocation failure in the manual",
            "x: page allocation failure: order:99, mode:0x20",
            "cma: number of available pages: 6@8314",
        ] {
            assert_eq!(LoggedRequest::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_list_of_nodes_that_repeats_itself_is_no_list() {
        assert_eq!(list("0-255").map(|all| all.len()), Some(256));
        assert_eq!(list(&["0-255"; 1000].join(",")), None);
    }
}
