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
    /// Frames set aside for urgent requests of several frames; where the kernel says how many of them are free, those.
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
mod tests;
