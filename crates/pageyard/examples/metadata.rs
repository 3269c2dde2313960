//! Prints how many bytes of metadata a frame takes, for several sizes of machine and numbers of CPUs.
//!
//! `cargo run -p pageyard --example metadata`

use pageyard::{Config, FirmwareMap, MapError, Pageyard, TryLock, ZoneLimits};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("| memory | without lists | 1 CPU | 2 CPUs | 64 CPUs |\n|---|---|---|---|---|");
    for (name, bytes) in
        [("1 GiB", 1 << 30), ("2 GiB", 2 << 30), ("64 GiB", 64 << 30), ("1 TiB", 1_u64 << 40)]
    {
        let mut firmware = FirmwareMap::<4>::new(ZoneLimits::NONE);
        let regions = firmware.usable(0..bytes)?.regions()?;
        let per_frame = |config: Config| -> Result<(f64, usize), MapError> {
            let size = Pageyard::<TryLock>::layout(&regions.map(), &config)?.layout.size();
            Ok((size as f64 * 4096.0 / bytes as f64, size))
        };
        let (without, size) = per_frame(Config { pcp: false, ..Config::new(1) })?;
        assert!(without < 1.5, "{without} bytes a frame for the frames alone");
        print!("| {name} | {without:.2} ({})", mib(size));
        for cpus in [1, 2, 64] {
            let (with, size) = per_frame(Config::new(cpus))?;
            assert!(with > without, "lists take memory");
            print!(" | {with:.2} ({})", mib(size));
        }
        println!(" |");
    }
    Ok(())
}

fn mib(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
