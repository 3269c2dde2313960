//! The readers of this crate as functions of bytes, and small good inputs to corrupt: for fuzzing.
//!
//! As [`pageyard_trace::hostile`], which has those of a trace.

use crate::import::llfree::made::Made as Llfree;
use crate::import::made::Made;
use crate::import::perfetto::made::Made as Perfetto;
use crate::import::tracecmd::made::Made as TraceDat;
use crate::tracepoint::{Format, gfp_bits};
use pageyard_trace::EventKind;
use pageyard_trace::hostile::{self as trace, Target, input, presentable, some_events};

/// Every reader.
pub const TARGETS: [Target; 5] = [
    Target { name: "perf_data", read: imported },
    Target { name: "trace_dat", read: imported },
    Target { name: "perfetto", read: imported },
    Target { name: "llfree", read: imported },
    Target { name: "format", read: format },
];

/// Returns every reader of traces and of this crate.
pub fn every_target() -> impl Iterator<Item = Target> {
    trace::TARGETS.into_iter().chain(TARGETS)
}

/// Makes small good inputs for any of them.
#[must_use]
pub fn every_seed(name: &str) -> Vec<Vec<u8>> {
    [trace::seeds(name), seeds(name)].concat()
}

/// Reads a file of `perf record`, trace-cmd, Perfetto or LLFree, whichever its first bytes say.
pub fn imported(bytes: &[u8]) {
    presentable(crate::import::read_only(&input(bytes)));
}

/// Reads the kernel's description of a tracepoint.
pub fn format(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(format) = Format::parse(&text) {
        drop(gfp_bits(&format.print));
    }
}

/// Makes small good inputs for the target `name`.
#[must_use]
pub fn seeds(name: &str) -> Vec<Vec<u8>> {
    match name {
        "perf_data" => {
            let made = |made: Made| {
                let mut made = made;
                for event in some_events() {
                    if matches!(event.kind, EventKind::Alloc | EventKind::Free) {
                        made.event(&event);
                    }
                    if event.time_ns % 50 == 0 {
                        made.moved(&event, event.pfn ^ 64);
                        made.end_round();
                    }
                }
                made.finish()
            };
            vec![made(Made::new()), made(Made::new().mixed()), made(Made::new().compressed(300))]
        }
        "trace_dat" => {
            let mut made = TraceDat::new();
            for event in some_events() {
                if matches!(event.kind, EventKind::Alloc | EventKind::Free) {
                    made.event(&event);
                }
            }
            vec![made.version_6(), made.version_7("none"), made.version_7("zstd"), made.version_7("zlib")]
        }
        "perfetto" => {
            let mut made = Perfetto::new();
            for event in some_events() {
                if matches!(event.kind, EventKind::Alloc | EventKind::Free) {
                    made.event(&event);
                }
                if event.time_ns % 50 == 0 {
                    made.end_bundles();
                }
            }
            vec![made.clone().finish(), made.compressed().finish()]
        }
        "llfree" => {
            let mut made = Llfree::new(3, 0x1f_ffff);
            for event in some_events() {
                let fits = (1..1 << 21).contains(&event.pfn);
                if fits && matches!(event.kind, EventKind::Alloc | EventKind::Free) {
                    made.event(&event);
                }
            }
            vec![made.finish()]
        }
        "format" => vec![
            b"name: mm_page_free\nID: 655\nformat:\n\tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;\n\n\
              print fmt: \"\", {(unsigned long)((gfp_t)((((1UL))) << (6))), \"__GFP_IO\"}, {0x400u|0x800u, \"__GFP_RECLAIM\"}\n"
                .to_vec(),
        ],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_good() {
        for target in TARGETS {
            let seeds = seeds(target.name);
            assert!(!seeds.is_empty(), "{}", target.name);
            for seed in &seeds {
                (target.read)(seed);
            }
        }
        for name in ["perf_data", "trace_dat", "perfetto", "llfree"] {
            for seed in seeds(name) {
                assert!(crate::import::read_only(&input(&seed)).unwrap().events() > 100, "{name}");
            }
        }
    }
}
