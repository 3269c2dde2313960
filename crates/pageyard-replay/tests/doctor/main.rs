//! The doctor names the cause that was staged.
//!
//! The logs without `by-hand` are real: `bench/linux/provoke` made stock kernels, 6.1.0-56 (6.1.192) and 6.12.117 of
//! Debian, refuse requests in guests; `defrag-mode-6.18` is of 6.18.15, Debian's too, under packets while memory was
//! full. Those with `by-hand` were written after the kernel's format. Those in `public` are after reports of users, of
//! 2.6 to 6.19, in the form in which loggers and mails handed them on: every number is theirs, names are not.

use pageyard_replay::doctor::{Cause, Diagnosis};
use pageyard_trace::{Document, KernelLog};

fn log(name: &str) -> Diagnosis {
    let path = format!("{}/tests/doctor/logs/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(&path).unwrap();
    Diagnosis::of_log(&KernelLog::read(&path, file).unwrap())
}

fn first(name: &str) -> (Cause, f64) {
    let diagnosis = log(name);
    let cause = diagnosis.causes.first().unwrap_or_else(|| panic!("{name}: {diagnosis:#?}"));
    (cause.cause, cause.weight)
}

#[test]
fn the_staged_cause_comes_first() {
    for (name, cause) in [
        ("huge-pages-6.1", Cause::HugePagesReserved),
        ("huge-pages-6.12", Cause::HugePagesReserved),
        ("low-reserve-6.1", Cause::LowReserve),
        ("low-reserve-6.12", Cause::LowReserve),
        // Enough is free by count, in blocks below order 2.
        ("movable-4.4.by-hand", Cause::MovableScattered),
        ("defrag-mode-6.18", Cause::DefragMode),
        ("defrag-mode-6.18.by-hand", Cause::DefragMode),
        ("lists-6.1", Cause::PerCpuLists),
        ("lists-6.12", Cause::PerCpuLists),
        ("dma32-6.1", Cause::LowZone),
        ("dma32-6.12", Cause::LowZone),
        ("slab-6.1", Cause::UnmovableScattered),
        ("slab-6.12", Cause::UnmovableScattered),
        ("node-6.1", Cause::NodeLimit),
        ("node-6.12", Cause::NodeLimit),
        ("memory-6.1", Cause::OutOfMemory),
        ("memory-6.12", Cause::OutOfMemory),
    ] {
        let (found, weight) = first(name);
        assert_eq!(found, cause, "{name}: {}", log(name));
        assert!(weight > 0.5, "{name}: {weight}");
        // It leads clearly, not by rounding.
        let all = log(name).causes;
        assert!(all.get(1).is_none_or(|second| weight - second.weight > 0.01), "{name}: {}", log(name));
    }
}

#[test]
fn a_pool_is_named_by_the_size_of_its_pages() {
    let path = format!("{}/tests/doctor/logs/huge-pages-6.12.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let named = |text: &str| {
        let diagnosis = Diagnosis::of_log(&KernelLog::read("log", text.as_bytes()).unwrap());
        let pool = diagnosis.causes.iter().find(|c| c.cause == Cause::HugePagesReserved);
        pool.unwrap().setting.as_ref().unwrap().name
    };
    assert_eq!(named(&text), "vm.nr_hugepages");
    let of = |n: u32, kib: u32| {
        format!("hugepages_total={n} hugepages_free={n} hugepages_surp=0 hugepages_size={kib}kB")
    };
    let gib = text.replace(&of(215, 2048), &of(0, 2048)).replace(&of(0, 1 << 20), &of(1, 1 << 20));
    assert_eq!(named(&gib), "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages");
}

/// A log after a public report, and its answer: the kind, the first cause and KiB of a frame.
struct Public {
    name: String,
    kind: String,
    first_cause: String,
    frame_kib: u64,
}

fn public() -> Vec<Public> {
    let path = format!("{}/tests/doctor/public/answers.csv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().skip(1).map(|row| {
        let [name, kind, first_cause, frame_kib] = row.split(',').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let frame_kib = frame_kib.parse().unwrap();
        Public {
            name: name.to_owned(),
            kind: kind.to_owned(),
            first_cause: first_cause.to_owned(),
            frame_kib,
        }
    });
    rows.collect()
}

fn of_public(name: &str) -> (KernelLog, Diagnosis) {
    let path = format!("{}/tests/doctor/public/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let log = KernelLog::read(&path, std::fs::File::open(&path).unwrap()).unwrap();
    let diagnosis = Diagnosis::of_log(&log);
    (log, diagnosis)
}

#[test]
fn reports_of_users_have_their_kind_and_their_first_cause() {
    let all = public();
    assert_eq!(all.len(), 40);
    for Public { name, kind, first_cause, frame_kib } in all {
        let (log, diagnosis) = of_public(&name);
        let json = diagnosis.document().json();
        let kinds = json["failed"].as_array().unwrap().iter().map(|failed| &failed["report"]);
        assert!(kinds.clone().any(|of| *of == *kind), "{name}: {diagnosis}");
        let found = json["causes"][0]["cause"].as_str().unwrap_or("unknown");
        // Whether what is between can be moved, the numbers decide, and people do not say.
        let is_scattered = |cause: &str| cause.ends_with("scattered");
        let is_right = found == first_cause || is_scattered(found) && is_scattered(&first_cause);
        assert!(is_right, "{name}: {found}, not {first_cause}: {diagnosis}");
        for failure in log.failures.iter().filter(|failure| failure.frame_kib.is_some()) {
            assert_eq!(failure.frame_kib, Some(frame_kib), "{name}");
        }
    }
}

#[test]
fn no_report_gets_advice_that_its_kernel_does_not_have() {
    /// Words of advice, and the first release that has what they name.
    const SINCE: [(&str, (u32, u32)); 6] = [
        ("compact_memory", (3, 0)),
        ("compaction_proactiveness", (5, 9)),
        ("percpu_pagelist_high_fraction", (5, 14)),
        ("defrag_mode", (6, 15)),
        ("memory.max", (4, 5)),
        ("watermark_scale_factor", (4, 6)),
    ];
    for Public { name, .. } in public() {
        let (log, diagnosis) = of_public(&name);
        let release =
            log.failures.iter().find_map(|failure| failure.kernel.clone()).unwrap_or("2.6".to_owned());
        let numbers: Vec<u32> = release.split(['.', '-']).filter_map(|n| n.parse().ok()).collect();
        for cause in &diagnosis.causes {
            let setting = cause.setting.as_ref().map_or("", |setting| setting.name);
            let advice = format!("{setting} {}", cause.helps_now.as_deref().unwrap_or_default());
            for (word, since) in SINCE {
                assert!(
                    !advice.contains(word) || (numbers[0], numbers[1]) >= since,
                    "{name}, {release}: {advice}"
                );
            }
        }
    }
}

#[test]
fn every_cause_has_its_numbers_and_what_would_change_it() {
    for entry in std::fs::read_dir(format!("{}/tests/doctor/logs", env!("CARGO_MANIFEST_DIR"))).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let diagnosis = log(name.strip_suffix(".txt").unwrap());
        let text = diagnosis.to_string();
        for cause in &diagnosis.causes {
            assert!(cause.evidence.contains(|c: char| c.is_ascii_digit()), "{name}: {}", cause.evidence);
            assert!((0.0..=1.0).contains(&cause.weight), "{name}: {}", cause.weight);
            assert!(text.contains(&cause.evidence));
        }
        assert!(!diagnosis.document().json().to_string().contains("null"));
        assert!(diagnosis.causes.is_sorted_by(|a, b| a.weight >= b.weight));
    }
}

#[test]
fn without_the_setting_the_same_log_has_no_cause() {
    let path = format!("{}/tests/doctor/logs/defrag-mode-6.18.by-hand.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let of = |text: &str| Diagnosis::of_log(&KernelLog::read("log", text.as_bytes()).unwrap());
    // A kernel that has no such setting, and one that found a block of the request's own type.
    for other in [text.replace("6.18.44", "6.12.44"), text.replace("4095*64kB (M)", "4095*64kB (UM)")] {
        let diagnosis = of(&other);
        assert!(diagnosis.causes.is_empty(), "{diagnosis}");
        assert!(diagnosis.to_string().contains("No cause is visible"), "{diagnosis}");
        assert_eq!(diagnosis.document().unexplained, 1);
    }
}

#[test]
fn advice_names_settings_that_the_kernel_has() {
    let path = format!("{}/tests/doctor/logs/slab-6.12.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    for (release, expected) in [
        ("3.10", "vm.compact_memory"),
        ("4.19", "vm.compact_memory"),
        ("5.4", "vm.compact_memory"),
        ("5.9", "vm.compaction_proactiveness"),
        ("6.12", "vm.compaction_proactiveness"),
    ] {
        // The same memory in use by what can be moved.
        let text = text.replace("active_anon:610", "active_anon:12000");
        let text = text.replace("6.12.117", &format!("{release}.17"));
        let log = KernelLog::read("log", text.as_bytes()).unwrap();
        let diagnosis = Diagnosis::of_log(&log);
        let movable = diagnosis.causes.iter().find(|c| c.cause == Cause::MovableScattered).unwrap();
        assert_eq!(movable.setting.as_ref().unwrap().name, expected, "{release}");
    }
}

#[test]
fn of_a_failure_without_zones_nothing_is_claimed() {
    let text = "x: page allocation failure: order:3, mode:0x820(GFP_ATOMIC), nodemask=(null)\n";
    let diagnosis = Diagnosis::of_log(&KernelLog::read("log", text.as_bytes()).unwrap());
    let page = diagnosis.to_string();
    assert!(page.contains("No cause is visible in these numbers.") && !page.contains("was free"), "{page}");
    assert!(page.contains("1 of the failures have no lines about zones"), "{page}");
}

#[test]
fn which_check_refused_stands_before_any_cause() {
    let text = "x: page allocation failure: order:2, mode:0x820(GFP_ATOMIC), nodemask=(null)\nMem-Info:\n\
                active_anon:1000 inactive_anon:0\nNode 0 active_anon:4000kB inactive_anon:0kB\n\
                Node 0 Normal free:16040kB boost:0kB min:4096kB low:5120kB high:6144kB managed:2000000kB\n\
                lowmem_reserve[]: 0 0 0 0 0\nNode 0 Normal: 3010*4kB (UME) 500*8kB (UME) 0*16kB 0*32kB = 16040kB\n";
    let diagnosis = Diagnosis::of_log(&KernelLog::read("log", text.as_bytes()).unwrap());
    let page = diagnosis.to_string();
    let fact = page.find(
        "Normal: 15.7 MiB free, 1.5 MiB must stay free for this request: enough, but no block of order 2",
    );
    let cause = page.find("1. Free memory is scattered");
    assert!(fact.is_some() && fact < cause, "{page}");
    // A larger reserve would be a remedy.
    assert!(diagnosis.causes.iter().all(|cause| cause.cause != Cause::LowReserve), "{page}");
}

#[test]
fn several_failures_are_weighed_together() {
    let read = |name: &str| {
        std::fs::read_to_string(format!("{}/tests/doctor/logs/{name}.txt", env!("CARGO_MANIFEST_DIR")))
            .unwrap()
    };
    let text = [read("lists-6.12"), read("lists-6.1"), read("huge-pages-6.12")].concat();
    let diagnosis = Diagnosis::of_log(&KernelLog::read("log", text.as_bytes()).unwrap());
    assert_eq!(diagnosis.count, 3);
    let found: Vec<_> = diagnosis.causes.iter().map(|c| (c.cause, c.failures)).collect();
    assert_eq!(found[0], (Cause::PerCpuLists, 2), "{diagnosis}");
    assert!(found.contains(&(Cause::HugePagesReserved, 1)), "{diagnosis}");
    assert_eq!(
        diagnosis.failed.iter().map(|f| (f.asked.order, f.count)).collect::<Vec<_>>(),
        [(0, 2), (9, 1)]
    );
}

/// Logs with bytes and numbers that no kernel wrote.
#[test]
fn whatever_a_log_says_is_answered() {
    let mut rng = fastrand::Rng::with_seed(7);
    let numbers = ["0", "1", "18446744073709551615", "68719476736", "-5", "99999999999999999999", "x"];
    for entry in std::fs::read_dir(format!("{}/tests/doctor/logs", env!("CARGO_MANIFEST_DIR"))).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for _ in 0..200 {
            let mut bytes = text.clone().into_bytes();
            for _ in 0..rng.usize(1..20) {
                let at = rng.usize(..bytes.len());
                if bytes[at].is_ascii_digit() {
                    let end =
                        bytes[at..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| at + n);
                    bytes.splice(at..end, rng.choice(numbers).unwrap().bytes());
                } else {
                    bytes[at] = rng.u8(..);
                }
            }
            let Ok(log) = KernelLog::read("log", &bytes[..]) else { continue };
            let diagnosis = Diagnosis::of_log(&log);
            let json = diagnosis.document().json().to_string();
            assert!(!json.contains("null"), "{json}");
            assert!(diagnosis.causes.iter().all(|c| (0.0..=1.0).contains(&c.weight)), "{diagnosis}");
            assert!(!diagnosis.to_string().is_empty());
        }
    }
}
