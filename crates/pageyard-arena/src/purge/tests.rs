use super::*;
use crate::arena::Arena;
use crate::backing::{Backing, BackingError, PageSize};
use crate::clear::{Clearer, Primitive};
use pageyard::{Config, Frames, Order, Pfn, TryLock};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const BLOCK: Frames = Frames(512);
const LONG: Duration = Duration::from_secs(3600);

fn arena(backing: Backing) -> Arena<TryLock> {
    let clearer = Clearer::only(Primitive::Memset).unwrap();
    Arena::builder().size(16 * MIB as usize).backing(backing).clearer(clearer).build_locked().unwrap()
}

fn resident(arena: &Arena<TryLock>) -> Frames {
    arena.mapping().resident(Pfn(0), arena.mapping().frames())
}

/// Writes to all of an arena's memory and frees it, but for one pageblock.
fn used(arena: &Arena<TryLock>) -> crate::Block<&Arena<TryLock>> {
    let mut blocks: Vec<_> = std::iter::from_fn(|| arena.alloc(Order::of(9)).ok()).collect();
    assert_eq!(blocks.len(), 8);
    blocks.iter_mut().for_each(|block| block.fill(0xA5));
    blocks.swap_remove(3)
}

fn all_free(arena: &Arena<TryLock>) {
    let census = arena.audit().unwrap();
    assert!(census.is_conserved() && census.allocated == Frames(0), "{census:?}");
}

/// Waits for what a thread does.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_purge_leaves_what_is_in_use_and_gives_nothing_back_twice() {
    for backing in [Backing::Anonymous, Backing::AnonymousBase, Backing::Memfd(PageSize::Base)] {
        let arena = arena(backing);
        assert_eq!(arena.purge(Frames(u64::MAX)), Ok(Frames(0)), "nothing was written to");
        let kept = used(&arena);
        assert_eq!(resident(&arena), Frames(8 * 512));
        assert_eq!(arena.purge(Frames(0)), Ok(Frames(0)));
        assert_eq!(arena.purge(Frames(1)), Ok(BLOCK), "{backing:?}: whole pageblocks");
        assert_eq!(arena.purge(Frames(u64::MAX)), Ok(Frames(6 * 512)));
        assert_eq!(resident(&arena), BLOCK);
        assert_eq!(arena.purge(Frames(u64::MAX)), Ok(Frames(0)), "all of it was given back before");
        assert!(kept.iter().all(|byte| *byte == 0xA5));
        // What was given back is known to be zeros, and so it is after passes that leave it alone.
        let zeros: Vec<_> = std::iter::from_fn(|| arena.alloc_zeroed(Order::of(9)).ok()).collect();
        assert_eq!(zeros.len(), 7);
        assert!(zeros.iter().all(|block| block.was_zeroed()));
        assert_eq!(resident(&arena), BLOCK, "none of it was cleared");
        assert!(zeros.iter().all(|block| block.iter().all(|byte| *byte == 0)));
        drop((kept, zeros));
        all_free(&arena);
    }
}

#[test]
fn a_reserve_stays_in_memory() {
    let arena = arena(Backing::Anonymous);
    drop(used(&arena));
    let above = |frames| arena.purge_as(&PurgeLimits { reserve: Frames(frames), ..PurgeLimits::default() });
    assert_eq!(above(3 * 512 - 1), Ok(Frames(5 * 512)));
    assert_eq!(above(3 * 512), Ok(Frames(0)));
    assert_eq!(resident(&arena), Frames(3 * 512));
    assert_eq!(arena.purge(Frames(u64::MAX)), Ok(Frames(3 * 512)));
    all_free(&arena);
}

#[test]
fn free_frames_between_frames_in_use_go_back_too() {
    let all = |least| PurgeLimits { least: Order::of(least), ..PurgeLimits::default() };
    for backing in [
        Backing::Anonymous,
        Backing::AnonymousBase,
        Backing::Memfd(PageSize::Base),
        Backing::MemfdTransparent,
    ] {
        let arena = arena(backing);
        let mut held: Vec<_> = std::iter::from_fn(|| arena.alloc(Order::ZERO).ok()).collect();
        held.iter_mut().for_each(|block| block.fill(0xA5));
        // Every second frame stays, and one of a whole pageblock's.
        held.retain(|block| block.pfn().0.is_multiple_of(2) && block.pfn().0 <= 7 * 512);
        let used = held.len() as u64;
        assert_eq!(arena.purge(Frames(u64::MAX)), Ok(Frames(0)), "no pageblock is free");
        assert_eq!(arena.purge_as(&all(4)), Ok(Frames(496)), "what is free behind the last one");
        let half = PurgeLimits { most: Frames(1000), ..all(0) };
        assert_eq!(arena.purge_as(&half), Ok(Frames(1000)), "{backing:?}");
        let given = arena.purge_as(&all(0)).unwrap();
        assert_eq!(given, Frames(8 * 512 - used - 496 - 1000));
        assert_eq!(resident(&arena), Frames(used), "{backing:?}");
        assert_eq!(arena.purge_as(&all(0)), Ok(Frames(0)), "all of it was given back before");
        assert!(held.iter().all(|block| block.iter().all(|byte| *byte == 0xA5)));
        // What came back is known to be zeros.
        let zeros: Vec<_> = std::iter::from_fn(|| arena.alloc_zeroed(Order::ZERO).ok()).collect();
        assert_eq!(zeros.len() as u64, 8 * 512 - used);
        assert!(zeros.iter().all(|block| block.was_zeroed()) && resident(&arena) == Frames(used));
        assert!(zeros.iter().all(|block| block.iter().all(|byte| *byte == 0)));
        drop((held, zeros));
        all_free(&arena);
    }
}

#[test]
fn an_arena_that_clears_everything_is_purged_too() {
    for on_free in [false, true] {
        let mut config = Config::new(1);
        config.watermark.min_free_kbytes = Some(0);
        (config.init_on_alloc, config.init_on_free) = (!on_free, on_free);
        let arena = Arena::builder().size(16 * MIB as usize).config(config).build_locked().unwrap();
        drop(used(&arena));
        assert_eq!(arena.purge(Frames(u64::MAX)), Ok(Frames(8 * 512)));
        assert_eq!(resident(&arena), Frames(0), "clearing it again would fault it in");
        assert!(arena.alloc(Order::of(9)).unwrap().iter().all(|byte| *byte == 0));
        all_free(&arena);
    }
}

#[test]
fn memory_that_was_faulted_in_can_be_given_back() {
    let how = crate::backing::Prefault { threads: 1, progress: &|_, _| () };
    let arena = Arena::builder().size(16 * MIB as usize).prefault(how).build_locked().unwrap();
    assert_eq!(arena.purge(Frames(u64::MAX)), Ok(Frames(8 * 512)));
    assert_eq!(resident(&arena), Frames(0));
    assert!(arena.alloc(Order::of(9)).unwrap().was_zeroed());
    all_free(&arena);
}

#[test]
fn a_purger_gives_back_at_its_intervals_and_keeps_its_reserve() {
    let arena = Arc::new(arena(Backing::Anonymous));
    let kept = used(&arena);
    let purger = arena.purger().every(Duration::ZERO).reserve(2 * 2 * MIB).at_most(1).start().unwrap();
    until("nothing was given back", || resident(&arena) == Frames(3 * 512));
    until("it does not go on", || purger.report().rounds > 10);
    let report = purger.stop();
    assert_eq!((report.given, report.failed, report.panicked), (Frames(5 * 512), 0, 0), "{report:?}");
    assert!(report.rounds > 5 && report.pressed == 0, "a pageblock a round: {report:?}");
    assert!(kept.iter().all(|byte| *byte == 0xA5));
    drop(kept);
    assert_eq!(Arc::strong_count(&arena), 1, "the thread has ended");
    all_free(&arena);
}

/// A pressure source that a test controls.
struct Fake {
    event: Option<OwnedFd>,
    answers: mpsc::Receiver<Result<bool, BackingError>>,
}

impl Pressure for Fake {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.event.as_ref().map(AsFd::as_fd)
    }

    fn is_short(&mut self, _: bool) -> Result<bool, BackingError> {
        self.answers.try_recv().unwrap_or(Ok(false))
    }
}

#[test]
fn pressure_takes_the_reserve_too() {
    let arena = Arc::new(arena(Backing::Anonymous));
    drop(used(&arena));
    let (say, answers) = mpsc::channel();
    let fake = Fake { event: None, answers };
    let every = Duration::from_millis(1);
    let purger = arena.purger().every(every).reserve(64 * MIB).at_most(1).on_pressure(fake).start().unwrap();
    until("it does not run", || purger.report().rounds > 3);
    assert_eq!(resident(&arena), Frames(8 * 512), "all of it is reserve");
    say.send(Ok(true)).unwrap();
    until("memory was short", || purger.report().pressed == 1);
    let report = purger.stop();
    assert_eq!((report.given, resident(&arena)), (Frames(8 * 512), Frames(0)), "{report:?}");
    all_free(&arena);
}

/// A socket on which urgent data is pressure: it wakes a poll as a trigger of the kernel does.
struct Urgent(std::net::TcpStream);

impl Pressure for Urgent {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn is_short(&mut self, woken: bool) -> Result<bool, BackingError> {
        let mut byte = 0_u8;
        // SAFETY: `byte` is this call's own.
        let got = unsafe { libc::recv(self.0.as_raw_fd(), (&raw mut byte).cast(), 1, libc::MSG_OOB) };
        assert_eq!(woken, got == 1);
        Ok(woken)
    }
}

#[test]
fn pressure_wakes_the_thread_in_the_middle_of_an_interval() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    let arena = Arc::new(arena(Backing::Anonymous));
    let purger = arena.purger().every(LONG).on_pressure(Urgent(theirs)).start().unwrap();
    for n in 1..=2 {
        drop(used(&arena));
        assert_eq!(resident(&arena), Frames(8 * 512));
        // SAFETY: the byte is read only.
        assert_eq!(unsafe { libc::send(ours.as_raw_fd(), [1_u8].as_ptr().cast(), 1, libc::MSG_OOB) }, 1);
        until("it was not woken", || purger.report().pressed == n);
        assert_eq!(resident(&arena), Frames(0));
    }
    let report = purger.stop();
    assert_eq!((report.rounds, report.given), (2, Frames(16 * 512)), "{report:?}");
    all_free(&arena);
}

#[test]
fn what_fails_or_panics_is_reported_and_the_thread_goes_on() {
    struct Panics;
    impl Pressure for Panics {
        fn is_short(&mut self, _: bool) -> Result<bool, BackingError> {
            panic!("planted");
        }
    }
    struct PanicsLater;
    impl Pressure for PanicsLater {
        fn is_short(&mut self, _: bool) -> Result<bool, BackingError> {
            Err(BackingError::Empty)
        }
    }
    impl Drop for PanicsLater {
        fn drop(&mut self) {
            panic!("planted");
        }
    }
    let arena = Arc::new(arena(Backing::Anonymous));
    for (source, failed) in [(Box::new(Panics) as Box<dyn Pressure>, 0), (Box::new(PanicsLater), 1)] {
        drop(used(&arena));
        let purger = arena.purger().every(Duration::ZERO).on_pressure(source).start().unwrap();
        until("it does not go on", || purger.report().rounds > 3 && resident(&arena) == Frames(0));
        let report = purger.stop();
        assert_eq!((report.panicked, report.failed), (1, failed), "{report:?}");
        assert_eq!(report.last_error, (failed == 1).then_some(BackingError::Empty));
    }
    all_free(&arena);
}

#[test]
fn a_descriptor_that_hangs_up_is_watched_no_more() {
    let arena = Arc::new(arena(Backing::Anonymous));
    drop(used(&arena));
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let fake = Fake { event: Some(theirs.into()), answers: mpsc::channel().1 };
    let purger = arena.purger().every(LONG).on_pressure(fake).start().unwrap();
    drop(ours);
    until("it was not told", || purger.report().rounds == 1);
    let report = purger.stop();
    assert_eq!((report.failed, report.rounds), (1, 1), "{report:?}");
    assert!(report.last_error.unwrap().to_string().contains("control group"));
    all_free(&arena);
}

#[test]
fn a_purger_stops_at_once_in_the_middle_of_an_interval() {
    let arena = Arc::new(arena(Backing::Anonymous));
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let fake = Fake { event: Some(event), answers: mpsc::channel().1 };
    drop(arena.purger().every(LONG).on_pressure(fake).start().unwrap());
    let report = arena.purger().every(Duration::MAX).start().unwrap().stop();
    assert_eq!(report, PurgeReport::default());
    assert_eq!(Arc::strong_count(&arena), 1);
}

#[test]
fn a_childs_purger_stops_no_thread_of_its_parent() {
    let arena = Arc::new(arena(Backing::Anonymous));
    let purger = arena.purger().every(Duration::from_millis(1)).start().unwrap();
    // SAFETY: the child calls nothing that another thread of this process may hold a lock of, and ends without
    // unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(purger);
        // SAFETY: nothing that this process holds needs to be given back.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` is the caller's.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child did not wait for a thread that it does not have");
    let before = purger.report().rounds;
    until("the parent's thread goes on", || purger.report().rounds > before + 3);
}

#[test]
fn a_purge_runs_beside_owners_of_memory() {
    let arena = Arc::new(arena(Backing::Anonymous));
    let done = AtomicBool::new(false);
    let purger = arena.purger().every(Duration::ZERO).start().unwrap();
    std::thread::scope(|scope| {
        for thread in 1..=2_u8 {
            let (arena, done) = (&arena, &done);
            scope.spawn(move || {
                let mut n = 0_usize;
                while !done.load(Ordering::Relaxed) {
                    n += 1;
                    let order = Order::of([0, 9, 3, 8][n % 4]);
                    let Ok(mut block) = arena.alloc_zeroed(order) else { continue };
                    assert!(block.iter().all(|byte| *byte == 0));
                    block.fill(thread);
                    assert!(block.iter().all(|byte| *byte == thread));
                }
            });
        }
        until("nothing was given back", || purger.report().given > Frames(20 * 512));
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(purger.stop().failed, 0);
    all_free(&arena);
}

#[test]
fn a_trigger_of_the_kernel_can_be_set_and_waited_for() {
    match Stall::of_host() {
        Ok(stall) => {
            assert!(stall.descriptor().is_some());
            let arena = Arc::new(arena(Backing::Anonymous));
            let purger = arena.purger().every(Duration::ZERO).on_pressure(stall).start().unwrap();
            until("it does not run", || purger.report().rounds > 3);
            let report = purger.stop();
            assert_eq!(report.failed, 0, "{report:?}");
        }
        Err(why) => println!("skipped: {why}"),
    }
    match Stall::of_group() {
        Ok(stall) => assert!(stall.descriptor().is_some()),
        Err(why) => println!("skipped: {why}"),
    }
    assert!(of_this_host().is_ok(), "where there is no trigger, there is MemAvailable");
}

#[test]
fn what_cannot_be_watched_names_the_setting() {
    let text = |path: &str, stalled| {
        Stall::open(path.as_ref(), stalled, Duration::from_secs(2)).unwrap_err().to_string()
    };
    let second = Duration::from_secs(1);
    assert!(text("/proc/pressure/no-such-file", second).contains("CONFIG_PSI=y"));
    if let Ok(stall) = Stall::of_host() {
        drop(stall);
        let longer = text("/proc/pressure/memory", Duration::from_secs(3));
        assert!(longer.contains("longer than the stall"), "{longer}");
    }
    for (errno, words) in
        [(libc::EACCES, "writable"), (libc::EPERM, "CAP_SYS_RESOURCE"), (libc::EOPNOTSUPP, "psi=1")]
    {
        let why = super::pressure::refused(&std::io::Error::from_raw_os_error(errno)).to_string();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn available_memory_is_short_below_a_threshold() {
    assert_eq!(Available::below(0).is_short(false), Ok(false));
    assert_eq!(Available::below(u64::MAX).is_short(false), Ok(true));
    let file = std::env::temp_dir().join(format!("pageyard-meminfo-{}", std::process::id()));
    for (text, expected) in [
        ("MemAvailable: 1024 kB\n", Some(true)),
        ("MemAvailable: 1025 kB\n", Some(false)),
        ("MemFree: 1 kB\n", None),
    ] {
        std::fs::write(&file, text).unwrap();
        // 1 MiB and a byte: 1 MiB is short, and 1025 KiB are not.
        let answer = Available::below(MIB + 1).in_file(file.clone()).is_short(false);
        assert_eq!(answer.clone().ok(), expected, "{answer:?}");
        if let Err(why) = answer {
            assert!(why.to_string().contains("/proc"), "{why}");
        }
    }
    std::fs::remove_file(&file).unwrap();
    assert!(Available::below(1).in_file(file).is_short(false).is_err());
}
