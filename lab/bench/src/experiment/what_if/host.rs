//! This host: each run from a made state, settings put back after each.

use super::guard::Guard;
use super::load::Load;
use super::place::TestMachine;
use super::setting::{Baseline, Setting};
use super::trial::{Made, SETTINGS, Trial};
use super::work::Work;
use pageyard_replay::what_if::Figures;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// This host.
pub struct Host {
    program: PathBuf,
    folder: PathBuf,
    kernel: String,
    seed: u64,
    baseline: Baseline,
}

impl Host {
    /// Looks at this host. Recordings go into `folder`.
    ///
    /// # Errors
    /// When this is not root.
    pub fn new(program: &Path, folder: &Path, seed: u64) -> Result<Host, String> {
        if !rustix::process::geteuid().is_root() {
            return Err(
                "settings of this host are changed and its memory is recorded: run it as root, with sudo"
                    .into(),
            );
        }
        let kernel =
            std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let baseline = Setting::baseline(Path::new(SETTINGS));
        Ok(Host { program: program.to_owned(), folder: folder.to_owned(), kernel, seed, baseline })
    }

    fn work(&self, load: &Load) -> Work {
        load.work(false, self.seed, &self.folder)
    }
}

impl TestMachine for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn kernel(&self) -> &str {
        &self.kernel
    }

    fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    fn record(&mut self, load: &Load, setting: Option<(&str, &str)>) -> Result<PathBuf, String> {
        let trace = self.folder.join(format!("host-{}.trace", load.name));
        let mut guard = Guard::start(&self.program)?;
        let made = Made::state(&self.program, load.state, self.seed, &mut guard)?;
        if let Some((name, value)) = setting {
            guard.set(&Path::new(SETTINGS).join(name), value)?;
        }
        record(&self.program, &trace, &self.work(load), &["--sample-ms", "0"])?;
        made.held_out()?;
        Ok(trace)
    }

    fn count(&mut self, load: &Load, setting: Option<(&str, &str)>) -> Result<Figures, String> {
        let settings =
            setting.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (work, root) = (self.work(load), PathBuf::from(SETTINGS));
        let trial = Trial { work, settings, root, state: Some(load.state) };
        trial.run(&self.program)
    }
}

/// Has this program record a load, with these options of `record`.
pub(super) fn record(program: &Path, trace: &Path, work: &Work, options: &[&str]) -> Result<(), String> {
    let _ = std::fs::remove_dir_all(trace);
    let mut command = Command::new(program);
    command.arg("record").args(options).arg("-o").arg(trace).arg("--").arg(program).args(work.arguments());
    let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let done = done.map_err(|e| format!("{} cannot be started again: {e}", program.display()))?;
    if done.status.success() && trace.join("meta.json").is_file() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let last = said.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("{} was not recorded: {}", work.load, pageyard_replay::text::shown(last)))
}
