//! Child processes: forked, ended with their parent, killed, waited for.

use crate::failure::Failure;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal, waitpid,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A child process; killed and waited for when this is dropped.
pub struct Child {
    pid: Pid,
    ended: bool,
}

impl Child {
    /// Forks a child that runs `work` and ends. The calling process has one thread. The kernel kills the child when
    /// this process ends, in whatever way.
    ///
    /// # Errors
    /// The kernel's error if it cannot fork.
    pub fn fork(work: impl FnOnce() -> Result<(), Failure>) -> Result<Child, Failure> {
        let parent = getpid();
        // SAFETY: this process has one thread, so the child's copy of everything is whole.
        match unsafe { libc::fork() } {
            0 => {
                let died =
                    set_parent_process_death_signal(Some(Signal::KILL)).is_err() || getppid() != Some(parent);
                let code = if died { 1 } else { run(work) };
                // SAFETY: it ends the process, without what the parent has to do at its own end.
                unsafe { libc::_exit(code) }
            }
            pid if pid > 0 => {
                let pid =
                    Pid::from_raw(pid).ok_or_else(|| Failure::Error("a child without a number".into()))?;
                Ok(Child { pid, ended: false })
            }
            _ => Err(Failure::because("forking a process", std::io::Error::last_os_error())),
        }
    }

    /// Lets it go on for so many of its own instructions, one by one, and kills it in front of the next.
    ///
    /// A worker is in the kernel most of the time, and a signal from outside finds it there: it would die between two
    /// system calls, with its hands empty. Counted instructions reach every place in between.
    ///
    /// # Errors
    /// [`Failure::Skip`] where the kernel lets no one trace; that the child had ended before by itself.
    pub fn kill_after(mut self, instructions: u32) -> Result<(), Failure> {
        self.check()?;
        let pid = self.pid.as_raw_nonzero().get();
        let ask = |request| {
            let nothing = std::ptr::null_mut::<libc::c_void>();
            // SAFETY: these requests read and write nothing of this process.
            unsafe { libc::ptrace(request, pid, nothing, nothing) }
        };
        if ask(libc::PTRACE_SEIZE) < 0 || ask(libc::PTRACE_INTERRUPT) < 0 {
            let why = std::io::Error::last_os_error();
            return Err(Failure::Skip(format!(
                "a worker cannot be traced, to kill it at a chosen instruction ({why}); allow ptrace, or leave out --kill"
            )));
        }
        self.wait_for_stop()?;
        for _ in 0..instructions {
            if ask(libc::PTRACE_SINGLESTEP) < 0 {
                return Err(Failure::because("stepping a worker", std::io::Error::last_os_error()));
            }
            self.wait_for_stop()?;
        }
        kill_process(self.pid, Signal::KILL).map_err(|why| Failure::because("killing a worker", why))?;
        while self.wait(WaitOptions::empty())?.is_none() {}
        Ok(())
    }

    /// Waits until it has stopped for its tracer.
    fn wait_for_stop(&mut self) -> Result<(), Failure> {
        match self.wait(WaitOptions::empty())? {
            None => Ok(()),
            Some(how) => Err(Failure::Error(format!("a worker ended by itself while it was traced ({how})"))),
        }
    }

    /// Checks that it has not ended by itself.
    ///
    /// # Errors
    /// That it has.
    pub fn check(&mut self) -> Result<(), Failure> {
        match self.wait(WaitOptions::NOHANG)? {
            Some(how) => {
                Err(Failure::Error(format!("process {} ended by itself ({how})", self.pid.as_raw_nonzero())))
            }
            None => Ok(()),
        }
    }

    /// Waits until it has ended as it was told.
    ///
    /// # Errors
    /// That it failed.
    pub fn join(mut self) -> Result<(), Failure> {
        match self.wait(WaitOptions::empty())? {
            Some(how) if how != "status 0" => {
                Err(Failure::Error(format!("process {} failed ({how})", self.pid.as_raw_nonzero())))
            }
            _ => Ok(()),
        }
    }

    /// Waits until it has ended, or stopped for its tracer; says how it ended, if it has.
    fn wait(&mut self, options: WaitOptions) -> Result<Option<String>, Failure> {
        loop {
            match waitpid(Some(self.pid), options) {
                Ok(None) => return Ok(None),
                Ok(Some((_, status))) if status.stopped() => return Ok(None),
                Ok(Some((_, status))) => {
                    self.ended = true;
                    let signal = status.terminating_signal().map(|signal| format!("signal {signal}"));
                    let code = || format!("status {}", status.exit_status().unwrap_or(-1));
                    return Ok(Some(signal.unwrap_or_else(code)));
                }
                Err(Errno::INTR) => {}
                Err(why) => return Err(Failure::because("waiting for a process", why)),
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            // Whatever the answer: it is ending.
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = self.wait(WaitOptions::empty());
        }
    }
}

/// Runs a child's work; returns its status.
fn run(work: impl FnOnce() -> Result<(), Failure>) -> i32 {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => 0,
        Ok(Err(why)) => {
            eprintln!("xdp-forward: {why}");
            1
        }
        Err(_) => 101,
    }
}
