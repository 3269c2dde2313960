//! Three network namespaces in a row, joined by two pairs of virtual devices.
//!
//! ```text
//! source ── veth ── router ── veth ── sink
//!   from0 ── in0     out0 ── to0
//! ```
//!
//! The namespaces have no name: this process and its children hold them by descriptors alone. When the last of them
//! ends, in whatever way, the kernel removes the namespaces with the devices in them, so nothing is left behind, and
//! two runs never meet.

use crate::failure::Failure;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::process::{Command, Stdio};

/// The device that packets leave the source by.
pub const FROM: &str = "from0";
/// The router's device towards the source.
pub const IN: &str = "in0";
/// The router's device towards the sink.
pub const OUT: &str = "out0";
/// The sink's device.
pub const TO: &str = "to0";

/// A network namespace.
pub struct Namespace(OwnedFd);

impl Namespace {
    /// Opens the calling thread's.
    fn current() -> Result<Namespace, Errno> {
        let path = "/proc/thread-self/ns/net";
        open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(Namespace)
    }

    /// Makes a new one and moves the calling thread into it.
    fn new() -> Result<Namespace, Errno> {
        // SAFETY: no descriptors are unshared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET)? };
        Namespace::current()
    }

    /// Moves the calling thread into it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn enter(&self) -> Result<(), Failure> {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|why| Failure::because("entering a network namespace", why))
    }

    /// Returns a path by which another program can open it.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// The three namespaces.
pub struct Network {
    /// Where packets come from.
    pub source: Namespace,
    /// Where they are forwarded.
    pub router: Namespace,
    /// Where they go.
    pub sink: Namespace,
}

impl Network {
    /// Makes the namespaces and the devices, each with `queues` queues in both directions. The calling thread is in the
    /// router afterwards.
    ///
    /// # Errors
    /// [`Failure::Skip`] where this host lets no one make them, or has no virtual devices.
    pub fn new(queues: u32) -> Result<Network, Failure> {
        let make = || {
            let made = Namespace::new();
            // Devices that speak IPv6 send packets of their own; a kernel without it has no such file.
            let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            made.map_err(|why| {
                Failure::Skip(format!(
                    "a network namespace cannot be made ({why}); run as root, where CAP_SYS_ADMIN is not taken away"
                ))
            })
        };
        let network = Network { source: make()?, sink: make()?, router: make()? };
        network.router.pair(IN, &network.source, FROM, queues)?;
        network.router.pair(OUT, &network.sink, TO, queues)?;
        for (namespace, names) in
            [(&network.source, &[FROM][..]), (&network.sink, &[TO]), (&network.router, &[IN, OUT])]
        {
            namespace.enter()?;
            for name in names {
                ip(&["link", "set", name, "up"])?;
            }
        }
        Ok(network)
    }
}

impl Namespace {
    /// Makes a pair of devices, one here and one there. The calling thread is in this namespace.
    fn pair(&self, here: &str, there: &Namespace, name: &str, queues: u32) -> Result<(), Failure> {
        let (queues, there) = (queues.to_string(), there.path());
        let queues = ["numtxqueues", &queues, "numrxqueues", &queues];
        let peer = ["type", "veth", "peer", "name", name, "netns", &there];
        ip(&[&["link", "add", here], &queues[..], &peer, &queues].concat())
    }
}

/// Runs `ip` in the calling thread's namespace.
fn ip(arguments: &[&str]) -> Result<(), Failure> {
    ip_output(arguments).map(drop)
}

fn ip_output(arguments: &[&str]) -> Result<Vec<u8>, Failure> {
    let said = Command::new("ip").args(arguments).stdin(Stdio::null()).output().map_err(|why| {
        Failure::Skip(format!("`ip` cannot be run ({why}); install iproute2, which makes the devices"))
    })?;
    if said.status.success() {
        return Ok(said.stdout);
    }
    let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
    let what = format!("`ip {}` failed: {why}", arguments.join(" "));
    let unknown = why.contains("Unknown device type") || why.contains("not supported");
    Err(if unknown { Failure::Skip(format!("{what}; load the module veth")) } else { Failure::Error(what) })
}

/// Returns the index of a device in the calling thread's namespace.
///
/// # Errors
/// The kernel's error.
pub fn device(name: &str) -> Result<u32, Failure> {
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    any.and_then(|socket| netdevice::name_to_index(&socket, name))
        .map_err(|why| Failure::because(format_args!("finding the device {name}"), why))
}

/// Returns how many packets a device of a namespace dropped for want of room at its peer, since it was made.
///
/// # Errors
/// Where `ip` does not say. The calling thread stays in that namespace.
pub fn dropped_by_device(namespace: &Namespace, name: &str) -> Result<u64, Failure> {
    namespace.enter()?;
    let said = ip_output(&["-statistics", "-json", "link", "show", "dev", name])?;
    let parsed: Option<serde_json::Value> = serde_json::from_slice(&said).ok();
    let count = |way: &str| parsed.as_ref()?.pointer(&format!("/0/stats64/{way}/dropped"))?.as_u64();
    count("tx")
        .ok_or_else(|| Failure::Error(format!("`ip` does not say what {name} dropped; use a newer iproute2")))
}
