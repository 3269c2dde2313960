//! A kernel in a guest that replays a recording: booted with the replaying module, it takes all its memory, waits for
//! its opening and its steps, and carries them out.

use crate::exchange::{
    Exchange, FrameMap, GuestOpening, GuestZone, Replayed, Sizes, Status, Step, Wanted, ZONES,
};
use crate::guest::{Failure, Guest, GuestError, Progress};
use std::process::Child;
use std::time::{Duration, Instant};

/// The most that a guest can have below 4 GiB, in MiB.
pub const MOST_LOW_MIB: u64 = 3584;
/// The same where it has more above: the emulator ends its lower part at a whole GiB.
pub const MOST_LOW_BESIDE_HIGH_MIB: u64 = 3072;

/// The guest's machine: one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayMachine {
    /// MiB below 4 GiB.
    pub low_mib: u64,
    /// MiB from 4 GiB on.
    pub high_mib: u64,
    /// CPUs.
    pub cpus: u32,
}

impl ReplayMachine {
    /// Returns the frame after the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        if self.high_mib > 0 { (1 << 20) + self.high_mib * 256 } else { self.low_mib * 256 }
    }
}

/// A guest that has taken all its memory.
pub struct Taken<'a> {
    guest: &'a Guest,
    emulator: Emulator,
    exchange: Exchange,
    /// The kernel's release.
    pub release: String,
    /// Its zones, by kind.
    pub zones: [GuestZone; ZONES],
    /// The frames that it got: all but those that the kernel itself needs.
    pub frames: FrameMap,
}

impl Guest {
    /// Boots the guest until it has taken all its memory. `sizes` says how much it will be told at most; `settings` are
    /// names below `/proc/sys/vm` and their values.
    ///
    /// # Errors
    /// [`GuestError`].
    pub fn take(
        &self,
        machine: ReplayMachine,
        sizes: Sizes,
        wanted: &Wanted,
        settings: &[(String, String)],
    ) -> Result<Taken<'_>, GuestError> {
        let path = self.folder.join("exchange");
        let log = self.console_log();
        let _ = std::fs::remove_file(&log);
        let exchange = Exchange::create(&path, sizes, wanted).map_err(GuestError::Start)?;
        let words = "pageyard_module=replay nokaslr swiotlb=noforce transparent_hugepage=never";
        let ram =
            format!("memory-backend-ram,id=ram,reserve=off,size={}M", machine.low_mib + machine.high_mib);
        let emulator = self
            .emulator(settings, words, &path, exchange.bytes(), &log)
            .map_err(GuestError::Start)?
            .args(["-M", &format!("pc,memory-backend=ram,max-ram-below-4g={}M", machine.low_mib)])
            .args(["-smp", &machine.cpus.to_string()])
            // One thread takes turns between the CPUs: one that waits gives its turn away.
            .args(["-accel", "tcg,thread=single"])
            .args(["-m", &format!("{}M", machine.low_mib + machine.high_mib)])
            .args(["-object", &ram])
            .spawn()
            .map_err(GuestError::Start)?;
        let mut taken = Taken {
            guest: self,
            emulator: Emulator(emulator),
            exchange,
            release: String::new(),
            zones: [GuestZone::default(); ZONES],
            frames: FrameMap::default(),
        };
        taken.wait(Status::Taken, &mut |_| ())?;
        (taken.release, taken.zones, taken.frames) = taken.exchange.taken().map_err(GuestError::Start)?;
        Ok(taken)
    }
}

impl Taken<'_> {
    /// Opens the guest and lets it carry out its steps; `progress` is told how many it has.
    ///
    /// # Errors
    /// [`GuestError`].
    pub fn replay(
        mut self,
        opening: &GuestOpening,
        steps: &[Step],
        progress: &mut dyn FnMut(u64),
    ) -> Result<Replayed, GuestError> {
        self.exchange.go(opening, steps).map_err(GuestError::Start)?;
        self.wait(Status::Done, progress)?;
        self.exchange.answers(steps.len()).map_err(GuestError::Start)
    }

    /// Waits until the guest is at `until`, as long as it gets on.
    fn wait(&mut self, until: Status, progress: &mut dyn FnMut(u64)) -> Result<(), GuestError> {
        let mut watched = Progress::new(&self.guest.console_log(), Instant::now());
        let mut at = 0;
        loop {
            match self.exchange.status().map_err(GuestError::Start)? {
                status if status == until => return Ok(()),
                Status::Failed(why) => return Err(self.failed(Failure::Refused(why))),
                Status::Running(done) if done > at => {
                    at = done;
                    progress(done);
                }
                _ => {}
            }
            let ended = self.emulator.0.try_wait().map_err(GuestError::Start)?.is_some();
            if ended || watched.stands_since(at, Instant::now()) > self.guest.patience {
                return Err(self.failed(match until {
                    Status::Done => Failure::Hung(at),
                    _ => Failure::NotBegun,
                }));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn failed(&self, why: Failure) -> GuestError {
        self.guest.failed(&why)
    }
}

/// The emulator's process, which ends with this.
struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        // Where it ended on its own there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
