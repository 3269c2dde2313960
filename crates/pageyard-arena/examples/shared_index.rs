//! A hypervisor takes free memory from a guest without asking it.
//!
//! Both processes have the index of the guest's memory. To the engine the hypervisor is one more CPU: it allocates huge
//! frames that are free, gives the memory behind them back to its host in whole ranges, and frees them when the guest
//! may have more. The guest is not woken, and allocates and frees meanwhile. Beside it, the same frame by frame, which
//! is what a balloon asks for.
//!
//!     cargo run --release -p pageyard-arena --example shared_index [MIB]
//!
//! The index holds addresses of its own, so both processes have it mapped at the same place: the guest is forked.

use pageyard::{Cpu, Metadata, Order, PageAllocator, Pageyard, Pfn, Request};
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const FRAME: u64 = 4096;
const ROUNDS: usize = 15;

/// How long the guest goes on between two rounds.
const PAUSE: Duration = Duration::from_millis(30);

/// Memory that a forked process shares with its parent; never unmapped.
fn shared(bytes: usize, file: Option<&File>) -> Result<&'static mut [u8]> {
    let (fd, flags) = file.map_or((-1, libc::MAP_ANONYMOUS), |file| (file.as_raw_fd(), 0));
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags | libc::MAP_SHARED, fd, 0) };
    if at == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    // SAFETY: it was mapped a moment ago, is all zeros, and stays.
    Ok(unsafe { std::slice::from_raw_parts_mut(at.cast(), bytes) })
}

/// A guest's memory by frames: what it writes into the frames that it holds.
struct Ram {
    words: &'static [AtomicU64],
    file: File,
}

impl Ram {
    fn new(bytes: u64) -> Result<Ram> {
        // SAFETY: the name ends with a zero.
        let fd = unsafe { libc::memfd_create(c"guest".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor was made just above, and nothing else owns it.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(bytes)?;
        let memory = shared(bytes as usize, Some(&file))?;
        // SAFETY: a mapping is aligned for words, any bits are one, and all access is through these atomics.
        let words = unsafe { std::slice::from_raw_parts(memory.as_ptr().cast(), (bytes / 8) as usize) };
        Ok(Ram { words, file })
    }

    fn word(&self, frame: u64) -> &AtomicU64 {
        &self.words[(frame * FRAME / 8) as usize]
    }

    /// Gives the memory behind some frames back to the host.
    fn give_back(&self, first: Pfn, frames: u64) -> Result<()> {
        let (at, bytes) = ((first.0 * FRAME) as i64, (frames * FRAME) as i64);
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the call touches no memory of this process by address; the frames it empties are the caller's own.
        match unsafe { libc::fallocate(self.file.as_raw_fd(), mode, at, bytes) } {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    }

    /// Returns whether the host has no memory behind some frames.
    fn is_given_back(&self, first: Pfn, frames: u64) -> bool {
        let at = (first.0 * FRAME) as i64;
        // SAFETY: the call changes the file's position alone, and no code here reads or writes at it.
        let data = unsafe { libc::lseek(self.file.as_raw_fd(), at, libc::SEEK_DATA) };
        data < 0 || data >= at + (frames * FRAME) as i64
    }

    fn resident(&self) -> Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(self.file.metadata()?.blocks() * 512)
    }
}

/// The guest: allocates and frees blocks of all orders, writes into each frame, and looks before it frees whether
/// anybody else did. Ends when it is told to; says how often it found something else.
fn guest(cpu: Cpu<'_, impl PageAllocator>, ram: &Ram, most: u64, control: &[AtomicU64]) -> u64 {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut held: Vec<(Pfn, Order, u64)> = Vec::new();
    let (mut frames, mut wrong, mut calls) = (0, 0, 0u64);
    let order = |n: u8| Order::new(n).unwrap_or(Order::ZERO);
    // ORDER: Relaxed throughout. The flag and the count carry nothing else with them, and a frame's words are written
    // and read by its holder alone: the engine orders what one holder wrote before the next has the frame.
    while control[0].load(Ordering::Relaxed) == 0 {
        calls += 1;
        if frames < most && rng.u8(..) < 140 {
            let order = order([0, 0, 0, 0, 1, 2, 3, 9][rng.usize(..8)]);
            if let Ok(first) = cpu.alloc(Request::of(order).movable()) {
                for frame in first.0..first.0 + order.frames().0 {
                    ram.word(frame).store(calls ^ frame, Ordering::Relaxed);
                }
                frames += order.frames().0;
                held.push((first, order, calls));
                continue;
            }
        }
        if held.is_empty() {
            continue;
        }
        let (first, order, tag) = held.swap_remove(rng.usize(..held.len()));
        let is_other = |frame: &u64| ram.word(*frame).load(Ordering::Relaxed) != tag ^ frame;
        wrong += (first.0..first.0 + order.frames().0).filter(is_other).count() as u64;
        frames -= order.frames().0;
        wrong += u64::from(cpu.free(first, order).is_err());
        control[1].store(calls, Ordering::Relaxed);
    }
    for (first, order, _) in held {
        wrong += u64::from(cpu.free(first, order).is_err());
    }
    wrong
}

/// Bytes, and how long something took with them.
type Took = (u64, Duration);

/// One round: what is free is used, taken and given back to the host, and freed for the guest.
struct Round {
    used: Took,
    taken: Took,
    given: Took,
}

fn round(cpu: Cpu<'_, impl PageAllocator>, ram: &Ram, order: Order, most: usize) -> Result<Round> {
    let frames = order.frames().0;
    let mut all = vec![Pfn(0); most];
    let mut wrong = 0;
    // What the last round gave back would cost nothing to give back again: as a guest would, it is used first.
    let n = cpu.alloc_bulk(Request::of(order).movable(), &mut all);
    let start = Instant::now();
    for first in &all[..n] {
        (first.0..first.0 + frames).for_each(|frame| ram.word(frame).store(1, Ordering::Relaxed));
    }
    let used = (n as u64 * frames * FRAME, start.elapsed());
    cpu.free_bulk(&all[..n], order, &mut |_, _| wrong += 1);
    let start = Instant::now();
    let n = cpu.alloc_bulk(Request::of(order).movable(), &mut all);
    let (mine, bytes) = (&mut all[..n], n as u64 * frames * FRAME);
    mine.sort_unstable();
    // Neighbours go back with one call of the host's kernel, unless it is frame by frame.
    let joins = |a: &Pfn, b: &Pfn| order > Order::ZERO && a.0 + frames == b.0;
    for run in mine.chunk_by(joins) {
        ram.give_back(run[0], run.len() as u64 * frames)?;
    }
    let taken = (bytes, start.elapsed());
    std::thread::sleep(PAUSE);
    let touched = mine.iter().filter(|first| !ram.is_given_back(**first, frames)).count();
    assert_eq!(touched, 0, "the guest wrote into frames that it does not hold");
    let start = Instant::now();
    cpu.free_bulk(mine, order, &mut |_, _| wrong += 1);
    assert_eq!(wrong, 0, "frames that were allocated could not be freed");
    Ok(Round { used, taken, given: (bytes, start.elapsed()) })
}

fn gib_a_second(rounds: &[Round], of: fn(&Round) -> Took) -> String {
    let rate = |(bytes, time): Took| bytes as f64 / time.as_secs_f64() / (1u64 << 30) as f64;
    let mut rates: Vec<f64> = rounds.iter().map(|round| rate(of(round))).collect();
    rates.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2} to {:.2})", rates[rates.len() / 2], rates[0], rates[rates.len() - 1])
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mib: u64 = std::env::args().nth(1).map_or(Ok(1024), |text| text.parse())?;
    let bytes = mib << 20;
    let ram = Ram::new(bytes)?;
    let builder = Pageyard::builder().cpus(2).usable(0..bytes);
    let memory = shared(builder.layout()?.layout.size(), None)?;
    // SAFETY: the mapping is new, so all of it is zero.
    let yard = builder.build_in(unsafe { Metadata::assume_zeroed(memory) })?;
    let control = shared(4096, None)?;
    // SAFETY: a mapping is aligned for words, any bits are one, and all access is through these atomics.
    let control: &[AtomicU64] = unsafe { std::slice::from_raw_parts(control.as_ptr().cast(), 2) };
    let (inside, outside) = (yard.cpu(0)?, yard.cpu(1)?);
    // SAFETY: this process has one thread, so the child's copy of everything is whole.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let wrong = guest(inside, &ram, bytes / FRAME * 6 / 10, control);
        // SAFETY: it ends the process, without what the parent has to do at its own end.
        unsafe { libc::_exit(i32::from(wrong > 0)) }
    }
    std::thread::sleep(Duration::from_millis(1500));
    let calls = || control[1].load(Ordering::Relaxed);
    let (calls_before, start) = (calls(), Instant::now());
    println!(
        "a guest of {mib} MiB, {} MiB of it on the host; GiB a second, median (least to most)",
        ram.resident()? >> 20
    );
    println!("{:>22}{:>12}{:>26}{:>34}{:>26}", "", "MiB a round", "taken", "given", "used again");
    for (what, order, most) in [
        ("2 MiB blocks, in bulk", Order::HUGE, bytes / FRAME / 512),
        ("frame by frame", Order::ZERO, bytes / FRAME / 4),
    ] {
        let rounds: Vec<Round> =
            (0..ROUNDS).map(|_| round(outside, &ram, order, most as usize)).collect::<Result<_>>()?;
        let mean = rounds.iter().map(|r| r.taken.0).sum::<u64>() / rounds.len() as u64;
        let [taken, given, used] = [|r: &Round| r.taken, |r: &Round| r.given, |r: &Round| r.used]
            .map(|of| gib_a_second(&rounds, of));
        println!("{what:>22}{:>12}{taken:>26}{given:>34}{used:>26}", mean >> 20);
    }
    let rate = (calls() - calls_before) as f64 / start.elapsed().as_secs_f64();
    println!("meanwhile the guest made {:.1} million calls a second", rate / 1e6);
    control[0].store(1, Ordering::Relaxed);
    let mut status = 0;
    // SAFETY: the status is this function's own.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the guest found something else in its frames");
    assert!(yard.audit()?.is_conserved());
    Ok(())
}
