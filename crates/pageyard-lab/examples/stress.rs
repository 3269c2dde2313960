use pageyard::{Counter, MemoryMap};
use pageyard_lab::workload::stress::*;
use pageyard_lab::workload::*;
use pageyard_linux::{Config, LinuxAllocator};
use pageyard_trace::Trace;
fn main() {
    let mut s = Settings::study();
    let mut knobs = vec![];
    let mut tr = "data/traces/build.trace".to_string();
    let mut phases = Phases::Three;
    let mut seeds = 1u64;
    for a in std::env::args().skip(1) {
        let (k, v) = a.split_once('=').unwrap();
        match k {
            "mem" => s.memory = v.parse::<u64>().unwrap() << 20,
            "jobs" => s.shape.jobs = v.parse().unwrap(),
            "share" => s.share = v.parse().unwrap(),
            "tick" => s.shape.compactor_ns = v.parse::<u64>().unwrap() * 1000000,
            "writeback" => s.shares.writeback = v.parse().unwrap(),
            "reused" => s.shares.reused = v.parse().unwrap(),
            "slab" => s.slab = v.parse().unwrap(),
            "locked" => s.shares.locked = v.parse().unwrap(),
            "rounds" => s.rounds = v.parse().unwrap(),
            "pins" => s.shares.pins = v.parse().unwrap(),
            "trace" => tr = v.into(),
            "settle" => s.settle = v.parse().unwrap(),
            "phases" => phases = Phases::UnderLoad(v.parse().unwrap()),
            "seeds" => seeds = v.parse().unwrap(),
            _ => knobs.push((k.to_string(), v.to_string())),
        }
    }
    let trace = LoadTrace::read(&Trace::open(tr.as_ref()).unwrap(), &s.shape).unwrap();
    eprintln!("{:?} {:?} attempts {}", trace.allocates(), trace.duration_ns(), s.attempts());
    for name in ["patch2", "patch3", "patch4"] {
        for seed in 1..=seeds {
            let mut c = Config::linux_4_6();
            c.set("compaction.last_migrated_drain", "true").unwrap();
            if name != "patch2" {
                c.set("compaction.skip_on_failure", "direct_async").unwrap();
            }
            if name == "patch4" {
                c.set("compaction.direct_free", "direct_async").unwrap();
            }
            for (k, v) in &knobs {
                c.set(k, v).unwrap();
            }
            let regions = s.regions();
            let map = MemoryMap::new(&regions).unwrap();
            let e = LinuxAllocator::new(&map, &c).unwrap();
            let t = std::time::Instant::now();
            let r = run(&e, &trace, &s, phases, seed).unwrap();
            println!(
                "{name} seed {seed} success {:?} user {:.2} sys {:.2} elapsed {:.2} all {:.2} leaked {} audit {}",
                r.phases.iter().map(|p| (p.success() * 10.0).round() / 10.0).collect::<Vec<_>>(),
                r.user_s,
                r.system_s,
                r.elapsed_s,
                t.elapsed().as_secs_f64(),
                r.leaked,
                r.audit.is_ok()
            );
            println!("  held {:?} pinned {} load {:?}", r.held_before, r.pinned_before, r.load);
            println!(
                "  stalls ns p50 {} p99 {} max {}",
                r.stalls_ns.value_at_quantile(0.5),
                r.stalls_ns.value_at_quantile(0.99),
                r.stalls_ns.max()
            );
            for p in &r.phases {
                println!(
                    "  frag: refused {} free {} u4 {:.3} u9 {:.3} spoiled {:.3}",
                    p.fragmented,
                    p.after.free,
                    p.after.unusable_index[4],
                    p.after.unusable_index[9],
                    p.after.spoiled
                );
            }
            use Counter::*;
            for c in [
                Allocstall,
                PgscanDirect,
                PgstealDirect,
                PgscanKswapd,
                PgstealKswapd,
                CompactStall,
                CompactSuccess,
                CompactFail,
                PgmigrateSuccess,
                PgmigrateFail,
                CompactIsolated,
                CompactMigrateScanned,
                CompactFreeScanned,
                CompactFreeDirectAlloc,
                CompactFreeDirectMiss,
                CompactDaemonWake,
                CompactDeferred,
                CompactDrain,
                CompactAbandoned,
                CompactSkipped,
            ] {
                print!(" {}={}", c.name(), r.counters[c]);
            }
            println!();
        }
    }
}
