//! The source that tells a purger that memory is short.

use crate::backing::BackingError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The source that tells a [`Purger`](crate::Purger) that memory is short.
pub trait Pressure: Send + 'static {
    /// Returns a descriptor that becomes ready (`POLLPRI`) when memory gets short, and is ready no more once it was
    /// polled or [`is_short`](Pressure::is_short) was asked. Without one, the purger asks at its intervals only.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns whether memory is short now. `woken` says that the descriptor was ready.
    ///
    /// # Errors
    /// Why it cannot be known. The purger reports that, and asks no more.
    fn is_short(&mut self, woken: bool) -> Result<bool, BackingError>;
}

impl Pressure for Box<dyn Pressure> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (**self).descriptor()
    }

    fn is_short(&mut self, woken: bool) -> Result<bool, BackingError> {
        (**self).is_short(woken)
    }
}

/// The kernel's pressure stall information: it tells when tasks waited for memory for a part of a window of time.
///
/// # Linux
/// A trigger of `/proc/pressure/memory` or of a control group's `memory.pressure`, of the kind `some` (Linux 5.2).
#[derive(Debug)]
pub struct Stall(File);

/// Tasks that wait this long in a [`WINDOW`] stall.
const STALLED: Duration = Duration::from_millis(100);

/// The window that a trigger looks at. A process without `CAP_SYS_RESOURCE` may use multiples of 2 s only.
const WINDOW: Duration = Duration::from_secs(2);

const HOST: &str = "/proc/pressure/memory";

impl Stall {
    /// Watches the whole host, for stalls of 100 ms within 2 s.
    ///
    /// # Errors
    /// [`BackingError::Refused`], which names the setting to change.
    pub fn of_host() -> Result<Stall, BackingError> {
        Stall::open(Path::new(HOST), STALLED, WINDOW)
    }

    /// Watches this process's control group (version 2), for stalls of 100 ms within 2 s.
    ///
    /// # Errors
    /// [`BackingError::Refused`], which names the setting to change.
    pub fn of_group() -> Result<Stall, BackingError> {
        let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        // In the root of version 2 lie all processes of a host that has only version 1.
        let group = text.lines().find_map(|line| line.strip_prefix("0::/")).filter(|group| !group.is_empty());
        let Some(group) = group else { return Err(refused(&ErrorKind::NotFound.into())) };
        Stall::open(&Path::new("/sys/fs/cgroup").join(group).join("memory.pressure"), STALLED, WINDOW)
    }

    /// Watches what a file says of memory, for stalls of `stalled` within each `window`, which is 500 ms to 10 s long.
    ///
    /// # Errors
    /// [`BackingError::Refused`], which names the setting to change.
    pub fn open(path: &Path, stalled: Duration, window: Duration) -> Result<Stall, BackingError> {
        let set = || -> io::Result<File> {
            let mut file =
                OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
            // The kernel wants the zero byte.
            file.write_all(format!("some {} {}\0", stalled.as_micros(), window.as_micros()).as_bytes())?;
            Ok(file)
        };
        set().map(Stall).map_err(|why| refused(&why))
    }
}

/// Names what to change where the kernel does not tell.
pub(super) fn refused(why: &io::Error) -> BackingError {
    let setting = match why.kind() {
        ErrorKind::NotFound => {
            "the kernel needs CONFIG_PSI=y, and a control group of its own needs version 2; watch MemAvailable instead"
        }
        ErrorKind::PermissionDenied => {
            "make the file writable for this process; before Linux 6.5 that takes CAP_SYS_RESOURCE, too"
        }
        ErrorKind::InvalidInput => {
            "windows are 500 ms to 10 s long, multiples of 2 s without CAP_SYS_RESOURCE, and longer than the stall"
        }
        _ if why.raw_os_error() == Some(libc::EOPNOTSUPP) => "boot with psi=1",
        _ => "boot with psi=1, or watch MemAvailable instead",
    };
    BackingError::Refused { what: "to watch for memory pressure", why: why.to_string(), setting }
}

impl Pressure for Stall {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn is_short(&mut self, woken: bool) -> Result<bool, BackingError> {
        Ok(woken)
    }
}

/// `MemAvailable` of `/proc/meminfo` against a threshold: for hosts that have no pressure stall information.
#[derive(Clone, Debug)]
pub struct Available {
    below: u64,
    file: PathBuf,
}

impl Available {
    /// Takes memory as short where fewer than so many bytes are available.
    #[must_use]
    pub fn below(bytes: u64) -> Available {
        Available { below: bytes, file: "/proc/meminfo".into() }
    }

    /// Takes memory as short where less than a sixteenth of the host's is available.
    ///
    /// # Errors
    /// [`BackingError::Refused`] where the host does not say how much it has.
    pub fn of_host() -> Result<Available, BackingError> {
        let host = Available::below(0);
        Ok(Available { below: host.bytes("MemTotal:")? / 16, ..host })
    }

    /// Reads another file of the same form.
    #[cfg(test)]
    pub(super) fn in_file(self, file: PathBuf) -> Available {
        Available { file, ..self }
    }

    fn bytes(&self, name: &str) -> Result<u64, BackingError> {
        let text = fs::read_to_string(&self.file);
        let kib = |text: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
        };
        let why = match text {
            Ok(text) => match kib(&text) {
                Some(kib) => return Ok(kib.saturating_mul(1024)),
                None => format!("no line {name}"),
            },
            Err(why) => why.to_string(),
        };
        Err(BackingError::Refused {
            what: "to say how much memory is available",
            why,
            setting: "mount /proc, of Linux 3.14 or later",
        })
    }
}

impl Pressure for Available {
    fn is_short(&mut self, _: bool) -> Result<bool, BackingError> {
        Ok(self.bytes("MemAvailable:")? < self.below)
    }
}

/// Returns the best that this host has: [`Stall::of_group`], else [`Stall::of_host`], else [`Available::of_host`].
///
/// # Errors
/// [`BackingError::Refused`], of the last.
pub fn of_this_host() -> Result<Box<dyn Pressure>, BackingError> {
    match Stall::of_group().or_else(|_| Stall::of_host()) {
        Ok(stall) => Ok(Box::new(stall)),
        Err(_) => Ok(Box::new(Available::of_host()?)),
    }
}
