//! The kernel's own trace buffer, in an instance that only this recording uses.
//!
//! An event costs about half of what it costs in a buffer of perf: the kernel calls fewer functions for it, and writes
//! fewer bytes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use pageyard_trace::source::reason;

use super::buffer_page;
use super::host::now_ns;
use super::rings::{SMALLEST, Seen, size_of_each};

/// The prefix of an instance's name; the process's number follows.
const NAME: &str = "pageyard-";

/// The largest page that is read.
const MAX_PAGE: usize = 1 << 20;

/// How often lost events are counted. The kernel takes memory for each answer.
const COUNT_EVERY: u64 = 1_000_000_000;

/// An instance of the kernel's tracer: buffers of its own, and events that are switched on for it alone.
///
/// When the recorder is killed, the kernel gives back the buffers and stops writing, because [`Instance::guard`] is
/// closed; the empty instance stays until the next recording removes it.
pub(super) struct Instance {
    folder: PathBuf,
    /// The switches of the events.
    events: Vec<PathBuf>,
    pipes: Vec<(u32, File)>,
    /// Closing it makes the buffers small, and stops tracing.
    guard: Option<File>,
    page: Vec<u8>,
    bytes: u64,
    /// When lost events were counted last, and how many had been lost when the recording began.
    counted: u64,
    lost_before: u64,
}

impl Instance {
    /// Makes an instance below `root`, where tracefs is, with a buffer for each of `cpus`; nothing is recorded yet.
    ///
    /// # Errors
    /// The kernel's refusal, in words.
    pub(super) fn open(
        root: &Path,
        cpus: &[u32],
        events: &[(&str, &str)],
        memory: u64,
    ) -> Result<Instance, String> {
        let mut this = Instance::made(root)?;
        // What there is no room for is lost, and counted; what was written stays.
        this.set_up(cpus, size_of_each(memory, cpus.len()), "0")?;
        for (system, name) in events {
            this.choose(system, name)?;
        }
        Ok(this)
    }

    /// Makes an instance with buffers of about `bytes` a CPU in which new events replace the oldest. Each event is a
    /// system, a name, and a filter that decides in the kernel which are written; empty for all.
    ///
    /// # Errors
    /// The kernel's refusal, in words.
    pub(super) fn overwriting(
        root: &Path,
        cpus: &[u32],
        events: &[(&str, &str, &str)],
        bytes: u64,
    ) -> Result<Instance, String> {
        let mut this = Instance::made(root)?;
        this.set_up(cpus, bytes.max(SMALLEST), "1")?;
        for (system, name, filter) in events {
            this.choose(system, name)?;
            if !filter.is_empty() {
                this.set(&format!("events/{system}/{name}/filter"), filter)?;
            }
        }
        Ok(this)
    }

    fn made(root: &Path) -> Result<Instance, String> {
        let instances = root.join("instances");
        remove_those_of_the_dead(&instances);
        let folder = instances.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&folder).map_err(|e| said("the kernel refuses an instance of its tracer", &e))?;
        // From here on, dropping it removes the instance.
        Ok(Instance {
            folder,
            events: Vec::new(),
            pipes: Vec::new(),
            guard: None,
            page: Vec::new(),
            bytes: 0,
            counted: 0,
            lost_before: 0,
        })
    }

    /// Sets the buffers up; `overwrite` says whether new events replace the oldest.
    fn set_up(&mut self, cpus: &[u32], bytes: u64, overwrite: &str) -> Result<(), String> {
        self.set("tracing_on", "0")?;
        // The clock of everything else here.
        self.set("trace_clock", "mono")?;
        self.set("options/overwrite", overwrite)?;
        self.set("options/disable_on_free", "1")?;
        let guard = self.folder.join("free_buffer");
        let open = OpenOptions::new().write(true).open(&guard);
        self.guard = Some(open.map_err(|e| said("the tracer's free_buffer cannot be opened", &e))?);
        self.page = vec![0; self.page_bytes()?];
        self.bytes = bytes;
        while let Err(refused) = self.set("buffer_size_kb", &(self.bytes >> 10).to_string()) {
            if self.bytes <= SMALLEST {
                return Err(refused);
            }
            self.bytes /= 2;
        }
        for &cpu in cpus {
            let path = self.folder.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            let flags = OFlags::NONBLOCK.bits() as i32;
            let pipe = OpenOptions::new().read(true).custom_flags(flags).open(&path);
            self.pipes
                .push((cpu, pipe.map_err(|e| said(&format!("{} cannot be read", path.display()), &e))?));
        }
        Ok(())
    }

    /// Adds an event to those that are switched on.
    fn choose(&mut self, system: &str, name: &str) -> Result<(), String> {
        let switch = self.folder.join("events").join(system).join(name).join("enable");
        if !switch.exists() {
            return Err(format!("the tracer's instance lacks {system}:{name}"));
        }
        self.events.push(switch);
        Ok(())
    }

    /// Returns how large a page of the buffer is.
    fn page_bytes(&self) -> Result<usize, String> {
        let path = self.folder.join("events/header_page");
        // The kernel answers one reading, and a second one with nothing.
        let mut text = vec![0; 4096];
        let read = File::open(&path).and_then(|mut file| file.read(&mut text));
        text.truncate(read.map_err(|e| said("the tracer's header_page cannot be read", &e))?);
        page_bytes(&String::from_utf8_lossy(&text))
            .ok_or_else(|| format!("{} cannot be understood", path.display()))
    }

    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        fs::write(self.folder.join(name), value)
            .map_err(|e| said(&format!("the tracer refuses {name}={value}"), &e))
    }

    pub(super) fn cpus(&self) -> impl Iterator<Item = u32> {
        self.pipes.iter().map(|(cpu, _)| *cpu)
    }

    pub(super) fn buffer_bytes(&self) -> u64 {
        self.bytes
    }

    /// Starts recording.
    pub(super) fn enable(&mut self) -> Result<(), String> {
        self.lost_before = self.lost_ever().unwrap_or(0);
        self.switch("1")?;
        self.set("tracing_on", "1")
    }

    /// Stops it.
    pub(super) fn disable(&mut self) -> Result<(), String> {
        self.set("tracing_on", "0")?;
        self.switch("0")
    }

    fn switch(&self, value: &str) -> Result<(), String> {
        for switch in &self.events {
            fs::write(switch, value).map_err(|e| said(&format!("{} cannot be set", switch.display()), &e))?;
        }
        Ok(())
    }

    /// Empties each buffer page by page; `out` returns the time of a page's last event. A CPU is left once that is
    /// after `until`: a host that produces events faster than they are read would keep the reader here forever.
    pub(super) fn pages(&mut self, until: u64, out: &mut impl FnMut(u32, &[u8]) -> u64) {
        for (cpu, pipe) in &mut self.pipes {
            loop {
                let read = match pipe.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                    // No more for now.
                    Err(_) => break,
                };
                if out(*cpu, &self.page[..read]) > until {
                    break;
                }
            }
        }
    }

    /// Empties each buffer of what was there at `until`, and hands over each event's bytes, time and CPU.
    pub(super) fn drain(
        &mut self,
        until: u64,
        seen: &mut Seen,
        out: &mut impl FnMut(&[u8], u64, u32, &mut Seen),
    ) {
        self.pages(until, &mut |cpu, page| {
            let mut last = 0;
            let whole = buffer_page::events(page, |time, raw| {
                last = time;
                out(raw, time, cpu, seen);
            });
            if !whole {
                seen.impossible += 1;
            }
            last
        });
        if until.saturating_sub(self.counted) >= COUNT_EVERY {
            self.counted = now_ns();
            seen.lost = seen.lost.max(self.lost());
        }
    }

    /// Returns how many events there was no room for.
    pub(super) fn lost(&self) -> u64 {
        self.lost_ever().map_or(0, |lost| lost.saturating_sub(self.lost_before))
    }

    fn lost_ever(&self) -> io::Result<u64> {
        let of = |cpu: &u32| fs::read_to_string(self.folder.join(format!("per_cpu/cpu{cpu}/stats")));
        self.pipes.iter().map(|(cpu, _)| of(cpu).map(|text| lost_in(&text))).sum()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The kernel keeps an instance whose files are open.
        self.pipes.clear();
        self.guard = None;
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Removes the instances of recorders that were killed. One that lives in another container keeps its instance: the
/// kernel removes none whose files are open.
fn remove_those_of_the_dead(instances: &Path) {
    let Ok(entries) = fs::read_dir(instances) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|n| n.strip_prefix(NAME)).and_then(|n| n.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Reads the size of a page from the kernel's description of one: where its data begins, and how much that is.
fn page_bytes(text: &str) -> Option<usize> {
    let number = |line: &str, name: &str| {
        let rest = &line[line.find(name)? + name.len()..];
        rest.split(';').next()?.parse::<usize>().ok()
    };
    let line = text.lines().find(|l| l.contains(" data;"))?;
    let (offset, size) = (number(line, "offset:")?, number(line, "size:")?);
    // The layout that is understood: two numbers of eight bytes come first.
    Some(offset.checked_add(size)?).filter(|&bytes| offset == 16 && (64..=MAX_PAGE).contains(&bytes))
}

/// Adds up what the kernel's statistics of a buffer call lost.
fn lost_in(stats: &str) -> u64 {
    let number = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        ["overrun", "commit overrun", "dropped events"]
            .contains(&name)
            .then(|| value.trim().parse::<u64>().ok())?
    };
    stats.lines().filter_map(number).fold(0, u64::saturating_add)
}

fn said(what: &str, error: &io::Error) -> String {
    format!("{what} ({})", reason(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_page_is_the_kernels() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(page_bytes(text), Some(4096));
        assert_eq!(page_bytes(&text.replace("4080", "65520")), Some(65536));
        // As on a 32-bit kernel, or on none.
        for bad in [
            text.replace("offset:16", "offset:12"),
            text.replace("4080", "99999999999"),
            text.replace("4080", "18446744073709551615"),
            text.replace("data", "date"),
            "data; offset:16".to_owned(),
            String::new(),
        ] {
            assert_eq!(page_bytes(&bad), None, "{bad}");
        }
    }

    #[test]
    fn all_that_is_lost_is_counted() {
        let stats = "entries: 5\noverrun: 2\ncommit overrun: 3\nbytes: 100\noldest event ts:     0.0\nnow ts: 6.7\n\
                     dropped events: 40\nread events: 9\n";
        assert_eq!(lost_in(stats), 45);
        assert_eq!(lost_in("overrun: x\n"), 0);
    }

    #[test]
    fn only_instances_of_processes_that_are_gone_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let gone = format!("{NAME}4194305");
        let own = format!("{NAME}{}", std::process::id());
        for name in [&gone, &own, "pageyard-", "pageyard-x", "other-4194305"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        remove_those_of_the_dead(folder.path());
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected =
            vec!["other-4194305".to_owned(), "pageyard-".to_owned(), own, "pageyard-x".to_owned()];
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn a_folder_that_is_no_tracefs_is_refused_in_a_sentence_and_left_empty() {
        let folder = tempfile::tempdir().unwrap();
        let said = Instance::open(folder.path(), &[0], &[("kmem", "mm_page_alloc")], 1 << 30).err().unwrap();
        assert!(said.starts_with("the kernel refuses an instance of its tracer ("), "{said}");
    }
}
