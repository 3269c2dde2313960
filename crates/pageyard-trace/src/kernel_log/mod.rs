//! The kernel's log of refused requests: `page allocation failure`, and the state of memory at that moment.
//!
//! The forms of 4.x to 6.18 are read: with and without times, levels and callers before each line, as `dmesg`,
//! `journalctl` and syslog write them; requests as bits alone (before 4.6) or with their names; nodes in the first line
//! or behind it.

mod fields;
mod prefix;
mod request;

use std::io::{BufRead, Read};

use pageyard::ZoneKind;

use crate::error::TraceError;
use crate::source::reason;

pub use request::{LoggedKind, LoggedRequest};

/// The most of a log that is read.
pub const MAX_LOG: u64 = 256 << 20;

/// Failures that are kept in full; those after them are counted.
pub const MOST_KEPT: usize = 1000;

/// Zones that are kept of all failures together: those of 1000 failures of a machine with 64 nodes.
const MOST_ZONES: usize = 1000 * 64 * 3;

/// The longest line that is looked at, in bytes: a zone's has fewer than a thousand.
const LONGEST_LINE: usize = 8192;

/// A log's refused requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelLog {
    /// The first of them, in their order.
    pub failures: Vec<LoggedFailure>,
    /// How many there are.
    pub count: u64,
}

/// One refused request, and what the kernel said of its memory. Numbers are frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoggedFailure {
    /// The line at which it begins, from 1.
    pub line: u64,
    /// The request.
    pub request: LoggedRequest,
    /// The kernel's release, where the log has the line that names it.
    pub kernel: Option<String>,
    /// Counters of the whole host: `active_file`, `slab_unreclaimable` and so on.
    pub counters: Vec<(String, u64)>,
    /// The zones that were printed.
    pub zones: Vec<LoggedZone>,
    /// Huge pages set aside.
    pub pools: Vec<LoggedPool>,
    /// Free and total swap.
    pub swap: Option<(u64, u64)>,
}

/// A zone as the kernel printed it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedZone {
    /// The NUMA node.
    pub node: u8,
    /// The zone.
    pub kind: ZoneKind,
    /// Free frames.
    pub free: u64,
    /// How far the watermarks were raised.
    pub boost: u64,
    /// The minimum watermark, boost included.
    pub min: u64,
    /// The low watermark, boost included.
    pub low: u64,
    /// The high watermark, boost included.
    pub high: u64,
    /// Frames set aside for urgent requests of several frames.
    pub highatomic: u64,
    /// Frames that the zone hands out.
    pub managed: u64,
    /// Frames in per-CPU lists.
    pub pcp: u64,
    /// Free frames of contiguous areas.
    pub cma: u64,
    /// Frames kept back from requests for each higher zone.
    pub protection: Vec<u64>,
    /// Free blocks by order; empty where they were not printed.
    pub blocks: Vec<u64>,
    /// The types on whose lists the blocks of each order lie, as the kernel abbreviates them: `UME`. Empty where it
    /// says none.
    pub types: Vec<String>,
}

/// Huge pages that are set aside on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoggedPool {
    /// The NUMA node.
    pub node: u8,
    /// Frames of each.
    pub frames: u64,
    /// How many there are.
    pub total: u64,
    /// How many are not in use.
    pub free: u64,
}

impl KernelLog {
    /// Reads a log.
    ///
    /// # Errors
    /// When it cannot be read, is no text, is longer than [`MAX_LOG`], or says of no failure.
    pub fn read(name: &str, log: impl Read) -> Result<KernelLog, TraceError> {
        let unreadable =
            |e: std::io::Error| TraceError::Unreadable { file: name.to_owned(), why: reason(&e) };
        let unfit = |what: String| TraceError::Unsupported { file: name.to_owned(), what };
        let mut log = std::io::BufReader::new(log.take(MAX_LOG + 1));
        let (mut reader, mut line, mut bytes) = (Reader::default(), Vec::new(), 0u64);
        loop {
            line.clear();
            let read =
                (&mut log).take(LONGEST_LINE as u64).read_until(b'\n', &mut line).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            bytes += read as u64;
            if bytes > MAX_LOG {
                return Err(unfit(
                    "the log has more than 256 MiB: cut the failure out with `grep -A 80 'page allocation failure'`"
                        .to_owned(),
                ));
            }
            // What a terminal or a crash leaves in a log is passed over; a file that begins with it is none.
            if line.contains(&0) && bytes == read as u64 {
                return Err(unfit("it is no text: give it the output of dmesg".to_owned()));
            }
            reader.line(&String::from_utf8_lossy(&line));
        }
        let log = reader.finish();
        if log.count == 0 {
            return Err(unfit(
                "it has no `page allocation failure` and no `invoked oom-killer`: give it the kernel's log, as dmesg prints it"
                    .to_owned(),
            ));
        }
        Ok(log)
    }
}

/// Reads a log line by line.
#[derive(Default)]
struct Reader {
    log: KernelLog,
    number: u64,
    /// The failure that is being read.
    open: Option<Open>,
    /// Zones of the failures before it.
    zones: usize,
}

/// A failure whose lines are being read. Sizes are kept in KiB until its frames' size is known.
struct Open {
    failure: LoggedFailure,
    /// KiB of a frame, from the smallest block that was printed.
    frame_kib: u64,
    /// Where the next piece of a broken line belongs.
    last: Last,
}

/// The line before, where it can be continued: the kernel writes some lines in pieces, and others can come between.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Other,
    Blocks(usize),
    Protection,
}

impl Reader {
    fn line(&mut self, line: &str) {
        self.number += 1;
        let text = prefix::without(line.trim_end());
        if let Some(request) = LoggedRequest::parse(text) {
            self.close();
            self.log.count += 1;
            if self.log.failures.len() == MOST_KEPT || self.zones >= MOST_ZONES {
                return;
            }
            let failure = LoggedFailure { line: self.number, request, ..LoggedFailure::default() };
            self.open = Some(Open { failure, frame_kib: 4, last: Last::Other });
        } else if let Some(open) = &mut self.open {
            open.line(text);
        }
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.zones += open.failure.zones.len();
            self.log.failures.push(open.in_frames());
        }
    }

    fn finish(mut self) -> KernelLog {
        self.close();
        self.log
    }
}

impl Open {
    fn line(&mut self, text: &str) {
        let before = std::mem::replace(&mut self.last, Last::Other);
        let words = text.trim();
        if let Some(release) = fields::release(words) {
            self.failure.kernel.get_or_insert(release);
        } else if let Some(rest) = words.strip_prefix("lowmem_reserve[]:") {
            self.protection(rest);
        } else if words.starts_with("mems_allowed=") || words.contains(" mems_allowed=") {
            self.failure.request.mems(words);
        } else if let Some((free, total)) = fields::swap(words) {
            let (was_free, was_total) = self.failure.swap.unwrap_or_default();
            self.failure.swap = Some((free.unwrap_or(was_free), total.unwrap_or(was_total)));
        } else if let Some((node, rest)) = fields::node(words) {
            self.of_node(node, rest);
        } else if let Last::Blocks(zone) = before
            && fields::is_blocks(words)
        {
            self.blocks(zone, words);
        } else if before == Last::Protection && words.split_whitespace().all(|w| w.parse::<i64>().is_ok()) {
            self.protection(words);
        } else if words.starts_with(|c: char| c.is_ascii_lowercase()) && self.failure.zones.is_empty() {
            // Counters of the whole host, before the first zone.
            let room = fields::MAX_COUNTERS - self.failure.counters.len();
            self.failure.counters.extend(fields::counts(words).into_iter().take(room));
        }
    }

    /// Reads what follows `Node 0 `, or a zone's name on a kernel without nodes.
    fn of_node(&mut self, node: u8, rest: &str) {
        if let Some(pool) = fields::pool(node, rest) {
            if self.failure.pools.len() < fields::MAX_ZONES {
                self.failure.pools.push(pool);
            }
            return;
        }
        let (name, fields) = rest.split_once(' ').unwrap_or((rest, ""));
        let Some(kind) = ZoneKind::from_name(name.trim_end_matches(':')) else { return };
        let at = self.failure.zones.iter().position(|z| (z.node, z.kind) == (node, kind));
        match at {
            Some(zone) if name.ends_with(':') => self.blocks(zone, fields),
            None if fields.starts_with("free:") && self.failure.zones.len() < fields::MAX_ZONES => {
                self.failure.zones.push(fields::zone(node, kind, fields));
            }
            _ => {}
        }
    }

    fn blocks(&mut self, zone: usize, text: &str) {
        let frame_kib = self.frame_kib;
        let Some(zone_of) = self.failure.zones.get_mut(zone) else { return };
        if let Some(kib) = fields::blocks(text, frame_kib, zone_of) {
            self.frame_kib = kib;
        }
        self.last = Last::Blocks(zone);
    }

    fn protection(&mut self, text: &str) {
        if let Some(zone) = self.failure.zones.last_mut() {
            let room = ZoneKind::ALL.len().saturating_sub(zone.protection.len());
            let numbers = text.split_whitespace().filter_map(|w| w.parse::<i64>().ok());
            zone.protection.extend(numbers.take(room).map(|n| u64::try_from(n).unwrap_or(0)));
        }
        self.last = Last::Protection;
    }

    /// Turns sizes into frames.
    fn in_frames(mut self) -> LoggedFailure {
        let kib = self.frame_kib;
        for z in &mut self.failure.zones {
            for size in [&mut z.free, &mut z.boost, &mut z.min, &mut z.low, &mut z.high, &mut z.highatomic] {
                *size /= kib;
            }
            for size in [&mut z.managed, &mut z.pcp, &mut z.cma] {
                *size /= kib;
            }
        }
        for pool in &mut self.failure.pools {
            pool.frames /= kib;
        }
        if let Some((free, total)) = &mut self.failure.swap {
            (*free, *total) = (*free / kib, *total / kib);
        }
        self.failure
    }
}

impl LoggedFailure {
    /// Returns a counter of the whole host.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|(n, _)| n == name).map(|(_, value)| *value)
    }
}

/// Makes small good inputs, for fuzzing.
#[cfg(any(test, feature = "hostile"))]
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    vec![SEED.into()]
}

/// A failure in the form of 6.12, cut short.
#[cfg(any(test, feature = "hostile"))]
const SEED: &str = "\
[    9.4] init: page allocation failure: order:3, mode:0x40820(GFP_ATOMIC|__GFP_COMP), nodemask=(null),cpuset=/,mems_allowed=0
[    9.4] CPU: 0 UID: 0 PID: 1 Comm: init Tainted: G           OE      6.12.117+deb12-cloud-amd64 #1  Debian 6.12.117-1~deb12u1
[    9.4] Mem-Info:
[    9.4] active_anon:609 inactive_anon:0 isolated_anon:0
[    9.4]  active_file:0 inactive_file:110980 isolated_file:0
[    9.4]  free:658 free_pcp:173 free_cma:0
[    9.4] Node 0 active_anon:2436kB inactive_anon:0kB all_unreclaimable? no
[    9.4] Node 0 DMA32 free:932kB boost:2048kB min:2432kB low:2888kB high:3344kB reserved_highatomic:6144KB present:507764kB managed:459648kB free_pcp:568kB local_pcp:568kB free_cma:0kB
[    9.4] lowmem_reserve[]: 0 0 16 0 0
[    9.4] Node 0 DMA32: 7*4kB (H) 5*8kB (H) 4*16kB (UH) 1*32kB (H) 0*64kB 0*128kB 1*256kB (H) 1*512kB (H) 0*1024kB 0*2048kB 0*4096kB = 932kB
[    9.4] Node 0 hugepages_total=4 hugepages_free=3 hugepages_surp=0 hugepages_size=2048kB
[    9.4] Free swap  = 40kB
[    9.4] Total swap = 80kB
";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> KernelLog {
        KernelLog::read("log", text.as_bytes()).unwrap()
    }

    #[test]
    fn a_failure_of_linux_6_12_is_read() {
        let log = read(SEED);
        let [failure] = &log.failures[..] else { panic!("{log:?}") };
        assert_eq!(failure.kernel.as_deref(), Some("6.12.117+deb12-cloud-amd64"));
        assert_eq!((failure.counter("inactive_file"), failure.counter("free")), (Some(110_980), Some(658)));
        let [zone] = &failure.zones[..] else { panic!("{failure:?}") };
        assert_eq!((zone.free, zone.boost, zone.min, zone.low, zone.high), (233, 512, 608, 722, 836));
        assert_eq!((zone.highatomic, zone.managed, zone.pcp), (1536, 114_912, 142));
        assert_eq!(zone.blocks, [7, 5, 4, 1, 0, 0, 1, 1, 0, 0, 0]);
        assert_eq!((zone.types[0].as_str(), zone.types[2].as_str(), zone.types[4].as_str()), ("H", "UH", ""));
        assert_eq!(zone.protection, [0, 0, 16, 0, 0]);
        assert_eq!(failure.pools, [LoggedPool { node: 0, frames: 512, total: 4, free: 3 }]);
        assert_eq!(failure.swap, Some((10, 20)));
    }

    #[test]
    fn several_failures_are_told_apart() {
        let other = SEED.replace("order:3", "order:0").replace("init:", "kswapd0:");
        let log = read(&format!("noise\n{SEED}more noise\n{other}"));
        assert_eq!(log.count, 2);
        assert_eq!(
            log.failures.iter().map(|f| (f.line, f.request.order)).collect::<Vec<_>>(),
            [(2, 3), (16, 0)]
        );
        assert_eq!(log.failures[0].zones, log.failures[1].zones);
    }

    #[test]
    fn a_line_in_pieces_is_put_together() {
        let broken = SEED
            .replace(
                "Node 0 DMA32: 7*4kB (H) 5*8kB (H) ",
                "Node 0 DMA32: \n[    9.4] 7*4kB (H) 5*8kB \n[    9.4] (H) ",
            )
            .replace("[]: 0 0 16", "[]:\n[    9.4]  0 0 16");
        assert_eq!(read(&broken).failures[0].zones, read(SEED).failures[0].zones);
    }

    #[test]
    fn frames_of_64_kib_and_kernels_without_nodes_are_read() {
        let text = "x: page allocation failure: order:1, mode:0x20\nNormal free:640kB min:128kB low:192kB high:256kB present:6400kB\n\
                    Normal: 2*64kB (U) 4*128kB (M) = 640kB\n";
        let log = read(text);
        let zone = &log.failures[0].zones[0];
        assert_eq!((zone.free, zone.min, zone.managed), (10, 2, 100));
        assert_eq!(zone.blocks, [2, 4]);
    }

    #[test]
    fn what_is_no_log_is_refused_in_a_sentence() {
        let refused = |bytes: &[u8]| {
            let why = KernelLog::read("a.txt", bytes).unwrap_err().to_string();
            assert_eq!(why.lines().count(), 1);
            why
        };
        assert!(refused(b"hello\n").contains("has no `page allocation failure`"));
        assert!(refused(b"").contains("has no `page allocation failure`"));
        assert!(refused(b"\x1f\x8b\x08\0\0\0").contains("it is no text"));
        assert!(refused(&[b'x'; 100_000]).contains("has no"));
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
                to.fill(b'x');
                if let Some(last) = to.last_mut() {
                    *last = b'\n';
                }
                Ok(to.len())
            }
        }
        let why = KernelLog::read("endless", Endless).unwrap_err().to_string();
        assert!(why.contains("more than 256 MiB"), "{why}");
    }

    #[test]
    fn a_failure_keeps_no_more_than_a_kernel_says() {
        let first = "x: page allocation failure: order:1, mode:0x20\n";
        let counters = format!("{}\n", "free:1 ".repeat(1000)).repeat(100);
        let pools = "Node 0 hugepages_total=4 hugepages_free=3 hugepages_size=2048kB\n".repeat(10_000);
        let zones: String = (0..=255).map(|node| format!("Node {node} Normal free:4kB min:0kB\n")).collect();
        let log = read(&format!("{first}{counters}{pools}{zones}"));
        let failure = &log.failures[0];
        assert_eq!((failure.counters.len(), failure.counter("free")), (fields::MAX_COUNTERS, Some(1)));
        assert_eq!((failure.pools.len(), failure.zones.len()), (fields::MAX_ZONES, 256));
        // Nor do all failures together.
        let log = read(&format!("{first}{zones}").repeat(900));
        assert_eq!((log.count, log.failures.len()), (900, MOST_ZONES / 256));
        let log = read(&first.repeat(MOST_KEPT + 5));
        assert_eq!((log.count, log.failures.len()), (MOST_KEPT as u64 + 5, MOST_KEPT));
    }

    #[test]
    fn what_a_log_says_cannot_command_the_terminal() {
        let log = read(&SEED.replace("init: page", "\u{1b}[2J: page"));
        assert_eq!(log.failures[0].request.comm, "\\u{1b}[2J");
    }
}
