//! Failures and their effects: limits of the process, threads that end in the middle of a call, memory that is cut off.
//!
//! Cases that change or end their process run in one of their own: this program again.

#![cfg(target_os = "linux")]

use pageyard::{Frames, Order, PerCpu, Pfn, RangeFault, TryLock};
use pageyard_arena::Arena;
use pageyard_arena::backing::{Backing, BackingError, Mapping, PageSize};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const MIB: usize = 1 << 20;

fn child(case: &str) -> (Output, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", case, "--ignored", "--nocapture", "--test-threads=1"])
        .output()
        .unwrap();
    let text =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat();
    (output, text)
}

/// Runs a case that passes, in a process of its own.
fn alone(case: &str) {
    let (output, text) = child(case);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    println!("{text}");
}

fn limit(resource: Resource, to: u64) {
    setrlimit(resource, Rlimit { current: Some(to), maximum: Some(to) }).unwrap();
}

#[test]
fn limits_of_the_process_are_named() {
    for case in ["a_limit_of_file_sizes", "a_limit_of_open_files", "a_limit_of_addresses"] {
        alone(case);
    }
}

#[test]
#[ignore = "run by another test, in a child"]
fn a_limit_of_file_sizes() {
    limit(Resource::Fsize, MIB as u64);
    let why = Mapping::new(4 * MIB, Backing::Memfd(PageSize::Base)).unwrap_err().to_string();
    assert!(why.contains("ulimit -f") && why.contains("1048576"), "{why}");
    Mapping::new(MIB, Backing::Memfd(PageSize::Base)).unwrap();
}

#[test]
#[ignore = "run by another test, in a child"]
fn a_limit_of_open_files() {
    limit(Resource::Nofile, 0);
    let why = Mapping::new(MIB, Backing::Memfd(PageSize::Base)).unwrap_err().to_string();
    assert!(why.contains("ulimit -n"), "{why}");
    let arena = Arena::builder().size(MIB).build_locked().unwrap();
    assert!(std::sync::Arc::new(arena).purger().start().is_err());
}

#[test]
#[ignore = "run by another test, in a child"]
fn a_limit_of_addresses() {
    limit(Resource::As, 512 << 20);
    // What can be mapped at all is a question of the host's memory first.
    let why = match Mapping::new(1 << 30, Backing::Anonymous) {
        Err(BackingError::BeyondMemory { .. }) => return,
        answer => answer.unwrap_err().to_string(),
    };
    assert!(why.contains("ulimit -v"), "{why}");
}

#[test]
fn ranges_that_are_not_the_arenas_are_values() {
    let arena = Arena::builder().size(4 * MIB).build_locked().unwrap();
    let pages = arena.alloc_bytes(3 * 4096).unwrap();
    // SAFETY: each of these calls is refused.
    let engine = unsafe { arena.engine() };
    let cx = pageyard::Cx::on(pageyard::CpuId(0));
    let free = |first, frames| engine.free_range(&cx, Pfn(first), Frames(frames)).unwrap_err().why;
    assert_eq!(free(0, 0), RangeFault::Empty);
    assert_eq!(free(u64::MAX, 7), RangeFault::Overflow);
    for (first, frames) in [(1024, 1), (1 << 40, 1), (1 << 40, 1 << 40)] {
        assert!(matches!(free(first, frames), RangeFault::Free(_)), "{first}");
    }
    // From free memory on: nothing before it is freed.
    let other = (pages.pfn().0 + 512) % 1024;
    assert!(matches!(free(other, 4), RangeFault::Free(_)));
    assert_eq!(arena.address_of(Pfn(1024)), None);
    assert_eq!(arena.mapping().resident(Pfn(1 << 40), Frames(u64::MAX)), Frames(0));
    assert!(arena.address_of(Pfn(1023)).is_some());
    drop(pages);
    assert!(arena.audit().unwrap().is_conserved());
}

/// The state shared by a case's threads.
struct Loop<P: PerCpu + 'static> {
    arena: Arena<P>,
    turns: AtomicU64,
}

unsafe extern "C" {
    fn pthread_testcancel();
    fn pthread_cancel(thread: libc::pthread_t) -> i32;
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> i32;
}

/// Allocates and frees, as long as the thread lives.
extern "C-unwind" fn turn<P: PerCpu + 'static>(shared: *mut c_void) -> *mut c_void {
    // SAFETY: it is the `Loop` that `thread` was given, which lives as long as the process.
    let shared = unsafe { &*shared.cast::<Loop<P>>() };
    loop {
        let turn = shared.turns.fetch_add(1, Ordering::Relaxed);
        let order = Order::of([0, 0, 3, 0, 0, 0, 1, 0][turn as usize % 8]);
        if turn.is_multiple_of(64) {
            shared.arena.alloc_bytes(13 * 4096).unwrap().split_at(Frames(5)).unwrap();
        }
        let (one, other) = (shared.arena.alloc(order).unwrap(), shared.arena.alloc(order).unwrap());
        drop((one, other));
        // SAFETY: nothing here has a destructor, so a cancellation may leave these frames.
        unsafe { pthread_testcancel() };
    }
}

fn thread<P: PerCpu + 'static>(shared: &'static Loop<P>) -> libc::pthread_t {
    let mut thread = 0;
    let before = shared.turns.load(Ordering::Relaxed);
    let argument = std::ptr::from_ref(shared).cast_mut().cast();
    // SAFETY: `turn` takes such an argument, which lives as long as the process.
    assert_eq!(unsafe { pthread_create(&raw mut thread, std::ptr::null(), turn::<P>, argument) }, 0);
    while shared.turns.load(Ordering::Relaxed) < before + 100 {
        std::thread::yield_now();
    }
    thread
}

fn joined(thread: libc::pthread_t) {
    // SAFETY: it was created above, and is joined once.
    assert_eq!(unsafe { libc::pthread_join(thread, std::ptr::null_mut()) }, 0);
}

fn shared<P: PerCpu + 'static>(arena: Arena<P>) -> &'static Loop<P> {
    Box::leak(Box::new(Loop { arena, turns: AtomicU64::new(0) }))
}

#[test]
fn a_thread_that_is_cancelled_between_calls_loses_nothing() {
    alone("cancelled");
}

#[test]
#[ignore = "run by another test, in a child"]
fn cancelled() {
    let shared = shared(Arena::builder().size(64 * MIB).build_locked().unwrap());
    for _ in 0..50 {
        let thread = thread(shared);
        // SAFETY: it has not been joined.
        assert_eq!(unsafe { pthread_cancel(thread) }, 0);
        joined(thread);
    }
    let census = shared.arena.audit().unwrap();
    assert!(census.is_conserved() && census.allocated == Frames(0), "{census:?}");
}

#[test]
fn a_thread_that_ends_in_the_middle_of_a_call_loses_what_it_held() {
    for case in ["killed_on_sequences", "killed_under_a_lock"] {
        alone(case);
    }
}

/// Ends the thread, at whatever instruction it is, as nothing of the C library does.
extern "C" fn end_of_thread(_: i32) {
    // SAFETY: the thread's frames are never looked at again.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// The most frames that one of these threads holds: two blocks of order 3, 13 frames of a block of 16, and a batch of
/// 64 blocks of order 3 on its way between a list and the zone.
const HELD: u64 = 2 * 8 + 16 + 64 * 8;

/// Kills threads in the middle of calls, and looks at what is left.
fn kill<P: PerCpu + 'static>(arena: Arena<P>) {
    const KILLS: u64 = 100;
    let shared = shared(arena);
    let handler = end_of_thread as extern "C" fn(i32);
    // SAFETY: the handler makes one system call.
    unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    for n in 0..KILLS {
        let thread = thread(shared);
        for _ in 0..n % 50 * 20 {
            std::hint::spin_loop();
        }
        // SAFETY: it has not been joined.
        assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
        joined(thread);
    }
    // All that is left goes to one owner at a time.
    let mut blocks: Vec<_> = std::iter::from_fn(|| shared.arena.alloc(Order::ZERO).ok()).collect();
    for (n, block) in blocks.iter_mut().enumerate() {
        block.fill(n as u8);
        block[..8].copy_from_slice(&n.to_ne_bytes());
    }
    for (n, block) in blocks.iter().enumerate() {
        assert!(block[..8] == n.to_ne_bytes() && block[8..].iter().all(|byte| *byte == n as u8));
    }
    let (left, all) = (blocks.len() as u64, shared.arena.mapping().frames().0);
    drop(blocks);
    let again =
        std::iter::from_fn(|| shared.arena.alloc(Order::ZERO).ok()).map(std::mem::forget).count() as u64;
    // Not the same number twice: a killed call leaves the zone's count of free frames off by what it held, and where
    // that count ends a request is refused, whatever lies beyond it.
    let lost = |got: u64| all.checked_sub(got).expect("no more comes back than there is");
    assert!(lost(left).max(lost(again)) <= KILLS * HELD, "{left} and {again} of {all} come back");
    println!("{KILLS} threads ended; {} of {all} frames are lost; {:?}", lost(left), shared.arena.audit());
}

#[test]
#[ignore = "run by another test, in a child"]
fn killed_under_a_lock() {
    kill(Arena::builder().size(512 * MIB).build_locked().unwrap());
}

#[test]
#[ignore = "run by another test, in a child"]
fn killed_on_sequences() {
    match Arena::builder().size(512 * MIB).build() {
        Ok(arena) => kill(arena),
        Err(why) => println!("skipped: {why}"),
    }
}

#[test]
fn memory_that_is_cut_off_kills_who_touches_it_and_not_the_allocator() {
    let (output, text) = child("cut_off");
    assert!(text.contains("allocated and freed without it"), "{text}");
    assert!(!text.contains("touched"), "{text}");
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{text}");
}

#[test]
#[ignore = "run by another test, in a child"]
fn cut_off() {
    const BYTES: usize = 4 * MIB;
    let file = memfd_create("cut off", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, BYTES as u64).unwrap();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let at = unsafe { mmap(std::ptr::null_mut(), BYTES, access, MapFlags::SHARED, &file, 0) }.unwrap();
    // SAFETY: it is mapped, and nothing else uses it. That it is cut off is what is tested.
    let mapping = unsafe { Mapping::of_caller(NonNull::new(at.cast()).unwrap(), BYTES) }.unwrap();
    let arena: Arena<TryLock> = Arena::builder().memory(mapping).build_locked().unwrap();
    let mut block = arena.alloc(Order::ZERO).unwrap();
    block.fill(1);
    ftruncate(&file, 0).unwrap();
    let pages = arena.alloc_bytes(MIB).unwrap();
    drop(pages.split_at(Frames(7)).unwrap());
    drop(std::iter::from_fn(|| arena.alloc(Order::ZERO).ok()).collect::<Vec<_>>());
    assert_eq!(arena.purge(Frames(u64::MAX)), Ok(Frames(0)));
    assert_eq!(arena.audit().unwrap().allocated, Frames(1));
    println!("allocated and freed without it");
    block.fill(2);
    println!("touched");
}
