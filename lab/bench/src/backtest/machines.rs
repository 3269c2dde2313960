//! Guests of the kernels that a series is measured on.

use super::series::{Patch, Series};
use crate::error::BenchError;
use crate::experiment::what_if::guest::Guest;
use crate::experiment::what_if::place::TestMachine;
use crate::experiment::what_if::predict::fnv;
use pageyard_guest::prepare;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The settings of a backtest.
pub struct Options {
    /// This program, which guests run.
    pub program: PathBuf,
    /// The folders in which packages of kernels are unpacked, by the series' names for the kernels.
    pub kernels: Vec<(String, PathBuf)>,
    /// Sources of kernels that are in no release.
    pub sources: Option<Sources>,
    /// A folder in which a backtest kept its recordings: predictions start from them, and nothing is measured.
    pub recordings: Option<PathBuf>,
    /// Recordings of each kernel, and measured runs of each.
    pub runs: usize,
    /// Decides what loads do, and the order of runs.
    pub seed: u64,
    /// Where recordings, predictions and logs go.
    pub folder: PathBuf,
}

/// Sources of a kernel, and patches for it.
pub struct Sources {
    /// The folder with the sources.
    pub tree: PathBuf,
    /// The patches, by the series' names for the kernels with them.
    pub patches: Vec<(String, PathBuf)>,
    /// The folder bench/linux/judge of this project, where it is not found.
    pub judge: Option<PathBuf>,
}

/// A kernel that was built.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Built {
    /// The series' name for it.
    pub kernel: &'static str,
    /// The folder with its sources.
    pub sources: String,
    /// The patch; left out where it was built without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// The hash of the patch (FNV-1a, 64 bits).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_hash: Option<String>,
}

/// Kernels in guests, by name.
pub(super) type Machines = BTreeMap<&'static str, Box<dyn TestMachine>>;

/// Makes a guest of each kernel that was given or can be built. One that cannot be had is a note.
pub(super) fn machines(
    series: &'static Series,
    options: &Options,
    notes: &mut Vec<String>,
    progress: &mut dyn FnMut(&'static str, usize, usize),
) -> Result<(Machines, Vec<Built>), BenchError> {
    let wrong = |why: String| BenchError::Settings { why };
    let names = series.kernels();
    if let Some((unknown, _)) = options.kernels.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        let unknown = pageyard_replay::text::shown(unknown);
        let known = names.join(", ");
        return Err(wrong(format!("{} needs no kernel `{unknown}`; it is measured on {known}", series.name)));
    }
    let mut packages: BTreeMap<&'static str, PathBuf> = BTreeMap::new();
    for name in &names {
        let given = options.kernels.iter().find(|(given, _)| given == name);
        packages.extend(given.map(|(_, package)| (*name, package.clone())));
    }
    let built = match &options.sources {
        Some(sources) => sources.build(series, &mut packages, notes, progress).map_err(wrong)?,
        None => Vec::new(),
    };
    let mut machines = Machines::new();
    for name in names {
        let Some(package) = packages.get(name) else {
            let how = match name.contains('+') {
                true => "--sources and --patch build it",
                false => &format!("--kernel {name}=FOLDER"),
            };
            let failed = format!("{name} is not built");
            if !notes.iter().any(|note| note.starts_with(&failed)) {
                notes.push(format!("{name} was not given: what needs it is left out ({how})"));
            }
            continue;
        };
        let folder = options.folder.join(name);
        let made = std::fs::create_dir_all(&folder)
            .map_err(|e| format!("{} cannot be made: {e}", folder.display()))
            .and_then(|()| folder.canonicalize().map_err(|e| e.to_string()))
            .and_then(|folder| Guest::booting(&options.program, package, &folder, options.seed));
        match made {
            Ok(guest) => _ = machines.insert(name, Box::new(guest)),
            Err(why) => notes.push(format!("{name} is left out: {why}")),
        }
    }
    match machines.is_empty() {
        true => Err(wrong(format!("there is no kernel to measure: {}", notes.join("; ")))),
        false => Ok((machines, built)),
    }
}

impl Sources {
    /// Builds the kernels of the patches that were given, each without its patch and with it, and adds their folders.
    fn build(
        &self,
        series: &'static Series,
        packages: &mut BTreeMap<&'static str, PathBuf>,
        notes: &mut Vec<String>,
        progress: &mut dyn FnMut(&'static str, usize, usize),
    ) -> Result<Vec<Built>, String> {
        let unmerged = || series.patches.iter().filter(|patch| patch.is_unmerged());
        let mut wanted: Vec<(&'static str, Option<&Path>)> = Vec::new();
        for (name, file) in &self.patches {
            let Some(Patch { before, after, .. }) = unmerged().find(|patch| patch.after.kernel == name)
            else {
                let known: Vec<&str> = unmerged().map(|patch| patch.after.kernel).collect();
                let unknown = pageyard_replay::text::shown(name);
                let series = series.name;
                return Err(format!("{series} has no patch `{unknown}`; it has {}", known.join(", ")));
            };
            if !wanted.iter().any(|(name, _)| *name == before.kernel) {
                wanted.push((before.kernel, None));
            }
            wanted.push((after.kernel, Some(file)));
        }
        let judge = prepare::find_judge(self.judge.as_deref())?;
        let all = wanted.len();
        let mut built = Vec::new();
        for (n, (kernel, patch)) in wanted.into_iter().enumerate() {
            let mut waiting = |_| progress("building kernels", n, all);
            let folder = prepare::run(&judge, &self.tree, patch, &["--guest"], &mut waiting)
                .and_then(|said| said.path("folder ").ok_or("`prepare` named no folder".into()));
            match folder {
                Ok(folder) => _ = packages.insert(kernel, folder),
                Err(why) => {
                    notes.push(format!("{kernel} is not built: {why}"));
                    continue;
                }
            }
            let bytes = patch.and_then(|file| std::fs::read(file).ok());
            built.push(Built {
                kernel,
                sources: self.tree.display().to_string(),
                patch: patch.map(|file| file.display().to_string()),
                patch_hash: bytes.map(|bytes| format!("{:016x}", fnv(&bytes))),
            });
        }
        Ok(built)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Builds what takes no patch, and refuses every patch.
    const PREPARE: &str = "#!/bin/sh
case \"$*\" in
*--patch*) echo 'error: the patch does not apply; the log is LOG and ends with: 1 out of 1 hunk FAILED' >&2; exit 1 ;;
*) echo \"folder $1\" ;;
esac
";

    #[test]
    fn a_patch_that_does_not_apply_is_said_and_the_kernel_without_it_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("prepare"), PREPARE).unwrap();
        std::fs::set_permissions(at("prepare"), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(at("replay.c"), "").unwrap();
        let series = Series::find("highatomic").unwrap();
        let with = |name: &str| {
            let (tree, judge) = (folder.path().to_owned(), Some(folder.path().to_owned()));
            let sources = Sources { tree, patches: vec![(name.to_owned(), at("a.mbox"))], judge };
            let (mut packages, mut notes) = (BTreeMap::new(), Vec::new());
            let built = sources.build(series, &mut packages, &mut notes, &mut |_, _, _| {});
            built.map(|built| (built, packages, notes))
        };
        let (built, packages, notes) = with("7.2+skip").unwrap();
        assert_eq!(built.len(), 1);
        assert_eq!((built[0].kernel, &built[0].patch), ("7.2+none", &None));
        assert_eq!(packages, BTreeMap::from([("7.2+none", folder.path().to_owned())]));
        let why = "7.2+skip is not built: the patch does not apply; the log is LOG and ends with: 1 out of 1 hunk FAILED";
        assert_eq!(notes, [why]);
        assert_eq!(with("7.3").unwrap_err(), "highatomic has no patch `7.3`; it has 7.2+skip");
    }
}
