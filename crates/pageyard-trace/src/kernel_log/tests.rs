use super::*;

fn read(text: &str) -> KernelLog {
    KernelLog::read("log", text.as_bytes()).unwrap()
}

#[test]
fn a_failure_of_linux_6_12_is_read() {
    let log = read(SEED);
    let [failure] = &log.failures[..] else { panic!("{log:?}") };
    assert_eq!(failure.kernel.as_deref(), Some("6.12.117+deb12-cloud-amd64"));
    assert_eq!((failure.counter("inactive_file"), failure.counter("free")), (Some(110_980), Some(658)));
    let [zone] = &failure.zones[..] else { panic!("{failure:?}") };
    assert_eq!((zone.free, zone.boost, zone.min, zone.low, zone.high), (233, 512, 608, 722, 836));
    assert_eq!((zone.highatomic, zone.managed, zone.pcp), (1536, 114_912, 142));
    assert_eq!(zone.blocks, [7, 5, 4, 1, 0, 0, 1, 1, 0, 0, 0]);
    assert_eq!((zone.types[0].as_str(), zone.types[2].as_str(), zone.types[4].as_str()), ("H", "UH", ""));
    assert_eq!(zone.protection, [0, 0, 16, 0, 0]);
    assert_eq!(failure.pools, [LoggedPool { node: 0, frames: 512, total: 4, free: 3 }]);
    assert_eq!((failure.swap, failure.frame_kib, failure.is_cut), (Some((10, 20)), Some(4), false));
}

#[test]
fn several_failures_are_told_apart() {
    let other = SEED.replace("order:3", "order:0").replace("init:", "kswapd0:");
    let log = read(&format!("noise\n{SEED}more noise\n{other}"));
    assert_eq!(log.count, 2);
    assert_eq!(log.failures.iter().map(|f| (f.line, f.request.order)).collect::<Vec<_>>(), [(2, 3), (16, 0)]);
    assert_eq!(log.failures[0].zones, log.failures[1].zones);
}

#[test]
fn a_line_in_pieces_is_put_together() {
    let broken = SEED
        .replace(
            "Node 0 DMA32: 7*4kB (H) 5*8kB (H) ",
            "Node 0 DMA32: \n[    9.4] 7*4kB (H) 5*8kB \n[    9.4] (H) ",
        )
        .replace("[]: 0 0 16", "[]:\n[    9.4]  0 0 16");
    assert_eq!(read(&broken).failures[0].zones, read(SEED).failures[0].zones);
}

#[test]
fn frames_of_64_kib_and_kernels_without_nodes_are_read() {
    let text = "x: page allocation failure: order:1, mode:0x20\nNormal free:640kB min:128kB low:192kB high:256kB present:6400kB\n\
                Normal: 2*64kB (U) 4*128kB (M) = 640kB\n";
    let log = read(text);
    let zone = &log.failures[0].zones[0];
    assert_eq!((zone.free, zone.min, zone.managed), (10, 2, 100));
    assert_eq!(zone.blocks, [2, 4]);
}

#[test]
fn what_is_no_log_is_refused_in_a_sentence() {
    let refused = |bytes: &[u8]| {
        let why = KernelLog::read("a.txt", bytes).unwrap_err().to_string();
        assert_eq!(why.lines().count(), 1);
        why
    };
    assert!(refused(b"hello\n").contains("has no report of an allocation that failed"));
    assert!(refused(b"").contains("has no report of an allocation that failed"));
    assert!(refused(b"\x1f\x8b\x08\0\0\0").contains("it is no text"));
    assert!(refused(&[b'x'; 100_000]).contains("has no"));
    struct Endless;
    impl Read for Endless {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            to.fill(b'x');
            if let Some(last) = to.last_mut() {
                *last = b'\n';
            }
            Ok(to.len())
        }
    }
    let why = KernelLog::read("endless", Endless).unwrap_err().to_string();
    assert!(why.contains("more than 256 MiB"), "{why}");
}

#[test]
fn a_failure_keeps_no_more_than_a_kernel_says() {
    let first = "x: page allocation failure: order:1, mode:0x20\nRIP: 0010:x\nMem-Info:\n";
    let counters: String = (0..1000u64).map(|n| format!("c{}:1\n", "x".repeat(n as usize % 30))).collect();
    let pools = "Node 0 hugepages_total=4 hugepages_free=3 hugepages_size=2048kB\n".repeat(5000);
    let zones: String = (0..=255).map(|node| format!("Node {node} Normal free:4kB min:0kB\n")).collect();
    let log = read(&format!("{first}{counters}{pools}{zones}"));
    let failure = &log.failures[0];
    assert!(failure.counters.len() <= memory::MAX_COUNTERS && failure.counter("cxx") == Some(1));
    assert_eq!((failure.pools.len(), failure.zones.len()), (memory::MAX_ZONES, 256));
    // Nor do all failures together, of which the latest are kept.
    let log = read(&format!("{first}{zones}").repeat(900));
    assert_eq!((log.count, log.failures.len()), (900, MOST_ZONES / 256));
    let one = "x: page allocation failure: order:1, mode:0x20\n";
    let log = read(&one.repeat(MOST_KEPT + 5));
    assert_eq!((log.count, log.failures.len()), (MOST_KEPT as u64 + 5, MOST_KEPT));
    assert_eq!(log.failures[0].line, 6);
}

#[test]
fn reports_of_two_cpus_that_mix_are_told_apart_or_share_their_memory() {
    let (a, b) = (SEED, SEED.replace("init:", "cc1:").replace("932kB boost", "2048kB boost"));
    let mixed = |caller: fn(u8) -> String| {
        let pairs = a.lines().zip(b.lines());
        let line = |cpu, line: &str| line.replacen("[    9.4]", &format!("[    9.4]{}", caller(cpu)), 1);
        read(&pairs.map(|(a, b)| format!("{}\n{}\n", line(0, a), line(1, b))).collect::<String>())
    };
    let named = mixed(|cpu| format!("[   C{cpu}]"));
    assert_eq!(named.failures.iter().map(|f| f.zones[0].free).collect::<Vec<_>>(), [233, 512]);
    let nameless = mixed(|_| String::new());
    assert_eq!(
        nameless.failures.iter().map(|f| f.request.comm.as_str()).collect::<Vec<_>>(),
        ["init", "cc1"]
    );
    for failure in &nameless.failures {
        assert_eq!((failure.zones.len(), failure.zones[0].blocks.len()), (1, 11), "{failure:?}");
    }
}

#[test]
fn a_report_is_read_however_a_logger_or_a_mail_hands_it_on() {
    let zones = read(SEED).failures[0].zones.clone();
    for (what, text) in [
        (
            "one line of syslog",
            format!("Nov 23 12:58:43 h kernel: {}\n", SEED.trim_end().replace('\n', "#012")),
        ),
        ("a quoted mail", SEED.lines().map(|line| format!("> > {line}\n")).collect()),
        ("lines cut at 72 columns", wrapped(SEED, 72, "\n")),
        ("quoted printable", wrapped(SEED, 72, "=\n")),
        ("colours", SEED.replace("[    9.4]", "\u{1b}[32m[    9.4]\u{1b}[0m")),
        ("a NUL byte", SEED.replacen("Mem-Info", "\0\0Mem-Info", 1)),
        ("ISO times", SEED.replace("[    9.4]", "2026-11-23T12:58:43,123456+00:00")),
    ] {
        let log = read(&text);
        assert_eq!((log.count, &log.failures[0].zones), (1, &zones), "{what}\n{text}");
        assert_eq!(log.failures[0].request.order, 3, "{what}");
    }
}

/// Breaks lines, words only where a mark stands for the break.
fn wrapped(text: &str, columns: usize, end: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut column = 0;
        for (n, word) in line.split(' ').enumerate() {
            if n > 0 && column + word.len() > columns {
                out += if end == "\n" { " \n" } else { " =\n" };
                column = 0;
            } else if n > 0 {
                out.push(' ');
            }
            out += word;
            column += word.len() + 1;
        }
        out.push('\n');
    }
    out
}

#[test]
fn what_is_missing_of_a_report_is_not_made_up() {
    // No size of a frame, so no zones.
    let text =
        "x: page allocation failure: order:3, mode:0x20\nNode 0 Normal free:9320kB min:2432kB low:2888kB\n";
    let log = read(text);
    assert!(
        log.failures[0].zones.is_empty() && log.failures[0].frame_kib.is_none() && log.failures[0].is_cut
    );
    // Blocks alone.
    let text = "x: page allocation failure: order:3, mode:0x20\nNode 0 Normal: 10*4kB (UM) 3*8kB (M) 0*16kB = 64kB\n";
    let log = read(text);
    let zone = &log.failures[0].zones[0];
    assert_eq!((zone.has_marks, zone.free, &zone.blocks[..]), (false, 16, &[10, 3, 0][..]));
}

#[test]
fn a_group_at_its_limit_is_not_the_host() {
    let text = "java invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
                memory: usage 524288kB, limit 524288kB, failcnt 83\n\
                oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/pod/a,task=java\n\
                Memory cgroup out of memory: Killed process 42 (java) total-vm:1kB\n";
    let log = read(text);
    assert_eq!(log.count, 1);
    let group =
        LoggedKind::Group { name: "/pod/a".to_owned(), usage_kib: Some(524_288), limit_kib: Some(524_288) };
    assert_eq!(log.failures[0].request.kind, group);
}

#[test]
fn a_cache_that_cannot_grow_is_a_report_of_one_line() {
    let slub = "SLUB: Unable to allocate memory on node -1, gfp=0xa20(GFP_ATOMIC)\ncache: ext4_io_end, object size: 64, buffer size: 64, default order: 1, min order: 0\n";
    let (head, tail) = SEED.split_at(SEED.find("[    9.4] lowmem").unwrap());
    let log = read(&format!("{head}{slub}{tail}"));
    assert_eq!(log.count, 2);
    assert_eq!(log.failures[0].zones, read(SEED).failures[0].zones);
    assert_eq!(log.failures[1].request.kind, LoggedKind::Slab { cache: "ext4_io_end".to_owned() });
}

#[test]
fn a_report_without_a_first_line_can_be_gone_when_one_would_take_its_memory() {
    let late = "Mem-Info:#012RIP: 0#012Node 0 Normal free:4kB min:0kB#012";
    let bare = "x: page allocation failure: order:0, mode:0x20#012";
    let crowd = "vmap allocation for size 4096 failed: use vmalloc=#012".repeat(MOST_KEPT + 5);
    let log = read(&format!("{late}{bare}{crowd}"));
    assert_eq!((log.count, log.failures.len()), (MOST_KEPT as u64 + 6, MOST_KEPT));
    // Where it is there, it is one report.
    let log = read(&format!("{late}{bare}"));
    assert_eq!((log.count, log.failures[0].zones.len()), (1, 1));
}

#[test]
fn each_process_that_is_killed_counts() {
    let first = "a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n";
    let killed = "Out of memory: Killed process 42 (a) total-vm:1kB\n";
    assert_eq!(read(&format!("{first}{killed}{killed}{killed}")).count, 3);
}

#[test]
fn what_a_log_says_cannot_command_the_terminal() {
    let log = read(&SEED.replace("init: page", "a\u{7}\u{9b}2J: page"));
    assert_eq!(log.failures[0].request.comm, "a\\u{7}\\u{9b}2J");
}

#[test]
fn what_is_free_of_the_high_atomic_reserve_counts_where_it_is_printed() {
    let of = |text: &str| KernelLog::read("log", text.as_bytes()).unwrap().failures[0].zones[0].highatomic;
    assert_eq!(of(SEED), 1536);
    let newer =
        SEED.replace("reserved_highatomic:6144KB", "reserved_highatomic:6144KB free_highatomic:400KB");
    assert_eq!(of(&newer), 100);
}
