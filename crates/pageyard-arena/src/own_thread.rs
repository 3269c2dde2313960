//! A thread of an owner's, which ends with it.

use std::thread::JoinHandle;

/// A thread, and the process that has it: a child of a fork has a copy of this, and no thread.
#[derive(Debug)]
pub(crate) struct OwnThread {
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl OwnThread {
    /// Takes a thread of this process.
    pub(crate) fn new(thread: JoinHandle<()>) -> OwnThread {
        OwnThread { thread: Some(thread), process: std::process::id() }
    }

    /// Returns whether the thread is this process's, so that locks that it takes are released again.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// Tells the thread to end, and waits until it has; nothing where that was done, or in a child of a fork.
    pub(crate) fn end(&mut self, tell: impl FnOnce()) {
        let Some(thread) = self.thread.take() else { return };
        if !self.is_here() {
            std::mem::forget(thread);
            return;
        }
        tell();
        // One that panicked has said so.
        let _ = thread.join();
    }
}
