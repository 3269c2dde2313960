//! An AF_XDP socket with its four rings, in copy mode.
//!
//! `rustix` has the socket options, the structures and the addresses of this family as types, and is a dependency of
//! the arena already; what is left is the mapping of rings, here, and half a page of BPF, in `bpf`. Crates that wrap
//! AF_XDP bring libbpf or libxdp, which need a C compiler with BPF or system packages, and keep a ring's indices in the
//! process that uses it, where a process that is killed would take them with it.

use crate::ring::Ring;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpRingOffset, XdpStatistics,
    XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, send, socket_with, sockopt};
use std::ptr::NonNull;

/// Bytes of a chunk of UMEM: a frame, so that the address of frame `n` is `n << 12`.
pub const CHUNK: u64 = pageyard::PAGE_SIZE;

/// Where a socket's packets lie.
#[derive(Clone, Copy)]
pub enum Umem<'a> {
    /// Memory to register: its start, and its size in bytes.
    Register(NonNull<u8>, usize),
    /// The memory that another socket registered.
    Of(&'a Socket),
}

/// A network device's queue, and how large the rings are that serve it.
#[derive(Clone, Copy)]
pub struct QueueConfig {
    /// The device's index in the socket's network namespace.
    pub device: u32,
    /// The queue of the device.
    pub queue: u32,
    /// Entries of each ring, a power of two.
    pub entries: u32,
}

/// A socket bound to one queue of one device.
pub struct Socket {
    fd: OwnedFd,
    /// Free frames that the kernel may fill with packets.
    pub fill: Ring<u64>,
    /// Packets that the kernel received.
    pub rx: Ring<XdpDesc>,
    /// Packets for the kernel to send.
    pub tx: Ring<XdpDesc>,
    /// Frames whose packets were sent.
    pub completion: Ring<u64>,
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace, sets its rings up and binds it, in copy mode.
    ///
    /// Sockets that share a UMEM and have different queues each have a fill and a completion ring of their own.
    ///
    /// # Errors
    /// The kernel's error; `EAFNOSUPPORT` if it has no AF_XDP.
    pub fn open(umem: Umem<'_>, place: QueueConfig) -> Result<Socket, Errno> {
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        if let Umem::Register(at, bytes) = umem {
            let registration = XdpUmemReg {
                addr: at.as_ptr() as u64,
                len: bytes as u64,
                chunk_size: CHUNK as u32,
                headroom: 0,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            };
            sockopt::set_xdp_umem_reg(&fd, registration)?;
        }
        sockopt::set_xdp_umem_fill_ring_size(&fd, place.entries)?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, place.entries)?;
        sockopt::set_xdp_rx_ring_size(&fd, place.entries)?;
        sockopt::set_xdp_tx_ring_size(&fd, place.entries)?;
        let offsets = sockopt::xdp_mmap_offsets(&fd)?;
        let n = place.entries;
        // SAFETY: each ring is mapped with the kernel's offsets for it, and with the type of its entries.
        let (fill, rx, tx, completion) = unsafe {
            (
                ring(&fd, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, n)?,
                ring(&fd, XDP_PGOFF_RX_RING, &offsets.rx, n)?,
                ring(&fd, XDP_PGOFF_TX_RING, &offsets.tx, n)?,
                ring(&fd, XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, n)?,
            )
        };
        match umem {
            Umem::Register(..) => {
                bind(&fd, &SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, place.device, place.queue))?;
            }
            Umem::Of(owner) => {
                let flags = SocketAddrXdpFlags::XDP_SHARED_UMEM;
                let addr = SocketAddrXdp::new(flags, place.device, place.queue);
                bind(&fd, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: owner.fd.as_fd() })?;
            }
        }
        Ok(Socket { fd, fill, rx, tx, completion })
    }

    /// Has the kernel send what the TX ring holds, within this call: in copy mode no one else does. Packets that the
    /// device refuses are gone, and it counts them; their frames come back through the completion ring as all do.
    ///
    /// # Errors
    /// The kernel's error if a retry would not help.
    pub fn kick(&self) -> Result<(), Errno> {
        // Each call sends a batch of the kernel's; what is left after these is sent by the next kick.
        for _ in 0..64 {
            if self.tx.len() == 0 {
                break;
            }
            match send(&self.fd, &[], SendFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::BUSY) => {}
                // No memory for a buffer, or no room in the completion ring: it passes.
                Err(Errno::NOBUFS) => break,
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Waits until a packet was received, or for `micros`.
    pub fn wait(&self, micros: u32) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(micros) * 1000 };
        // A signal, or an error that the next call shows, ends the wait early: nothing is lost by that.
        let _ = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout));
    }

    /// Returns what the kernel counted: packets that it dropped for want of a frame or of room in the RX ring.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn statistics(&self) -> Result<XdpStatistics, Errno> {
        sockopt::xdp_statistics(&self.fd)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Maps a ring. It stays mapped until the process ends.
///
/// # Safety
/// `offsets` and `T` are those of the ring at `page`.
unsafe fn ring<T: Copy>(
    fd: &OwnedFd,
    page: u64,
    offsets: &XdpRingOffset,
    entries: u32,
) -> Result<Ring<T>, Errno> {
    let bytes = offsets.desc as usize + entries as usize * size_of::<T>();
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let at = unsafe { mmap(std::ptr::null_mut(), bytes, access, flags, fd, page)? };
    // SAFETY: the caller's promise; it is never unmapped.
    Ok(unsafe { Ring::new(at.cast(), offsets, entries) })
}
