//! A stock kernel in a guest: booted with the judge's module, two CPUs and two nodes, it carries out one stream and
//! goes down again.

use crate::exchange::{self, ExchangeError, Ruling, Task};
use crate::operation::Operation;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often a guest is booted that does not come to the stream: under an emulator a kernel now and then fails on its
/// way there.
const BOOTS: u32 = 3;

/// How long a guest may show no progress: on a host with other work an emulated kernel boots for minutes.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// What a guest is booted with.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The kernel's image.
    pub kernel: PathBuf,
    /// An initial file system whose init loads the judge's module.
    pub initrd: PathBuf,
    /// Where the exchange and the console's log go.
    pub folder: PathBuf,
    /// How long a guest may show no progress, however long it takes in all.
    pub patience: Duration,
}

/// The machine: as much below 4 GiB as fills DMA and DMA32, Normal on both nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// MiB below 4 GiB, all of node 0.
    pub low_mib: u32,
    /// MiB of node 0.
    pub node0_mib: u32,
    /// MiB of node 1.
    pub node1_mib: u32,
}

/// A machine that boots in three seconds and fills in a few ten thousand operations.
pub const SMALL: Machine = Machine { low_mib: 192, node0_mib: 320, node1_mib: 256 };

/// Why a guest did not judge.
#[derive(Debug)]
pub enum GuestError {
    /// The emulator could not be started.
    Start(io::Error),
    /// It did, and no ruling came of it: why, and the last lines of the log, which is in the file.
    Failed(ExchangeError, String, PathBuf),
}

impl fmt::Display for GuestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuestError::Start(e) => write!(f, "qemu-system-x86_64 does not start: {e}"),
            GuestError::Failed(why, last, log) => match last.as_str() {
                "" => write!(f, "{why}; the log {} is empty", log.display()),
                last => write!(f, "{why}; the log is {}, and ends with:\n{last}", log.display()),
            },
        }
    }
}

impl std::error::Error for GuestError {}

impl Guest {
    /// Boots the guest, lets it carry out a stream, and returns what it did. `settings` are names below `/proc/sys/vm`
    /// and their values.
    ///
    /// # Errors
    /// [`GuestError`].
    pub fn judge(
        &self,
        machine: Machine,
        settings: &[(String, String)],
        operations: &[Operation],
        task: Task,
    ) -> Result<Ruling, GuestError> {
        let exchange = self.folder.join("exchange");
        let log = self.console_log();
        let _ = std::fs::remove_file(&log);
        let mut read = Err(ExchangeError::NotBegun);
        for _ in 0..BOOTS {
            exchange::write(&exchange, operations, task).map_err(GuestError::Start)?;
            self.boot(machine, settings, &exchange, &log, task).map_err(GuestError::Start)?;
            read = exchange::read(&exchange, operations);
            if !matches!(read, Err(ExchangeError::NotBegun)) {
                break;
            }
        }
        read.map_err(|why| self.failed(why))
    }

    pub(crate) fn emulator_log(&self) -> PathBuf {
        self.folder.join("emulator.log")
    }

    pub(crate) fn console_log(&self) -> PathBuf {
        self.folder.join("console.log")
    }

    /// Returns an emulator's command that lacks only memory and CPUs. `words` are the kernel's, and
    /// name the module that the guest loads; it sees the file `exchange` of `bytes` bytes as the memory of a device;
    /// `settings` are names below `/proc/sys/vm` and their values.
    pub(crate) fn emulator(
        &self,
        settings: &[(String, String)],
        words: &str,
        exchange: &Path,
        bytes: u64,
        log: &Path,
    ) -> io::Result<Command> {
        // A host that is busy delays the emulated timer, which the kernel would take for a broken one
        // (`no_timer_check`).
        let mut append = format!(
            "console=ttyS0 quiet panic=-1 psi=0 init_on_alloc=0 nowatchdog rcupdate.rcu_cpu_stall_suppress=1 tsc=reliable no_timer_check {words}"
        );
        for (name, value) in settings {
            append += &format!(" judge.{name}={}", value.replace(' ', ","));
        }
        let shared =
            format!("memory-backend-file,id=exchange,share=on,mem-path={},size={bytes}", exchange.display(),);
        // A guest that holds its CPUs would run on for ever: it ends with the process that started it, however that
        // ends.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64", "-cpu", "max"])
            .args(["-object", &shared, "-device", "ivshmem-plain,memdev=exchange"])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.initrd)
            .args(["-append", &append])
            .args(["-display", "none", "-nodefaults", "-no-reboot", "-serial"])
            .arg(format!("file:{}", log.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(self.emulator_log())?);
        Ok(command)
    }

    /// Says that a guest failed: why, and what its console or the emulator said last.
    pub(crate) fn failed(&self, why: ExchangeError) -> GuestError {
        let log = self.console_log();
        match last_lines(&log) {
            // The emulator may have had something against it before the kernel could say a word.
            said if said.is_empty() => {
                GuestError::Failed(why, last_lines(&self.emulator_log()), self.emulator_log())
            }
            said => GuestError::Failed(why, said, log),
        }
    }

    fn boot(
        &self,
        machine: Machine,
        settings: &[(String, String)],
        exchange: &Path,
        log: &Path,
        task: Task,
    ) -> io::Result<()> {
        let memory = |id: &str, mib| format!("memory-backend-ram,id={id},size={mib}M");
        let mut child = self
            .emulator(settings, "pageyard_module=judge", exchange, exchange::SIZE, log)?
            .args(["-M", &format!("pc,max-ram-below-4g={}M", machine.low_mib)])
            .args(["-smp", "2"])
            .args(match task {
                // The time stamp counter counts instructions.
                Task::Weigh => &["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"][..],
                Task::Plain | Task::Compact => &["-accel", "tcg,thread=multi"],
            })
            .args(["-m", &format!("{}M", machine.node0_mib + machine.node1_mib)])
            .args(["-object", &memory("m0", machine.node0_mib), "-object", &memory("m1", machine.node1_mib)])
            .args(["-numa", "node,nodeid=0,cpus=0,memdev=m0", "-numa", "node,nodeid=1,cpus=1,memdev=m1"])
            .spawn()?;
        let done = std::fs::File::open(exchange)?;
        let mut progress = Progress::new(log, Instant::now());
        while child.try_wait()?.is_none() {
            if progress.stands_since(exchange::done(&done)?, Instant::now()) > self.patience {
                child.kill()?;
                child.wait()?;
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// What a guest was last seen to have done, and when that was new.
pub(crate) struct Progress {
    console: PathBuf,
    /// Bytes on its console, and operations.
    seen: (u64, u64),
    at: Instant,
}

impl Progress {
    /// Begins to watch a guest that writes its console to a file.
    pub(crate) fn new(console: &Path, now: Instant) -> Progress {
        Progress { console: console.to_path_buf(), seen: (0, 0), at: now }
    }

    /// Returns for how long a guest that has carried out `done` operations has neither done more nor written to its
    /// console.
    pub(crate) fn stands_since(&mut self, done: u64, now: Instant) -> Duration {
        let seen = (std::fs::metadata(&self.console).map_or(0, |file| file.len()), done);
        if seen != self.seen {
            (self.seen, self.at) = (seen, now);
        }
        now.duration_since(self.at)
    }
}

/// Returns the last lines of a console, without what a terminal would act on.
fn last_lines(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    let shown = lines.into_iter().rev().map(|l| l.chars().filter(|c| !c.is_control()).collect::<String>());
    shown.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_gets_on_is_never_given_up_however_long_it_takes() {
        let folder = tempfile::tempdir().unwrap();
        let (console, begun) = (folder.path().join("console"), Instant::now());
        let mut progress = Progress::new(&console, begun);
        let minute = Duration::from_secs(60);
        let mut stands = |done, minutes| progress.stands_since(done, begun + minutes * minute);
        assert_eq!(stands(0, 2), 2 * minute, "no console yet");
        std::fs::write(&console, "a word").unwrap();
        assert_eq!(stands(0, 4), Duration::ZERO);
        assert_eq!(stands(0, 7), 3 * minute);
        assert_eq!(stands(1, 9), Duration::ZERO, "an operation");
        std::fs::write(&console, "a word, and another").unwrap();
        assert_eq!(stands(1, 99), Duration::ZERO);
        assert_eq!(stands(1, 104), 5 * minute);
    }
}
