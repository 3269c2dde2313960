//! The fixtures that all runs share: the network, its programs, and the sockets of each queue, over the arena's memory.

use crate::board::Worker;
use crate::bpf::{Attached, Mode, Sockets, attach};
use crate::failure::Failure;
use crate::net::{self, Network};
use crate::packet;
use crate::shared;
use crate::socket::{CHUNK, QueueConfig, Socket, Umem};
use rustix::io::Errno;
use std::ptr::NonNull;

/// Bytes of memory that packets lie in, registered as a UMEM.
#[derive(Clone, Copy)]
pub struct Memory {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is an address; `bytes_of` says whose bytes they are.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Describes memory.
    ///
    /// # Safety
    /// It is mapped for the rest of the program, shared with forked processes, and used for packets only.
    pub unsafe fn new(at: NonNull<u8>, bytes: usize) -> Memory {
        Memory { at, bytes }
    }

    /// Maps memory for so many frames.
    fn mapped(frames: u32) -> Result<Memory, Failure> {
        let bytes = frames as usize * CHUNK as usize;
        let at = shared::bytes(bytes).map_err(|why| Failure::because("mapping memory for packets", why))?;
        // SAFETY: it was just mapped, shared, and is never unmapped.
        Ok(unsafe { Memory::new(at, bytes) })
    }

    /// Borrows the bytes of a packet; none where they lie outside.
    ///
    /// # Safety
    /// The packet is the caller's: in a ring that it consumes and has not given back, or in no ring at all.
    pub unsafe fn bytes_of<'a>(self, address: u64, length: u32) -> Option<&'a mut [u8]> {
        let end = address.checked_add(u64::from(length))?;
        // SAFETY: within the memory, and the caller's.
        (end <= self.bytes as u64).then(|| unsafe {
            std::slice::from_raw_parts_mut(self.at.as_ptr().add(address as usize), length as usize)
        })
    }
}

/// The sockets of one queue, on its way from the source to the sink.
pub struct Queue {
    /// The source's: it only sends.
    pub from: Socket,
    /// The router's towards the source: it only receives.
    pub input: Socket,
    /// The router's towards the sink: it only sends.
    pub output: Socket,
    /// The sink's: it only receives.
    pub to: Socket,
}

/// How large everything is.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Queues, each with a worker that receives.
    pub queues: u32,
    /// Entries of each ring.
    pub entries: u32,
    /// Frames that the router has.
    pub frames: u32,
    /// Bytes of a packet.
    pub packet: u32,
    /// Packets between the source and the router, for each queue, before the source waits.
    pub window: u32,
    /// How programs run.
    pub mode: Mode,
}

/// The direction of a device's sockets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Sends,
    Receives,
}

impl Sizes {
    /// Returns the number of the first queue of a device that has a socket.
    ///
    /// A packet that a virtual device sends on a queue comes in on the same queue of its peer where programs run in the
    /// driver. On socket buffers one field has both the queue that a packet leaves by and, plus one, the queue that it
    /// came in on (0 is none): it comes in on the queue below.
    fn first_queue(&self, way: Way) -> u32 {
        u32::from(way == Way::Sends && self.mode == Mode::Skb)
    }

    /// Returns how many queues a device needs.
    fn device_queues(&self) -> u32 {
        self.queues + self.first_queue(Way::Sends)
    }
}

/// Everything that lasts.
pub struct Rig {
    /// The sockets, by queue.
    pub queues: Vec<Queue>,
    /// The router's memory, of which allocators hand out frames.
    pub memory: Memory,
    /// The source's.
    pub source_memory: Memory,
    /// The sink's.
    pub sink_memory: Memory,
    /// How large everything is.
    pub sizes: Sizes,
    /// The namespaces.
    pub network: Network,
    _programs: [Attached; 2],
}

impl Rig {
    /// Makes the network and opens every socket. `memory` becomes the router's UMEM.
    ///
    /// # Errors
    /// [`Failure::Skip`] where this host cannot do it.
    pub fn new(sizes: Sizes, memory: Memory) -> Result<Rig, Failure> {
        let network = Network::new(sizes.device_queues())?;
        let own = sizes.queues * sizes.entries;
        let (source_memory, sink_memory) = (Memory::mapped(own)?, Memory::mapped(own)?);
        network.source.enter()?;
        let from = sockets(net::FROM, source_memory, sizes, None, Way::Sends)?;
        network.router.enter()?;
        let input = sockets(net::IN, memory, sizes, None, Way::Receives)?;
        let output = sockets(net::OUT, memory, sizes, input.first(), Way::Sends)?;
        let at_input = program(net::IN, &input, sizes)?;
        network.sink.enter()?;
        let to = sockets(net::TO, sink_memory, sizes, None, Way::Receives)?;
        let at_sink = program(net::TO, &to, sizes)?;
        network.router.enter()?;
        let ways = from.into_iter().zip(input).zip(output).zip(to);
        let queues = ways.map(|(((from, input), output), to)| Queue { from, input, output, to }).collect();
        let rig = Rig {
            queues,
            memory,
            source_memory,
            sink_memory,
            sizes,
            network,
            _programs: [at_input, at_sink],
        };
        rig.prepare();
        Ok(rig)
    }

    /// Writes the source's headers, and gives the sink's frames to the kernel: neither has an allocator.
    fn prepare(&self) {
        let entries = self.sizes.entries;
        for (queue, number) in self.queues.iter().zip(0_u32..) {
            for entry in 0..entries {
                let address = self.own_address(number, entry);
                // SAFETY: no ring has it yet.
                if let Some(bytes) = unsafe { self.source_memory.bytes_of(address, self.sizes.packet) } {
                    packet::write_headers(bytes);
                }
                queue.to.fill.write(entry, address);
            }
            queue.to.fill.publish(entries);
        }
    }

    /// Returns whether no packet is between two sockets: the kernel completes a packet's sending when the device at the
    /// other end has given its contents to a socket, or dropped them.
    pub fn is_quiet(&self) -> bool {
        let quiet = |from: &Socket| from.tx.len() == 0 && from.tx.consumed() == from.completion.produced();
        self.queues.iter().all(|queue| quiet(&queue.from) && quiet(&queue.output))
    }

    /// Returns where the source's and the sink's memory have frame `entry` of a queue.
    pub fn own_address(&self, queue: u32, entry: u32) -> u64 {
        u64::from(queue * self.sizes.entries + entry) * CHUNK
    }

    /// Returns the worker that receives from a queue.
    pub fn receiver(&self, queue: u32) -> Worker {
        Worker(queue)
    }

    /// Returns the worker that takes a queue's completions, where that is not the one that receives.
    pub fn completer(&self, queue: u32) -> Worker {
        Worker(self.sizes.queues + queue)
    }
}

/// Opens a socket for each queue of a device; all of them share one UMEM: the one that `owner` has, or a new one of the
/// first.
fn sockets(
    name: &str,
    memory: Memory,
    sizes: Sizes,
    owner: Option<&Socket>,
    way: Way,
) -> Result<Vec<Socket>, Failure> {
    let device = net::device(name)?;
    let first = sizes.first_queue(way);
    let mut opened: Vec<Socket> = Vec::new();
    for queue in 0..sizes.queues {
        let umem = match owner.or(opened.first()) {
            Some(owner) => Umem::Of(owner),
            None => Umem::Register(memory.at, memory.bytes),
        };
        let place = QueueConfig { device, queue: first + queue, entries: sizes.entries };
        opened.push(Socket::open(umem, place).map_err(|why| refused(name, first + queue, why))?);
    }
    Ok(opened)
}

fn refused(name: &str, queue: u32, why: Errno) -> Failure {
    match why {
        Errno::AFNOSUPPORT => {
            Failure::Skip("this kernel has no AF_XDP; use one with CONFIG_XDP_SOCKETS=y".into())
        }
        Errno::PERM | Errno::ACCESS => {
            Failure::Skip(format!("an AF_XDP socket is refused ({why}); run as root with CAP_NET_RAW"))
        }
        Errno::NOBUFS => Failure::Skip(format!(
            "the kernel may not lock the memory of packets ({why}); raise the limit (ulimit -l)"
        )),
        _ => Failure::because(format_args!("opening a socket for queue {queue} of {name}"), why),
    }
}

/// Attaches the program that hands a device's packets to its sockets.
fn program(name: &str, sockets: &[Socket], sizes: Sizes) -> Result<Attached, Failure> {
    let fail = |what: &str, why: Errno| match why {
        Errno::PERM | Errno::NOSYS => {
            Failure::Skip(format!("{what} is refused ({why}); run as root with CAP_BPF and CAP_NET_ADMIN"))
        }
        _ => Failure::because(format_args!("{what} for {name}"), why),
    };
    let map = Sockets::new(sizes.queues).map_err(|why| fail("a map from queue to socket", why))?;
    for (socket, queue) in sockets.iter().zip(0..) {
        map.set(queue, socket).map_err(|why| fail("an entry of the map from queue to socket", why))?;
    }
    attach(&map, net::device(name)?, sizes.mode).map_err(|why| fail("an XDP program", why))
}
