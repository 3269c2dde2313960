//! `meta.json`: what a trace says of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::error::Category;

use crate::FORMAT;
use crate::checksum;
use crate::error::TraceError;
use crate::json;
use crate::proctext::{Buddyinfo, Zoneinfo};
use crate::snapshot::MAX_FRAMES;
use crate::source::Input;
use crate::text::quoted;
use crate::text::{cut, escaped, shown};

/// The largest `meta.json` that is read. A host with 1,024 CPUs writes about 1 MiB.
const MAX_BYTES: u64 = 32 << 20;

/// More CPUs than any Linux can have.
const MAX_CPUS: u32 = 8192;

/// A trace's metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The format's version.
    pub format: u32,
    /// The kernel that was recorded, for people: `Linux 6.18.44`. After reading it is safe to display.
    #[serde(default)]
    pub kernel: String,
    /// How many CPUs the host had; events name CPUs below this.
    pub cpus: u32,
    /// Bytes in a frame.
    pub page_size: u64,
    /// The order of a pageblock.
    pub pageblock_order: u8,
    /// How many rows `events.parquet` has, where the writer knew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// How many events the recorder missed.
    #[serde(default)]
    pub lost: u64,
    /// How long the recording took, in nanoseconds.
    #[serde(default)]
    pub duration_ns: u64,
    /// When the recording began, in seconds since 1970 (UTC), by the host's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_s: Option<u64>,
    /// Why the recording ended early, if it did: for example `the disk is full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// The first frame past memory, where there is no snapshot that says so: a replay opens with all of it free. Where
    /// both are missing, memory ends with the highest frame that an event names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_end: Option<u64>,
    /// The function of the kernel that was watched for moves, where one was: then `moves.parquet` has every move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_by: Option<String>,
    /// The threads of the process that recorded, as far as events name them, by their numbers there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorder_threads: Vec<u32>,
    /// Settings of the host that decide about memory, when the recording started, by their names below `/proc/sys`.
    /// After reading they are safe to display.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// A checksum of each other file, by its name, where the writer made them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checksums: BTreeMap<String, String>,
    /// The recorded kernel's gfp flags: the name of each, and its bit.
    #[serde(default)]
    pub gfp_bits: BTreeMap<String, u8>,
    /// Linux's texts when the recording started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ProcTexts>,
    /// Linux's texts when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ProcTexts>,
}

/// The texts of four files of `/proc`; empty where one was not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcTexts {
    /// `/proc/buddyinfo`.
    pub buddyinfo: String,
    /// `/proc/pagetypeinfo`.
    pub pagetypeinfo: String,
    /// `/proc/zoneinfo`.
    pub zoneinfo: String,
    /// `/proc/vmstat`.
    pub vmstat: String,
}

impl Meta {
    /// Describes a trace of this format, without events or texts.
    #[must_use]
    pub fn new(cpus: u32) -> Meta {
        Meta {
            format: FORMAT,
            kernel: String::new(),
            cpus,
            page_size: pageyard::PAGE_SIZE,
            pageblock_order: pageyard::PAGEBLOCK_ORDER.get(),
            events: None,
            lost: 0,
            duration_ns: 0,
            started_s: None,
            partial: None,
            memory_end: None,
            moves_by: None,
            recorder_threads: Vec::new(),
            settings: BTreeMap::new(),
            checksums: BTreeMap::new(),
            gfp_bits: BTreeMap::new(),
            before: None,
            after: None,
        }
    }

    pub(crate) fn read(input: &Input) -> Result<Meta, TraceError> {
        let file = input.label();
        let damaged = |what: String| TraceError::Damaged { file: file.to_owned(), row: None, what };
        if input.size() > MAX_BYTES {
            return Err(damaged(format!("it has {} bytes, far more than any trace needs", input.size())));
        }
        let bytes = input.read(0, input.size() as usize)?;
        Meta::parse(&bytes, file)
    }

    fn parse(bytes: &[u8], file: &str) -> Result<Meta, TraceError> {
        let damaged = |what: String| TraceError::Damaged { file: file.to_owned(), row: None, what };
        if bytes.is_empty() {
            return Err(damaged("it is empty".to_owned()));
        }
        let tree = json::parse(bytes).map_err(|e| {
            damaged(match e.classify() {
                Category::Eof => "it is cut short".to_owned(),
                Category::Data => format!("it says two things at once ({})", quoted_error(&e)),
                _ => format!("it is not JSON ({})", quoted_error(&e)),
            })
        })?;
        // Looked at first: of a newer format nothing else is known.
        let format = tree
            .get("format")
            .and_then(Value::as_u64)
            .ok_or_else(|| damaged("it does not say which format the trace has".to_owned()))?;
        if format > u64::from(FORMAT) {
            return Err(TraceError::Newer { file: file.to_owned(), format });
        }
        let mut meta: Meta = serde_json::from_value(tree)
            .map_err(|e| damaged(format!("it does not describe a trace ({})", quoted_error(&e))))?;
        // For people only; code that displays it need not check what it holds.
        meta.kernel = shown(&meta.kernel);
        meta.partial = meta.partial.map(|why| shown(&why));
        meta.moves_by = meta.moves_by.map(|function| shown(&function));
        meta.settings =
            meta.settings.into_iter().map(|(name, value)| (shown(&name), shown(&value))).collect();
        meta.check(file)?;
        for (when, texts) in [("before", &meta.before), ("after", &meta.after)] {
            if let Some(zone) = texts.as_ref().and_then(ProcTexts::lacks_zone) {
                let what = format!(
                    "the zoneinfo from {when} the recording is cut short: buddyinfo has a zone {zone} and it has none; \
                     copy the trace again, or empty that text to do without it"
                );
                return Err(TraceError::Inconsistent { file: file.to_owned(), row: None, what });
            }
        }
        Ok(meta)
    }

    /// Checks what no type can.
    pub(crate) fn check(&self, file: &str) -> Result<(), TraceError> {
        let inconsistent = |what| Err(TraceError::Inconsistent { file: file.to_owned(), row: None, what });
        let unsupported = |what| Err(TraceError::Unsupported { file: file.to_owned(), what });
        if self.format != FORMAT {
            return inconsistent(format!("there is no format {}", self.format));
        }
        if self.page_size != pageyard::PAGE_SIZE {
            return unsupported(format!("frames of {} bytes are not supported, only 4096", self.page_size));
        }
        if self.pageblock_order != pageyard::PAGEBLOCK_ORDER.get() {
            return unsupported(format!(
                "pageblocks of order {} are not supported, only 9",
                self.pageblock_order
            ));
        }
        if self.cpus == 0 || self.cpus > MAX_CPUS {
            return inconsistent(format!("a host cannot have {} CPUs", self.cpus));
        }
        if let Some(end) = self.memory_end.filter(|end| !(1..=MAX_FRAMES).contains(end)) {
            return inconsistent(format!("memory cannot end at frame {end}"));
        }
        if let Some((name, bit)) = self.gfp_bits.iter().find(|(_, bit)| **bit >= 32) {
            return inconsistent(format!("gfp flag {} cannot be bit {bit} of 32", quoted(name.as_bytes())));
        }
        if let Some(fault) = self.checksums.values().find_map(|sum| checksum::fault(sum)) {
            return inconsistent(fault.to_owned());
        }
        Ok(())
    }
}

impl ProcTexts {
    /// Names a zone with memory that `buddyinfo` has and `zoneinfo` lacks, where both can be read. A text that cannot
    /// be read gives its own error when it is needed. One that was cut between two zones looks complete, and a machine
    /// made from it is as small as its first zone.
    fn lacks_zone(&self) -> Option<String> {
        if self.zoneinfo.is_empty() {
            return None;
        }
        let (buddy, zones) = (Buddyinfo::parse(&self.buddyinfo).ok()?, Zoneinfo::parse(&self.zoneinfo).ok()?);
        let lacking = buddy
            .zones
            .iter()
            .find(|b| !zones.zones.iter().any(|z| (z.node, &z.name) == (b.node, &b.name) && z.managed > 0));
        lacking.map(|zone| format!("{} of node {}", zone.name, zone.node))
    }
}

/// Names a kernel by the number at the start of its release. The rest was chosen by its builder, and may name a person,
/// a company or a host.
#[must_use]
pub fn kernel_name(release: &str) -> String {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    match release[..end.min(32)].trim_matches('.') {
        "" => "Linux".to_owned(),
        version => format!("Linux {version}"),
    }
}

fn quoted_error(error: &serde_json::Error) -> String {
    cut(&escaped(&error.to_string()), 120)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"format":1,"cpus":2,"page_size":4096,"pageblock_order":9}"#;

    fn message(text: &str) -> String {
        Meta::parse(text.as_bytes(), "m").unwrap_err().to_string()
    }

    #[test]
    fn the_least_there_can_be_is_accepted() {
        let meta = Meta::parse(GOOD.as_bytes(), "m").unwrap();
        assert_eq!(meta, Meta::new(2));
    }

    #[test]
    fn each_fault_has_its_sentence() {
        assert_eq!(message(""), "m: it is empty");
        assert_eq!(message(&GOOD[..20]), "m: it is cut short");
        assert!(message("hello").starts_with("m: it is not JSON"));
        assert_eq!(message("{}"), "m: it does not say which format the trace has");
        assert_eq!(
            message(r#"{"format":2}"#),
            "m is format 2, and this Pageyard reads format 1: update Pageyard"
        );
        assert_eq!(message(&GOOD.replace(":1,", ":0,")), "m: there is no format 0");
        assert_eq!(
            message(&GOOD.replace("4096", "65536")),
            "m: frames of 65536 bytes are not supported, only 4096"
        );
        assert_eq!(
            message(&GOOD.replace("9}", "10}")),
            "m: pageblocks of order 10 are not supported, only 9"
        );
        assert_eq!(message(&GOOD.replace(":2,", ":0,")), "m: a host cannot have 0 CPUs");
        assert_eq!(message(&GOOD.replace(":2,", ":4000000000,")), "m: a host cannot have 4000000000 CPUs");
        assert!(message(&GOOD.replace(":2,", ":-2,")).starts_with("m: it does not describe a trace"));
        let bits = GOOD.replace("9}", r#"9,"gfp_bits":{"__GFP_IO":64}}"#);
        assert_eq!(message(&bits), "m: gfp flag __GFP_IO cannot be bit 64 of 32");
    }

    #[test]
    fn a_key_that_stands_twice_is_refused() {
        let text = GOOD.replace("9}", r#"9,"cpus":200}"#);
        assert!(message(&text).starts_with("m: it says two things at once (the key `cpus` stands twice"));
        let text = GOOD.replace("9}", r#"9,"gfp_bits":{"__GFP_IO":6,"__GFP_IO":7}}"#);
        assert!(message(&text).contains("the key `__GFP_IO` stands twice"), "{}", message(&text));
    }

    #[test]
    fn a_zoneinfo_that_ends_between_two_zones_is_refused() {
        let zone = |name| {
            format!("Node 0, zone {name}\n  pages free 9\n  managed 10\n  protection: (0)\n  start_pfn: 1\n")
        };
        let texts = |zoneinfo: String| ProcTexts {
            buddyinfo: "Node 0, zone DMA 1 0\nNode 0, zone Normal 5 0\n".into(),
            zoneinfo,
            ..ProcTexts::default()
        };
        let read = |before: ProcTexts, after: ProcTexts| {
            let meta = Meta { before: Some(before), after: Some(after), ..Meta::new(2) };
            Meta::parse(&serde_json::to_vec(&meta).unwrap(), "m")
        };
        let whole = || texts(zone("DMA") + &zone("Normal"));
        read(whole(), whole()).unwrap();
        read(texts(String::new()), whole()).unwrap();
        let error = read(texts(zone("DMA")), whole()).unwrap_err().to_string();
        assert!(
            error.contains("from before the recording is cut short: buddyinfo has a zone Normal"),
            "{error}"
        );
        let error = read(whole(), texts(zone("DMA"))).unwrap_err().to_string();
        assert!(error.contains("from after the recording"), "{error}");
    }

    #[test]
    fn a_kernel_is_named_by_its_number_alone() {
        for (release, name) in [
            ("6.18.44", "Linux 6.18.44"),
            ("5.14.0-427.el9.x86_64", "Linux 5.14.0"),
            ("6.9.3.alices-laptop", "Linux 6.9.3"),
            ("4.19+", "Linux 4.19"),
            ("next-20260101", "Linux"),
            ("", "Linux"),
            ("6.1é", "Linux 6.1"),
        ] {
            assert_eq!(kernel_name(release), name);
        }
    }

    #[test]
    fn a_kernels_name_cannot_command_a_terminal() {
        let text = GOOD.replace("9}", r#"9,"kernel":"\u001b[2JLinux\u009b31m"}"#);
        assert_eq!(Meta::parse(text.as_bytes(), "m").unwrap().kernel, "\\u{1b}[2JLinux\\u{9b}31m");
        let text = GOOD.replace("9}", &format!(r#"9,"kernel":"{}"}}"#, "k".repeat(1 << 20)));
        assert!(Meta::parse(text.as_bytes(), "m").unwrap().kernel.len() < 200);
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(message(&"[".repeat(1_000_000)).starts_with("m: it is"));
    }
}
