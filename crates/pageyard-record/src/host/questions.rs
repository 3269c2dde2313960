//! A doctor's questions to a host: Linux's texts about its memory, its settings, and the content of its pageblocks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use pageyard_trace::proctext::Zoneinfo;
use pageyard_trace::source::reason;
use pageyard_trace::{Pageblocks, ProcTexts, TraceError, shown};

use super::kpageflags;

/// The most text that is read from one file.
const MAX_TEXT: u64 = 64 << 20;

/// Settings that decide about memory, below `/proc/sys`.
const SETTINGS: [&str; 15] = [
    "vm/min_free_kbytes",
    "vm/watermark_scale_factor",
    "vm/watermark_boost_factor",
    "vm/percpu_pagelist_high_fraction",
    "vm/percpu_pagelist_fraction",
    "vm/defrag_mode",
    "vm/lowmem_reserve_ratio",
    "vm/nr_hugepages",
    "vm/nr_overcommit_hugepages",
    "vm/compaction_proactiveness",
    "vm/extfrag_threshold",
    "vm/vfs_cache_pressure",
    "vm/overcommit_memory",
    "vm/zone_reclaim_mode",
    "vm/swappiness",
];

/// Returns the settings that the kernel has and the caller may read, below `proc`.
pub(crate) fn settings(proc: &Path) -> BTreeMap<String, String> {
    let setting = |name: &&str| {
        let path: PathBuf = proc.join("sys").join(name);
        Some(((*name).to_owned(), read(&path).ok()?.trim().to_owned()))
    };
    SETTINGS.iter().filter_map(setting).collect()
}

/// A host's answers, as far as the caller may know.
#[derive(Clone, Debug, Default)]
pub struct HostAnswers {
    /// The kernel's release.
    pub kernel: String,
    /// `buddyinfo`, `pagetypeinfo`, `zoneinfo` and `vmstat`; what could not be read is empty.
    pub texts: ProcTexts,
    /// `meminfo`.
    pub meminfo: String,
    /// Settings that this kernel has, by their names below `/proc/sys`.
    pub settings: BTreeMap<String, String>,
    /// Pageblocks by what they hold, where that could be read; of a host with more than 4 GiB, those of some parts of
    /// 512 MiB.
    pub pageblocks: Option<Pageblocks>,
    /// Sources that could not be read, and what is missing without them: a sentence each.
    pub not_read: Vec<String>,
}

impl HostAnswers {
    /// Asks this host.
    ///
    /// # Errors
    /// When neither `buddyinfo` nor `zoneinfo` can be read: this is not Linux, or `/proc` is not mounted.
    pub fn ask() -> Result<HostAnswers, TraceError> {
        let mut answers = HostAnswers::ask_in(Path::new("/proc"))?;
        answers.kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        Ok(answers)
    }

    /// Asks a host whose files are in `proc` instead of `/proc`. Its release is not known then.
    ///
    /// # Errors
    /// As [`HostAnswers::ask`].
    pub fn ask_in(proc: &Path) -> Result<HostAnswers, TraceError> {
        let mut refused = Vec::new();
        let mut missing = Vec::new();
        let mut text = |name: &str| match read(&proc.join(name)) {
            Ok(text) => text,
            Err((true, _)) => {
                refused.push(name.to_owned());
                String::new()
            }
            Err((false, why)) => {
                missing.push(format!("{} cannot be read: {why}.", proc.join(name).display()));
                String::new()
            }
        };
        let texts = ProcTexts {
            buddyinfo: text("buddyinfo"),
            pagetypeinfo: text("pagetypeinfo"),
            zoneinfo: text("zoneinfo"),
            vmstat: text("vmstat"),
        };
        let meminfo = text("meminfo");
        if texts.buddyinfo.is_empty() || texts.zoneinfo.is_empty() {
            return Err(TraceError::Unreadable {
                file: proc.display().to_string(),
                why:
                    "buddyinfo or zoneinfo is not there or not readable: this needs Linux with /proc mounted"
                        .to_owned(),
            });
        }
        let pageblocks = match pageblocks(proc, &texts.zoneinfo) {
            Ok(pageblocks) => Some(pageblocks),
            Err(e) => {
                let path = proc.join("kpageflags");
                match File::open(&path) {
                    Err(why) if why.kind() == std::io::ErrorKind::PermissionDenied => {
                        refused.push("kpageflags".to_owned());
                    }
                    _ => missing.push(format!("{e}.")),
                }
                None
            }
        };
        if !refused.is_empty() {
            missing.push(format!(
                "Root could also read {}: what each pageblock holds, and of which type free blocks are.",
                refused.join(" and ")
            ));
        }
        Ok(HostAnswers {
            kernel: String::new(),
            texts,
            meminfo,
            settings: settings(proc),
            pageblocks,
            not_read: missing,
        })
    }
}

/// Reads what pageblocks hold: on a large host, those of some parts of it.
fn pageblocks(proc: &Path, zoneinfo: &str) -> Result<Pageblocks, TraceError> {
    let picture = kpageflags::capture_each(&proc.join("kpageflags"), every(zoneinfo))?;
    Ok(Pageblocks::of(&picture.snapshot))
}

/// The same of this host now, where it may be read.
pub(crate) fn pageblocks_now() -> Option<Pageblocks> {
    let proc = Path::new("/proc");
    pageblocks(proc, &read(&proc.join("zoneinfo")).ok()?).ok()
}

/// The commands that save what a doctor asks of a host on which Pageyard is not.
pub const COMMANDS: &str =
    "mkdir host && cp /proc/{buddyinfo,zoneinfo,pagetypeinfo,vmstat,meminfo,version} host/
sysctl -a > host/sysctl
dmesg > host/dmesg
tar czf host.tgz host";

impl HostAnswers {
    /// Reads the answers of another host from the files that four commands save there, which the error names.
    ///
    /// # Errors
    /// When `buddyinfo` or `zoneinfo` is not there or cannot be read.
    pub fn saved(folder: &Path) -> Result<HostAnswers, TraceError> {
        let mut not_read = Vec::new();
        let mut text = |name: &str, what: &str| {
            read(&folder.join(name)).unwrap_or_else(|(_, why)| {
                not_read.push(format!(
                    "{} cannot be read: {why}. {what}",
                    shown(&folder.join(name).to_string_lossy())
                ));
                String::new()
            })
        };
        let texts = ProcTexts {
            buddyinfo: text("buddyinfo", ""),
            zoneinfo: text("zoneinfo", ""),
            pagetypeinfo: text("pagetypeinfo", "Without it, of which type free blocks are is not known."),
            vmstat: text("vmstat", "Without it, what could be reclaimed is not known."),
        };
        let meminfo =
            text("meminfo", "Without it, frames count as 4 KiB, and huge pages set aside are not known.");
        let version = text("version", "Without it, only settings that every kernel has are named.");
        let sysctl = text("sysctl", "Without it, settings are not known.");
        if texts.buddyinfo.is_empty() || texts.zoneinfo.is_empty() {
            return Err(TraceError::Unreadable {
                file: shown(&folder.to_string_lossy()),
                why: format!(
                    "buddyinfo or zoneinfo is not in it. On the host, these commands make such a folder:\n{COMMANDS}"
                ),
            });
        }
        let release = version.strip_prefix("Linux version ").and_then(|rest| rest.split(' ').next());
        not_read.push("Saved files do not say what each pageblock holds: `pageyard doctor` on the host itself, as root, does.".to_owned());
        Ok(HostAnswers {
            kernel: shown(release.unwrap_or_default()),
            texts,
            meminfo,
            settings: of_sysctl(&sysctl),
            pageblocks: None,
            not_read: not_read.into_iter().map(|sentence| sentence.trim_end().to_owned()).collect(),
        })
    }
}

/// Reads the settings in `vm.min_free_kbytes = 67584`, a line each.
fn of_sysctl(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        let name = name.trim().replacen('.', "/", 1);
        SETTINGS.contains(&name.as_str()).then(|| (name, shown(value.trim())))
    });
    pairs.collect()
}

/// Frames of which it is asked what they hold, at most: the kernel takes about an eighth of a microsecond for each.
const MOST_FRAMES: u64 = 1 << 20;

/// Says how much of memory is looked at: one part of so many.
fn every(zoneinfo: &str) -> u64 {
    let end = Zoneinfo::parse(zoneinfo).map_or(0, |info| {
        let ends = info.zones.iter().filter_map(|z| Some(z.start_pfn?.saturating_add(z.spanned)));
        ends.max().unwrap_or(0)
    });
    end.div_ceil(MOST_FRAMES).max(1)
}

/// Reads a text; the error says whether it was for lack of permission.
fn read(path: &Path) -> Result<String, (bool, String)> {
    let failed = |e: std::io::Error| (e.kind() == std::io::ErrorKind::PermissionDenied, reason(&e));
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_TEXT).read_to_end(&mut bytes)).map_err(failed)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said_and_the_rest_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let why = HostAnswers::ask_in(folder.path()).unwrap_err().to_string();
        assert!(why.contains("/proc mounted"), "{why}");
        std::fs::write(folder.path().join("buddyinfo"), "Node 0, zone DMA 1\n").unwrap();
        std::fs::write(folder.path().join("zoneinfo"), "x").unwrap();
        std::fs::create_dir_all(folder.path().join("sys/vm")).unwrap();
        std::fs::write(folder.path().join("sys/vm/min_free_kbytes"), "67584\n").unwrap();
        let answers = HostAnswers::ask_in(folder.path()).unwrap();
        assert_eq!(answers.settings["vm/min_free_kbytes"], "67584");
        assert_eq!(answers.settings.len(), 1);
        assert!(answers.not_read.iter().any(|s| s.contains("meminfo")), "{:?}", answers.not_read);
        assert!(answers.pageblocks.is_none());
    }

    #[test]
    fn this_host_answers() {
        let answers = HostAnswers::ask().unwrap();
        assert!(answers.kernel.contains('.') && answers.texts.zoneinfo.contains("pages free"));
        assert!(answers.settings.contains_key("vm/min_free_kbytes"));
    }
}
