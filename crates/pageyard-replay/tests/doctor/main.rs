//! The doctor names the cause that was staged.
//!
//! The logs without `by-hand` are real: `bench/linux/provoke` made stock kernels, 6.1.0-56 (6.1.192) and 6.12.117 of
//! Debian, refuse requests in guests; `defrag-mode-6.18` is of 6.18.15, Debian's too, under packets while memory was
//! full. Those with `by-hand` were written after the kernel's format.

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
        ("low-reserve-4.4.by-hand", Cause::LowReserve),
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
