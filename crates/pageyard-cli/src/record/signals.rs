//! The signals that end a recording.

use crate::output::Failure;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::low_level::pipe;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The signals that end a recording, and the one that says that the command has ended.
pub struct Signals {
    stop: Arc<AtomicUsize>,
    asked: Arc<AtomicBool>,
    wake: UnixStream,
}

impl Signals {
    /// Catches them from now on; `child` says whether there will be a command.
    ///
    /// A signal that was ignored when this program started stays ignored: that is how `nohup` and a shell's `&`
    /// protect.
    pub fn catch(child: bool) -> Result<Signals, Failure> {
        let (wake, write) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let stop = Arc::new(AtomicUsize::new(0));
        let ignored = ignored();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if ignored >> (signal - 1) & 1 == 1 {
                continue;
            }
            signal_hook::flag::register_usize(signal, Arc::clone(&stop), signal as usize)?;
            pipe::register(signal, write.try_clone()?)?;
        }
        if child {
            pipe::register(SIGCHLD, write)?;
        }
        Ok(Signals { stop, asked: Arc::default(), wake })
    }

    /// Catches those, and SIGUSR1, which asks for something without ending anything.
    pub fn catch_with_usr1() -> Result<Signals, Failure> {
        let mut signals = Signals::catch(false)?;
        let (wake, write) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGUSR1] {
            pipe::register(signal, write.try_clone()?)?;
        }
        signal_hook::flag::register(SIGUSR1, Arc::clone(&signals.asked))?;
        signals.wake = wake;
        Ok(signals)
    }

    /// Returns whether SIGUSR1 came since this was called last.
    pub fn asked(&self) -> bool {
        self.asked.swap(false, Ordering::SeqCst)
    }

    /// Returns the signal that asked to stop, if one did.
    pub fn stopped(&self) -> Option<i32> {
        let signal = self.stop.load(Ordering::SeqCst);
        (signal != 0).then_some(signal as i32)
    }

    /// Returns what can be read once there is something to wake up for.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Forgets that there was something to wake up for.
    pub fn drain(&self) {
        let mut buffer = [0; 64];
        while matches!((&self.wake).read(&mut buffer), Ok(n) if n > 0) {}
    }
}

/// Returns the signals that this process ignores, signal 1 in bit 0; none where the kernel does not say.
fn ignored() -> u64 {
    std::fs::read_to_string("/proc/self/status").map_or(0, |status| ignored_in(&status))
}

fn ignored_in(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Returns a signal's name.
pub fn name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        SIGTERM => "SIGTERM",
        SIGHUP => "SIGHUP",
        _ => "a signal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_kernels_mask() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001003\nSigCgt:\t0000000000000000\n";
        assert_eq!(ignored_in(status), 1 << (SIGHUP - 1) | 1 << (SIGINT - 1) | 1 << 12);
        assert_eq!(ignored_in("SigCgt:\t1\n"), 0);
    }
}
