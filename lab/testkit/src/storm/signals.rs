//! Timer signals that interrupt the threads of a storm.

use super::plan::Signals;

#[cfg(target_os = "linux")]
mod timers {
    use super::Signals;
    use crate::storm::handler::signalled;
    use nix::sys::signal::{
        SaFlags, SigAction, SigEvent, SigHandler, SigSet, SigevNotify, Signal, sigaction,
    };
    use nix::sys::time::TimeSpec;
    use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
    use nix::time::ClockId;
    use pageyard::Context;
    use std::sync::Once;

    const HARD: Signal = Signal::SIGUSR1;
    const SOFT: Signal = Signal::SIGUSR2;

    extern "C" fn on_signal(signal: i32) {
        signalled(if signal == HARD as i32 { Context::Hardirq } else { Context::Softirq });
    }

    /// Handles both signals. As in a kernel, a hard interrupt may come during a soft one, and not the other way round.
    fn handle() {
        for (signal, blocked) in [(HARD, SigSet::from(SOFT)), (SOFT, SigSet::empty())] {
            let action = SigAction::new(SigHandler::Handler(on_signal), SaFlags::SA_RESTART, blocked);
            // SAFETY: the handler does only what a handler may do: engines under a storm of signals take no lock that
            //         their thread may hold, and no memory of the C library.
            unsafe { sigaction(signal, &action) }.expect("signals can be handled");
        }
    }

    /// Makes a timer that interrupts the calling thread.
    fn timer(signal: Signal, signals: &Signals) -> nix::Result<Timer> {
        let thread_id = nix::unistd::gettid().as_raw();
        let event = SigEvent::new(SigevNotify::SigevThreadId { signal, thread_id, si_value: 0 });
        let mut timer = Timer::new(ClockId::CLOCK_MONOTONIC, event)?;
        let period = Expiration::Interval(TimeSpec::from_duration(signals.period));
        timer.set(period, TimerSetTimeFlags::empty())?;
        Ok(timer)
    }

    /// Starts signals in the calling thread, until what it returns is dropped.
    pub(in crate::storm) fn start(signals: &Signals) -> impl Sized + use<> {
        static HANDLED: Once = Once::new();
        HANDLED.call_once(handle);
        let timer = |signal| timer(signal, signals).expect("timers can be made");
        (timer(HARD), signals.soft.then(|| timer(SOFT)))
    }
}

#[cfg(target_os = "linux")]
pub(super) use timers::start;

/// Starts nothing: there are no timers of a thread here.
#[cfg(not(target_os = "linux"))]
pub(super) fn start(_: &Signals) {}
