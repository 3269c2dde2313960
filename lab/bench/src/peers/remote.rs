//! An allocator in a separate process: a request for each sample, which is run and timed there.
//!
//! Clocks are the machine's, so samples of all processes compare. Numbers are 32 and 64 bits wide, in the machine's
//! order. A request: threads, batch, blocks a call, rounds, chunk, split, then the order of the frees by place. The
//! answer, for each thread: how many marks, missing blocks, then marks, nanoseconds of taking and of giving back. A
//! request without an order asks for blocks across CPUs, as many groups as rounds; its answer has four marks, the
//! result, or none. Without blocks a call either, it asks for work on a mixed load: rounds are the blocks of a pass,
//! chunk is the pattern and whether frames are touched, split the phase. The process makes the same calls from the same
//! seed, and an answer has the clock at the start and at the end. Before the first request the process says whether it
//! can serve: a status, and a text.

use crate::harness::handover::Crossed;
use crate::harness::load::{Busy, Load, Taken};
use crate::harness::mixed::sequence::MixedPattern;
use crate::harness::mixed::work::{Phase, Setting, Work};
use crate::harness::subject::Subject;
use crate::harness::team::Team;
use std::cell::RefCell;
use std::io::{self, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

/// The most marks, and the longest text, that a sane answer has.
const MOST: u32 = 1 << 16;

/// The largest batch of a request: programs keep room for it.
const MOST_BATCH: usize = 16_384;

/// A process, and the pipes to it.
pub(super) struct Remote {
    name: &'static str,
    bulk: bool,
    crosses: bool,
    threads: usize,
    child: RefCell<Child>,
    pipes: RefCell<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Remote {
    /// Starts a process that serves at most this many threads, and learns whether it can.
    ///
    /// # Errors
    /// Says why not, in one sentence.
    pub fn start(
        name: &'static str,
        bulk: bool,
        threads: usize,
        command: &mut Command,
    ) -> Result<Remote, String> {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = spawned.map_err(|e| format!("its process cannot be started: {e}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("its process has no pipes".into());
        };
        let mut output = BufReader::new(output);
        let remote = |output| Remote {
            name,
            bulk,
            crosses: false,
            threads,
            child: RefCell::new(child),
            pipes: RefCell::new((input, output)),
        };
        match greeting(&mut output) {
            Ok((0, _)) => Ok(remote(output)),
            Ok((_, why)) => {
                drop(remote(output));
                Err(why)
            }
            Err(_) => {
                drop(remote(output));
                Err("its process ended before it began".into())
            }
        }
    }

    /// Says that the process can also take blocks on one CPU and give them back on another.
    pub fn crossing(mut self) -> Remote {
        self.crosses = true;
        self
    }

    fn ask(&self, threads: usize, request: &[u8]) -> io::Result<Vec<Taken>> {
        let (input, output) = &mut *self.pipes.borrow_mut();
        input.write_all(request)?;
        input.flush()?;
        (0..threads).map(|_| read_taken(output)).collect()
    }
}

impl Subject for Remote {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sample(&self, _: &Team, threads: usize, load: &Load) -> Option<Vec<Taken>> {
        self.ask(threads, &request(threads, load)).ok()
    }

    fn moves(&self) -> Option<(u64, u64)> {
        None
    }

    fn holds(&self, batch: usize) -> bool {
        batch <= MOST_BATCH
    }

    fn can(&self, threads: usize, call: usize) -> bool {
        threads <= self.threads && (call == 1 || self.bulk)
    }

    fn cross(&self, _: &Team, groups: usize) -> Option<Crossed> {
        if !self.crosses {
            return None;
        }
        let load = Load { order: Arc::new([]), bulk: false, call: 1, rounds: groups, chunk: 1, split: 0 };
        let taken = self.ask(1, &request(2, &load)).ok()?.pop()?;
        Some(Crossed::of_words(taken.marks.try_into().ok()?))
    }

    fn mixed(&self, _: &Team, work: &Work) -> Option<Vec<Busy>> {
        let Setting { threads, .. } = work.load.setting;
        if !self.crosses || threads > self.threads {
            return None;
        }
        let taken = self.ask(threads, &request_of_mixed(&work.load.setting, work.phase)).ok()?;
        taken.iter().map(busy).collect()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Writes the request for a sample.
pub(super) fn request(threads: usize, load: &Load) -> Vec<u8> {
    let head = [threads, load.order.len(), load.call, load.rounds, load.chunk, load.split];
    let words = head.iter().map(|n| *n as u32).chain(load.order.iter().copied());
    words.flat_map(u32::to_ne_bytes).collect()
}

/// The phases of a mixed load, by their words.
const PHASES: [Phase; 2] = [Phase::Open, Phase::Pass];

/// Writes the request for work on a mixed load.
fn request_of_mixed(setting: &Setting, phase: Phase) -> Vec<u8> {
    let pattern = MixedPattern::ALL.iter().position(|p| *p == setting.pattern).unwrap_or_default();
    let phase = PHASES.iter().position(|p| *p == phase).unwrap_or_default();
    let chunk = pattern * 2 + usize::from(setting.touched);
    let words = [setting.threads, 0, 0, setting.blocks, chunk, phase];
    words.into_iter().flat_map(|n| (n as u32).to_ne_bytes()).collect()
}

/// A request to a process.
#[derive(Debug)]
pub(super) enum Request {
    /// A sample of batches, on so many threads.
    Batches(usize, Load),
    /// So many groups across CPUs.
    Across(usize),
    /// Work on a mixed load.
    Mixed(Setting, Phase),
}

/// Reads a request; `None` where there will be none any more.
pub(super) fn read_request(input: &mut impl Read) -> Option<Request> {
    let mut head = [0; 6];
    for word in &mut head {
        *word = read_u32(input).ok()?;
    }
    let order: io::Result<Arc<[u32]>> = (0..head[1]).map(|_| read_u32(input)).collect();
    let (order, [threads, _, call, rounds, chunk, split]) = (order.ok()?, head.map(|n| n as usize));
    Some(match (order.is_empty(), call) {
        (true, 0) => {
            let (pattern, touched) = (*MixedPattern::ALL.get(chunk / 2)?, chunk % 2 == 1);
            Request::Mixed(Setting { threads, pattern, touched, blocks: rounds }, *PHASES.get(split)?)
        }
        (true, _) => Request::Across(rounds),
        (false, _) => {
            let load = Load { order, bulk: call > 1, call, rounds, chunk: chunk.max(1), split };
            Request::Batches(threads, load)
        }
    })
}

/// Returns a thread's times on a mixed load, in the form of an answer.
pub(super) fn taken(busy: &Busy) -> Taken {
    Taken { marks: vec![busy.start, busy.end], alloc: busy.ns, free: 0, missing: busy.missing }
}

fn busy(taken: &Taken) -> Option<Busy> {
    let [start, end] = taken.marks[..] else { return None };
    Some(Busy { ns: taken.alloc, start, end, missing: taken.missing })
}

/// Writes what a thread took.
pub(super) fn answer(taken: &Taken) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((taken.marks.len() as u32).to_ne_bytes());
    bytes.extend((taken.missing.min(u64::from(u32::MAX)) as u32).to_ne_bytes());
    for n in taken.marks.iter().chain([&taken.alloc, &taken.free]) {
        bytes.extend(n.to_ne_bytes());
    }
    bytes
}

fn read_taken(output: &mut impl Read) -> io::Result<Taken> {
    let (marks, missing) = (read_u32(output)?, read_u32(output)?);
    if marks > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let marks: io::Result<Vec<u64>> = (0..marks).map(|_| read_u64(output)).collect();
    let (marks, alloc, free) = (marks?, read_u64(output)?, read_u64(output)?);
    Ok(Taken { marks, alloc, free, missing: u64::from(missing) })
}

/// Writes whether the process can serve: status 0 and what it is, or 1 and why not.
pub(super) fn greet(status: u32, text: &str) -> Vec<u8> {
    let mut bytes = status.to_ne_bytes().to_vec();
    bytes.extend((text.len() as u32).to_ne_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

fn greeting(output: &mut impl Read) -> io::Result<(u32, String)> {
    let (status, length) = (read_u32(output)?, read_u32(output)?);
    if length > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length as usize];
    output.read_exact(&mut text)?;
    Ok((status, String::from_utf8_lossy(&text).trim().to_owned()))
}

fn read_u32(from: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_ne_bytes(bytes))
}

fn read_u64(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_is_heard() {
        let load = Load { order: [2, 0, 1].into(), bulk: true, call: 3, rounds: 8, chunk: 4, split: 2 };
        let Some(Request::Batches(threads, heard)) = read_request(&mut &request(2, &load)[..]) else {
            panic!("a sample of batches was asked for")
        };
        assert_eq!((threads, &heard.order[..]), (2, &[2, 0, 1][..]));
        assert_eq!((heard.call, heard.rounds, heard.chunk, heard.split), (3, 8, 4, 2));
        assert!(read_request(&mut &request(2, &load)[..30]).is_none());
        let taken = Taken { marks: vec![1, 5, 9], alloc: 3, free: 4, missing: 7 };
        assert_eq!(read_taken(&mut &answer(&taken)[..]).unwrap(), taken);
        assert_eq!(greeting(&mut &greet(1, "no")[..]).unwrap(), (1, "no".into()));
        assert!(greeting(&mut &[0, 0, 0, 0, 255, 255, 255, 255][..]).is_err());
    }

    #[test]
    fn work_on_a_mixed_load_is_heard_as_it_was_said() {
        let across = Load { order: Arc::new([]), bulk: false, call: 1, rounds: 7, chunk: 1, split: 0 };
        assert!(matches!(read_request(&mut &request(2, &across)[..]), Some(Request::Across(7))));
        for (pattern, phase) in MixedPattern::ALL.into_iter().flat_map(|p| PHASES.map(|phase| (p, phase))) {
            let setting = Setting { threads: 2, pattern, touched: phase == Phase::Pass, blocks: 77 };
            let heard = read_request(&mut &request_of_mixed(&setting, phase)[..]);
            let Some(Request::Mixed(heard, in_phase)) = heard else { panic!("{heard:?}") };
            assert_eq!((heard, in_phase), (setting, phase));
        }
        let worked = Busy { ns: 5, start: 10, end: 15, missing: 3 };
        let back = busy(&read_taken(&mut &answer(&taken(&worked))[..]).unwrap()).unwrap();
        assert_eq!((back.ns, back.start, back.end, back.missing), (5, 10, 15, 3));
    }
}
