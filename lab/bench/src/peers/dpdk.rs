//! DPDK's `rte_mempool` with per-core caches of 512 objects, and its `rte_ring`. Their fast paths are inlined C, so the
//! loops must be C too: a small program is compiled for each when a benchmark starts, if there are a C compiler,
//! pkg-config and DPDK. Building Pageyard needs none of them.

use super::remote::Remote;
use crate::harness::subject::Subject;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The source of the programs.
const SOURCE: &str = include_str!("dpdk.c");

/// A peer: the name of its rows, and what the compiler is told.
pub(super) struct Dpdk {
    pub name: &'static str,
    flag: &'static str,
}

/// A pool with caches.
pub(super) const MEMPOOL: Dpdk = Dpdk { name: "rte_mempool-512", flag: "-DMEMPOOL" };

/// A ring that any number of threads take from and give to.
pub(super) const RING: Dpdk = Dpdk { name: "rte_ring", flag: "-DRING" };

/// Compiles a peer's program and starts it on these CPUs.
pub(super) fn start(peer: &Dpdk, cpus: &[usize]) -> Result<Box<dyn Subject>, String> {
    let folder = tempfile::tempdir().map_err(|e| format!("no folder for its program: {e}"))?;
    let program = compile(peer, folder.path().to_owned())?;
    let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
    // No huge pages and no devices: nothing on the host is needed or changed. Frames are not touched.
    let mut command = Command::new(program);
    command.args([
        "-l",
        &list.join(","),
        "--no-huge",
        "-m",
        "512",
        "--no-pci",
        "--no-shconf",
        "--no-telemetry",
    ]);
    command.args(["--log-level", "1"]);
    // The folder goes once the program runs.
    Ok(Box::new(Remote::start(peer.name, true, cpus.len(), &mut command)?))
}

fn compile(peer: &Dpdk, folder: PathBuf) -> Result<PathBuf, String> {
    let flags = pkg_config(&["--cflags", "libdpdk"])?;
    let libraries = pkg_config(&["--variable=libdir", "libdpdk"])?;
    let (source, program) = (folder.join("dpdk.c"), folder.join("dpdk"));
    fs::write(&source, SOURCE).map_err(|e| format!("its program cannot be written: {e}"))?;
    let mut cc = Command::new("cc");
    cc.args(["-O3", "-march=native", "-w", peer.flag, "-o"])
        .arg(&program)
        .arg(&source)
        .args(flags.split_whitespace());
    cc.arg(format!("-L{}", libraries.trim()));
    // The driver of the ring registers itself when it is loaded, and nothing names it.
    cc.args([
        "-Wl,--no-as-needed",
        "-lrte_eal",
        "-lrte_mempool",
        "-lrte_ring",
        "-lrte_mempool_ring",
        "-lpthread",
    ]);
    let out = output(&mut cc, "cc")?;
    if !out.status.success() {
        let text = String::from_utf8_lossy(&out.stderr);
        return Err(format!("its program does not compile: {}", text.lines().next().unwrap_or("cc failed")));
    }
    Ok(program)
}

fn pkg_config(arguments: &[&str]) -> Result<String, String> {
    let out = output(Command::new("pkg-config").args(arguments), "pkg-config")?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err("DPDK is not installed (Debian: apt-get install libdpdk-dev)".into())
}

fn output(command: &mut Command, name: &str) -> Result<Output, String> {
    command.output().map_err(|_| format!("{name} is not installed, and the peer's program must be compiled"))
}
