//! The reference behaves as recorded kernels did, and a file that is no recording is refused in a sentence.

use pageyard_guest::request::{DIRECT, NOMEMALLOC, VICTIM};
use pageyard_judge::operation::{Answer, Kind, Operation};
use pageyard_judge::recording::Recording;
use pageyard_judge::settings::apply;
use pageyard_judge::verdict::{Verdict, compare, explain};
use pageyard_linux::Config;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/judge")
}

fn recordings() -> Vec<(PathBuf, Recording)> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "ruling"));
    files.sort();
    let read = |file: PathBuf| {
        let recording = Recording::read(&file).unwrap();
        (file, recording)
    };
    files.into_iter().map(read).collect()
}

fn verdict(recording: &Recording, change: impl Fn(&mut Config)) -> Verdict {
    let preset = Config::preset(&recording.preset).unwrap();
    let mut config = apply(&preset, &recording.settings, recording.compacts).unwrap();
    change(&mut config);
    compare(&recording.operations, &recording.ruling, &config).unwrap()
}

#[test]
fn the_reference_does_what_recorded_kernels_did() {
    let recordings = recordings();
    for preset in ["linux-5.10", "linux-6.1", "linux-6.12", "linux-6.18", "linux-7.2", "linux-7.3"] {
        assert!(recordings.iter().filter(|(_, r)| r.preset == preset).count() >= 2, "{preset}");
    }
    for (file, recording) in &recordings {
        let verdict = verdict(recording, |_| {});
        assert_eq!(verdict.first_difference, None, "{}", file.display());
        assert_eq!(verdict.operations, recording.operations.len() as u64);
    }
}

/// A rule by name, and what a reference without it does.
type Change = (&'static str, fn(&mut Config));

#[test]
fn every_rule_that_was_mended_shows_in_the_recordings() {
    use pageyard_linux::config::{
        BoostRule, FallbackPolicy, FreeHigh, HighatomicLimit, PcpPolicy, Portions, Reclaimer,
    };
    let recordings = recordings();
    let differs = |preset: &str, change: fn(&mut Config)| {
        recordings.iter().filter(|(_, r)| r.preset == preset).any(|(_, r)| {
            // A setting under which the opening cannot be is another difference.
            let mut config = apply(&Config::preset(preset).unwrap(), &r.settings, r.compacts).unwrap();
            change(&mut config);
            compare(&r.operations, &r.ruling, &config).map_or(true, |v| !v.equal)
        })
    };
    let all: [Change; 6] = [
        ("who is woken, a zone's reclaimer or a node's", |c| c.reclaimer = Reclaimer::ByZone),
        ("nofragment", |c| c.nofragment = false),
        ("nodes of privileged requests", |c| c.privileged_take_any_node = false),
        ("free frames as reclaimable ones", |c| c.reclaimable_counts_free ^= true),
        ("lists of higher orders", |c| c.pcp_high_orders = false),
        ("the watermark's boost", |c| c.watermark.watermark_boost_factor ^= 1 << 13),
    ];
    for preset in ["linux-6.1", "linux-6.12", "linux-6.18"] {
        for (name, change) in all {
            assert!(differs(preset, change), "{preset}: {name}");
        }
    }
    let old: [Change; 3] = [
        ("lists that keep a type", |c| c.fallback = FallbackPolicy::ClaimOrSteal),
        ("the reserve's limit", |c| c.highatomic_limit = HighatomicLimit::PercentRounded),
        ("how lists shrink", |c| c.pcp_policy = PcpPolicy::Auto),
    ];
    for (name, change) in old {
        assert!(differs("linux-6.1", change), "linux-6.1: {name}");
    }
    let new: [Change; 3] = [
        ("who is spared a boost", |c| c.boost_rule = BoostRule::Atomic),
        ("the reserve that counts", |c| c.highatomic_counts_free = false),
        ("fallback", |c| c.fallback = FallbackPolicy::Alike),
    ];
    for preset in ["linux-6.12", "linux-6.18"] {
        for (name, change) in new {
            assert!(differs(preset, change), "{preset}: {name}");
        }
    }
    assert!(differs("linux-6.12", |c| c.pcp_free_high = FreeHigh::BatchAndHalf), "what empties the lists");
    let newest: [Change; 5] = [
        ("what empties the lists", |c| c.pcp_free_high = FreeHigh::Batch),
        ("lists that shrink by batches", |c| c.pcp_decay = Portions::AtOnce),
        ("nodes where reclaim is at work", |c| c.spares_reclaiming_nodes = false),
        ("reclaim for one node", |c| c.this_node_reclaims = false),
        ("defrag_mode", |c| c.defrag_mode = false),
    ];
    for (name, change) in newest {
        assert!(differs("linux-6.18", change), "linux-6.18: {name}");
    }
}

#[test]
fn rules_of_5_10_and_of_7_2_and_7_3_show_in_the_recordings() {
    let recordings = recordings();
    let differs = |preset: &str, (knob, value): (&str, &str)| {
        recordings.iter().filter(|(_, r)| r.preset == preset).any(|(_, r)| {
            let mut config = apply(&Config::preset(preset).unwrap(), &r.settings, r.compacts).unwrap();
            config.set(knob, value).unwrap();
            compare(&r.operations, &r.ruling, &config).map_or(true, |v| !v.equal)
        })
    };
    let both = [
        ("pcp_spill", "at_once"),
        ("first_compaction", "apart"),
        ("highatomic_growth", "served"),
        ("compaction.gap", "twice"),
        ("compaction.whole_empties_movable", "false"),
        ("defrag_falls_back", "false"),
        ("defrag_promotes", "false"),
    ];
    let old = [
        ("pcp_policy", "free_factor"),
        ("pcp_high_orders", "true"),
        ("exact_rest_to_lists", "false"),
        ("merges_reserved", "false"),
        ("highatomic_last", "true"),
        ("highatomic_before_oom", "true"),
    ];
    assert_eq!(
        old.iter().filter(|rule| !differs("linux-5.10", **rule)).collect::<Vec<_>>(),
        Vec::<&(_, _)>::new()
    );
    let rules = |preset, more: &[(&'static str, &'static str)]| {
        let hidden = both.iter().chain(more).filter(|rule| !differs(preset, **rule)).copied();
        hidden.collect::<Vec<_>>()
    };
    assert_eq!(rules("linux-7.2", &[]), []);
    assert_eq!(rules("linux-7.3", &[("highatomic_first", "false"), ("cma", "last")]), []);
}

#[test]
fn a_rule_that_differs_is_named() {
    let recordings = recordings();
    for (ruling, knob, wrong) in [
        ("linux-6.12-set17", "fallback", "alike"),
        ("linux-6.18-set0", "pcp_decay", "at_once"),
        ("linux-6.18-set36-compact", "compaction.moves", "upwards"),
    ] {
        let (_, recording) =
            recordings.iter().find(|(file, _)| file.ends_with(format!("{ruling}.ruling"))).unwrap();
        let right =
            apply(&Config::preset(&recording.preset).unwrap(), &recording.settings, recording.compacts);
        let mut config = right.unwrap();
        let value = config.fields().find(|field| field.knob.name == knob).unwrap().get().to_string();
        config.set(knob, wrong).unwrap();
        let verdict = compare(&recording.operations, &recording.ruling, &config).unwrap();
        let found = explain(&recording.operations, &recording.ruling, &config, &verdict).unwrap();
        assert!(found.rule.starts_with(&format!("{knob}={value}: ")), "{ruling}: {}", found.rule);
        assert_eq!(found.operations, recording.operations.len() as u64, "{ruling}");
    }
}

#[test]
fn requests_that_must_not_use_the_reserves_and_those_of_victims_show_in_the_recordings() {
    let recordings = recordings();
    let shows = |preset: &str, change: fn(&mut Operation)| {
        recordings.iter().filter(|(_, r)| r.preset == preset).any(|(_, r)| {
            let mut operations = r.operations.clone();
            operations.iter_mut().filter(|op| op.kind.asks()).for_each(change);
            let config = apply(&Config::preset(preset).unwrap(), &r.settings, r.compacts).unwrap();
            !compare(&operations, &r.ruling, &config).unwrap().equal
        })
    };
    for preset in ["linux-6.1", "linux-6.12", "linux-6.18"] {
        assert!(shows(preset, |op| op.flags &= !NOMEMALLOC), "{preset}: the reserves are closed");
        assert!(shows(preset, |op| op.flags &= !VICTIM), "{preset}: a victim's reserve");
        // As they were once taken for requests that may wait.
        let waits = |op: &mut Operation| {
            if op.flags & (NOMEMALLOC | DIRECT) == NOMEMALLOC {
                op.flags = (op.flags | DIRECT) & !NOMEMALLOC;
            }
        };
        assert!(shows(preset, waits), "{preset}: not to use the reserves is not to wait");
    }
}

#[test]
fn every_rule_of_compaction_that_was_mended_shows_in_the_recordings() {
    use pageyard_linux::compaction::{FastSource, Finish, Hints, Moves, TargetOrder};
    let recordings = recordings();
    let shows = |preset: &str, change: fn(&mut Config)| {
        recordings.iter().filter(|(_, r)| r.preset == preset && !r.ruling.moves.is_empty()).any(|(_, r)| {
            let mut config = apply(&Config::preset(preset).unwrap(), &r.settings, r.compacts).unwrap();
            change(&mut config);
            compare(&r.operations, &r.ruling, &config).map_or(true, |v| !v.equal)
        })
    };
    let rules: [Change; 7] = [
        ("the order of moving", |c| c.compaction.moves = Moves::Upwards),
        ("when targets are found", |c| {
            c.compaction.moves = match c.compaction.moves {
                Moves::Batch => Moves::Downwards,
                _ => Moves::Batch,
            }
        }),
        ("which target is next", |c| {
            c.compaction.target_order = match c.compaction.target_order {
                TargetOrder::LastFirst => TargetOrder::SmallestFirst,
                TargetOrder::SmallestFirst => TargetOrder::LastFirst,
            }
        }),
        ("searches for targets", |c| c.compaction.fast_free = false),
        ("searches for sources", |c| c.compaction.fast_source = FastSource::Off),
        ("finishing a pageblock", |c| c.compaction.finish = Finish::Off),
        ("hints", |c| c.compaction.hints = Hints::NothingFound),
    ];
    let not_shown = |preset: &str| -> Vec<&str> {
        rules.iter().filter(|(_, change)| !shows(preset, *change)).map(|(name, _)| *name).collect()
    };
    for preset in ["linux-6.1", "linux-6.12", "linux-6.18"] {
        assert_eq!(not_shown(preset), Vec::<&str>::new(), "{preset}");
    }
    for preset in ["linux-6.12", "linux-6.18"] {
        assert!(shows(preset, |c| c.compaction.large_folios = false), "{preset}: compound pages move");
    }
}

#[test]
fn one_frame_that_differs_is_found_where_it_is() {
    let (_, mut recording) = recordings().swap_remove(0);
    let served = |answer: &Answer| matches!(answer, Answer::Block(Some(_)));
    let at = recording.ruling.answers.iter().rposition(served).unwrap();
    let Answer::Block(Some(pfn)) = &mut recording.ruling.answers[at] else { unreachable!() };
    *pfn ^= 1;
    let verdict = verdict(&recording, |_| {});
    assert!(!verdict.equal);
    assert_eq!(verdict.operations, at as u64);
    assert!(verdict.first_difference.unwrap().contains(&format!("operation {at},")));
}

#[test]
fn two_blocks_that_change_places_in_a_list_are_found() {
    let (_, mut recording) = recordings().swap_remove(0);
    let list = recording.ruling.closing.zones.iter_mut().flat_map(|z| &mut z.state.free);
    list.filter(|l| l.blocks.len() > 1).for_each(|l| l.blocks.swap(0, 1));
    let difference = verdict(&recording, |_| {}).first_difference.unwrap();
    assert!(difference.contains("free list"), "{difference}");
}

/// Writes bytes as a recording, and returns what is said of them.
fn said(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.ruling");
    std::fs::write(&file, bytes).unwrap();
    let said = Recording::read(&file).unwrap_err().to_string();
    assert!(!said.contains('\n') && said.len() < 200, "{said}");
    said
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

#[test]
fn what_is_no_recording_is_refused_in_a_sentence() {
    let (file, recording) = recordings().swap_remove(0);
    let whole = std::fs::read(file).unwrap();
    let plain = zstd::decode_all(&whole[..]).unwrap();
    assert!(said(&packed(b"")).contains("ends within its name"));
    said(b"");
    assert!(said(b"not packed").contains("does not unpack"));
    assert!(said(&whole[..whole.len() / 2]).contains("does not unpack"));
    assert!(said(&packed(b"pyrulers")).contains("begins otherwise"));
    let head = u32::from_le_bytes(std::array::from_fn(|i| plain[8 + i])) as usize;
    let mut broken = plain.clone();
    broken[12] = b'!';
    assert!(said(&packed(&broken)).contains("its head says nothing"));
    // An operation of a kind that does not exist, and one that names a later one.
    let first = 12 + head;
    let mut broken = plain.clone();
    broken[first] = 200;
    assert!(said(&packed(&broken)).contains("operation 0 is none that there is"));
    let free = recording.operations.iter().position(|op| op.kind == Kind::Free).unwrap();
    let mut broken = plain.clone();
    broken[first + 16 * free + 8..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(said(&packed(&broken)).contains(&format!("operation {free} names operation {}", u32::MAX)));
    // Cut short anywhere, or followed by more.
    for n in 0..40 {
        said(&packed(&plain[..plain.len() * n / 40]));
    }
    let mut longer = plain.clone();
    longer.push(0);
    assert!(said(&packed(&longer)).contains("1 bytes follow its end"));
}

#[test]
fn a_recording_is_read_as_it_was_written() {
    let (_, recording) = recordings().swap_remove(0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("again.ruling");
    recording.write(&file).unwrap();
    let again = Recording::read(&file).unwrap();
    assert_eq!(again.operations, recording.operations);
    assert_eq!(again.ruling.answers, recording.ruling.answers);
    assert_eq!(again.ruling.closing, recording.ruling.closing);
    assert_eq!((again.preset, again.settings), (recording.preset, recording.settings));
}

#[test]
fn a_state_that_contradicts_itself_is_refused() {
    let (_, recording) = recordings().swap_remove(0);
    let config =
        apply(&Config::preset(&recording.preset).unwrap(), &recording.settings, recording.compacts).unwrap();
    let said = |change: fn(&mut pageyard_linux::ZoneOpening)| {
        let mut broken = recording.clone();
        change(&mut broken.ruling.opening.zones[2].state);
        compare(&broken.operations, &broken.ruling, &config).unwrap_err().to_string()
    };
    let twice = said(|z| {
        let pfn = z.free[0].blocks[0];
        z.free[0].blocks.push(pfn);
    });
    assert!(twice.contains("is in two places"), "{twice}");
    let misaligned = said(|z| z.free.last_mut().unwrap().blocks[0].0 += 1);
    assert!(misaligned.contains("begins no block"), "{misaligned}");
    let outside = said(|z| z.free[0].blocks.push(pageyard_core::Pfn(1 << 40)));
    assert!(outside.contains("not managed there"), "{outside}");
    let fewer = said(|z| {
        z.types.pop();
    });
    assert!(fewer.contains("another number of pageblocks"), "{fewer}");
}
