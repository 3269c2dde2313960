//! A guest that runs a shell script and powers off.

use crate::emulator::{self, Access};
use crate::guest::last_lines;
use crate::initrd::Initrd;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// A guest's machine, and the script that it runs.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The kernel's image, where its unpacked package has it.
    pub kernel: PathBuf,
    /// The shell script that runs in the guest. BusyBox is installed, and its output is the console's.
    pub script: String,
    /// A program that becomes `/bin/pageyard`.
    pub program: Option<PathBuf>,
    /// Files that are copied to `/`.
    pub files: Vec<PathBuf>,
    /// Disks: `/dev/vda` and so on.
    pub disks: Vec<(PathBuf, Access)>,
    /// Memory in MiB; that of all nodes where 0.
    pub memory_mib: u32,
    /// The most memory below 4 GiB, in MiB.
    pub low_mib: Option<u32>,
    /// CPUs.
    pub cpus: u32,
    /// Memory nodes: MiB of each, and its CPU.
    pub nodes: Vec<(u32, Option<u32>)>,
    /// Words for the kernel's command line.
    pub words: String,
    /// The time that the guest may take.
    pub limit: Duration,
    /// A line's beginning without which the guest failed.
    pub until: Option<String>,
}

impl Launch {
    /// Runs the guest to its end, and copies its console to `out` as it grows. `folder` gets
    /// the initial file system and logs.
    ///
    /// # Errors
    /// The guest could not be started, took too long, or ended without the line that it was to say.
    pub fn run(&self, folder: &Path, out: &mut dyn Write) -> Result<(), String> {
        let (initrd, console, log) =
            (folder.join("initrd"), folder.join("console.log"), folder.join("emulator.log"));
        self.pack(&initrd)?;
        let fail = |e: std::io::Error| format!("the guest's files in {}: {e}", folder.display());
        let _ = fs::remove_file(&console);
        let emulator = self
            .emulator(&initrd, &console)
            .stderr(File::create(&log).map_err(fail)?)
            .spawn()
            .map_err(|e| format!("setpriv, which starts the emulator, does not start: {e}"))?;
        let mut running = Running(emulator);
        let mut shown = Console { file: console.clone(), read: 0, returns: 0 };
        let begun = Instant::now();
        let (mut ended, mut failed) = (false, false);
        while !ended && begun.elapsed() < self.limit {
            let status = running.0.try_wait().map_err(fail)?;
            (ended, failed) = (status.is_some(), status.is_some_and(|status| !status.success()));
            shown.copy(out).map_err(fail)?;
            if !ended {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        let said = fs::read(&console).unwrap_or_default();
        let why = match &self.until {
            _ if !ended => format!("the guest is not done after {} s", self.limit.as_secs()),
            _ if failed => {
                "the emulator failed (if it is missing, on Debian: apt-get install qemu-system-x86)".into()
            }
            Some(until) if !has_line(&String::from_utf8_lossy(&said), until) => {
                format!("the guest ended without saying `{until}`")
            }
            _ => return Ok(()),
        };
        let last = [&console, &log].map(|log| last_lines(log)).join("\n");
        Err(format!("{why}; last it said:\n{}", last.trim()))
    }

    fn pack(&self, initrd: &Path) -> Result<(), String> {
        let mut packed = Initrd::new(&format!(
            "/bin/busybox --install -s /bin\nexec </dev/null >/dev/console 2>&1\n{}\npoweroff -f",
            self.script
        ))?;
        if let Some(program) = &self.program {
            packed.program(program)?;
        }
        packed.files(&self.files)?;
        packed.modules(&self.kernel)?;
        packed.write(initrd)
    }

    fn emulator(&self, initrd: &Path, console: &Path) -> std::process::Command {
        let memory = match self.memory_mib {
            0 => self.nodes.iter().map(|(mib, _)| mib).sum(),
            mib => mib,
        };
        let low = self.low_mib.map_or_else(String::new, |mib| format!(",max-ram-below-4g={mib}M"));
        let mut command = emulator::command(&self.kernel, initrd, &self.words, console);
        command
            .args(["-M", &format!("pc{low}"), "-smp", &self.cpus.to_string(), "-m", &format!("{memory}M")])
            .args(["-accel", "tcg,thread=multi"]);
        for (number, (mib, cpu)) in self.nodes.iter().enumerate() {
            command.args(emulator::node(number, *mib, *cpu));
        }
        for (file, access) in &self.disks {
            command.args(emulator::disk(file, *access));
        }
        command
    }
}

fn has_line(console: &str, beginning: &str) -> bool {
    console.lines().any(|line| line.starts_with(beginning))
}

/// A console's log as it grows.
struct Console {
    file: PathBuf,
    read: usize,
    /// Carriage returns whose next byte is not there yet.
    returns: usize,
}

impl Console {
    /// Copies what is new. Lines end with a line feed alone.
    fn copy(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        if let Ok(mut file) = File::open(&self.file) {
            file.read_to_end(&mut bytes)?;
        }
        let new = bytes.split_off(self.read.min(bytes.len()));
        self.read += new.len();
        let mut shown = Vec::with_capacity(new.len());
        for byte in new {
            match byte {
                b'\r' => self.returns += 1,
                byte => {
                    let returns = std::mem::take(&mut self.returns);
                    if byte != b'\n' {
                        shown.extend(std::iter::repeat_n(b'\r', returns));
                    }
                    shown.push(byte);
                }
            }
        }
        out.write_all(&shown)?;
        out.flush()
    }
}

/// The emulator's process, which ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_copied_once_with_line_feeds() {
        let folder = tempfile::tempdir().unwrap();
        let mut console = Console { file: folder.path().join("console"), read: 0, returns: 0 };
        let mut out = Vec::new();
        console.copy(&mut out).unwrap();
        fs::write(&console.file, "one\r\r\nt\rt\r").unwrap();
        console.copy(&mut out).unwrap();
        fs::write(&console.file, "one\r\r\nt\rt\r\n").unwrap();
        console.copy(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "one\nt\rt\n");
        assert!(has_line("one\r\ntwo\r\n", "two") && !has_line("one\r\ntwo\r\n", "wo"));
    }

    #[test]
    fn the_emulator_has_the_machine_that_was_asked_for() {
        let launch = Launch {
            nodes: vec![(256, Some(0)), (128, None)],
            disks: vec![("a".into(), Access::ReadOnly), ("b".into(), Access::Written)],
            low_mib: Some(160),
            cpus: 2,
            words: "slub_max_order=0".into(),
            ..Launch::default()
        };
        let command = launch.emulator(Path::new("initrd"), Path::new("console"));
        let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
        let all = arguments.join(" ");
        for part in [
            "-M pc,max-ram-below-4g=160M -smp 2 -m 384M",
            "node,nodeid=0,cpus=0,memdev=m0",
            "node,nodeid=1,memdev=m1",
            "file=a,format=raw,if=virtio,readonly=on -drive file=b,format=raw,if=virtio,cache=unsafe",
            "no_timer_check slub_max_order=0",
            "-serial file:console",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }
}
