//! The first line of a failure: who asked for what.

use pageyard::Gfp;

use crate::failures::gfp_of_names;
use crate::text::shown;

/// Nodes that can be told apart.
const MOST_NODES: usize = 256;

/// The kernel's reaction when it had no memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoggedKind {
    /// It refused the request.
    #[default]
    Refused,
    /// It killed a process for it.
    Killed,
}

/// A request as the kernel printed it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoggedRequest {
    /// The outcome.
    pub kind: LoggedKind,
    /// The process that ran then, made fit to be shown. In an interrupt it did not ask itself.
    pub comm: String,
    /// The order.
    pub order: u8,
    /// The kernel's bits.
    pub mode: u32,
    /// The flags, by their names where they are printed, else by the bits that all kernels have in common.
    pub gfp: Gfp,
    /// The flags as they were printed; empty where the kernel prints bits alone.
    pub names: String,
    /// The nodes that the request was restricted to, where it was.
    pub nodes: Option<Vec<u8>>,
    /// The nodes that the process may use, where they were printed.
    pub mems_allowed: Option<Vec<u8>>,
}

impl LoggedRequest {
    /// Reads the first line of a failure; anything else is `None`.
    ///
    /// # Linux
    /// `warn_alloc` (`warn_alloc_failed` before 4.10), `dump_header` of the killer.
    pub(super) fn parse(text: &str) -> Option<LoggedRequest> {
        // Until 3.x a full stop came behind it.
        let refused = [": page allocation failure: ", ": page allocation failure. "];
        let found = refused.iter().find_map(|mark| text.find(mark).map(|at| (at, at + mark.len())));
        let (kind, at, rest) = match found {
            Some((at, behind)) => (LoggedKind::Refused, at, &text[behind..]),
            None => {
                let mark = " invoked oom-killer: ";
                let at = text.find(mark)?;
                (LoggedKind::Killed, at, &text[at + mark.len()..])
            }
        };
        let comm = text[..at].trim();
        let order = value(rest, "order").and_then(|v| v.parse::<u8>().ok());
        let mode = value(rest, "mode").or_else(|| value(rest, "gfp_mask"))?;
        let bits = u32::from_str_radix(mode.strip_prefix("0x").unwrap_or(mode), 16).ok()?;
        // Behind the bits, in parentheses.
        let after = &rest[rest.find(mode)? + mode.len()..];
        let names = after.strip_prefix('(').and_then(|a| a.split(')').next()).unwrap_or_default();
        let names = if names.len() <= 512 { names } else { "" };
        let mut request = LoggedRequest {
            kind,
            comm: shown(comm),
            order: order.filter(|&o| usize::from(o) < pageyard::NR_ORDERS)?,
            mode: bits,
            gfp: if names.is_empty() { common(bits) } else { gfp_of_names(names) },
            names: shown(names),
            nodes: value(rest, "nodemask").and_then(list),
            mems_allowed: None,
        };
        request.mems(rest);
        Some(request)
    }

    /// Reads `mems_allowed=0-1`, which older kernels print in a line of its own.
    pub(super) fn mems(&mut self, text: &str) {
        if let Some(mems) = value(text, "mems_allowed").and_then(list) {
            self.mems_allowed = Some(mems);
        }
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
        ' ' | '(' => true,
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
        assert_eq!((old.order, old.mode, old.comm.as_str()), (3, 0x4020, "swapper/0"));
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
    fn what_is_no_first_line_is_none() {
        for text in [
            "",
            "page allocation failure",
            "x: page allocation failure: order:3",
            "x: page allocation failure: order:99, mode:0x20",
            "x: page allocation failure: order:3, mode:zz",
            "vmalloc: allocation failure: 4096 bytes, mode:0xcc0(GFP_KERNEL)",
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
