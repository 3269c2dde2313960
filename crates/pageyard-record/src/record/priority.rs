//! The recorder's priority. A recorder that gets no processor time loses events: on a busy host it must run first, and
//! it takes little. Real-time classes would do the same, but a faulty recorder could then stop the host, so this uses
//! niceness.

use rustix::process::{getpriority_process, setpriority_process};

/// The highest priority of an ordinary process.
const HIGHEST: i32 = -20;

/// The priority of the calling thread, raised until this is dropped.
///
/// # Linux
/// `setpriority` of one process number affects one thread; threads and processes that it starts inherit it.
pub(super) struct Raised {
    before: Option<i32>,
}

impl Raised {
    /// Raises it, if that is allowed.
    pub(super) fn new() -> Raised {
        let before = getpriority_process(None).ok();
        Raised { before: before.filter(|_| setpriority_process(None, HIGHEST).is_ok()) }
    }

    /// Returns whether it was raised.
    pub(super) fn is(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Lowering is always allowed.
            let _ = setpriority_process(None, before);
        }
    }
}

/// Raises the priority of the calling thread for as long as it lives, if that is allowed.
pub(super) fn raise_this_thread() {
    // Ignored: the request for the other thread's priority gets the same answer.
    let _ = setpriority_process(None, HIGHEST);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_is_raised_for_a_time_and_only_here() {
        let of = || getpriority_process(None).unwrap();
        let before = of();
        let raised = Raised::new();
        assert_eq!(of(), if raised.is() { HIGHEST } else { before });
        drop(raised);
        assert_eq!(of(), before);
        std::thread::spawn(raise_this_thread).join().unwrap();
        assert_eq!(of(), before);
    }
}
