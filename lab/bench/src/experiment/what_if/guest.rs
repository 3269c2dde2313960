//! A guest: a stock kernel with aged memory. Every run starts from one saved state, or boots and ages anew.

use super::agent::{Answer, CACHE, Ready, Task, take_over};
use super::load::{GUEST_PIECES_MIB, Load};
use super::place::TestMachine;
use super::setting::Baseline;
use pageyard_guest::emulator::{self, Access};
use pageyard_guest::initrd::{self, Initrd};
use pageyard_replay::what_if::Figures;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Memory of the guest, in MiB: a few seconds of a load fill it.
pub(crate) const MEMORY_MIB: u32 = 512;

/// How long a guest may take to boot and age, or to carry out a task: it is emulated.
const PATIENCE: Duration = Duration::from_secs(240);

/// How often a task is tried: an emulator of two CPUs now and then carries out an instruction that the guest's kernel
/// has just replaced, and the guest ends with "Oops: int3".
const TRIES: u32 = 3;

/// Empty lines before a task: a serial line that has just been restored loses some bytes.
const LINES: &str = "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n";

/// Bytes of the device that is read through, all holes, and of the one that a recording is written on.
const CACHE_BYTES: u64 = 8 << 30;
const OUT_BYTES: u64 = 1 << 30;

/// The commands that the guest's first process runs.
const INIT: &str = "/bin/busybox stty -F /dev/ttyS1 raw -echo
echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range
exec /bin/pageyard what-if-guest </dev/ttyS1 >/dev/ttyS1";

/// A guest.
pub struct Guest {
    folder: PathBuf,
    kernel: PathBuf,
    seed: u64,
    /// What it said when it was aged last.
    ready: Ready,
    /// Whether its state was saved.
    is_saved: bool,
}

impl Guest {
    /// Makes a guest ready that boots and ages anew for each run, with the kernel of a package of the distribution,
    /// unpacked in `package`. Its files go below `folder`.
    ///
    /// # Errors
    /// The missing file.
    pub fn booting(program: &Path, package: &Path, folder: &Path, seed: u64) -> Result<Guest, String> {
        let kernel = initrd::kernel(package)?;
        let mut initrd = Initrd::new(INIT)?;
        initrd.program(program)?;
        initrd.modules(&kernel)?;
        initrd.write(&folder.join("initrd"))?;
        for (name, bytes) in [("cache.img", CACHE_BYTES), ("out.img", OUT_BYTES)] {
            let made = File::create(folder.join(name)).and_then(|f| f.set_len(bytes));
            made.map_err(|e| format!("{} cannot be made: {e}", folder.join(name).display()))?;
        }
        let ready = Ready { kernel: String::new(), baseline: Baseline::new() };
        Ok(Guest { folder: folder.to_owned(), kernel, seed, ready, is_saved: false })
    }

    /// Boots and ages such a guest, and saves its state, from which every run starts.
    ///
    /// # Errors
    /// The missing file, or the reason why the guest did not become ready.
    pub fn saved(program: &Path, package: &Path, folder: &Path, seed: u64) -> Result<Guest, String> {
        let mut guest = Guest::booting(program, package, folder, seed)?;
        let running = guest.start(&[])?;
        guest.ready = running.said()?;
        guest.save()?;
        guest.is_saved = true;
        Ok(guest)
    }

    fn start(&self, more: &[&str]) -> Result<Running, String> {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let control = self.folder.join("control");
        let _ = fs::remove_file(&control);
        let emulator = at("emulator.log");
        let log = File::create(&emulator).map_err(|e| format!("{emulator} cannot be written: {e}"))?;
        let console = self.folder.join("console.log");
        let mut child = emulator::command(&self.kernel, &self.folder.join("initrd"), "psi=0", &console)
            .args(["-M", "pc", "-smp", "2", "-accel", "tcg,thread=multi", "-m", &format!("{MEMORY_MIB}M")])
            .args(emulator::disk(&self.folder.join("cache.img"), Access::ReadOnly))
            .args(emulator::disk(&self.folder.join("out.img"), Access::Written))
            .args(["-serial", "stdio"])
            .args(["-qmp", &format!("unix:{},server=on,wait=off", control.display())])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|e| {
                format!("qemu-system-x86_64 does not start: {e}; on Debian: apt-get install qemu-system-x86")
            })?;
        let (send, lines) = channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                // Ends with the guest, or with the thread that listens.
                BufReader::new(out)
                    .lines()
                    .map_while(Result::ok)
                    .take_while(|l| send.send(l.clone()).is_ok())
                    .count()
            });
        }
        Ok(Running {
            child,
            lines,
            logs: [self.folder.join("console.log"), self.folder.join("emulator.log")],
        })
    }

    /// Saves the running guest, all of it, into a file.
    fn save(&self) -> Result<(), String> {
        let fail = |e: std::io::Error| format!("the guest cannot be saved: {e}");
        let mut control = UnixStream::connect(self.folder.join("control")).map_err(fail)?;
        control.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
        let mut answers = BufReader::new(control.try_clone().map_err(fail)?).lines();
        let mut ask = |what: String| -> Result<String, String> {
            writeln!(control, "{what}").map_err(fail)?;
            for line in answers.by_ref() {
                let line = line.map_err(fail)?;
                if line.contains("\"return\"") || line.contains("\"error\"") {
                    return Ok(line);
                }
            }
            Err("the guest cannot be saved: the emulator has ended".into())
        };
        ask("{\"execute\":\"qmp_capabilities\"}".into())?;
        let speed = "{\"execute\":\"migrate-set-parameters\",\"arguments\":{\"max-bandwidth\":10000000000}}";
        ask(speed.into())?;
        let uri = serde_json::json!({
            "execute": "migrate", "arguments": { "uri": format!("exec:cat > '{}'", self.folder.join("state").display()) }
        });
        ask(uri.to_string())?;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let said = ask("{\"execute\":\"query-migrate\"}".into())?;
            if said.contains("\"status\": \"completed\"") {
                return Ok(());
            }
            if said.contains("\"status\": \"failed\"") || said.contains("\"error\"") {
                return Err(format!("the guest cannot be saved: {}", pageyard_replay::text::shown(&said)));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err("the guest cannot be saved: it takes too long".into())
    }

    /// Has a task carried out; again where the guest has ended.
    fn ask(&mut self, task: &Task) -> Result<Answer, String> {
        let mut answer = self.ask_once(task);
        for _ in 1..TRIES {
            match answer {
                Err(_) => answer = self.ask_once(task),
                Ok(_) => break,
            }
        }
        answer
    }

    fn ask_once(&mut self, task: &Task) -> Result<Answer, String> {
        let state = format!("exec:cat '{}'", self.folder.join("state").display());
        let mut running = match self.is_saved {
            true => self.start(&["-incoming", &state])?,
            false => {
                let running = self.start(&[])?;
                self.ready = running.said()?;
                running
            }
        };
        let text = serde_json::to_string(task).map_err(|e| e.to_string())?;
        let told =
            running.child.stdin.as_mut().map(|to| writeln!(to, "{LINES}{text}").and_then(|()| to.flush()));
        match told {
            Some(Ok(())) => running.said(),
            _ => Err(running.failed("the guest has ended")),
        }
    }

    fn task(&self, load: &Load, record: bool, setting: Option<(&str, &str)>) -> Task {
        let settings = setting.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        let work = load.work(true, self.seed, Path::new(CACHE));
        let pieces_mib = load.state.pieces_only.then_some(GUEST_PIECES_MIB);
        Task { load: work.load, size: work.size, seed: work.seed, record, settings, pieces_mib }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Its recordings stay, and its logs.
        for name in ["initrd", "cache.img", "out.img", "state", "control"] {
            let _ = fs::remove_file(self.folder.join(name));
        }
    }
}

impl TestMachine for Guest {
    fn name(&self) -> &'static str {
        "guest"
    }

    fn kernel(&self) -> &str {
        &self.ready.kernel
    }

    fn baseline(&self) -> &Baseline {
        &self.ready.baseline
    }

    fn record(&mut self, load: &Load, setting: Option<(&str, &str)>) -> Result<PathBuf, String> {
        match self.ask(&self.task(load, true, setting))? {
            Answer::Recorded => {}
            Answer::Failed(why) => return Err(why),
            Answer::Counted(_) => return Err("the guest counted instead of recording".into()),
        }
        let trace = self.folder.join(format!("guest-{}.trace", load.name));
        let _ = fs::remove_dir_all(&trace);
        take_over(&self.folder.join("out.img"), &trace).map_err(|e| format!("{}: {e}", trace.display()))?;
        Ok(trace)
    }

    fn count(&mut self, load: &Load, setting: Option<(&str, &str)>) -> Result<Figures, String> {
        match self.ask(&self.task(load, false, setting))? {
            Answer::Counted(figures) => Ok(figures),
            Answer::Failed(why) => Err(why),
            Answer::Recorded => Err("the guest recorded instead of counting".into()),
        }
    }
}

/// A guest that runs, until it is dropped.
struct Running {
    child: Child,
    lines: Receiver<String>,
    logs: [PathBuf; 2],
}

impl Running {
    /// Waits for the next thing that the guest says.
    fn said<T: serde::de::DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_str(&self.line()?).map_err(|e| format!("the guest said nothing of use: {e}"))
    }

    /// Waits for the next line that the guest says.
    fn line(&self) -> Result<String, String> {
        self.lines.recv_timeout(PATIENCE).map_err(|e| {
            self.failed(match e {
                RecvTimeoutError::Timeout => "the guest takes too long",
                RecvTimeoutError::Disconnected => "the guest has ended",
            })
        })
    }

    /// Says what went wrong, with the line of a log that says why, or its last one. The log is kept: the next guest
    /// writes its own.
    fn failed(&self, what: &str) -> String {
        let telling = |log: &PathBuf| {
            let bytes = fs::read(log).unwrap_or_default();
            telling_line(&String::from_utf8_lossy(&bytes)).map(pageyard_replay::text::shown)
        };
        let said = self.logs.iter().find_map(telling).unwrap_or_default();
        let free =
            (1..1000).map(|n| self.logs[0].with_file_name(format!("failed-{n}.log"))).find(|p| !p.exists());
        let kept = free.filter(|to| fs::copy(&self.logs[0], to).is_ok());
        format!("{what}; its log is {} and says: {said}", kept.as_ref().unwrap_or(&self.logs[0]).display())
    }
}

/// Returns the line of a kernel's log that says why it ended: what this program said there, or the panic, or the last.
fn telling_line(log: &str) -> Option<&str> {
    let with = |words: &str| log.lines().find(|l| l.contains(words));
    with("pageyard-lab: ").or(with("Kernel panic")).or_else(|| log.lines().rfind(|l| !l.trim().is_empty()))
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing of it is kept.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_tells_more_than_the_last_line() {
        let log = "[ 1.0] up\n[ 2.0] Kernel panic - not syncing: no memory\n[ 2.1] Kernel Offset: 0x1\n\n";
        assert_eq!(telling_line(log), Some("[ 2.0] Kernel panic - not syncing: no memory"));
        let told = format!("pageyard-lab: no disk\n{log}");
        assert_eq!(telling_line(&told), Some("pageyard-lab: no disk"));
        assert_eq!(telling_line("[ 1.0] up\n\n"), Some("[ 1.0] up"));
        assert_eq!(telling_line(""), None);
    }
}
