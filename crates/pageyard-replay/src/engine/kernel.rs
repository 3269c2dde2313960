//! A Linux kernel as an engine: which one, and what it is given.

use crate::error::ReplayError;
use crate::text::shown;
use pageyard_guest::prepare;
use pageyard_linux::Config;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The prefix of these engines' names.
const PREFIX: &str = "kernel:";

/// The settings that a kernel takes, by their names below `/proc/sys/vm`; the reference has knobs of the same names.
pub(super) const SETTINGS: [&str; 4] =
    ["min_free_kbytes", "watermark_scale_factor", "watermark_boost_factor", "percpu_pagelist_high_fraction"];

/// The limits of an open loop, and the differences from the host.
pub(super) const LEAVES_OUT: &str = "An open loop: each request is made once, whatever came of those before it, so nothing is reclaimed, compacted or \
     killed for, no thread waits, and no thread asks for less where it was refused. The guest is emulated: no time is measured. Its CPUs \
     take turns and never meet in a lock, and its count of free frames is exact at any time.";

/// The oldest release on which the module that replays builds.
const OLDEST: (u32, u32) = (6, 1);

/// A kernel that replays.
#[derive(Clone, Debug)]
pub(crate) struct KernelSpec {
    /// Which kernel: a version of the distribution, or a folder with a kernel's sources.
    pub tree: String,
    /// A patch for it.
    pub patch: Option<PathBuf>,
    /// The reference of the nearest version, with the same settings: recorded lists are put in its order.
    pub reference: Box<Config>,
}

/// Returns the engine's part of `ENGINE[:KNOB=VALUE]...` and the rest, where it is a kernel.
pub(super) fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let tree = text.strip_prefix(PREFIX)?;
    let at = tree.find(':').map_or(text.len(), |at| PREFIX.len() + at);
    Some((&text[..at], text.get(at + 1..)))
}

/// Returns whether an engine's name is that of a kernel.
pub(super) fn is_one(name: &str) -> bool {
    name.starts_with(PREFIX)
}

impl KernelSpec {
    /// Finds the kernel of a name `kernel:VERSION` or `kernel:DIR`, and sets `settings`.
    pub(super) fn parse(name: &str, settings: &[(String, String)]) -> Result<KernelSpec, ReplayError> {
        let tree = name.strip_prefix(PREFIX).unwrap_or(name);
        let fail = |why: String| ReplayError::Kernel { engine: shown(name), why };
        let version = match version_of(tree) {
            Some(version) => version,
            None if tree.is_empty() || !Path::new(tree).is_dir() => {
                return Err(fail(
                    "there is no such kernel; name a version of the distribution, as in kernel:6.12, or a folder with a \
                     kernel's sources"
                        .to_owned(),
                ));
            }
            None => sources_version(Path::new(tree)).map_err(fail)?,
        };
        if version < OLDEST {
            return Err(fail("kernels before 6.1 do not replay; linux-5.10, a preset, is 5.10".to_owned()));
        }
        let Some(reference) = nearest(version) else {
            return Err(fail("no reference stands for its version".to_owned()));
        };
        let mut reference = Box::new(reference);
        for (knob, value) in settings {
            reference
                .set(knob, value)
                .map_err(|why| ReplayError::Knob { engine: shown(name), why: shown(&why.to_string()) })?;
        }
        Ok(KernelSpec { tree: tree.to_owned(), patch: None, reference })
    }

    /// Returns whether it is made of sources, to which a patch can be applied.
    pub(super) fn has_sources(&self) -> bool {
        version_of(&self.tree).is_none()
    }

    /// Checks that a patch applies to the sources, where there are some: building them first would take minutes. A host
    /// without `patch` is told so by the script.
    pub(super) fn check_patch(&self, patch: &Path) -> Result<(), String> {
        let Some(file) = self.has_sources().then(|| std::fs::File::open(patch).ok()).flatten() else {
            return Ok(());
        };
        let mut command = Command::new("patch");
        command.args(["-p1", "--dry-run", "--batch", "--forward", "-d"]).arg(&self.tree).stdin(file);
        match command.output() {
            Ok(output) if !output.status.success() => {
                let said = String::from_utf8_lossy(&output.stdout);
                let said: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
                let said = said[said.len().saturating_sub(3)..].join("; ");
                Err(format!("it does not apply to {}: {}", self.tree, shown(&said)))
            }
            _ => Ok(()),
        }
    }

    /// Makes the kernel ready: downloads or builds it, and builds the module for it. Returns the kernel's image and the
    /// initial file system. A build from sources takes minutes; `waiting` is told how many seconds it has taken so far.
    ///
    /// # Errors
    /// The script's last message.
    pub(crate) fn prepare(
        &self,
        judge: &Path,
        waiting: &mut dyn FnMut(u64),
    ) -> Result<(PathBuf, PathBuf), String> {
        let said = prepare::run(judge, Path::new(&self.tree), self.patch.as_deref(), &[], waiting)?;
        match (said.path("kernel "), said.path("initrd ")) {
            (Some(kernel), Some(initrd)) => Ok((kernel, initrd)),
            _ => Err("`prepare` named no kernel".into()),
        }
    }
}

/// Reads `MAJOR.MINOR`.
fn version_of(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    (digits(major) && digits(minor)).then(|| Some((major.parse().ok()?, minor.parse().ok()?))).flatten()
}

/// Reads the version that a folder of sources is of.
fn sources_version(tree: &Path) -> Result<(u32, u32), String> {
    let makefile = std::fs::read_to_string(tree.join("Makefile")).unwrap_or_default();
    let value = |name: &str| {
        let line = makefile.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='));
        line.and_then(|number| number.trim().parse().ok())
    };
    match (value("VERSION"), value("PATCHLEVEL")) {
        (Some(major), Some(minor)) if tree.join("mm/page_alloc.c").is_file() => Ok((major, minor)),
        _ => Err(format!(
            "{} holds no kernel's sources (Makefile, mm/page_alloc.c)",
            shown(&tree.display().to_string())
        )),
    }
}

/// Returns the preset of the version, or of the last one before it that has one.
fn nearest(version: (u32, u32)) -> Option<Config> {
    let presets = Config::PRESETS.into_iter().filter_map(|name| {
        let of = version_of(name.strip_prefix("linux-")?)?;
        Some((of, name))
    });
    let mut presets: Vec<_> = presets.collect();
    presets.sort_unstable();
    let at = presets.partition_point(|(of, _)| *of <= version).saturating_sub(1);
    Config::preset(presets.get(at)?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_before_settings() {
        assert_eq!(split("kernel:6.12"), Some(("kernel:6.12", None)));
        assert_eq!(
            split("kernel:/a/b:min_free_kbytes=1:x=2"),
            Some(("kernel:/a/b", Some("min_free_kbytes=1:x=2")))
        );
        assert_eq!(split("linux-6.12:pcp=false"), None);
    }

    #[test]
    fn a_kernel_is_a_version_or_a_folder_with_sources() {
        assert_eq!(KernelSpec::parse("kernel:6.12", &[]).unwrap().reference.name, "linux-6.12");
        assert_eq!(KernelSpec::parse("kernel:6.1", &[]).unwrap().reference.name, "linux-6.1");
        for bad in ["kernel:", "kernel:6.", "kernel:/nowhere", "kernel:6.12.3"] {
            let why = KernelSpec::parse(bad, &[]).unwrap_err().to_string();
            assert!(why.contains("a folder with a kernel's sources"), "{why}");
        }
        let folder = std::env::temp_dir().join(format!("pageyard-tree-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("mm")).unwrap();
        let name = format!("kernel:{}", folder.display());
        let why = KernelSpec::parse(&name, &[]).unwrap_err().to_string();
        assert!(why.contains("holds no kernel's sources"), "{why}");
        std::fs::write(folder.join("mm/page_alloc.c"), "").unwrap();
        std::fs::write(folder.join("Makefile"), "VERSION = 6\nPATCHLEVEL = 13\n").unwrap();
        let spec = KernelSpec::parse(&name, &[]).unwrap();
        assert!(spec.has_sources());
        assert_eq!(spec.reference.name, "linux-6.12", "the last one before it");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_patch_that_does_not_apply_is_refused_before_anything_is_built() {
        let folder = std::env::temp_dir().join(format!("pageyard-patched-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("mm")).unwrap();
        std::fs::write(folder.join("Makefile"), "VERSION = 6\nPATCHLEVEL = 12\n").unwrap();
        std::fs::write(folder.join("mm/page_alloc.c"), "one\n").unwrap();
        let kernel = KernelSpec::parse(&format!("kernel:{}", folder.display()), &[]).unwrap();
        let patch = |name: &str, old: &str| {
            let text = format!("--- a/mm/page_alloc.c\n+++ b/mm/page_alloc.c\n@@ -1 +1 @@\n-{old}\n+two\n");
            std::fs::write(folder.join(name), text).unwrap();
            kernel.check_patch(&folder.join(name))
        };
        let (good, bad) = (patch("good.mbox", "one"), patch("bad.mbox", "three"));
        let there = std::fs::read_to_string(folder.join("mm/page_alloc.c")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(good, Ok(()));
        assert_eq!(there, "one\n", "nothing is changed");
        if Command::new("patch").arg("--version").output().is_ok() {
            assert!(bad.unwrap_err().contains("does not apply"));
        }
    }
}
