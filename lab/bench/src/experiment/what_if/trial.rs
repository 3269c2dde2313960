//! One trial: from a made state, under a setting, a load runs and is counted; then the setting is put back.

use super::counts::{self, Counters, write};
use super::guard::Guard;
use super::load::State;
use super::work::Work;
use pageyard_replay::what_if::Figures;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A trial.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The work that runs.
    pub work: Work,
    /// Names below `/proc/sys` and the values they have meanwhile.
    pub settings: Vec<(String, String)>,
    /// Where settings are: `/proc/sys`, unless a test has made its own.
    pub root: PathBuf,
    /// Makes a state first, where there is one.
    pub state: Option<State>,
}

/// Where a kernel's settings are.
pub const SETTINGS: &str = "/proc/sys";

/// The least memory, in bytes, that must be available before a trial begins.
const LEAST_AVAILABLE: u64 = 2048 << 20;

/// With less than this, what was set aside is given back at once.
const SHORT: u64 = 1280 << 20;

impl Trial {
    /// Runs it on this machine, with settings put back and the tracer's instances removed however it ends.
    ///
    /// # Errors
    /// One sentence: what is not there, not permitted or refused.
    pub fn run(&self, program: &Path) -> Result<Figures, String> {
        let mut guard = Guard::start(program)?;
        for folder in counts::folders() {
            guard.remove(&folder)?;
        }
        let mut counters = Counters::prepare()?;
        let made =
            self.state.map(|state| Made::state(program, state, self.work.seed, &mut guard)).transpose()?;
        for (name, value) in &self.settings {
            guard.set(&self.root.join(name), value)?;
        }
        let figures = self.counted(program, &mut counters)?;
        made.map_or(Ok(()), |made| made.held_out())?;
        Ok(figures)
    }

    /// Runs it in a guest, whose every run starts from a snapshot: nothing is put back.
    pub(super) fn run_in_guest(&self, program: &Path, counters: &mut Counters) -> Result<Figures, String> {
        self.change_settings()?;
        self.counted(program, counters)
    }

    /// Changes its settings, which nothing puts back.
    pub(super) fn change_settings(&self) -> Result<(), String> {
        self.settings.iter().try_for_each(|(name, value)| write(&self.root.join(name), value))
    }

    fn counted(&self, program: &Path, counters: &mut Counters) -> Result<Figures, String> {
        counters.begin()?;
        let mut child = self.work.start(program).map_err(|e| format!("the load cannot be started: {e}"))?;
        let status = child.wait().map_err(|e| e.to_string())?;
        let figures = counters.end()?;
        match status.success() {
            true => Ok(figures),
            false => Err(format!("the load {} ended with {status}", self.work.load)),
        }
    }
}

/// Memory held by a process, until it is dropped.
pub(super) struct Aged(Child);

impl Drop for Aged {
    fn drop(&mut self) {
        // The end of its input is its end.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A state that was made, until it is dropped.
pub(super) struct Made {
    _aged: Aged,
    watch: Option<MemoryGuard>,
}

impl Made {
    /// Drops what is cached, compacts, ages memory by a seeded load, and leaves only pieces free where that is asked
    /// for.
    pub(super) fn state(program: &Path, state: State, seed: u64, guard: &mut Guard) -> Result<Made, String> {
        write(Path::new("/proc/sys/vm/drop_caches"), "3")?;
        write(Path::new("/proc/sys/vm/compact_memory"), "1")?;
        if let Some(bytes) = available()
            && bytes < LEAST_AVAILABLE + (state.aged_mib << 20)
        {
            return Err(format!(
                "only {} MiB are available, too few for a trial beside other work",
                bytes >> 20
            ));
        }
        let _aged = aged(program, state.aged_mib, seed)?;
        let watch = match state.pieces_only {
            true => Some(MemoryGuard::start(guard)?),
            false => None,
        };
        Ok(Made { _aged, watch })
    }

    /// Fails if memory became short meanwhile, so that the state could not be held.
    pub(super) fn held_out(self) -> Result<(), String> {
        match self.watch.is_some_and(|watch| watch.is_short.load(Ordering::SeqCst)) {
            true => Err("memory became short for others, so the huge pages were given back".to_owned()),
            false => Ok(()),
        }
    }
}

/// How memory is set aside, and where it is counted.
const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// Every free pageblock set aside as a huge page. They are given back at once when memory gets short for others; when
/// the trial ends, the guard gives them back.
struct MemoryGuard {
    is_short: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl MemoryGuard {
    fn start(guard: &mut Guard) -> Result<MemoryGuard, String> {
        let before = set_aside(|path, value| guard.set(path, value))?;
        let (is_short, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let watch = MemoryGuard { is_short: is_short.clone(), is_over: is_over.clone() };
        std::thread::spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                if available().is_some_and(|bytes| bytes < SHORT) {
                    is_short.store(true, Ordering::SeqCst);
                    // The guard writes it again; what counts is that it happens now.
                    let _ = fs::write(HUGE_PAGES, before.to_string());
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Ok(watch)
    }
}

/// How often free pageblocks are looked for again: what was just given back still lies in per-CPU lists and becomes
/// whole later.
const ROUNDS: u32 = 12;

/// Sets every free pageblock aside as a huge page; returns how many huge pages there were before.
fn set_aside(mut set: impl FnMut(&Path, &str) -> Result<(), String>) -> Result<u64, String> {
    let before = huge_pages()?;
    // Or the pieces would be compacted in the background at once.
    set(Path::new("/proc/sys/vm/compaction_proactiveness"), "0")?;
    for _ in 0..ROUNDS {
        let text = fs::read_to_string("/proc/buddyinfo").map_err(|e| e.to_string())?;
        let free = counts::free_pageblocks(&text)?;
        if free > 0 {
            set(Path::new(HUGE_PAGES), &(huge_pages()? + free).to_string())?;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    Ok(before)
}

fn huge_pages() -> Result<u64, String> {
    let text = fs::read_to_string(HUGE_PAGES).map_err(|e| format!("{HUGE_PAGES} cannot be read: {e}"))?;
    text.trim().parse().map_err(|_| format!("{HUGE_PAGES} is no number"))
}

/// Leaves only pieces of pageblocks free in a guest, as long as what is returned is held: what is cached goes, memory
/// is held of which half is given back here and there, and pageblocks that are still whole are set aside.
pub(super) fn only_pieces(program: &Path, mib: u64, seed: u64) -> Result<Aged, String> {
    write(Path::new("/proc/sys/vm/drop_caches"), "3")?;
    write(Path::new("/proc/sys/vm/compact_memory"), "1")?;
    let aged = aged(program, mib, seed)?;
    set_aside(write)?;
    Ok(aged)
}

impl Drop for MemoryGuard {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

/// Starts the process that ages memory, and waits until it has.
pub(super) fn aged(program: &Path, mib: u64, seed: u64) -> Result<Aged, String> {
    let work = Work { load: "age".into(), size: mib, seed, cache: PathBuf::from("/") };
    let child =
        work.start(program).map_err(|e| format!("{} cannot be started again: {e}", program.display()))?;
    let mut aged = Aged(child);
    let mut said = [0; 5];
    match aged.0.stdout.as_mut().map(|out| out.read_exact(&mut said)) {
        Some(Ok(())) => Ok(aged),
        _ => Err("memory could not be aged".to_owned()),
    }
}

/// Returns how much memory is available, in bytes.
fn available() -> Option<u64> {
    available_in(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn available_in(meminfo: &str) -> Option<u64> {
    let kib = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB"));
    Some(kib?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::available_in;

    #[test]
    fn available_memory_is_read() {
        assert_eq!(available_in("MemTotal: 4 kB\nMemAvailable:   24239912 kB\n"), Some(24_239_912 << 10));
        assert_eq!(available_in("MemAvailable: lots"), None);
    }
}
