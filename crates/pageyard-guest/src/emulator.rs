//! The emulator's command.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Every guest's kernel command line. A busy host delays the emulated timer, which the kernel would otherwise take
/// for a broken one (`no_timer_check`).
const WORDS: &str =
    "console=ttyS0 quiet panic=-1 nowatchdog rcupdate.rcu_cpu_stall_suppress=1 tsc=reliable no_timer_check";

/// Returns a command that lacks the machine, memory and CPUs. `words` are added to the kernel's command line; the first
/// serial line is the guest's console and goes to a file.
#[must_use]
pub fn command(kernel: &Path, initrd: &Path, words: &str, console: &Path) -> Command {
    // A guest that holds its CPUs would run on for ever. It ends with the thread that started it, however that ends.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "qemu-system-x86_64", "-cpu", "max"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initrd)
        .args(["-append", format!("{WORDS} {words}").trim_end()])
        .args(["-display", "none", "-nodefaults", "-no-reboot", "-serial"])
        .arg(joined("file:", console, ""))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// How a guest uses a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It reads only.
    ReadOnly,
    /// It writes, and the host may lose what it wrote.
    Written,
}

/// Returns the arguments of a disk: `/dev/vda` for the first one.
#[must_use]
pub fn disk(file: &Path, access: Access) -> [OsString; 2] {
    let access = match access {
        Access::ReadOnly => "readonly=on",
        Access::Written => "cache=unsafe",
    };
    ["-drive".into(), joined("file=", file, &format!(",format=raw,if=virtio,{access}"))]
}

/// Returns the arguments of a memory node, and of the CPUs on it.
#[must_use]
pub fn node(number: usize, mib: u32, cpus: Option<u32>) -> [String; 4] {
    let cpus = cpus.map_or_else(String::new, |cpus| format!(",cpus={cpus}"));
    [
        "-object".into(),
        format!("memory-backend-ram,id=m{number},size={mib}M"),
        "-numa".into(),
        format!("node,nodeid={number}{cpus},memdev=m{number}"),
    ]
}

fn joined(before: &str, path: &Path, after: &str) -> OsString {
    let mut joined = OsString::from(before);
    joined.push(path);
    joined.push(after);
    joined
}
