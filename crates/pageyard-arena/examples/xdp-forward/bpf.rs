//! The program that hands a queue's packets to the socket of that queue: six instructions, written as bytes.
//!
//! `bpf(2)` is called for four things: a map from queue to socket, its entries, the program, and the link that attaches
//! it to a device. The link's descriptor holds the program there; when the last process that has it ends, the kernel
//! detaches it.

use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use std::os::fd::RawFd;

/// How the kernel runs the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// On socket buffers, for any device.
    Skb,
    /// In the device's driver.
    Native,
}

impl Mode {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Skb => "skb",
            Mode::Native => "native",
        }
    }
}

// Commands, types and flags of linux/bpf.h and linux/if_link.h.
const MAP_CREATE: i64 = 0;
const MAP_UPDATE_ELEM: i64 = 2;
const PROG_LOAD: i64 = 5;
const LINK_CREATE: i64 = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const FLAGS_SKB_MODE: u32 = 1 << 1;
const FLAGS_DRV_MODE: u32 = 1 << 2;

/// A map from queue to socket.
pub struct Sockets(OwnedFd);

impl Sockets {
    /// Makes an empty map for `queues` queues.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(queues: u32) -> Result<Sockets, Errno> {
        #[repr(C)]
        struct Create {
            map_type: u32,
            key_size: u32,
            value_size: u32,
            max_entries: u32,
            flags: u32,
        }
        let create =
            Create { map_type: MAP_TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: queues, flags: 0 };
        // SAFETY: the command's first fields; the kernel takes those behind them as zeros.
        unsafe { bpf(MAP_CREATE, &create) }.map(Sockets)
    }

    /// Sets the socket of a queue.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set(&self, queue: u32, socket: impl AsFd) -> Result<(), Errno> {
        #[repr(C)]
        struct Update {
            map_fd: u32,
            _pad: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let socket = socket.as_fd().as_raw_fd();
        let update = Update {
            map_fd: self.0.as_raw_fd() as u32,
            _pad: 0,
            key: &raw const queue as u64,
            value: &raw const socket as u64,
            flags: 0,
        };
        // SAFETY: the command's fields; key and value live until the call returns.
        unsafe { call(MAP_UPDATE_ELEM, &update) }.map(drop)
    }
}

/// One instruction: an opcode, the registers, an offset and a constant.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    opcode: u8,
    /// Destination in the low four bits, source in the high four.
    registers: u8,
    offset: i16,
    constant: i32,
}

const fn instruction(opcode: u8, to: u8, from: u8, offset: i16, constant: i32) -> Instruction {
    // Bit fields lie the other way round on big-endian machines.
    let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
    Instruction { opcode, registers, offset, constant }
}

/// Redirects each packet to the socket of the queue that it came in on, and drops it if there is none.
fn redirect(map: RawFd) -> [Instruction; 6] {
    /// Where the context has the queue's number.
    const RX_QUEUE_INDEX: i16 = 16;
    const XDP_DROP: i32 = 1;
    const REDIRECT_MAP: i32 = 51;
    /// Says of a 64-bit constant that it is a map's descriptor.
    const OF_MAP: u8 = 1;
    [
        instruction(0x61, 2, 1, RX_QUEUE_INDEX, 0), // r2 = the context's queue
        instruction(0x18, 1, OF_MAP, 0, map),       // r1 = the map, in two halves
        instruction(0, 0, 0, 0, 0),
        instruction(0xb7, 3, 0, 0, XDP_DROP), // r3 = what to do where the map has nothing
        instruction(0x85, 0, 0, 0, REDIRECT_MAP),
        instruction(0x95, 0, 0, 0, 0), // return what that says
    ]
}

/// A program attached to a device, as long as this or a copy in a forked process lives.
pub struct Attached(#[expect(dead_code, reason = "it is held")] OwnedFd);

/// Loads the program for a map and attaches it to a device of the calling thread's network namespace.
///
/// # Errors
/// The kernel's error.
pub fn attach(sockets: &Sockets, device: u32, mode: Mode) -> Result<Attached, Errno> {
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel: u32,
        flags: u32,
    }
    #[repr(C)]
    struct Link {
        program: u32,
        device: u32,
        attach_type: u32,
        flags: u32,
    }
    let code = redirect(sockets.0.as_raw_fd());
    let load = Load {
        kind: PROG_TYPE_XDP,
        count: code.len() as u32,
        instructions: code.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel: 0,
        flags: 0,
    };
    // SAFETY: the command's first fields; instructions and licence live until the call returns.
    let program = unsafe { bpf(PROG_LOAD, &load) }?;
    let flags = match mode {
        Mode::Skb => FLAGS_SKB_MODE,
        Mode::Native => FLAGS_DRV_MODE,
    };
    let link = Link { program: program.as_raw_fd() as u32, device, attach_type: ATTACH_XDP, flags };
    // SAFETY: the command's first fields.
    unsafe { bpf(LINK_CREATE, &link) }.map(Attached)
}

/// Calls `bpf(2)` for a command that returns a descriptor.
///
/// # Safety
/// As [`call`].
unsafe fn bpf<T>(command: i64, fields: &T) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's promise, and the descriptor is new.
    unsafe { call(command, fields).map(|fd| OwnedFd::from_raw_fd(fd as RawFd)) }
}

/// Calls `bpf(2)`.
///
/// # Safety
/// `fields` is what the command takes, and every address in it is valid.
unsafe fn call<T>(command: i64, fields: &T) -> Result<i64, Errno> {
    // SAFETY: the caller's promise; the size is that of the structure.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, fields, size_of::<T>()) };
    if answer >= 0 { Ok(answer) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
