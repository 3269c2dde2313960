//! Breakpoints in the program's own text, and what their signal handler does.

use crate::operations;
use crate::places::Place;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};

/// The event that hits the thread at the place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The handler returns.
    Nothing,
    /// It takes an item from the same list and puts it back.
    PopAndPush,
    /// It takes one and keeps it.
    PopAndKeep,
    /// It puts another one there.
    PushAnother,
    /// It fills the list, so that it slides.
    Fill,
    /// It drains the CPU's lists.
    Drain,
    /// It frees the block that is being freed.
    FreeTwin,
    /// It moves to the second CPU.
    Migrate,
    /// It forks; the child goes on too, and both must be right.
    Fork,
    /// The thread ends.
    Exit,
    /// It returns, and the same happens to each further attempt.
    Always,
}

impl Action {
    const ALL: [Action; 11] = [
        Action::Nothing,
        Action::PopAndPush,
        Action::PopAndKeep,
        Action::PushAnother,
        Action::Fill,
        Action::Drain,
        Action::FreeTwin,
        Action::Migrate,
        Action::Fork,
        Action::Exit,
        Action::Always,
    ];
}

/// Breakpoints at most.
const MOST: usize = 256;
/// Addresses of the breakpoints that are set, and the bytes that they replace. The first is the place itself.
static SET: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];
static BYTES: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];
/// The place that is tested, where its sequence aborts to, and what happens there.
static ABORT: AtomicUsize = AtomicUsize::new(0);
static ACTION: AtomicUsize = AtomicUsize::new(0);
/// How often it was hit, and where the thread was to go on.
static HITS: AtomicUsize = AtomicUsize::new(0);
static RETURNED: AtomicUsize = AtomicUsize::new(0);
/// The child of a fork; 0 in the child itself, -1 where there was none.
static CHILD: AtomicI32 = AtomicI32::new(-1);
/// How often the handler ran. The floor's stacks retry forever, so the handler stops interrupting at some point.
static ENTRIES: AtomicUsize = AtomicUsize::new(0);
static STRAY: AtomicBool = AtomicBool::new(false);

fn text() -> &'static OwnedFd {
    static TEXT: OnceLock<OwnedFd> = OnceLock::new();
    TEXT.get_or_init(|| {
        std::fs::File::options()
            .read(true)
            .write(true)
            .open("/proc/self/mem")
            .expect("own memory opens")
            .into()
    })
}

fn write(at: usize, byte: u8) {
    // SAFETY: it writes one byte of text, which only the caller executes, later.
    let n = unsafe { libc::pwrite(text().as_raw_fd(), (&raw const byte).cast(), 1, at as i64) };
    if n != 1 {
        STRAY.store(true, SeqCst);
    }
}

fn set(slot: usize, at: usize) {
    // SAFETY: it is text of this program.
    BYTES[slot].store(unsafe { (at as *const u8).read_volatile() }.into(), SeqCst);
    SET[slot].store(at, SeqCst);
    write(at, 0xcc);
}

fn clear(slot: usize) {
    let at = SET[slot].swap(0, SeqCst);
    if at != 0 {
        write(at, BYTES[slot].load(SeqCst) as u8);
    }
}

/// Sets a breakpoint at `place`, and one at the beginning of every other sequence: those are interrupted once each, so
/// that copies of a sequence that serve second attempts are reached too.
pub fn arm(place: &Place, all: &[Place], action: Action) {
    ABORT.store(if place.after { 0 } else { place.abort }, SeqCst);
    ACTION.store(action as usize, SeqCst);
    HITS.store(0, SeqCst);
    ENTRIES.store(0, SeqCst);
    CHILD.store(-1, SeqCst);
    set(0, place.at);
    let others = all.iter().filter(|p| p.at == p.sequence && p.sequence != place.sequence);
    for (slot, other) in (1..MOST).zip(others) {
        set(slot, other.at);
    }
}

/// Removes the breakpoints; returns how often the place was hit.
pub fn disarm() -> usize {
    (0..MOST).for_each(clear);
    assert!(!STRAY.load(SeqCst), "the text could not be written, or a breakpoint was not ours");
    HITS.load(SeqCst)
}

/// Returns whether the thread went on in the abort handler.
pub fn restarted() -> bool {
    let abort = ABORT.load(SeqCst);
    abort != 0 && RETURNED.load(SeqCst) == abort
}

/// Returns where the thread went on.
pub fn returned() -> usize {
    RETURNED.load(SeqCst)
}

/// Returns whether this is the child of a fork in the handler.
pub fn is_child() -> bool {
    CHILD.load(SeqCst) == 0
}

/// Waits for the child of a fork; returns its exit status where that is not 0, or -1 where there was no child.
pub fn child_failed() -> Option<i32> {
    let (child, mut status) = (CHILD.swap(-1, SeqCst), 0);
    if child <= 0 {
        return Some(-1);
    }
    // SAFETY: the status is written to a local variable.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    (waited != child || status != 0).then_some(status)
}

/// Installs the handler.
pub fn install() {
    text();
    // SAFETY: the handler has the signature that SA_SIGINFO promises, and does nothing that a signal handler may not.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
    }
}

extern "C" fn on_trap(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands both over.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let _ = info;
    let next = registers[libc::REG_RIP as usize] as usize;
    // Inside of a sequence the kernel has replaced the address already; then it is the abort handler's. The breakpoint
    // is the one whose sequence that is; after a sequence it is the one before the address.
    let place = SET[0].load(SeqCst);
    let mine = if ABORT.load(SeqCst) == 0 { next == place + 1 } else { next == ABORT.load(SeqCst) };
    if !mine && ENTRIES.fetch_add(1, SeqCst) > 64 {
        return (0..MOST).for_each(clear);
    }
    if !mine {
        // One of the others: they are interrupted once, or each time if every attempt is to be.
        match (1..MOST).find(|slot| operations::aborts_to(SET[*slot].load(SeqCst)) == next) {
            // Where it aborts to says which: sequences have a handler each.
            Some(_) if Action::ALL[ACTION.load(SeqCst)] == Action::Always => {}
            Some(slot) => clear(slot),
            None => {
                STRAY.store(true, SeqCst);
                (0..MOST).for_each(clear);
            }
        }
        return;
    }
    if ABORT.load(SeqCst) == 0 {
        registers[libc::REG_RIP as usize] = place as i64;
    }
    RETURNED.store(next, SeqCst);
    HITS.fetch_add(1, SeqCst);
    let action = Action::ALL[ACTION.load(SeqCst)];
    if action == Action::Always && ABORT.load(SeqCst) != 0 && HITS.load(SeqCst) < 16 {
        return;
    }
    (0..MOST).for_each(clear);
    match action {
        Action::Fork => {
            // SAFETY: the child uses nothing that another thread may hold.
            CHILD.store(unsafe { libc::fork() }, SeqCst);
        }
        Action::Exit => {
            // SAFETY: it ends this thread only; its stack stays until it is joined.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        other => operations::in_handler(other),
    }
}
