//! Registration of threads, and the error if no registration is possible.
//!
//! Each case runs in its own process: this program again, where glibc was told not to register, and a filter
//! refuses system calls.

use pageyard::{
    Config, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator, Pageyard, Pfn, Region,
    Request, ZoneKind,
};
use pageyard_arena::rseq::{Rseq, Unavailable, current_cpu, possible_cpus, register_thread};
use std::process::Command;

/// Runs a case in a child, without glibc's registration.
fn alone(case: &str) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", case, "--ignored", "--nocapture", "--test-threads=1"])
        .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

/// Lets a system call fail in this process from now on.
fn refuse(call: libc::c_long, error: i32) {
    let op = |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut program = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, 1),
        op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | error as u32, 0),
        op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program is four instructions long and lives until the call returns.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

fn fails_with(expected: Unavailable, words: &str) {
    let why = Rseq::new().expect_err("the system call is refused");
    assert_eq!(why, expected);
    assert!(why.to_string().contains(words) && why.to_string().contains("try-lock"), "{why}");
}

#[test]
fn the_c_librarys_registration_is_used() {
    // Where the C library does not register, the cases below say what happens.
    let cpu = Rseq::new().map(|_| std::thread::spawn(current_cpu).join().unwrap());
    assert!(cpu.is_ok_and(|cpu| cpu.is_none_or(|cpu| cpu.0 < possible_cpus())));
}

#[test]
fn without_it_threads_register_themselves() {
    alone("own_registration");
}

#[test]
#[ignore = "run by another test, in a child"]
fn own_registration() {
    let rseq = Rseq::new().expect("the kernel has restartable sequences");
    let regions = [Region::managed(Pfn(0), Frames(1 << 14), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions).unwrap();
    let engine = Pageyard::owned(&map, Config::new(possible_cpus()), rseq).unwrap();
    let pairs = || {
        for _ in 0..1000 {
            let request = Request::new(Order::ZERO, Migratetype::Movable);
            let pfn = engine.alloc(&Cx::on(CpuId(0)), &request).unwrap();
            engine.free(&Cx::on(CpuId(0)), pfn, Order::ZERO).unwrap();
        }
    };
    let strangers = || engine.percpu().counts().strangers;
    assert!(current_cpu().is_some_and(|cpu| cpu.0 < possible_cpus()));
    pairs();
    assert_eq!(strangers(), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(current_cpu(), None, "nobody registered this thread");
            pairs();
            let before = strangers();
            assert!(before >= 2000, "a thread that is not registered is served by the zone: {before}");
            let registered = register_thread().unwrap();
            let twice = register_thread().unwrap();
            drop(registered);
            assert!(current_cpu().is_some());
            pairs();
            assert_eq!(strangers(), before);
            drop(twice);
            assert_eq!(current_cpu(), None, "the last holder is gone");
        });
    });
    engine.audit().unwrap();
}

#[test]
fn what_is_refused_is_said() {
    for case in ["rseq_is_filtered", "rseq_is_missing", "the_barrier_is_filtered", "the_barrier_is_missing"] {
        alone(case);
    }
}

#[test]
#[ignore = "run by another test, in a child"]
fn rseq_is_filtered() {
    refuse(libc::SYS_rseq, libc::EPERM);
    fails_with(Unavailable::Filtered(libc::EPERM), "seccomp");
}

#[test]
#[ignore = "run by another test, in a child"]
fn rseq_is_missing() {
    refuse(libc::SYS_rseq, libc::ENOSYS);
    fails_with(Unavailable::NoRseq, "4.18");
}

#[test]
#[ignore = "run by another test, in a child"]
fn the_barrier_is_filtered() {
    refuse(libc::SYS_membarrier, libc::EPERM);
    fails_with(Unavailable::BarrierFiltered(libc::EPERM), "seccomp");
}

#[test]
#[ignore = "run by another test, in a child"]
fn the_barrier_is_missing() {
    refuse(libc::SYS_membarrier, libc::ENOSYS);
    fails_with(Unavailable::NoBarrier, "5.10");
}
