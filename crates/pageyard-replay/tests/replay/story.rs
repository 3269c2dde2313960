//! Stories: what their chunks unpack to is what the engines and the recording counted, and blame is what frames say.

use crate::made::{KERNEL, USER, alloc, event, free, memory, run, trace, trace_with_moves};
use flate2::read::GzDecoder;
use pageyard::{Context, metrics};
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{ReplayOptions, replay};
use pageyard_replay::story::{LostBy, MARKER, Story, blame, tell, tell_two};
use pageyard_trace::{Event, EventKind, FrameKind, Meta, Trace, TraceWriter};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

const BLOCK: usize = 512;

fn shipped(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../data/traces/{name}.trace"));
    Trace::open(&path).unwrap()
}

fn told(trace: &Trace, engines: &[&str]) -> Story {
    let engines = EngineSpec::parse_all(engines, &[]).unwrap();
    tell(trace, &engines, &mut |_, _, _| ()).unwrap()
}

/// A page's story, read as a browser does.
struct Page {
    text: String,
    story: Value,
}

impl Page {
    fn of(story: &Story) -> Page {
        let mut bytes = Vec::new();
        story.write_page(&format!("<p>before</p>\n{MARKER}\n<p>after</p>\n"), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("<p>before</p>\n<script") && text.ends_with("</script>\n\n<p>after</p>\n"));
        let story = serde_json::from_str(Page::element(&text, "pageyard-story")).unwrap();
        Page { text, story }
    }

    fn element<'a>(text: &'a str, id: &str) -> &'a str {
        let start = text.find(&format!("id=\"{id}\">")).unwrap_or_else(|| panic!("{id} is not there"));
        let start = start + text[start..].find('>').unwrap() + 1;
        &text[start..start + text[start..].find('<').unwrap()]
    }

    /// Unpacks a chunk: its columns by name, all as whole numbers.
    fn chunk(&self, entry: &Value) -> BTreeMap<String, Vec<i64>> {
        let text = Page::element(&self.text, &format!("pageyard-chunk-{}", entry["id"]));
        let mut bytes = Vec::new();
        GzDecoder::new(&unbase64(text)[..]).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, entry["bytes"].as_u64().unwrap());
        let rows = entry["rows"].as_u64().unwrap() as usize;
        let mut rest = &bytes[..];
        let mut columns = BTreeMap::new();
        for column in entry["columns"].as_array().unwrap() {
            let (name, kind) = (column[0].as_str().unwrap(), column[1].as_str().unwrap());
            let size = kind[1..].parse::<usize>().unwrap() / 8;
            let (these, others) = rest.split_at(rows * size);
            rest = others;
            let number = |b: &[u8]| match kind {
                "f64" => f64::from_le_bytes(b.try_into().unwrap()) as i64,
                _ => b.iter().rev().fold(0, |n, byte| n << 8 | i64::from(*byte)),
            };
            columns.insert(name.to_owned(), these.chunks(size).map(number).collect());
        }
        assert!(rest.is_empty());
        columns
    }

    fn lines(&self) -> &[Value] {
        self.story["lines"].as_array().unwrap()
    }
}

fn unbase64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let four = |four: &[u8]| {
        let word = four.iter().fold(0u32, |word, c| word << 6 | u32::from(digit(*c) & 63));
        let kept = four.iter().filter(|c| **c != b'=').count() - 1;
        word.to_be_bytes()[1..1 + kept].to_vec()
    };
    text.as_bytes().chunks(4).flat_map(four).collect()
}

const HELD: [&str; 4] = ["movable", "unmovable", "reclaimable", "pinned"];

/// Unpacks every moment of a line, and checks that frames are conserved and that sums are those of its figures.
fn check_line(page: &Page, line: &Value, figures: &Value) -> BTreeMap<String, Vec<i64>> {
    check_line_of(page, line, figures, usize::MAX)
}

/// The same of a machine that has only the pageblocks below `there`.
fn check_line_of(page: &Page, line: &Value, figures: &Value, there: usize) -> BTreeMap<String, Vec<i64>> {
    let series = page.chunk(&line["series"]["chunk"]);
    let moments = page.story["moments"].as_u64().unwrap() as usize;
    let mut next = 0;
    for segment in line["segments"].as_array().unwrap() {
        let (from, to) =
            (segment["from"].as_u64().unwrap() as usize, segment["to"].as_u64().unwrap() as usize);
        assert!(from == next && to >= from);
        next = to + 1;
        let mut state = page.chunk(&segment["base"]);
        let changes = page.chunk(&segment["changes"]);
        let mut at = 0;
        for moment in from..=to {
            while at < changes["moment"].len() && changes["moment"][at] == moment as i64 {
                let pageblock = changes["pageblock"][at] as usize;
                for (name, column) in &mut state {
                    column[pageblock] = changes[name][at];
                }
                at += 1;
            }
            let (mut free, mut huge, mut lost) = (0, 0, 0);
            (0..state["free"].len()).for_each(|n| {
                let held: Vec<i64> = HELD.iter().map(|name| state[*name][n]).collect();
                let frames = state["free"][n] + held.iter().sum::<i64>();
                // A pageblock of another machine has none.
                assert!(
                    frames == BLOCK as i64 || n >= there && frames == 0,
                    "moment {moment}, {n}: {frames}"
                );
                free += state["free"][n];
                huge += i64::from(state["free"][n] == BLOCK as i64);
                let is_lost = held[1..].iter().any(|n| *n > 0);
                lost += i64::from(is_lost);
                assert_eq!(state["owner"][n] != 0xffff_ffff, is_lost, "moment {moment}, pageblock {n}");
                let largest = state["largest"][n];
                assert!(if state["free"][n] == 0 {
                    largest == 255
                } else {
                    1 << largest <= state["free"][n]
                });
            });
            let id = line["id"].as_str().unwrap();
            for (name, sum) in [("free_frames", free), ("huge_free", huge), ("lost", lost)] {
                assert_eq!(figures[name][moment].as_i64().unwrap(), sum, "{id}, {name} at moment {moment}");
                assert_eq!(series[name][moment], sum, "{id}, {name} at moment {moment}");
            }
            let blocks: i64 =
                (0..11).map(|order| series[&format!("free_blocks_{order}")][moment] << order).sum();
            assert_eq!(blocks, free, "{id}: frames in free blocks at moment {moment}");
        }
        assert_eq!(at, changes["moment"].len(), "every change is of a moment of its segment");
    }
    assert_eq!((next, series["lost"].len()), (moments, moments));
    series
}

/// Frames of the last keyframe, pageblock by pageblock, against the rows about what is lost.
fn check_lost(page: &Page, line: &Value) {
    let keyframe = line["frames"].as_array().unwrap().last().unwrap();
    assert_eq!(keyframe["moment"].as_u64().unwrap() + 1, page.story["moments"].as_u64().unwrap());
    let classes = page.chunk(&keyframe["chunk"]);
    let lost = page.chunk(&line["lost"]["chunk"]);
    let holders = page.chunk(&line["lost"]["holders"]);
    let naive: Vec<(i64, i64)> = classes["class"]
        .chunks(BLOCK)
        .zip(0..)
        .map(|(frames, n)| (n, frames.iter().filter(|c| (2..=5).contains(&(*c & 0x7f))).count() as i64))
        .filter(|(_, frames)| *frames > 0)
        .collect();
    let said: Vec<(i64, i64)> =
        lost["pageblock"].iter().copied().zip(lost["frames"].iter().copied()).collect();
    assert_eq!(said, naive, "{}", line["id"]);
    assert_eq!(lost["holders"].iter().sum::<i64>(), holders["owner"].len() as i64);
    assert_eq!(lost["frames"].iter().sum::<i64>(), holders["frames"].iter().sum::<i64>());
    let (owners, reasons) =
        (page.story["owners"].as_array().unwrap(), page.story["reasons"].as_array().unwrap());
    assert!(holders["owner"].iter().all(|owner| (*owner as usize) < owners.len()));
    for (since, reason) in lost["since_ns"].iter().zip(&lost["reason"]) {
        let reason = reasons[*reason as usize].as_str().unwrap();
        assert_eq!(*since < 0, reason == "before the recording", "{reason}");
    }
}

#[test]
fn every_moment_of_a_story_is_what_engines_counted() {
    for (name, engines) in [
        ("guest-6.12-huge", &["linux-6.12", "pageyard-exclusive"][..]),
        ("guest-6.1-files", &["linux-6.1", "linux-4.6"]),
        ("build", &["linux-6.18"]),
    ] {
        let trace = shipped(name);
        let story = told(&trace, engines);
        let (page, document) = (Page::of(&story), story.document(0, Duration::ZERO));
        let document = serde_json::to_value(&document).unwrap();
        assert_eq!(page.lines().len(), 1 + engines.len());
        assert!((2..=2048).contains(&document["moments"].as_u64().unwrap()));
        let options = ReplayOptions { samples: Some(1), ..ReplayOptions::default() };
        let specs = EngineSpec::parse_all(engines, &[]).unwrap();
        let report = replay(&trace, &specs, &options, &mut |_, _, _| ()).unwrap();
        for (line, figures) in page.lines().iter().zip(document["lines"].as_array().unwrap()) {
            assert_eq!(line["id"], figures["line"]);
            assert!(line["frames"].as_array().unwrap().len() <= 64);
            let series = check_line(&page, line, figures);
            check_lost(&page, line);
            let Some(engine) = report.engines.iter().find(|e| e.name == line["id"].as_str().unwrap()) else {
                continue;
            };
            // A replay that is not watched ends with the same free blocks.
            let end = engine.samples.last().unwrap();
            let last = |column: &str| *series[column].last().unwrap() as u64;
            assert_eq!(last("free_frames"), end.unheld, "{name} on {}", engine.name);
            let blocks: Vec<u64> = (0..11).map(|order| last(&format!("free_blocks_{order}"))).collect();
            let share = metrics::free_huge_share(&blocks).map(|share| share * 100.0);
            assert_eq!(share, end.free_huge_pct, "{name} on {}", engine.name);
        }
    }
}

#[test]
fn a_short_trace_has_a_moment_for_each_of_its_events() {
    let events = [alloc(2048, 9), alloc(4096, 0), event(EventKind::Alloc, 5000, 0, KERNEL), free(2048, 9)];
    let trace = trace("story-short", &events, memory(FrameKind::Slab), None);
    let story = told(&trace, &["linux-6.18", "linux-6.18"]);
    let page = Page::of(&story);
    let names: Vec<&str> = page.lines().iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["recorded", "linux-6.18", "linux-6.18 (2)"]);
    let recorded = page.chunk(&page.lines()[0]["series"]["chunk"]);
    let (resolution, moments) =
        (page.story["resolution_ns"].as_u64().unwrap(), recorded["lost"].len() as u64);
    assert!(resolution * (moments - 1) >= 4000 && moments <= 2048);
    let at = |column: &str, ns: u64| recorded[column][(ns / resolution) as usize];
    // 32 pageblocks, the first two of which are slab.
    assert_eq!((at("huge_free", 0), at("lost", 0), at("free_frames", 0)), (30, 2, 15 * 1024));
    assert_eq!((at("huge_free", 1500), at("lost", 1500)), (29, 2), "a huge page in use is not lost");
    assert_eq!((at("huge_free", 2500), at("lost", 2500)), (28, 2), "what can be moved loses nothing");
    assert_eq!((at("huge_free", 3500), at("lost", 3500)), (27, 3));
    assert_eq!((at("huge_free", 4000 + resolution - 1), at("lost", 4000 + resolution - 1)), (28, 3));
    let last = story.blame[0].lost.last().unwrap();
    assert_eq!((last.first_pfn, last.reason, last.holders.len()), (5000 / 512 * 512, LostBy::Fallback, 1));
    assert_eq!(
        (last.holders[0].first_pfn, last.holders[0].order, last.holders[0].frames),
        (5000, Some(0), 1)
    );
    assert!(last.since_ns.is_some_and(|ns| (2990..=3000).contains(&ns)), "{:?}", last.since_ns);
}

#[test]
fn rows_beyond_memory_and_times_without_end_are_said_and_not_followed() {
    let events = [alloc(2048, 0), free(2048, 0)];
    let moves = [(1, 2048, 40 << 10, 0), (1, 2048, 4096, 0)];
    let trace = trace_with_moves("story-outside", &events, &moves, memory(FrameKind::Slab), None);
    let story = told(&trace, &["linux-6.18"]);
    let (page, said) = (Page::of(&story), story.document(0, Duration::ZERO).left_out);
    assert!(
        said.iter().any(|s| s.starts_with("1 rows of the recording name frames beyond memory")),
        "{said:?}"
    );
    assert_eq!(page.story["events"], 2, "counted where meta.json does not say");
    for line in page.lines() {
        check_lost(&page, line);
    }
    // The last time that a row can have.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("story-late.trace");
    drop(std::fs::remove_dir_all(&path));
    let mut writer = TraceWriter::create(&path).unwrap();
    writer.push(&Event { time_ns: 1000, ..alloc(2048, 0) }).unwrap();
    writer.push(&Event { time_ns: u64::MAX, ..event(EventKind::Alloc, 5000, 0, KERNEL) }).unwrap();
    let snapshot = memory(FrameKind::Anon).map(|runs| pageyard_trace::Snapshot { runs });
    writer.finish(Meta::new(1), snapshot.as_ref(), None).unwrap();
    let story = told(&Trace::open(&path).unwrap(), &[]);
    let (page, document) = (Page::of(&story), story.document(0, Duration::ZERO));
    check_line(&page, &page.lines()[0], &serde_json::to_value(&document.lines[0]).unwrap());
    assert_eq!((document.lines[0].lost[0], document.lines[0].lost.last()), (0, Some(&1)));
    let since = story.blame[0].lost[0].since_ns.unwrap();
    assert!(u64::MAX - since <= u64::MAX >> 31, "{since}");
}

/// A frame as a reader of the format would keep it: who holds it, if it cannot be moved.
type Naive = Vec<Option<(u32, u32, &'static str)>>;

#[test]
fn blame_is_what_counting_frame_by_frame_gives() {
    let mut rng = fastrand::Rng::with_seed(17);
    for round in 0..12 {
        let end = 64 * BLOCK as u64;
        let mut runs = Vec::new();
        let mut naive: Naive = vec![None; end as usize];
        let mut is_free = vec![false; end as usize];
        let mut at = 0;
        let before = (u32::MAX, u32::MAX, "before");
        while at < end {
            let frames = rng.u64(1..900).min(end - at);
            let kind = [FrameKind::Free, FrameKind::Free, FrameKind::Anon, FrameKind::Slab, FrameKind::Other]
                [rng.usize(0..5)];
            for f in at..at + frames {
                is_free[f as usize] = kind == FrameKind::Free;
                naive[f as usize] = matches!(kind, FrameKind::Slab | FrameKind::Other).then_some(before);
            }
            runs.push(run(at, frames, kind));
            at += frames;
        }
        let mut events: Vec<Event> = Vec::new();
        let mut held: Vec<(u64, u8)> = Vec::new();
        for _ in 0..600 {
            if rng.bool() || held.is_empty() {
                let order = rng.u8(0..5);
                let pfn = rng.u64(0..end >> order) << order;
                let frames = pfn as usize..(pfn + (1 << order)) as usize;
                if !is_free[frames.clone()].iter().all(|f| *f) {
                    continue;
                }
                let gfp = [USER, KERNEL, KERNEL | 1 << 8][rng.usize(0..3)];
                let (tid, context) = (rng.u32(0..4), Context::ALL[rng.usize(0..2)]);
                let kind = Event { tid, context, ..event(EventKind::Alloc, pfn, order, gfp) };
                events.push(Event { migratetype: if gfp == USER { 1 } else { 0 }, ..kind });
                is_free[frames.clone()].fill(false);
                naive[frames].fill((gfp != USER).then_some((gfp, tid, context.name())));
                held.push((pfn, order));
            } else {
                let (pfn, order) = held.swap_remove(rng.usize(0..held.len()));
                // Parts of a block are freed on their own, too.
                let part = rng.u8(0..=order);
                let frames = pfn as usize..(pfn + (1 << part)) as usize;
                events.push(free(pfn, part));
                is_free[frames.clone()].fill(true);
                naive[frames].fill(None);
            }
        }
        let trace = trace(&format!("story-blame-{round}"), &events, Some(runs), None);
        let report = blame(&trace, &mut |_, _, _| ()).unwrap();
        let blocks = || naive.chunks(BLOCK).enumerate();
        let lost: Vec<u64> =
            blocks().filter(|(_, b)| b.iter().any(Option::is_some)).map(|(n, _)| n as u64).collect();
        let document = serde_json::to_value(report.document()).unwrap();
        let said: Vec<u64> =
            document["lost"].as_array().unwrap().iter().map(|l| l["pageblock"].as_u64().unwrap()).collect();
        assert_eq!(said, lost, "round {round}");
        assert_eq!(document["lost_pageblocks"].as_u64().unwrap(), lost.len() as u64);
        // What each pageblock's holders hold, and that every one has a reason or is from before.
        for entry in document["lost"].as_array().unwrap() {
            let n = entry["pageblock"].as_u64().unwrap() as usize;
            let frames = naive[n * BLOCK..(n + 1) * BLOCK].iter().flatten();
            let mut by: BTreeMap<(String, String), u64> = BTreeMap::new();
            for (gfp, tid, context) in frames {
                let thread = if *gfp == u32::MAX { "-".to_owned() } else { tid.to_string() };
                *by.entry((thread, (*context).to_owned())).or_default() += 1;
            }
            let mut said: BTreeMap<(String, String), u64> = BTreeMap::new();
            for holder in entry["holders"].as_array().unwrap() {
                let thread = holder["thread"].as_u64().map_or("-".to_owned(), |tid| tid.to_string());
                let context = holder["context"].as_str().unwrap_or("before").to_owned();
                *said.entry((thread, context)).or_default() += holder["frames"].as_u64().unwrap();
                assert_eq!(holder["since_ns"].is_null(), holder["gfp"].is_null(), "{holder}");
            }
            assert_eq!(said, by, "round {round}, pageblock {n}");
            let is_before = entry["since_ns"].is_null();
            assert_eq!(entry["reason"] == "before_the_recording", is_before, "{entry}");
        }
        // And all together, by what the CPU was doing.
        for context in ["task", "softirq"] {
            let of = |b: &[Option<(u32, u32, &str)>]| {
                b.iter().flatten().filter(|(_, _, c)| *c == context).count() as u64
            };
            let frames: u64 = blocks().map(|(_, b)| of(b)).sum();
            let pageblocks = blocks().filter(|(_, b)| of(b) > 0).count() as u64;
            let alone = |b: &[Option<(u32, u32, &str)>]| {
                of(b) > 0 && b.iter().flatten().all(|(_, _, c)| *c == context)
            };
            let alone = blocks().filter(|(_, b)| alone(b)).count() as u64;
            let share = document["by"]["context"].as_array().unwrap().iter().find(|s| s["name"] == context);
            let said = share.map_or((0, 0, 0), |s| {
                (
                    s["pageblocks"].as_u64().unwrap(),
                    s["alone"].as_u64().unwrap(),
                    s["frames"].as_u64().unwrap(),
                )
            });
            assert_eq!(said, (pageblocks, alone, frames), "round {round}, {context}");
        }
        let text = report.to_string();
        assert!(text.contains(&format!("{} are lost to huge frames", lost.len())), "{text}");
    }
}

#[test]
fn names_of_a_trace_cannot_leave_the_story() {
    let name = "<img src=x onerror=alert(1)>&lt;\u{2028}<!--";
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.trace"));
    drop(std::fs::remove_dir_all(&path));
    let mut writer = TraceWriter::create(&path).unwrap();
    writer.push(&Event { time_ns: 1000, ..event(EventKind::Alloc, 1030, 0, KERNEL) }).unwrap();
    let kernel = "</script><script>alert(1)</script>\u{2029}";
    let snapshot = memory(FrameKind::Anon).map(|runs| pageyard_trace::Snapshot { runs });
    let meta = Meta { kernel: kernel.to_owned(), ..Meta::new(1) };
    writer.finish(meta, snapshot.as_ref(), None).unwrap();
    let story = told(&Trace::open(&path).unwrap(), &["linux-6.18"]);
    let page = Page::of(&story);
    let chunks = page.text.matches("id=\"pageyard-chunk-").count();
    assert_eq!(page.text.matches("<script").count(), chunks + 1);
    assert_eq!(page.text.matches("</script").count(), chunks + 1);
    assert!(!page.text.contains("<img") && !page.text.contains("<!--"));
    assert!(!page.text.contains(['\u{2028}', '\u{2029}']));
    // Nothing is lost on the way: what a terminal would act on was spelt out when the trace was opened.
    assert!(page.story["name"].as_str().unwrap().starts_with("<img src=x onerror=alert(1)>&lt;"));
    assert!(page.story["kernel"].as_str().unwrap().starts_with("</script><script>alert(1)</script>"));
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_story_needs_a_page_with_one_place_for_it_and_an_engine_that_can_be_followed() {
    let trace = trace("story-refused", &[alloc(2048, 0)], memory(FrameKind::Slab), None);
    let story = told(&trace, &[]);
    for asset in ["", "<p></p>", &format!("{MARKER}{MARKER}")] {
        let why = story.write_page(asset, &mut Vec::new()).unwrap_err().to_string();
        assert!(why.contains("has no place for a story"), "{why}");
    }
    let kernel = EngineSpec::parse("kernel:6.12", &[]).unwrap();
    let why = tell(&trace, &[kernel], &mut |_, _, _| ()).unwrap_err().to_string();
    assert!(why.contains("kernel:6.12") && why.lines().count() == 1, "{why}");
}

/// Copies a trace, with other files in place of its own.
fn copied(name: &str, folder: &Path, change: impl Fn(&str, Vec<u8>) -> Vec<u8>) -> Trace {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../data/traces/{name}.trace"));
    std::fs::create_dir_all(folder).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let file = entry.file_name().into_string().unwrap();
        std::fs::write(folder.join(&file), change(&file, std::fs::read(entry.path()).unwrap())).unwrap();
    }
    Trace::open(folder).unwrap()
}

#[test]
fn two_recordings_of_one_machine_stand_beside_each_other_as_each_stands_alone() {
    let traces = ["guest-6.1-net", "guest-6.1-files"].map(shipped);
    let both = tell_two(&traces[0], &traces[1], &mut |_, _, _| ()).unwrap();
    let document = serde_json::to_value(both.document(0, Duration::ZERO)).unwrap();
    let page = Page::of(&both);
    let ids: Vec<&str> = page.lines().iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["guest-6.1-net", "guest-6.1-files"]);
    for (at, trace) in traces.iter().enumerate() {
        let (line, figures) = (&page.lines()[at], &document["lines"][at]);
        assert_eq!(line["kind"], "recorded");
        // Each lacks a few pageblocks that the other has, within its zones.
        check_line_of(&page, line, figures, 0);
        // At the end each holds what it holds when it is told alone: pageblocks that only the other has are not free.
        let alone = told(trace, &[]);
        let own = serde_json::to_value(alone.document(0, Duration::ZERO)).unwrap();
        for figure in ["free_frames", "huge_free", "lost"] {
            let last = |of: &Value| of[figure].as_array().unwrap().last().unwrap().clone();
            assert_eq!(last(figures), last(&own["lines"][0]), "{figure} of {}", trace.name());
        }
        assert!(line["duration_ns"].as_u64() <= page.story["duration_ns"].as_u64());
    }
    // The shorter one is said to end.
    let text = page.story["left_out"].to_string();
    assert!(text.contains("then its line stays as it is"), "{text}");
    // One of itself, twice: nothing differs, and the names are told apart.
    let same = tell_two(&traces[0], &traces[0], &mut |_, _, _| ()).unwrap();
    let document = serde_json::to_value(same.document(0, Duration::ZERO)).unwrap();
    assert_eq!(document["lines"][1]["line"], "guest-6.1-net (2)");
    for figure in ["free_frames", "huge_free", "lost"] {
        assert_eq!(document["lines"][0][figure], document["lines"][1][figure]);
    }
}

#[test]
fn a_machine_of_half_the_size_has_half_of_the_pageblocks_and_loses_none_of_the_others() {
    let events = [alloc(2048, 9), event(EventKind::Alloc, 5000, 0, KERNEL), free(2048, 9)];
    let half = vec![run(0, 1024, FrameKind::Slab), run(1024, 7 * 1024, FrameKind::Free)];
    let small = trace("story-half", &events, Some(half), None);
    let large = trace("story-whole", &events, memory(FrameKind::Slab), None);
    for (first, second) in [(&small, &large), (&large, &small)] {
        let story = tell_two(first, second, &mut |_, _, _| ()).unwrap();
        let document = serde_json::to_value(story.document(0, Duration::ZERO)).unwrap();
        let page = Page::of(&story);
        for (line, figures) in page.lines().iter().zip(document["lines"].as_array().unwrap()) {
            let (there, free) = if line["id"] == "story-half" { (16, 13) } else { (32, 29) };
            check_line_of(&page, line, figures, there);
            let last = |figure: &str| figures[figure].as_array().unwrap().last().unwrap().as_u64().unwrap();
            assert_eq!((last("huge_free"), last("lost")), (free, 3), "{line}");
        }
        // Neither are they lost to anybody.
        for blame in &story.blame {
            assert_eq!(blame.lost.len(), 3);
        }
    }
}

#[test]
fn threads_have_their_names_where_a_recording_kept_them() {
    let folder = tempfile::tempdir().unwrap();
    let same = |_: &str, bytes| bytes;
    let plain = copied("guest-6.1-files", &folder.path().join("plain.trace"), same);
    let report = blame(&plain, &mut |_, _, _| ()).unwrap();
    let document = serde_json::to_value(report.document()).unwrap();
    let of = |document: &Value| -> Vec<String> {
        let shares = document["by"]["thread"].as_array().unwrap();
        shares.iter().map(|share| share["name"].as_str().unwrap().to_owned()).collect()
    };
    let by_number: Vec<String> =
        of(&document).into_iter().filter(|name| name.starts_with("thread ")).collect();
    assert!(by_number.len() > 1, "{by_number:?}");
    let tids: Vec<&str> = by_number.iter().map(|name| name.trim_start_matches("thread ")).collect();
    let named = folder.path().join("named.trace");
    copied("guest-6.1-files", &named, same);
    let names: Vec<String> = tids.iter().map(|tid| format!("\"{tid}\": \"dd\"")).collect();
    std::fs::write(named.join("thread_names.json"), format!("{{{}}}", names.join(", "))).unwrap();
    let trace = Trace::open(&named).unwrap();
    let report = blame(&trace, &mut |_, _, _| ()).unwrap();
    let document = serde_json::to_value(report.document()).unwrap();
    let found = of(&document);
    assert!(
        found.contains(&"dd".to_owned()) && !found.iter().any(|name| name.starts_with("thread ")),
        "{found:?}"
    );
    // In the map, too.
    let page = Page::of(&told(&trace, &[]));
    let threads =
        page.story["owners"].as_array().unwrap().iter().filter_map(|owner| owner["thread"].as_str());
    assert!(threads.clone().all(|name| name == "dd") && threads.count() > 0);
}
