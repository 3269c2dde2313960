//! A watch that costs an allocation nothing: it reads the reports that the kernel itself logs when memory is refused or
//! a process is killed for it, and saves what `/proc` says at that moment.
//!
//! [`Reports::look`] waits for the kernel's log. With the first line of a report the texts are read; the report is
//! whole when the log has been quiet for a while. `pageyard doctor --from` reads the folder that is saved, and
//! `doctor --log` its file `dmesg`, the report.

mod document;
mod kmsg;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use pageyard_trace::kernel_log::{KernelLog, LoggedRequest};
use pageyard_trace::source::reason;

use super::RecordError;
use super::host::{MAX_TEXT, now_ns, own_ns};
use crate::host::settings;
use kmsg::Kmsg;

pub use document::{ReportsDocument, SavedDocument};

/// A report is whole when nothing more was logged for so long, or after so long in all.
const QUIET: Duration = Duration::from_millis(300);
const LONGEST: Duration = Duration::from_secs(5);

/// The most of one report, or of several that are logged at once, in bytes.
const MOST: usize = 512 << 10;

/// Lines before a report that are saved with it: they may say what led to it.
const BEFORE: usize = 20;

/// The texts of `/proc` that are saved; those that may not be read are left out.
const TEXTS: [&str; 6] = ["buddyinfo", "zoneinfo", "pagetypeinfo", "vmstat", "meminfo", "version"];

/// The kernel's reports since a watch began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportCounts {
    /// Reports by kind.
    pub by_kind: BTreeMap<&'static str, u64>,
    /// Lines that the kernel logged.
    pub lines: u64,
    /// Records of its log that were replaced before they were read.
    pub lost: u64,
}

/// A report, and the host's state when it began.
pub struct Report {
    /// Its first line, or why it was asked for.
    pub reason: String,
    lines: Vec<String>,
    texts: Vec<(&'static str, String)>,
}

/// A report that may go on.
struct Pending {
    report: Report,
    bytes: usize,
    began: Instant,
    last: Instant,
}

/// A watch on the kernel's reports.
pub struct Reports {
    proc: PathBuf,
    log: Kmsg,
    before: VecDeque<String>,
    pending: Option<Pending>,
    counts: ReportCounts,
    began: u64,
    own: u64,
}

impl Reports {
    /// Begins at the end of the kernel's log.
    ///
    /// # Errors
    /// When it may not be read.
    pub fn open() -> Result<Reports, RecordError> {
        Reports::open_at(Path::new("/dev/kmsg"), Path::new("/proc"))
    }

    /// The same with another log and another `/proc`.
    fn open_at(log: &Path, proc: &Path) -> Result<Reports, RecordError> {
        Ok(Reports {
            proc: proc.to_owned(),
            log: Kmsg::open(log)?,
            before: VecDeque::new(),
            pending: None,
            counts: ReportCounts::default(),
            began: now_ns(),
            own: own_ns(),
        })
    }

    /// Waits until something is logged, or `wake` can be read, `timeout` at most; returns a report that is whole.
    ///
    /// # Errors
    /// When the log can no longer be read.
    pub fn look(&mut self, wake: BorrowedFd<'_>, timeout: Duration) -> Result<Option<Report>, RecordError> {
        let timeout = if self.pending.is_some() { QUIET.min(timeout) } else { timeout };
        let until = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let mut fds = [self.log.fd(), wake].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, Some(&until)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => {
                let what = "the kernel's log cannot be waited for".to_owned();
                return Err(RecordError::Refused { what, why: reason(&e.into()) });
            }
        }
        while let Some(line) = self.log.next_line()? {
            self.line(line);
        }
        self.counts.lost = self.log.lost;
        let over = |p: &mut Pending| p.last.elapsed() >= QUIET || p.began.elapsed() >= LONGEST;
        Ok(self.pending.take_if(over).map(|pending| self.whole(pending.report)))
    }

    fn line(&mut self, line: String) {
        self.counts.lines += 1;
        if self.pending.is_none() && LoggedRequest::begins(&line) {
            let report = Report {
                reason: line.split_once("] ").map_or(line.as_str(), |(_, text)| text).to_owned(),
                lines: self.before.drain(..).collect(),
                texts: self.texts(),
            };
            let now = Instant::now();
            self.pending = Some(Pending { report, bytes: 0, began: now, last: now });
        }
        match &mut self.pending {
            Some(pending) => {
                pending.last = Instant::now();
                pending.bytes += line.len();
                if pending.bytes <= MOST {
                    pending.report.lines.push(line);
                }
            }
            None => {
                if self.before.len() == BEFORE {
                    self.before.pop_front();
                }
                self.before.push_back(line);
            }
        }
    }

    /// Counts what is in a whole report.
    fn whole(&mut self, report: Report) -> Report {
        if let Ok(log) = KernelLog::read("the kernel's log", report.log().as_bytes()) {
            for failure in &log.failures {
                *self.counts.by_kind.entry(failure.request.kind.name()).or_default() += 1;
            }
        }
        report
    }

    /// Returns the host's state now, and the last lines of its log, for `reason`.
    #[must_use]
    pub fn now(&self, reason: &str) -> Report {
        let lines = self.before.iter().cloned().collect();
        Report { reason: reason.to_owned(), lines, texts: self.texts() }
    }

    fn texts(&self) -> Vec<(&'static str, String)> {
        let read = |name: &'static str| {
            let text = fs::read_to_string(self.proc.join(name)).ok()?;
            (text.len() as u64 <= MAX_TEXT).then_some((name, text))
        };
        let mut texts: Vec<_> = TEXTS.into_iter().filter_map(read).collect();
        let settings = settings(&self.proc);
        let settings = settings.iter().map(|(name, value)| format!("{} = {value}\n", name.replace('/', ".")));
        texts.push(("sysctl", settings.collect()));
        texts
    }

    /// Returns what was reported so far.
    #[must_use]
    pub fn counts(&self) -> &ReportCounts {
        &self.counts
    }

    /// Returns the processor time that this process has taken since the watch began, and how long that is, in seconds.
    #[must_use]
    pub fn own_seconds(&self) -> (f64, f64) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        (seconds(own_ns() - self.own), seconds(now_ns() - self.began))
    }
}

impl Report {
    fn log(&self) -> String {
        self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    /// Writes it into a folder, which appears whole or not at all; returns its bytes.
    ///
    /// # Errors
    /// Those of the file system; nothing is left then.
    pub fn save(&self, folder: &Path) -> io::Result<u64> {
        let mut aside = folder.as_os_str().to_owned();
        aside.push(".partial");
        let aside = Path::new(&aside);
        let written = self.write(aside).and_then(|bytes| fs::rename(aside, folder).map(|()| bytes));
        if written.is_err() {
            // What could not be written is not left behind.
            _ = fs::remove_dir_all(aside);
        }
        written
    }

    fn write(&self, folder: &Path) -> io::Result<u64> {
        fs::create_dir(folder)?;
        let mut bytes = 0;
        let log = ("dmesg", self.log());
        for (name, text) in self.texts.iter().chain([&log]) {
            bytes += text.len() as u64;
            let mut file = fs::File::create(folder.join(name))?;
            io::Write::write_all(&mut file, text.as_bytes())?;
            file.sync_all()?;
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    const REPORT: [&str; 4] = [
        "kworker/0:1: page allocation failure: order:4, mode:0x40cc0(GFP_KERNEL|__GFP_COMP), nodemask=(null)",
        "Mem-Info:",
        "Node 0 DMA32 free:1000kB boost:0kB min:2000kB low:2500kB high:3000kB reserved_highatomic:0KB present:4000kB managed:4000kB",
        "Node 0 DMA32: 250*4kB (UME) = 1000kB",
    ];

    fn watch(folder: &Path) -> Reports {
        let proc = folder.join("proc");
        fs::create_dir(&proc).unwrap();
        for name in ["buddyinfo", "zoneinfo", "meminfo"] {
            fs::write(proc.join(name), format!("{name}\n")).unwrap();
        }
        fs::create_dir_all(proc.join("sys/vm")).unwrap();
        fs::write(proc.join("sys/vm/min_free_kbytes"), "4096\n").unwrap();
        fs::write(folder.join("kmsg"), "").unwrap();
        Reports::open_at(&folder.join("kmsg"), &proc).unwrap()
    }

    /// Logs lines, one a record, and looks after each: one read of a file may return several.
    fn log(reports: &mut Reports, folder: &Path, first: u64, lines: &[&str]) -> Option<Report> {
        let (wake, _other) = UnixStream::pair().unwrap();
        let mut found = None;
        for (line, number) in lines.iter().zip(first..) {
            let mut file = fs::OpenOptions::new().append(true).open(folder.join("kmsg")).unwrap();
            writeln!(file, "4,{number},{number},-;{line}").unwrap();
            found = found.or(reports.look(wake.as_fd(), Duration::ZERO).unwrap());
        }
        found
    }

    #[test]
    fn a_report_is_saved_with_the_state_that_it_began_in() {
        let here = tempfile::tempdir().unwrap();
        let mut reports = watch(here.path());
        assert!(log(&mut reports, here.path(), 0, &["eth0: link up"]).is_none());
        assert!(log(&mut reports, here.path(), 1, &REPORT).is_none(), "more may come");
        fs::write(here.path().join("proc/buddyinfo"), "later\n").unwrap();
        let (wake, _other) = UnixStream::pair().unwrap();
        std::thread::sleep(QUIET);
        let report = reports.look(wake.as_fd(), Duration::ZERO).unwrap().unwrap();
        assert_eq!(report.reason, REPORT[0]);
        assert_eq!(reports.counts().by_kind, [("allocation_failure", 1)].into());
        assert_eq!(reports.counts().lines, 5);

        let folder = here.path().join("saved");
        report.save(&folder).unwrap();
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(text("buddyinfo"), "buddyinfo\n");
        assert!(text("sysctl").contains("vm.min_free_kbytes = 4096\n"), "{}", text("sysctl"));
        assert!(text("dmesg").starts_with("[    0.000000] eth0: link up\n[    0.000001] kworker"));
        assert!(!folder.join("pagetypeinfo").exists(), "it may not be read");
        // One that cannot be written leaves nothing.
        assert!(report.save(&here.path().join("none/saved")).is_err());
        fs::write(here.path().join("taken"), "").unwrap();
        assert!(
            report.save(&here.path().join("taken")).is_err() && !here.path().join("taken.partial").exists()
        );
    }

    #[test]
    fn what_is_logged_without_end_is_bounded() {
        let here = tempfile::tempdir().unwrap();
        let mut reports = watch(here.path());
        reports.line(format!("[ 1] {}", REPORT[0]));
        for _ in 0..MOST / 1000 * 3 {
            reports.line("x".repeat(1000));
        }
        assert!(reports.pending.as_ref().unwrap().report.log().len() <= MOST + 2048);
        (0..100).for_each(|n| {
            reports.pending = None;
            reports.line(format!("[ 1] {n}"));
        });
        assert_eq!(reports.before.len(), BEFORE);
        assert_eq!(reports.now("SIGUSR1").lines.last().unwrap(), "[ 1] 99");
    }
}
