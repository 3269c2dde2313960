//! The summary of a host, from files that stand in for `/proc`.

use std::fs;
use std::path::Path;

use pageyard_record::HostSummary;
use pageyard_record::host::{Answer, AskedFor, BuddyMarks, Spoiler, capture};
use pageyard_trace::FrameKind;

const BUDDY: u64 = 1 << 10;
const SLAB: u64 = 1 << 7;
const ANON_LRU: u64 = 1 << 12 | 1 << 5;

fn write_host(folder: &Path) {
    let file = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    file("buddyinfo", "Node 0, zone   Normal   4   2   1   0   0   0   0   0   0   1   0\n");
    file(
        "zoneinfo",
        "Node 0, zone   Normal\n  pages free     524\n        boost    0\n        min      8\n        low      10\n\
         \x20       high     12\n        spanned  2048\n        present  2048\n        managed  2000\n\
         \x20       protection: (0, 0)\n  pagesets\n    cpu: 0\n              count: 5\n  start_pfn: 0\n",
    );
    file("vmstat", "compact_stall 3\ncompact_fail 2\nballoon_inflate 300\nballoon_deflate 40\n");
    file("meminfo", "MemTotal: 8000 kB\nKernelStack: 64 kB\nVmallocUsed: 96 kB\n");
    file(
        "pagetypeinfo",
        "Page block order: 9\nPages per block:  512\n\nNumber of blocks type     Unmovable      Movable\n\
         Node 0, zone   Normal            1            3\n",
    );
    file(
        "slabinfo",
        "slabinfo - version: 2.1\n# name\n\
         dentry  20  42  192  21  1 : tunables 0 0 0 : slabdata 2 2 0\n\
         kmalloc-8k  3  4  8192  4  8 : tunables 0 0 0 : slabdata 1 1 0\n",
    );
    file(
        "vmallocinfo",
        "0x1-0x2 20480 kernel_clone+0x94/0x3e0 pages=4 vmalloc N0=4\n\
         0x2-0x3 20480 unpurged vm_area\n0x3-0x4 20480 kernel_clone+0x94/0x3e0 pages=4 vmalloc N0=4\n",
    );
    let mut words = vec![BUDDY; 512];
    words.extend([ANON_LRU; 508]);
    words.extend([BUDDY; 4]);
    words.extend([ANON_LRU; 511]);
    words.push(SLAB);
    words.extend([0; 512]);
    fs::write(folder.join("kpageflags"), words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>())
        .unwrap();
}

#[test]
fn a_host_that_lets_everything_be_read() {
    let folder = tempfile::tempdir().unwrap();
    write_host(folder.path());
    let host = HostSummary::collect_from(folder.path(), AskedFor::Kernel).unwrap();
    assert_eq!(host.not_read, [""; 0]);
    let frames = host.frames.unwrap();
    assert_eq!(frames[FrameKind::Free.index()], 516);
    assert_eq!(frames[FrameKind::Anon.index()], 508 + 511);
    let blocks = host.pageblocks.unwrap();
    for (spoiler, n) in
        [(Spoiler::Free, 1), (Spoiler::Movable, 1), (Spoiler::Slab, 1), (Spoiler::WhollyOther, 1)]
    {
        assert_eq!(blocks.count(spoiler), n, "{spoiler:?}");
    }
    let answers = host.answers();
    assert_eq!(answers[..9], [Answer::Succeeds; 9]);
    assert_eq!(answers[9..], [Answer::Succeeds, Answer::LacksMemory]);
    let zone = &host.zones[0];
    assert_eq!((zone.watermarks.unwrap().min, zone.watermarks.unwrap().pcp), (8, 5));
    let json = host.json();
    assert_eq!(json["pageblocks"]["slab"], 1);
    assert_eq!(json["orders"][10], "lacks_memory");
    assert_eq!(json["counters"]["compact_stall"], 3);
    assert_eq!(json["free_frames_exact"], true);
    let other = &json["other_frames"];
    assert_eq!(
        (&other["balloon"], &other["kernel_stacks"], &other["pcp"]),
        (&260.into(), &16.into(), &5.into())
    );
    assert_eq!(other["unaccounted"], 512 - 260 - 16 - 8 - 5);
    assert!(json["orders_are_for"].as_str().unwrap().starts_with("GFP_KERNEL"));
    assert!(!json.to_string().contains("null"));
    // 508 of 1,019 frames fit into the free frames that their own pageblock and the one of slab have.
    let zone = &json["compactable"]["zones"][0];
    assert_eq!((&zone["free_pageblocks"], &zone["movable_pageblocks"]), (&1.into(), &1.into()));
    assert_eq!(
        (&zone["won_pageblocks"], &json["compactable"]["total"]["then_free_pageblocks"]),
        (&0.into(), &1.into())
    );
    let cache = &json["slab_caches"]["largest"][0];
    assert_eq!((&cache["name"], &cache["frames"]), (&"kmalloc-8k".into(), &8.into()));
    assert_eq!((&cache["objects_in_use"], &cache["objects"]), (&3.into(), &4.into()));
    let caller = &json["vmalloc_callers"]["largest"][0];
    assert_eq!((&caller["caller"], &caller["frames"]), (&"kernel_clone".into(), &8.into()));
    assert_eq!(json["counted_frames"]["ballooned"], 260);
    let text = host.to_string();
    assert!(text.contains("kmalloc-8k") && text.contains("kernel_clone"), "{text}");
    assert!(text.contains("ballooned: lent to the hypervisor") && text.contains("unaccounted"), "{text}");
    assert!(text.contains("GFP_KERNEL"), "{text}");
    assert!(text.contains("slab: the kernel's object caches") && !text.contains("Not read"), "{text}");
}

#[test]
fn another_kind_of_request_gets_another_answer() {
    let folder = tempfile::tempdir().unwrap();
    write_host(folder.path());
    // With 15 frames free, an ordinary request must leave 16, an urgent one six.
    let zoneinfo = fs::read_to_string(folder.path().join("zoneinfo")).unwrap();
    fs::write(
        folder.path().join("zoneinfo"),
        zoneinfo.replace("free     524", "free     15").replace("min      8", "min      16"),
    )
    .unwrap();
    let of = |asked| HostSummary::collect_from(folder.path(), asked).unwrap();
    assert_eq!(of(AskedFor::Kernel).answers()[0], Answer::LacksMemory);
    assert_eq!(of(AskedFor::Atomic).answers()[..4], [[Answer::Succeeds; 4]].concat());
    let urgent = of(AskedFor::Atomic);
    assert!(urgent.json()["orders_are_for"].as_str().unwrap().starts_with("GFP_ATOMIC"));
    assert!(urgent.to_string().contains("(GFP_ATOMIC: "));
}

#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    write_host(folder.path());
    fs::File::create(folder.path().join("vmallocinfo")).unwrap().set_len(1 << 40).unwrap();
    fs::remove_file(folder.path().join("slabinfo")).unwrap();
    let host = HostSummary::collect_from(folder.path(), AskedFor::Kernel).unwrap();
    assert!(host.vmalloc.is_none() && host.slab.is_none());
    assert!(host.not_read[0].ends_with("so this is left out: the largest object caches."), "{host}");
    assert!(
        host.not_read[1].contains("vmallocinfo cannot be read: it has more than 64 MiB of text"),
        "{host}"
    );
    assert!(!host.json().to_string().contains("null"));
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_said() {
    let folder = tempfile::tempdir().unwrap();
    write_host(folder.path());
    fs::remove_file(folder.path().join("kpageflags")).unwrap();
    fs::write(folder.path().join("zoneinfo"), "Node 0, zone Normal\n  pages free x\n").unwrap();
    let host = HostSummary::collect_from(folder.path(), AskedFor::Kernel).unwrap();
    assert_eq!(host.zones.len(), 1);
    assert!(host.zones[0].watermarks.is_none() && host.answers().is_empty());
    assert_eq!(
        host.not_read[0],
        "zoneinfo, line 2: `x` is not a number, so this is left out: watermarks, and which orders would fail."
    );
    assert!(host.not_read[1].contains("kpageflags cannot be read: No such file or directory"));
    assert!(host.to_string().contains("Not read"));
    assert!(!host.json().to_string().contains("null"));
}

#[test]
fn a_folder_with_nothing_in_it_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = HostSummary::collect_from(folder.path(), AskedFor::Kernel).unwrap_err().to_string();
    assert!(error.ends_with("this needs Linux with /proc mounted"), "{error}");
}

#[test]
fn the_running_host_is_described() {
    let host = HostSummary::collect(AskedFor::Kernel).unwrap();
    assert!(!host.zones.is_empty() && !host.answers().is_empty());
    assert!(!host.json().to_string().contains("null"));
    let picture = match capture(Path::new("/proc/kpageflags")) {
        Ok(picture) => picture,
        Err(e) => return println!("skipped for the frames: {e}"),
    };
    // The lists change between the two readings, by less than half unless the host is under great pressure.
    let free = picture.snapshot.frames(FrameKind::Free);
    let listed: u64 = host.zones.iter().map(|z| z.fragmentation.free_frames).sum();
    println!("{free} frames marked free, {listed} in the lists");
    if picture.marks == BuddyMarks::EveryFrame {
        assert!(free.abs_diff(listed) < listed / 2 + 10_000, "{free} and {listed}");
    }
}
