//! The work of loads. Each is this program again, as a process of its own, and does the same work for the same seed.

use super::mapped::{Mapped, PAGE};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const MIB: u64 = 1 << 20;

/// The error of a socket if the kernel has no memory for a datagram.
const ENOBUFS: i32 = rustix::io::Errno::NOBUFS.raw_os_error();
const ENOMEM: i32 = rustix::io::Errno::NOMEM.raw_os_error();

/// A load's arguments.
#[derive(Clone, Debug)]
pub struct Work {
    /// Which load: the name of one of [`LOADS`](super::LOADS), or `age` or `touch`, which others start.
    pub load: String,
    /// How much, in the load's own unit.
    pub size: u64,
    /// Decides every choice it makes.
    pub seed: u64,
    /// The data that is read through once: a block device, or a folder in which to make files with holes.
    pub cache: PathBuf,
}

impl Work {
    /// Returns the arguments with which this program does the work.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let cache = self.cache.display().to_string();
        let words = [
            "what-if-load",
            &self.load,
            "--size",
            &self.size.to_string(),
            "--seed",
            &self.seed.to_string(),
            "--cache",
            &cache,
        ];
        words.map(str::to_owned).to_vec()
    }

    /// Starts this program on the work.
    pub(super) fn start(&self, program: &Path) -> io::Result<Child> {
        Command::new(program).args(self.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    }

    /// Does the work, in this process.
    ///
    /// # Errors
    /// Says which load does not exist, or what the kernel refused.
    pub fn run(&self) -> Result<(), String> {
        // A load does not outlive the process that counts it.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let done = match self.load.as_str() {
            "fork" => self.fork(&mut rng),
            "files" => self.files(&mut rng, self.size),
            "net" => self.net(&mut rng),
            "huge" => self.huge(&mut rng),
            "atomic" | "pieces" => self.atomic(&mut rng),
            "reserve" => self.echoes().and_then(|()| self.huge(&mut rng)),
            "age" => self.age(&mut rng),
            "touch" => Mapped::new(self.size.max(1) as usize * PAGE, false).map(|mut m| m.touch()),
            other => return Err(format!("there is no load `{}`", pageyard_replay::text::shown(other))),
        };
        done.map_err(|e| format!("the load {} could not go on: {e}", self.load))
    }

    /// `size` processes, four at a time.
    fn fork(&self, rng: &mut fastrand::Rng) -> io::Result<()> {
        let program = std::env::current_exe()?;
        let mut running: Vec<Child> = Vec::new();
        for _ in 0..self.size {
            if running.len() == 4 {
                running.remove(0).wait()?;
            }
            let work = Work { load: "touch".into(), size: rng.u64(64..2048), ..self.clone() };
            running.push(work.start(&program)?);
        }
        running.into_iter().try_for_each(|mut child| child.wait().map(drop))
    }

    /// `mib` MiB of page cache, each page read once.
    fn files(&self, rng: &mut fastrand::Rng, mib: u64) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 17];
        let small = std::env::temp_dir().join(format!("pageyard-what-if-{}", std::process::id()));
        fs::create_dir_all(&small)?;
        let device = !self.cache.is_dir();
        let (mut at, mut left) = (rng.u64(0..64) * MIB, mib * MIB);
        let mut kept: Vec<PathBuf> = Vec::new();
        let mut n = 0_u64;
        while left > 0 {
            let bytes = (rng.u64(4..2048) << 12).min(left);
            left -= bytes;
            n += 1;
            if device {
                // Never the same page twice: the device is larger than what a load reads.
                read_through(&File::open(&self.cache)?, at, bytes, &mut buffer)?;
                at += bytes;
            } else {
                let path = small.join(format!("holes-{n}"));
                let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
                file.set_len(bytes)?;
                read_through(&file, 0, bytes, &mut buffer)?;
                kept.push(path);
            }
            for i in 0..4 {
                let path = small.join(format!("small-{n}-{i}"));
                fs::write(&path, &buffer[..rng.usize(1..16_384)])?;
                kept.push(path);
            }
            while kept.len() > 64 {
                fs::remove_file(kept.swap_remove(rng.usize(0..kept.len())))?;
            }
        }
        fs::remove_dir_all(&small)
    }

    /// `size` MiB through sockets: filled until they take no more, then read.
    fn net(&self, rng: &mut fastrand::Rng) -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut pairs: Vec<(TcpStream, TcpStream)> = Vec::new();
        for _ in 0..16 {
            let sender = TcpStream::connect(listener.local_addr()?)?;
            let (receiver, _) = listener.accept()?;
            sender.set_nonblocking(true)?;
            receiver.set_nonblocking(true)?;
            pairs.push((sender, receiver));
        }
        let data = vec![7; 1 << 18];
        let mut buffer = vec![0; 1 << 18];
        let mut left = self.size * MIB;
        while left > 0 {
            for (sender, _) in &mut pairs {
                loop {
                    let want = rng.usize(1024..data.len()).min(left.max(1) as usize);
                    match sender.write(&data[..want]) {
                        Ok(n) => left = left.saturating_sub(n as u64),
                        Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                        Err(e) => return Err(e),
                    }
                    if left == 0 {
                        break;
                    }
                }
            }
            for (_, receiver) in &mut pairs {
                loop {
                    match receiver.read(&mut buffer) {
                        Ok(0) => break,
                        Ok(_) => {}
                        Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                        Err(e) => return Err(e),
                    }
                }
            }
        }
        Ok(())
    }

    /// Mappings that ask for huge pages, `size` MiB at most at a time, four times over, beside page cache.
    fn huge(&self, rng: &mut fastrand::Rng) -> io::Result<()> {
        let mut held: Vec<Mapped> = Vec::new();
        let most = (self.size * MIB) as usize;
        let mut made = 0;
        while made < 4 * most {
            let bytes = rng.usize(1..=8) << 21;
            while held.iter().map(Mapped::pages).sum::<usize>() * PAGE + bytes > most && !held.is_empty() {
                drop(held.swap_remove(rng.usize(0..held.len())));
            }
            let mut mapped = Mapped::new(bytes, true)?;
            mapped.touch();
            held.push(mapped);
            made += bytes;
        }
        drop(held.split_off(held.len() / 2));
        self.files(rng, self.size / 2)
    }

    /// `size` datagrams, each kept by 32 packet sockets that are never read: copies of its head, made without waiting.
    fn atomic(&self, rng: &mut fastrand::Rng) -> io::Result<()> {
        const ALL: u16 = 0x0800;
        let protocol = std::num::NonZeroU32::new(u32::from(ALL.to_be())).map(rustix::net::Protocol::from_raw);
        let sender = UdpSocket::bind("127.0.0.1:0")?;
        let silent = UdpSocket::bind("127.0.0.1:0")?;
        for _ in 0..2 {
            let mut taps = Vec::new();
            for _ in 0..32 {
                let flags = SocketFlags::CLOEXEC;
                let tap =
                    rustix::net::socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, protocol)?;
                sockopt::set_socket_recv_buffer_size_force(&tap, 1 << 30)?;
                taps.push(tap);
            }
            for _ in 0..self.size / 2 {
                let sent = sender.send_to(&[7; 1400][..rng.usize(64..1400)], silent.local_addr()?);
                without_memory(sent.map(drop))?;
            }
        }
        Ok(())
    }

    /// Answers to echo requests, `size` MiB of them, held unread and let go, twice over. The kernel keeps an answer in
    /// blocks of 8 frames, which it asks for without waiting.
    fn echoes(&self) -> io::Result<()> {
        /// Bytes of a request: header and data. Its answer fits the largest packet of the loopback device.
        const LONG: usize = 60_000;
        /// The header of an echo request; the kernel fills in the rest.
        const REQUEST: u8 = 8;
        let mut request = vec![7; LONG];
        request[..8].copy_from_slice(&[REQUEST, 0, 0, 0, 0, 0, 0, 0]);
        let to = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
        for _ in 0..2 {
            let (kind, flags) = (SocketType::DGRAM, SocketFlags::CLOEXEC);
            let socket =
                rustix::net::socket_with(AddressFamily::INET, kind, flags, Some(rustix::net::ipproto::ICMP))?;
            sockopt::set_socket_recv_buffer_size_force(&socket, 1 << 30)?;
            for _ in 0..(self.size * MIB) / LONG as u64 {
                let sent = rustix::net::sendto(&socket, &request, rustix::net::SendFlags::empty(), &to);
                without_memory(sent.map(drop).map_err(io::Error::from))?;
            }
        }
        Ok(())
    }

    /// Holds `size` MiB of which half the pages were given back, here and there; says `aged`, and waits for the end of
    /// its input.
    fn age(&self, rng: &mut fastrand::Rng) -> io::Result<()> {
        let mut memory = Mapped::new((self.size * MIB) as usize, false)?;
        memory.touch();
        let mut page = 0;
        while page < memory.pages() {
            let run = 1 << rng.u32(0..6);
            if rng.bool() {
                memory.give_back(page, run)?;
            }
            page += run;
        }
        println!("aged");
        io::stdout().flush()?;
        io::stdin().read_to_end(&mut Vec::new()).map(drop)
    }
}

/// Takes a datagram for which the kernel had no memory as sent: such requests are what is counted, and the next one is
/// sent all the same.
fn without_memory(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(e) if matches!(e.raw_os_error(), Some(ENOBUFS | ENOMEM)) => Ok(()),
        other => other,
    }
}

/// Reads a part of a file.
fn read_through(file: &File, mut at: u64, mut bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
    while bytes > 0 {
        let want = (buffer.len() as u64).min(bytes) as usize;
        match file.read_at(&mut buffer[..want], at)? {
            0 => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the device is too small")),
            n => (at, bytes) = (at + n as u64, bytes - n as u64),
        }
    }
    Ok(())
}
