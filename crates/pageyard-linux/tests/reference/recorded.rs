//! Golden tests from recorded hosts: managed frames and `min_free_kbytes` give the watermarks, the reserves, and the
//! sizes of per-CPU lists that their kernels printed.

use pageyard_core::{
    CpuId, Frames, MemoryMap, NodeId, PageAllocator, Pfn, Region, ZoneId, ZoneKind, proctext,
};
use pageyard_linux::{Config, LinuxAllocator};
use pageyard_trace::proctext::{Buddyinfo, Pagetypeinfo, Zoneinfo, ZoneinfoZone};
use pageyard_trace::{Meta, Trace};
use std::path::Path;

fn recordings() -> Vec<Meta> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for name in ["build", "fork", "net", "net-order0", "pressure"] {
        let places = [root.join("data/traces"), root.join("../shared/data/traces")];
        let found = places.iter().map(|p| p.join(format!("{name}.trace"))).find(|p| p.is_dir());
        match found {
            Some(path) => all.push(Trace::open(&path).unwrap().meta().clone()),
            None => {
                println!("skipped {name}: the recording is not here (it does not ship with the repository)")
            }
        }
    }
    assert!(all.len() >= 2, "two recordings ship with the repository");
    all
}

/// Lays a recorded zone out with as many managed frames as it had; where they lie does not matter here.
fn regions(zone: &ZoneinfoZone) -> [Region; 2] {
    let start = zone.start_pfn.unwrap();
    let managed = Region::managed(
        Pfn(start),
        Frames(zone.managed),
        NodeId(zone.node),
        ZoneKind::from_name(&zone.name).unwrap(),
    );
    let rest = Region {
        start: managed.end(),
        frames: Frames(zone.present - zone.managed),
        managed: false,
        ..managed
    };
    [managed, rest]
}

fn populated(info: &Zoneinfo) -> impl Iterator<Item = &ZoneinfoZone> {
    info.zones.iter().filter(|z| z.managed > 0)
}

fn host(info: &Zoneinfo, config: &Config, cpus: u32) -> LinuxAllocator {
    let regions: Vec<Region> = populated(info).flat_map(regions).collect();
    let config = Config { cpus, ..config.clone() };
    LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), &config).unwrap()
}

#[test]
fn watermarks_reserves_and_lists_are_the_recorded_ones() {
    for meta in recordings() {
        for texts in [meta.before.as_ref().unwrap(), meta.after.as_ref().unwrap()] {
            let info = Zoneinfo::parse(&texts.zoneinfo).unwrap();
            // What the kernel computes by itself with huge pages on: 11 pageblocks for each of three zones.
            let mut config = Config::linux_6_18();
            config.set("min_free_kbytes", "67584").unwrap();
            for config in [Config::linux_6_18(), config] {
                let a = host(&info, &config, meta.cpus);
                for (id, zone) in populated(&info).enumerate() {
                    let id = ZoneId(id as u16);
                    let z = a.zone_stats(id).unwrap();
                    let marks = z.watermarks;
                    let boost = zone.boost;
                    assert_eq!(
                        [marks.min.0, marks.low.0, marks.high.0, marks.promo.0].map(|m| m + boost),
                        [zone.min, zone.low, zone.high, zone.promo.unwrap()],
                        "{}",
                        zone.name
                    );
                    assert_eq!(z.protection.map(|p| p.0).to_vec(), zone.protection, "{}", zone.name);
                    for set in &zone.pagesets {
                        let p = a.pcp_stats(id, CpuId(set.cpu)).unwrap();
                        assert_eq!(p.batch, set.batch, "{}", zone.name);
                        assert_eq!(Some(p.high_min), set.high_min, "{}", zone.name);
                        assert_eq!(Some(p.high_max), set.high_max, "{}", zone.name);
                    }
                }
            }
        }
    }
}

#[test]
fn older_kernels_size_the_same_zones_by_their_own_rules() {
    let meta = &recordings()[0];
    let info = Zoneinfo::parse(&meta.before.as_ref().unwrap().zoneinfo).unwrap();
    let normal = ZoneId(2);
    for (name, batch, high) in
        [("linux-4.6", 31, 186), ("linux-4.10", 31, 186), ("linux-5.10", 63, 378), ("linux-6.1", 63, 7859)]
    {
        let a = host(&info, &Config::preset(name).unwrap(), meta.cpus);
        let p = a.pcp_stats(normal, CpuId(0)).unwrap();
        assert_eq!((p.batch, p.high, p.high_max), (batch, high, high), "{name}");
    }
}

/// The texts that the reference prints are read back by the parsers of recorded texts, and say the same.
#[test]
fn the_texts_it_prints_are_linuxs() {
    let meta = &recordings()[0];
    let recorded = meta.before.as_ref().unwrap();
    let info = Zoneinfo::parse(&recorded.zoneinfo).unwrap();
    let a = host(&info, &Config::linux_6_18(), meta.cpus);

    let text = proctext::Buddyinfo(&a).to_string();
    let rows = Buddyinfo::parse(&text).unwrap();
    for (row, z) in rows.zones.iter().zip(0..) {
        let stats = a.zone_stats(ZoneId(z)).unwrap();
        assert_eq!(row.name, stats.span.kind.name());
        assert_eq!(row.counts, proctext::linux_orders(&stats.blocks_by_order()));
        assert_eq!(pageyard_core::metrics::free_frames(&row.counts), stats.free.0);
    }
    let layout =
        |line: &str| line.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect::<String>();
    let skeleton = |text: &str| layout(text.lines().next().unwrap()).replace('9', " ");
    assert_eq!(skeleton(&text), skeleton(&recorded.buddyinfo), "the columns stand where Linux puts them");

    let text = proctext::Pagetypeinfo(&a).to_string();
    let parsed = Pagetypeinfo::parse(&text).unwrap();
    assert_eq!(parsed.zones.len(), 3);
    let heads =
        |text: &str| text.lines().filter(|l| !l.starts_with("Node")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(heads(&text), heads(&recorded.pagetypeinfo), "all lines without numbers are the same");

    let parsed = Zoneinfo::parse(&proctext::Zoneinfo(&a).to_string()).unwrap();
    for (ours, theirs) in parsed.zones.iter().zip(populated(&info)) {
        assert_eq!((ours.min, ours.low, ours.high), (theirs.min, theirs.low, theirs.high));
        assert_eq!((ours.managed, ours.start_pfn), (theirs.managed, theirs.start_pfn));
        assert_eq!(ours.protection, theirs.protection);
        assert_eq!(ours.pagesets.len(), theirs.pagesets.len());
    }
    let vmstat = proctext::Vmstat(&a).to_string();
    assert!(
        vmstat.lines().all(|l| l.split(' ').count() == 2) && vmstat.starts_with("nr_free_pages "),
        "{vmstat}"
    );
}
