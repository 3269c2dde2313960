//! The kernel's log of refused requests: `page allocation failure` and its like, and the state of memory at that
//! moment.
//!
//! The forms of 2.6 to 7.x are read: with and without times, levels and callers before each line, as `dmesg`,
//! `journalctl`, syslog, terminals and mails hand them on; lines broken in pieces, and reports of which parts are
//! missing. A report is read word by word, so where its lines end does not matter.

mod line;
mod memory;
mod request;
mod stack;
mod zone;

use std::collections::VecDeque;
use std::io::{BufRead, Read};

use crate::error::TraceError;
use crate::source::reason;
use crate::text::shown;

use line::Line;
use memory::Memory;

pub use request::{LoggedKind, LoggedRequest};
pub use zone::HostZone;

/// The most of a log that is read.
pub const MAX_LOG: u64 = 256 << 20;

/// Failures that are kept in full: the latest. Those before them are counted.
pub const MOST_KEPT: usize = 1000;

/// Zones that are kept of all failures together: those of 1000 failures of a machine with 64 nodes.
const MOST_ZONES: usize = 1000 * 64 * 3;

/// The longest line that is looked at, in bytes: a logger may have put a whole report into one.
const LONGEST_LINE: usize = 64 << 10;

/// The longest text of a report that is kept, in bytes: 256 zones have as much.
const LONGEST_REPORT: usize = 512 << 10;

/// Reports of several CPUs that began within so many lines describe the same memory.
const TOGETHER: u64 = 100;

/// Reports that are read at once.
const MOST_OPEN: usize = 16;

/// A log's refused requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelLog {
    /// The latest of them, in their order.
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
    /// The kernel's release, where the log has a line that names it.
    pub kernel: Option<String>,
    /// KiB of a frame; `None` where the log does not show it: then there are no zones.
    pub frame_kib: Option<u64>,
    /// Whether it has sizes of zones, which without the size of a frame say nothing.
    pub has_sizes: bool,
    /// Counters of the whole host: `active_file`, `slab_unreclaimable` and so on.
    pub counters: Vec<(String, u64)>,
    /// The zones that were printed.
    pub zones: Vec<LoggedZone>,
    /// Huge pages set aside.
    pub pools: Vec<LoggedPool>,
    /// Free and total swap.
    pub swap: Option<(u64, u64)>,
    /// All frames of the host.
    pub frames: Option<u64>,
    /// Those that the kernel's own memory is not in: on 32-bit kernels the zone HighMem.
    pub high_frames: Option<u64>,
    /// The functions of the stack, the innermost first.
    pub functions: Vec<String>,
    /// Whether a part of the report is missing: zones without blocks, or blocks without watermarks, or all of it.
    pub is_cut: bool,
}

/// A zone as the kernel printed it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedZone {
    /// The NUMA node.
    pub node: u8,
    /// The zone.
    pub kind: HostZone,
    /// Whether the line with the watermarks is there; without it only blocks are known.
    pub has_marks: bool,
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
    /// Frames that are there.
    pub present: u64,
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
    /// Blocks by their size in KiB, until the size of a frame is known.
    sizes: Vec<(u64, u64, String)>,
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
        let unfit = |what: &str| TraceError::Unsupported { file: name.to_owned(), what: what.to_owned() };
        let mut log = std::io::BufReader::new(log.take(MAX_LOG + 1));
        let (mut reader, mut line, mut bytes, mut is_text) = (Reader::default(), Vec::new(), 0u64, true);
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
                    "the log has more than 256 MiB: cut the failure out with `grep -A 80 'page allocation failure'`",
                ));
            }
            is_text &= !line.contains(&0);
            reader.raw_line(&String::from_utf8_lossy(&line));
        }
        let log = reader.finish();
        if log.count == 0 {
            // What a terminal or a crash leaves in a log is passed over.
            return Err(unfit(match is_text {
                false => "it is no text: give it the output of dmesg",
                true => {
                    "it has no report of an allocation that failed (`page allocation failure`, `invoked oom-killer` and the like): give it the kernel's log, as dmesg prints it"
                }
            }));
        }
        Ok(log)
    }
}

/// Reads a log line by line.
#[derive(Default)]
struct Reader {
    kept: VecDeque<LoggedFailure>,
    count: u64,
    number: u64,
    /// The reports that are being read, the latest last: one, unless several CPUs write at once.
    open: Vec<Open>,
    /// Zones of those kept.
    zones: usize,
    /// The release, by a line of its own.
    version: Option<String>,
    /// Where the last report begins whose first line is not in the log: another line of several CPUs may be that.
    late: Option<u64>,
    /// The end of a line that a mail program cut with `=`.
    softly_cut: String,
}

/// A report whose lines are being read.
struct Open {
    line: u64,
    caller: Option<String>,
    request: LoggedRequest,
    text: String,
    /// Whether its first line is not in the log.
    begins_late: bool,
    /// Whether it has named the process that was killed.
    has_killed: bool,
}

impl Reader {
    fn raw_line(&mut self, raw: &str) {
        self.number += 1;
        let cleaned = line::cleaned(raw);
        for line in cleaned.lines() {
            let Line { caller, text } = line::without_prefix(line.trim_end());
            // A mail's soft break: near its 76th column, but for one that ends `Free swap  =`.
            let is_cut = |before: &str| line.len() >= 60 && !before.ends_with('=') && line.len() <= 80;
            if let Some(before) = text.strip_suffix('=').filter(|before| is_cut(before)) {
                if self.softly_cut.len() + before.len() <= LONGEST_LINE {
                    self.softly_cut += before;
                }
                continue;
            }
            if self.softly_cut.is_empty() {
                self.line(caller, text);
            } else {
                let whole = std::mem::take(&mut self.softly_cut) + text;
                self.line(caller, &whole);
            }
        }
    }

    fn line(&mut self, caller: Option<&str>, text: &str) {
        if let Some(version) = stack::version(text) {
            self.version = Some(version);
        }
        if let Some(request) = LoggedRequest::parse(text) {
            self.begin(caller, text, request);
            return;
        }
        // A report of which the first line was cut off.
        let is_memory = || {
            let has_block = || text.split(' ').any(|word| memory::block(word).is_some());
            text.starts_with("Mem-Info:")
                || text.starts_with("active_anon:")
                || text.contains(" free:") && text.contains(" min:")
                || has_block()
        };
        let is_killer = text.starts_with("oom-kill:constraint=");
        if self.open.is_empty() && (is_killer || is_memory()) {
            let open = Open {
                line: self.number,
                caller: caller.map(str::to_owned),
                request: LoggedRequest {
                    kind: if is_killer { LoggedKind::Killed } else { LoggedKind::Refused },
                    ..LoggedRequest::default()
                },
                text: String::new(),
                begins_late: true,
                has_killed: false,
            };
            self.open.push(open);
        }
        // What follows a line about a cache of objects.
        let of_cache =
            text.starts_with("cache: ").then(|| self.open.iter().rposition(Open::is_of_cache)).flatten();
        let of_caller =
            || caller.and_then(|caller| self.open.iter().rposition(|o| o.caller.as_deref() == Some(caller)));
        let at = of_cache.or_else(of_caller).or(self.open.len().checked_sub(1));
        if let Some(open) = at.map(|at| &mut self.open[at]) {
            // The table of the killer, whose first line is not in the log.
            if open.begins_late && text.starts_with("Tasks state") {
                open.request.kind = LoggedKind::Killed;
            }
            open.add(text);
        }
    }

    /// Begins a report, or goes on with the one that the line belongs to.
    fn begin(&mut self, caller: Option<&str>, text: &str, request: LoggedRequest) {
        let is_killing = |kind: &LoggedKind| matches!(kind, LoggedKind::Killed | LoggedKind::Group { .. });
        // What follows in a report of the killer, whose first line has the request.
        if (text.contains("ut of memory: Kill") || text.contains("Memory cgroup stats for "))
            && let Some(open) = self
                .open
                .iter_mut()
                .rfind(|open| is_killing(&open.request.kind) && !open.has_killed || open.begins_late)
        {
            if matches!(request.kind, LoggedKind::Group { .. }) || open.begins_late {
                open.request.kind = request.kind;
            }
            open.has_killed = text.contains("ut of memory: Kill");
            open.add(text);
            return;
        }
        let is_one_line = request.kind.has_no_memory();
        if !is_one_line {
            self.make_room(caller);
        }
        let caller = caller.map(str::to_owned);
        let open = Open {
            line: self.number,
            caller,
            request,
            text: String::new(),
            begins_late: false,
            has_killed: text.contains("ut of memory: Kill"),
        };
        // What follows a report of one line belongs to the one before it.
        let at = if is_one_line { self.open.len().saturating_sub(1) } else { self.open.len() };
        self.open.insert(at, open);
        if self.open.len() > MOST_OPEN {
            let first = self.open.remove(0);
            self.close(first, None);
        }
    }

    /// Closes reports before another one begins, but for those that have not come to their memory yet: the other one
    /// may describe it.
    fn make_room(&mut self, caller: Option<&str>) {
        let is_other =
            |open: &Open| caller.is_some() && open.caller.is_some() && open.caller.as_deref() != caller;
        let (others, before): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(is_other);
        self.open = others;
        if before.iter().any(Open::has_memory) {
            self.close_together(before);
            return;
        }
        for open in before {
            if self.number - open.line > TOGETHER {
                self.close(open, None);
            } else {
                self.open.push(open);
            }
        }
    }

    /// Reads a report's words. One that was cut off by another's takes the memory that `other` describes.
    fn close(&mut self, open: Open, other: Option<&LoggedFailure>) {
        self.count += 1;
        let begins_late = open.begins_late;
        let mut failure = open.read(self.version.as_deref());
        if let (true, Some(other)) = (failure.zones.is_empty(), other) {
            failure.borrow_memory(other);
        }
        // Lines of several CPUs mix: a first line among the memory that it is about. That report may be gone by now.
        let needs_memory = failure.zones.is_empty() && !failure.request.kind.has_no_memory();
        if let Some(line) = self.late.take_if(|line| needs_memory && failure.line.abs_diff(*line) <= TOGETHER)
            && let Some(at) =
                self.kept.iter().rposition(|kept| kept.line == line && kept.request.mode.is_none())
            && let Some(late) = self.kept.remove(at)
        {
            failure.borrow_memory(&late);
            self.count -= 1;
            self.zones -= late.zones.len();
        }
        if begins_late && failure.request.mode.is_none() {
            self.late = Some(failure.line);
        }
        self.zones += failure.zones.len();
        self.kept.push_back(failure);
        while self.kept.len() > MOST_KEPT || self.zones > MOST_ZONES {
            let Some(first) = self.kept.pop_front() else { break };
            self.zones -= first.zones.len();
        }
    }

    fn finish(mut self) -> KernelLog {
        let last = std::mem::take(&mut self.softly_cut);
        if !last.is_empty() {
            self.line(None, &last);
        }
        let rest = std::mem::take(&mut self.open);
        self.close_together(rest);
        let mut failures: Vec<_> = self.kept.into();
        failures.sort_by_key(|failure| failure.line);
        KernelLog { failures, count: self.count }
    }

    /// Closes reports of which the last with memory describes that of all.
    fn close_together(&mut self, all: Vec<Open>) {
        let version = self.version.as_deref();
        let described = all.iter().rfind(|open| open.has_memory()).map(|open| open.read(version));
        for open in all {
            self.close(open, described.as_ref());
        }
    }
}

impl Open {
    fn add(&mut self, text: &str) {
        if self.request.is_open() {
            self.request.more(text);
        } else if text.contains("mems_allowed=") || text.contains("nodemask=") {
            self.request.mems(text);
        }
        if self.text.len() + text.len() < LONGEST_REPORT {
            self.text.push('\n');
            self.text += text;
        }
    }

    fn is_of_cache(&self) -> bool {
        matches!(self.request.kind, LoggedKind::Slab { .. })
    }

    /// Returns whether it has come to a description of memory.
    fn has_memory(&self) -> bool {
        self.text.contains(" free:") || self.text.contains("*4kB") || self.text.contains("*16kB")
    }

    fn read(&self, version: Option<&str>) -> LoggedFailure {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        let mut memory = Memory::of(&words);
        let frame_kib = memory.frame_kib(stack::is_x86(&words));
        let has_blocks = |zone: &LoggedZone| zone.has_marks && !zone.sizes.is_empty();
        let is_cut = memory.zones.is_empty() || !memory.zones.iter().all(has_blocks);
        let has_sizes = !memory.zones.is_empty();
        match frame_kib {
            Some(kib) => memory.zones.iter_mut().for_each(|zone| zone.in_frames(kib)),
            None => memory.zones.clear(),
        }
        let kib = frame_kib.unwrap_or(1);
        memory.pools.iter_mut().for_each(|pool| pool.frames /= kib);
        memory.pools.retain(|pool| frame_kib.is_some() && pool.frames > 0);
        let mut request = self.request.clone();
        request.finish(&self.text);
        LoggedFailure {
            line: self.line,
            request,
            kernel: stack::release(&words)
                .or_else(|| version.map(str::to_owned))
                .map(|release| shown(&release)),
            frame_kib,
            has_sizes,
            counters: memory.counters,
            zones: memory.zones,
            pools: memory.pools,
            swap: memory.swap.map(|(free, total)| (free / kib, total / kib)),
            frames: memory.frames,
            high_frames: memory.high_frames,
            functions: stack::functions(&words),
            is_cut,
        }
    }
}

impl LoggedFailure {
    /// Returns a counter of the whole host.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|(n, _)| n == name).map(|(_, value)| *value)
    }

    /// Takes the memory that another report describes, which was written at the same time.
    fn borrow_memory(&mut self, other: &LoggedFailure) {
        (self.frame_kib, self.has_sizes) = (other.frame_kib, other.has_sizes);
        self.counters.clone_from(&other.counters);
        self.zones.clone_from(&other.zones);
        self.pools.clone_from(&other.pools);
        (self.swap, self.frames, self.high_frames) = (other.swap, other.frames, other.high_frames);
        self.is_cut = other.is_cut;
        if self.kernel.is_none() {
            self.kernel.clone_from(&other.kernel);
        }
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
        assert_eq!((failure.swap, failure.frame_kib, failure.is_cut), (Some((10, 20)), Some(4), false));
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
        assert!(refused(b"hello\n").contains("has no report of an allocation that failed"));
        assert!(refused(b"").contains("has no report of an allocation that failed"));
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
        let first = "x: page allocation failure: order:1, mode:0x20\nRIP: 0010:x\nMem-Info:\n";
        let counters: String =
            (0..1000u64).map(|n| format!("c{}:1\n", "x".repeat(n as usize % 30))).collect();
        let pools = "Node 0 hugepages_total=4 hugepages_free=3 hugepages_size=2048kB\n".repeat(5000);
        let zones: String = (0..=255).map(|node| format!("Node {node} Normal free:4kB min:0kB\n")).collect();
        let log = read(&format!("{first}{counters}{pools}{zones}"));
        let failure = &log.failures[0];
        assert!(failure.counters.len() <= memory::MAX_COUNTERS && failure.counter("cxx") == Some(1));
        assert_eq!((failure.pools.len(), failure.zones.len()), (memory::MAX_ZONES, 256));
        // Nor do all failures together, of which the latest are kept.
        let log = read(&format!("{first}{zones}").repeat(900));
        assert_eq!((log.count, log.failures.len()), (900, MOST_ZONES / 256));
        let one = "x: page allocation failure: order:1, mode:0x20\n";
        let log = read(&one.repeat(MOST_KEPT + 5));
        assert_eq!((log.count, log.failures.len()), (MOST_KEPT as u64 + 5, MOST_KEPT));
        assert_eq!(log.failures[0].line, 6);
    }

    #[test]
    fn reports_of_two_cpus_that_mix_are_told_apart_or_share_their_memory() {
        let (a, b) = (SEED, SEED.replace("init:", "cc1:").replace("932kB boost", "2048kB boost"));
        let mixed = |caller: fn(u8) -> String| {
            let pairs = a.lines().zip(b.lines());
            let line = |cpu, line: &str| line.replacen("[    9.4]", &format!("[    9.4]{}", caller(cpu)), 1);
            read(&pairs.map(|(a, b)| format!("{}\n{}\n", line(0, a), line(1, b))).collect::<String>())
        };
        let named = mixed(|cpu| format!("[   C{cpu}]"));
        assert_eq!(named.failures.iter().map(|f| f.zones[0].free).collect::<Vec<_>>(), [233, 512]);
        let nameless = mixed(|_| String::new());
        assert_eq!(
            nameless.failures.iter().map(|f| f.request.comm.as_str()).collect::<Vec<_>>(),
            ["init", "cc1"]
        );
        for failure in &nameless.failures {
            assert_eq!((failure.zones.len(), failure.zones[0].blocks.len()), (1, 11), "{failure:?}");
        }
    }

    #[test]
    fn a_report_is_read_however_a_logger_or_a_mail_hands_it_on() {
        let zones = read(SEED).failures[0].zones.clone();
        for (what, text) in [
            (
                "one line of syslog",
                format!("Nov 23 12:58:43 h kernel: {}\n", SEED.trim_end().replace('\n', "#012")),
            ),
            ("a quoted mail", SEED.lines().map(|line| format!("> > {line}\n")).collect()),
            ("lines cut at 72 columns", wrapped(SEED, 72, "\n")),
            ("quoted printable", wrapped(SEED, 72, "=\n")),
            ("colours", SEED.replace("[    9.4]", "\u{1b}[32m[    9.4]\u{1b}[0m")),
            ("a NUL byte", SEED.replacen("Mem-Info", "\0\0Mem-Info", 1)),
            ("ISO times", SEED.replace("[    9.4]", "2026-11-23T12:58:43,123456+00:00")),
        ] {
            let log = read(&text);
            assert_eq!((log.count, &log.failures[0].zones), (1, &zones), "{what}\n{text}");
            assert_eq!(log.failures[0].request.order, 3, "{what}");
        }
    }

    /// Breaks lines, words only where a mark stands for the break.
    fn wrapped(text: &str, columns: usize, end: &str) -> String {
        let mut out = String::new();
        for line in text.lines() {
            let mut column = 0;
            for (n, word) in line.split(' ').enumerate() {
                if n > 0 && column + word.len() > columns {
                    out += if end == "\n" { " \n" } else { " =\n" };
                    column = 0;
                } else if n > 0 {
                    out.push(' ');
                }
                out += word;
                column += word.len() + 1;
            }
            out.push('\n');
        }
        out
    }

    #[test]
    fn what_is_missing_of_a_report_is_not_made_up() {
        // No size of a frame, so no zones.
        let text = "x: page allocation failure: order:3, mode:0x20\nNode 0 Normal free:9320kB min:2432kB low:2888kB\n";
        let log = read(text);
        assert!(
            log.failures[0].zones.is_empty() && log.failures[0].frame_kib.is_none() && log.failures[0].is_cut
        );
        // Blocks alone.
        let text = "x: page allocation failure: order:3, mode:0x20\nNode 0 Normal: 10*4kB (UM) 3*8kB (M) 0*16kB = 64kB\n";
        let log = read(text);
        let zone = &log.failures[0].zones[0];
        assert_eq!((zone.has_marks, zone.free, &zone.blocks[..]), (false, 16, &[10, 3, 0][..]));
    }

    #[test]
    fn a_group_at_its_limit_is_not_the_host() {
        let text = "java invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
                    memory: usage 524288kB, limit 524288kB, failcnt 83\n\
                    oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/pod/a,task=java\n\
                    Memory cgroup out of memory: Killed process 42 (java) total-vm:1kB\n";
        let log = read(text);
        assert_eq!(log.count, 1);
        let group = LoggedKind::Group {
            name: "/pod/a".to_owned(),
            usage_kib: Some(524_288),
            limit_kib: Some(524_288),
        };
        assert_eq!(log.failures[0].request.kind, group);
    }

    #[test]
    fn a_cache_that_cannot_grow_is_a_report_of_one_line() {
        let slub = "SLUB: Unable to allocate memory on node -1, gfp=0xa20(GFP_ATOMIC)\ncache: ext4_io_end, object size: 64, buffer size: 64, default order: 1, min order: 0\n";
        let (head, tail) = SEED.split_at(SEED.find("[    9.4] lowmem").unwrap());
        let log = read(&format!("{head}{slub}{tail}"));
        assert_eq!(log.count, 2);
        assert_eq!(log.failures[0].zones, read(SEED).failures[0].zones);
        assert_eq!(log.failures[1].request.kind, LoggedKind::Slab { cache: "ext4_io_end".to_owned() });
    }

    #[test]
    fn a_report_without_a_first_line_can_be_gone_when_one_would_take_its_memory() {
        let late = "Mem-Info:#012RIP: 0#012Node 0 Normal free:4kB min:0kB#012";
        let bare = "x: page allocation failure: order:0, mode:0x20#012";
        let crowd = "vmap allocation for size 4096 failed: use vmalloc=#012".repeat(MOST_KEPT + 5);
        let log = read(&format!("{late}{bare}{crowd}"));
        assert_eq!((log.count, log.failures.len()), (MOST_KEPT as u64 + 6, MOST_KEPT));
        // Where it is there, it is one report.
        let log = read(&format!("{late}{bare}"));
        assert_eq!((log.count, log.failures[0].zones.len()), (1, 1));
    }

    #[test]
    fn each_process_that_is_killed_counts() {
        let first = "a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n";
        let killed = "Out of memory: Killed process 42 (a) total-vm:1kB\n";
        assert_eq!(read(&format!("{first}{killed}{killed}{killed}")).count, 3);
    }

    #[test]
    fn what_a_log_says_cannot_command_the_terminal() {
        let log = read(&SEED.replace("init: page", "a\u{7}\u{9b}2J: page"));
        assert_eq!(log.failures[0].request.comm, "a\\u{7}\\u{9b}2J");
    }
}
