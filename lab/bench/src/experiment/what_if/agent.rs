//! Inside a guest: the program that ages its memory, waits for one task on its serial line, and carries it out.

use super::counts::Counters;
use super::host;
use super::setting::{Baseline, Setting};
use super::trial::{Aged, SETTINGS, Trial, aged, only_pieces};
use super::work::Work;
use pageyard_replay::what_if::Figures;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The device that is read through once. A recording is written to `OUT`.
pub(super) const CACHE: &str = "/dev/vda";
const OUT: &str = "/dev/vdb";

/// How much is read before and after memory is aged, and how much memory that holds, in MiB.
const READ_MIB: [u64; 2] = [700, 200];
const AGED_MIB: u64 = 160;

/// Loads read the device from its start; what is cached in the snapshot comes from here.
const READ_FROM: u64 = 4 << 30;

/// Bytes of the list of files in front of a recording.
const LIST_BYTES: usize = 4096;

/// A guest's message once it is aged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    pub kernel: String,
    pub baseline: Baseline,
}

/// A task for a guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub load: String,
    pub size: u64,
    pub seed: u64,
    /// Whether to record rather than count.
    pub record: bool,
    pub settings: Vec<(String, String)>,
    /// How much memory to hold first, in MiB, if only pieces are to be free.
    pub pieces_mib: Option<u64>,
}

/// A guest's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Counted(Figures),
    Recorded,
    Failed(String),
}

/// Ages this guest, says that it is ready, and carries out the task that comes.
///
/// # Errors
/// Input or output failed. A task that fails is answered instead.
pub fn serve() -> Result<(), String> {
    let program = Path::new("/bin/pageyard");
    // What is cached of a device is dropped when it is no longer open.
    let (mut counters, _aged, _device) = age(program)?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    say(&Ready { kernel, baseline: Setting::baseline(Path::new(SETTINGS)) })?;
    // The first bytes after a snapshot may be lost: the host sends empty lines first.
    let mut lines = io::stdin().lock().lines();
    let line = loop {
        match lines.next() {
            Some(Ok(line)) if line.starts_with('{') => break line,
            Some(Ok(_)) => {}
            Some(Err(e)) => return Err(e.to_string()),
            None => return Err("the host closed the line".into()),
        }
    };
    let answer = match serde_json::from_str::<Task>(&line) {
        Err(e) => Answer::Failed(format!("not a task: {e}")),
        Ok(task) => task.carry_out(program, &mut counters).unwrap_or_else(Answer::Failed),
    };
    say(&answer)?;
    // The first process of a guest must not end; the host ends the guest.
    loop {
        std::thread::park();
    }
}

fn age(program: &Path) -> Result<(Counters, Aged, File), String> {
    let counters = Counters::prepare()?;
    let fail = |e: io::Error| {
        format!(
            "{CACHE} cannot be read: {e}; where a kernel's modules are a package of their own, unpack that, too"
        )
    };
    let device = File::open(CACHE).map_err(fail)?;
    let mut at = READ_FROM;
    let mut read = |mib: u64| -> io::Result<()> {
        let mut buffer = vec![0; 1 << 20];
        for _ in 0..mib {
            device.read_exact_at(&mut buffer, at)?;
            at += 1 << 20;
        }
        Ok(())
    };
    read(READ_MIB[0]).map_err(fail)?;
    let aged = aged(program, AGED_MIB, 1)?;
    read(READ_MIB[1]).map_err(fail)?;
    Ok((counters, aged, device))
}

fn say(what: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(what).map_err(|e| e.to_string())?;
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| e.to_string())
}

impl Task {
    fn carry_out(self, program: &Path, counters: &mut Counters) -> Result<Answer, String> {
        let _held = self.pieces_mib.map(|mib| only_pieces(program, mib, self.seed)).transpose()?;
        let work = Work { load: self.load, size: self.size, seed: self.seed, cache: PathBuf::from(CACHE) };
        let trial = Trial { work, settings: self.settings, root: PathBuf::from(SETTINGS), state: None };
        if self.record {
            trial.change_settings()?;
            let trace = Path::new("/tmp/recorded.trace");
            host::record(program, trace, &trial.work, &[])?;
            hand_over(trace, Path::new(OUT))
                .map_err(|e| format!("the recording cannot be handed over: {e}"))?;
            return Ok(Answer::Recorded);
        }
        trial.run_in_guest(program, counters).map(Answer::Counted)
    }
}

/// Writes the files of a folder onto a device: a list of names and sizes, then their contents.
fn hand_over(folder: &Path, device: &Path) -> io::Result<()> {
    let mut list = String::new();
    let mut contents = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let bytes = fs::read(entry.path())?;
        list += &format!("{} {}\n", entry.file_name().to_string_lossy(), bytes.len());
        contents.extend(bytes);
    }
    let mut head = list.into_bytes();
    head.resize(LIST_BYTES, 0);
    let device = File::options().write(true).open(device)?;
    device.write_all_at(&head, 0)?;
    device.write_all_at(&contents, LIST_BYTES as u64)?;
    device.sync_all()
}

/// Reads such a device into a folder, on the other side.
pub(super) fn take_over(device: &Path, folder: &Path) -> io::Result<()> {
    let device = File::open(device)?;
    let mut head = vec![0; LIST_BYTES];
    device.read_exact_at(&mut head, 0)?;
    let list = String::from_utf8_lossy(&head);
    let mut at = LIST_BYTES as u64;
    fs::create_dir_all(folder)?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the guest left no recording");
    for line in list.trim_end_matches('\0').lines() {
        let (name, bytes) = line.split_once(' ').ok_or_else(wrong)?;
        let bytes: usize = bytes.parse().map_err(|_| wrong())?;
        // A guest is no more to be trusted than a file.
        if name.contains('/') || name.starts_with('.') || bytes > 1 << 30 {
            return Err(wrong());
        }
        let mut contents = vec![0; bytes];
        device.read_exact_at(&mut contents, at)?;
        at += bytes as u64;
        fs::write(folder.join(name), contents)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_over_a_device_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (from, device, to) =
            (folder.path().join("from"), folder.path().join("device"), folder.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("meta.json"), "{}").unwrap();
        fs::write(from.join("events.parquet"), vec![3; 70_000]).unwrap();
        File::create(&device).unwrap().set_len(1 << 20).unwrap();
        hand_over(&from, &device).unwrap();
        take_over(&device, &to).unwrap();
        assert_eq!(fs::read(to.join("events.parquet")).unwrap(), vec![3; 70_000]);
        assert_eq!(fs::read(to.join("meta.json")).unwrap(), b"{}");
        fs::write(&device, format!("{:\0<4096}", "../evil 3\n")).unwrap();
        assert!(take_over(&device, &to).is_err());
    }
}
