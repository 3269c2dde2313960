//! Forwards real packets: they come out of one AF_XDP socket and leave by another, and the frames they lie in come from
//! an allocator.
//!
//! Namespaces, virtual devices, programs and sockets are made here and vanish with the program. The frames are an
//! arena's memory, registered as one UMEM; workers are processes that may be killed at any instruction. What is
//! measured is the allocator's share: copying dominates everything else on virtual devices. It needs root.
//!
//! ```text
//! cargo run --release -p pageyard-arena --example xdp-forward -- --help
//! ```
//!
//! * `options`, `failure`, `report`: the command line, what stands against a run, what is printed.
//! * `shared`, `clock`, `packet`: memory between processes, the clock, what packets are made of.
//! * `net`, `bpf`, `ring`, `socket`, `rig`: namespaces and devices; programs; rings; sockets; all of it put together.
//! * `frames`: the allocators.
//! * `board`, `worker`, `ends`, `process`: what processes say, what they do, how they begin and end.
//! * `survey`, `outcome`, `run`: where frames are; what a run found; a run, from its processes to its account.

mod board;
mod bpf;
mod clock;
mod ends;
mod failure;
mod frames;
mod net;
mod options;
mod outcome;
mod packet;
mod process;
mod report;
mod rig;
mod ring;
mod run;
mod shared;
mod socket;
mod survey;
mod worker;

use crate::board::Board;
use crate::clock::Clock;
use crate::failure::Failure;
use crate::frames::Kind;
use crate::options::{Options, USAGE};
use crate::report::{Report, Row};
use crate::rig::{Memory, Rig};
use crate::run::{Plan, Setting, run};
use crate::socket::CHUNK;
use pageyard::TryLock;
use pageyard_arena::Arena;
use pageyard_arena::backing::{Backing, PageSize};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("xdp-forward: {why}");
            return ExitCode::from(2);
        }
    };
    match forward(&options) {
        Ok(report) => {
            // A reader of the first lines only has what they want.
            let _ = std::io::stdout().write_all(report.text(options.json).as_bytes());
            if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why @ Failure::Skip(_)) => {
            println!("{why}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("xdp-forward: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Makes everything and runs each allocator in turn, round by round.
fn forward(options: &Options) -> Result<Report, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::Skip("network namespaces and AF_XDP need root; run it with sudo".into()));
    }
    let clock = Clock::measure();
    let bytes = options.sizes.frames as usize * CHUNK as usize;
    // A file in memory: forked workers share it, where a private mapping would be copied.
    let backing = Backing::Memfd(PageSize::Base);
    let arena: Arena<TryLock> = Arena::builder()
        .size(bytes)
        .backing(backing)
        .build_locked()
        .map_err(|why| Failure::because("making an arena", why))?;
    let pages = arena.alloc_bytes(bytes).map_err(|why| Failure::because("taking the arena's frames", why))?;
    // SAFETY: 1. The pages are this function's, which outlives whatever uses the memory. 2. The mapping is shared.
    let memory = unsafe { Memory::new(pages.as_ptr(), bytes) };
    let rig = Rig::new(options.sizes, memory)?;
    let board: &Board = shared::value().map_err(|why| Failure::because("mapping shared memory", why))?;
    let mut report = Report::new(options, clock);
    let mut random = fastrand::Rng::with_seed(options.seed);
    for counts in [false, true] {
        let rounds = if counts { u32::from(options.lines) } else { options.rounds };
        let (frames, queues) = (options.sizes.frames, options.sizes.queues);
        let make = |kind: &Kind| Ok((*kind, kind.make(frames, queues, counts)?));
        let stores: Result<Vec<_>, std::io::Error> = options.allocators.iter().map(make).collect();
        let stores = stores.map_err(|why| Failure::because("mapping an allocator's memory", why))?;
        for round in 0..rounds {
            for completion in &options.completions {
                for (kind, store) in &stores {
                    let setting = Setting { rig: &rig, board, store: store.as_ref(), clock };
                    let plan = Plan {
                        completion: *completion,
                        packets: options.packets,
                        time: options.time,
                        kills: if counts { 0 } else { options.kills },
                    };
                    let mut said = Progress::new(kind.name(), completion.article(), round, options.packets);
                    let outcome = run(setting, plan, &mut random, &mut |sent| said.say(sent))?;
                    report.rows.push(Row { kind: *kind, completion: *completion, counted: counts, outcome });
                }
            }
        }
    }
    Ok(report)
}

/// How far a run is, on one line of a terminal.
struct Progress {
    what: String,
    packets: u64,
    shown: bool,
    last: std::time::Instant,
}

impl Progress {
    fn new(kind: &str, completion: &str, round: u32, packets: u64) -> Progress {
        let what = format!("round {}, {kind}, completions by {completion} worker", round + 1);
        Progress { what, packets, shown: std::io::stderr().is_terminal(), last: std::time::Instant::now() }
    }

    fn say(&mut self, sent: u64) {
        if self.shown && self.last.elapsed().as_millis() >= 200 {
            self.last = std::time::Instant::now();
            eprint!("\r\x1b[K{}: {sent} of {} packets", self.what, self.packets);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}
