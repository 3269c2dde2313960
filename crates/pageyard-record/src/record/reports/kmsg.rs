//! The kernel's log as it is written, `/dev/kmsg`.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, SeekFrom, open, seek};

use pageyard_trace::source::reason;

use super::super::RecordError;

/// The longest record. # Linux: `PRINTK_MESSAGE_MAX`, with room for one more field.
const LONGEST: usize = 8 << 10;

/// The kernel's own facility; what programs write into its log has another.
const KERNEL: u64 = 0;

/// The kernel's log from now on.
pub(super) struct Kmsg {
    file: File,
    /// Records that were replaced before they were read.
    pub lost: u64,
    next: Option<u64>,
}

impl Kmsg {
    /// Opens it at its end.
    pub fn open(path: &Path) -> Result<Kmsg, RecordError> {
        let refused = |e: rustix::io::Errno| RecordError::Refused {
            what: format!("{} cannot be read", path.display()),
            why: match e {
                rustix::io::Errno::PERM | rustix::io::Errno::ACCESS => {
                    format!("{}; the level `reports` needs CAP_SYSLOG: run it with sudo", reason(&e.into()))
                }
                _ => reason(&e.into()),
            },
        };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = open(path, flags, Mode::empty()).map_err(refused)?;
        seek(&file, SeekFrom::End(0)).map_err(refused)?;
        Ok(Kmsg { file: file.into(), lost: 0, next: None })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the next line of the kernel's own as `dmesg` prints it; `None` when there is none yet.
    pub fn next_line(&mut self) -> Result<Option<String>, RecordError> {
        let mut buffer = [0; LONGEST];
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(n) => {
                    let record = String::from_utf8_lossy(&buffer[..n]);
                    let Some(record) = Record::parse(&record) else { continue };
                    self.lost += self.next.map_or(0, |next| record.number.saturating_sub(next));
                    self.next = Some(record.number + 1);
                    if record.facility == KERNEL {
                        return Ok(Some(record.line()));
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                // Records were replaced: the next read goes on behind them, and numbers say how many they were.
                Err(e) if e.kind() == ErrorKind::BrokenPipe || e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    let what = "the kernel's log cannot be read".to_owned();
                    return Err(RecordError::Refused { what, why: reason(&e) });
                }
            }
        }
    }
}

/// One record.
#[derive(Debug, PartialEq, Eq)]
struct Record<'a> {
    facility: u64,
    number: u64,
    micros: u64,
    /// The thread or CPU that wrote it, where the kernel says.
    caller: Option<&'a str>,
    text: &'a str,
}

impl<'a> Record<'a> {
    /// Reads `4,346,21061945301,-,caller=T1;hrtimer: interrupt took 25788 ns`, without what follows the line.
    fn parse(record: &'a str) -> Option<Record<'a>> {
        let (head, rest) = record.split_once(';')?;
        let mut fields = head.split(',');
        let mut number = || fields.next()?.parse::<u64>().ok();
        let (priority, sequence, micros) = (number()?, number()?, number()?);
        let caller = fields.find_map(|field| field.strip_prefix("caller="));
        let text = rest.lines().next().unwrap_or_default();
        Some(Record { facility: priority >> 3, number: sequence, micros, caller, text })
    }

    fn line(&self) -> String {
        let (seconds, micros) = (self.micros / 1_000_000, self.micros % 1_000_000);
        let caller = self.caller.map_or_else(String::new, |caller| format!("[{caller:>6}] "));
        format!("[{seconds:5}.{micros:06}] {caller}{}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_line_as_dmesg_prints_it() {
        let line = |record| Record::parse(record).map(|r| (r.facility, r.line()));
        assert_eq!(
            line("4,346,21061945301,-;hrtimer: interrupt took 25788 ns\n"),
            Some((0, "[21061.945301] hrtimer: interrupt took 25788 ns".to_owned()))
        );
        assert_eq!(
            line("6,7,1500,-,caller=T42;Mem-Info:\n SUBSYSTEM=block\n"),
            Some((0, "[    0.001500] [   T42] Mem-Info:".to_owned()))
        );
        assert_eq!(line("30,8,1,-;systemd[1]: started\n").map(|(facility, _)| facility), Some(3));
        for other in ["", "4,346", "x,1,2,-;text", ";text"] {
            assert_eq!(Record::parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_was_replaced_unread_is_counted_and_what_programs_write_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kmsg");
        // One read is one record of the device; of a file it may be several, of which the first line counts.
        std::fs::write(&path, "").unwrap();
        let mut log = Kmsg::open(&path).unwrap();
        std::fs::write(&path, "4,10,1,-;first\n").unwrap();
        assert_eq!(log.next_line().unwrap().as_deref(), Some("[    0.000001] first"));
        std::fs::write(&path, "4,10,1,-;first\n30,14,2,-;theirs\n").unwrap();
        assert_eq!(log.next_line().unwrap(), None);
        assert_eq!(log.lost, 3);
        let missing = Kmsg::open(&folder.path().join("none")).err().unwrap().to_string();
        assert!(missing.contains("cannot be read"), "{missing}");
    }
}
