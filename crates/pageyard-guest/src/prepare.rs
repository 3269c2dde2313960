//! Kernels made ready for guests by the script `prepare` of `bench/linux/judge`: downloaded, or built from sources.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The output of the script.
pub struct Prepared(String);

impl Prepared {
    /// Returns the path behind a word, such as `kernel `.
    #[must_use]
    pub fn path(&self, word: &str) -> Option<PathBuf> {
        self.0.lines().find_map(|line| line.strip_prefix(word)).map(PathBuf::from)
    }
}

/// Runs the script for a version of the distribution or a folder with sources, with a patch for the latter. `waiting`
/// is told how many seconds it has taken so far.
///
/// # Errors
/// The script's last message.
pub fn run(
    judge: &Path,
    kernel: &Path,
    patch: Option<&Path>,
    options: &[&str],
    waiting: &mut dyn FnMut(u64),
) -> Result<Prepared, String> {
    let script = judge.join("prepare");
    let mut command = Command::new(&script);
    command.arg(kernel).args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(patch) = patch {
        command.arg("--patch").arg(patch);
    }
    let fails = |why| format!("{} does not start: {why}", script.display());
    let mut child = command.spawn().map_err(fails)?;
    let begun = Instant::now();
    // What it prints is a few lines, which a pipe holds.
    while child.try_wait().map_err(fails)?.is_none() {
        waiting(begun.elapsed().as_secs());
        std::thread::sleep(Duration::from_millis(100));
    }
    let output = child.wait_with_output().map_err(fails)?;
    if output.status.success() {
        return Ok(Prepared(String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim_end();
    Err(said.strip_prefix("error: ").unwrap_or(said).to_owned())
}

/// Finds the folder with the script: the one asked for, or `bench/linux/judge` below a folder that holds this one, or
/// the command's.
///
/// # Errors
/// There is none.
pub fn find_judge(asked: Option<&Path>) -> Result<PathBuf, String> {
    let is_one = |folder: &Path| folder.join("prepare").is_file() && folder.join("replay.c").is_file();
    if let Some(asked) = asked {
        return match is_one(asked) {
            true => Ok(asked.to_owned()),
            false => Err(format!(
                "{} has no `prepare` and no `replay.c`; it should be bench/linux/judge of Pageyard",
                asked.display()
            )),
        };
    }
    let beside = |path: std::io::Result<PathBuf>| {
        let path = path.ok()?;
        path.ancestors().map(|a| a.join("bench/linux/judge")).find(|folder| is_one(folder))
    };
    beside(std::env::current_dir()).or_else(|| beside(std::env::current_exe())).ok_or_else(|| {
        "a kernel needs the script that makes it ready, and it is not beside this command; name the folder bench/linux/judge \
         of Pageyard with --judge or in PAGEYARD_JUDGE"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_the_judges_is_refused() {
        let why = find_judge(Some(Path::new("/"))).unwrap_err();
        assert!(why.contains("bench/linux/judge"), "{why}");
    }
}
