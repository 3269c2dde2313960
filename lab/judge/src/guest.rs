//! A stock kernel in a guest: booted with the judge's module, two CPUs and two nodes, it carries out one stream and
//! goes down again.

use crate::exchange::{self, ExchangeError, Ruling, Task};
use crate::operation::Operation;
use pageyard_guest::emulator;
use pageyard_guest::guest::{Failure, Guest, GuestError, Progress};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a guest is booted that does not come to the stream: under an emulator a kernel now and then fails on its
/// way there.
const BOOTS: u32 = 3;

/// The machine: as much below 4 GiB as fills DMA and DMA32, Normal on both nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// MiB below 4 GiB, all of node 0.
    pub low_mib: u32,
    /// MiB of node 0.
    pub node0_mib: u32,
    /// MiB of node 1.
    pub node1_mib: u32,
    /// MiB that the kernel sets aside for CMA and lends meanwhile. A kernel that was built without it has none.
    pub cma_mib: u32,
}

/// A machine that boots in three seconds and fills in a few ten thousand operations.
pub const SMALL: Machine = Machine { low_mib: 192, node0_mib: 320, node1_mib: 256, cma_mib: 0 };

/// Boots the guest, lets it carry out a stream, and returns what it did. `settings` are names below `/proc/sys/vm`
/// and their values.
///
/// # Errors
/// [`GuestError`].
pub fn judge(
    guest: &Guest,
    machine: Machine,
    settings: &[(String, String)],
    operations: &[Operation],
    task: Task,
) -> Result<Ruling, GuestError> {
    let exchange = guest.folder.join("exchange");
    let log = guest.console_log();
    let _ = std::fs::remove_file(&log);
    let mut read = Err(ExchangeError::Guest(Failure::NotBegun));
    for _ in 0..BOOTS {
        exchange::write(&exchange, operations, task).map_err(GuestError::Start)?;
        boot(guest, machine, settings, &exchange, &log, task).map_err(GuestError::Start)?;
        read = exchange::read(&exchange, operations);
        if !matches!(read, Err(ExchangeError::Guest(Failure::NotBegun))) {
            break;
        }
    }
    read.map_err(|why| guest.failed(&why))
}

fn boot(
    guest: &Guest,
    machine: Machine,
    settings: &[(String, String)],
    exchange: &Path,
    log: &Path,
    task: Task,
) -> io::Result<()> {
    let words = format!("pageyard_module=judge cma={}M", machine.cma_mib);
    let mut child = guest
        .emulator(settings, &words, exchange, exchange::SIZE, log)?
        .args(["-M", &format!("pc,max-ram-below-4g={}M", machine.low_mib)])
        .args(["-smp", "2"])
        .args(match task {
            // The time stamp counter counts instructions.
            Task::Weigh => &["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"][..],
            Task::Plain | Task::Compact => &["-accel", "tcg,thread=multi"],
        })
        .args(["-m", &format!("{}M", machine.node0_mib + machine.node1_mib)])
        .args(emulator::node(0, machine.node0_mib, Some(0)))
        .args(emulator::node(1, machine.node1_mib, Some(1)))
        .spawn()?;
    let done = std::fs::File::open(exchange)?;
    let mut progress = Progress::new(log, Instant::now());
    while child.try_wait()?.is_none() {
        if progress.stands_since(exchange::done(&done)?, Instant::now()) > guest.patience {
            child.kill()?;
            child.wait()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
