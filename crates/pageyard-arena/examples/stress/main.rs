//! Mixed stress of the engine, of handles and of packet buffers, under each protection of the per-CPU lists.
//!
//! ```text
//! cargo run --release -p pageyard-arena --example stress -- --seconds 600 --percpu rseq
//! ```
//!
//! The loads and their rules: `pageyard_testkit::storm` for the engine, [`handles`], [`pools`].

mod handles;
mod pools;

use pageyard::{Alone, Exclusive, PerCpu, TryLock};
use pageyard_arena::rseq::{Rseq, possible_cpus};
use pageyard_testkit::storm::{self, Guard, Make, Mix, Naming, Plan, Report, Rule, Signals, Variant};
use std::fmt::Display;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

const USAGE: &str = "usage: stress [--seconds N] [--of engine,handles,pools] [--percpu rseq,biased,trylock,exclusive,alone]
              [--seed N] [--threads N] [--rounds N] [--all-cpus]
              of the engine: [--only KINDS] [--without KINDS] [--ignore RULES] [--go-on]
Runs every kind of call at once for N seconds (60 by default): of the engine, of handles of an arena and of packet buffers,
each under each protection of the per-CPU lists.
KINDS and RULES are names separated by commas; a wrong one is answered with all of them.";

/// The subjects, and the protections of their lists, in the order in which they run.
const SUBJECTS: [&str; 3] = ["engine", "handles", "pools"];
const VARIANTS: [&str; 5] = ["rseq", "biased", "trylock", "exclusive", "alone"];

/// Time between a thread's signals.
const PERIOD: Duration = Duration::from_micros(400);

/// The command line's choices.
struct Asked {
    plan: Plan,
    subjects: Vec<&'static str>,
    variants: Vec<&'static str>,
    all_cpus: bool,
}

fn asked(mut args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let plan =
        Plan { seed: now.as_nanos() as u64, time: Duration::from_secs(60), chatty: true, ..Plan::default() };
    let mut asked = Asked { plan, subjects: SUBJECTS.to_vec(), variants: VARIANTS.to_vec(), all_cpus: false };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("`{arg}` takes a value"));
        let number = |text: String| {
            text.parse::<u64>().map_err(|_| format!("`{arg}` takes a number, and `{text}` is not one"))
        };
        let plan = &mut asked.plan;
        match arg.as_str() {
            "--seconds" => plan.time = Duration::from_secs(number(value()?)?),
            "--seed" => plan.seed = number(value()?)?,
            "--rounds" => plan.rounds = number(value()?)?,
            "--threads" => plan.threads = u32::try_from(number(value()?)?.clamp(1, 256)).unwrap_or(256),
            "--only" => plan.mix = Mix::parse(&value()?)?,
            "--without" => plan.mix = plan.mix.minus(Mix::parse(&value()?)?),
            "--ignore" => plan.ignored |= Rule::parse(&value()?)?,
            "--go-on" => plan.go_on = true,
            "--all-cpus" => asked.all_cpus = true,
            "--of" => asked.subjects = named(&value()?, &SUBJECTS)?,
            "--percpu" => asked.variants = named(&value()?, &VARIANTS)?,
            "--help" | "-h" => return Err(USAGE.to_owned()),
            _ => return Err(format!("`{arg}` is not an option\n{USAGE}")),
        }
    }
    Ok(asked)
}

/// Looks names up that are separated by commas.
fn named(names: &str, all: &[&'static str]) -> Result<Vec<&'static str>, String> {
    let known = |name: &str| all.iter().copied().find(|known| *known == name);
    let each = names
        .split(',')
        .map(|name| known(name).ok_or(format!("`{name}` is not one of those there are: {}", all.join(", "))));
    each.collect()
}

fn main() -> ExitCode {
    let asked = match asked(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        shown(info);
        let (round, seed) = storm::current();
        eprintln!("in round {round} with seed {seed}");
    }));
    let cpus = if asked.all_cpus { cpus::allowed() } else { cpus::keep_to_two() };
    let mut held = true;
    for subject in &asked.subjects {
        for name in &asked.variants {
            let plan = Plan { threads: threads_of(subject, name, cpus, &asked.plan), ..asked.plan.clone() };
            let (seconds, threads, seed) = (plan.time.as_secs(), plan.threads, plan.seed);
            println!("{subject}, {name}: {seconds} s, {threads} threads on {cpus} CPUs, --seed {seed}");
            held &= storm_of(subject, name, &plan);
            if !held && !plan.go_on {
                return ExitCode::FAILURE;
            }
        }
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns how many threads a storm has: one alone; where each must stay on a CPU of its own, one for each CPU.
fn threads_of(subject: &str, name: &str, cpus: usize, plan: &Plan) -> u32 {
    match (subject, name) {
        (_, "alone") => 1,
        ("handles", "exclusive") => cpus as u32,
        _ => plan.threads,
    }
}

/// Runs a storm; returns whether every rule held.
fn storm_of(subject: &'static str, name: &'static str, plan: &Plan) -> bool {
    match name {
        "rseq" => rseq(subject, plan, name, |rseq| rseq),
        "biased" => rseq(subject, plan, name, Rseq::biased),
        "trylock" => run(subject, plan, &any(name, &|| TryLock)),
        "exclusive" => exclusive(subject, plan),
        _ => alone(subject, plan),
    }
}

/// Runs the storm of a subject; returns whether every rule held. In those of handles and pools a broken one panics.
fn run<P: PerCpu>(subject: &str, plan: &Plan, variant: &Variant<'_, P>) -> bool {
    let say = |report: &dyn Display| println!("{subject}, {}: {report}", variant.name);
    match subject {
        "handles" => say(&handles::run(plan, variant)),
        "pools" => say(&pools::run(plan, variant)),
        _ => {
            let report = storm::run(plan, variant);
            say(&report);
            faults(&report, plan.go_on);
            return report.faults.is_empty();
        }
    }
    true
}

/// Prints what broke, with what led to it; where the storm went on, the first of each rule, and how often.
fn faults(report: &Report, go_on: bool) {
    for (rule, name, _) in Rule::ALL {
        let of = || report.faults.iter().filter(|f| f.fault.rule == rule);
        let Some(first) = of().next() else { continue };
        eprintln!("FAULT {first}");
        first.log.iter().for_each(|line| eprintln!("    {line}"));
        if go_on {
            eprintln!("  {name}: in {} of {} rounds", of().count(), report.rounds);
        }
    }
}

fn any<'a, P: PerCpu>(name: &'static str, make: &'a (dyn Fn() -> P + Sync)) -> Variant<'a, P> {
    Variant { signals: Some(Signals::every(PERIOD)), ..Variant::new(name, Make::Pageyard(make)) }
}

fn exclusive(subject: &str, plan: &Plan) -> bool {
    // SAFETY: the storms' threads name their own CPU only, and no handler allocates. Those of handles, which name the
    // CPU that they run on, have one for themselves.
    let make = || unsafe { Exclusive::by_cpu() };
    let entered = AtomicUsize::new(0);
    let keep = || -> Guard {
        if subject == "handles" {
            cpus::keep_to(entered.fetch_add(1, Relaxed));
        }
        Box::new(())
    };
    let variant = Variant { naming: Naming::Own, signals: None, enter: &keep, ..any("exclusive", &make) };
    run(subject, plan, &variant)
}

fn alone(subject: &str, plan: &Plan) -> bool {
    // SAFETY: there is one thread, and no handler allocates.
    let make = || unsafe { Alone::by_instance() };
    let variant = Variant { threads: Some(1), signals: None, ..any("alone", &make) };
    run(subject, plan, &variant)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn rseq<P: PerCpu>(subject: &str, plan: &Plan, name: &'static str, of: fn(Rseq) -> P) -> bool {
    use pageyard_arena::rseq::register_thread;
    if let Err(why) = Rseq::new() {
        eprintln!("{name}: left out, because this process cannot use restartable sequences: {why}");
        return true;
    }
    let make =
        || of(Rseq::new().unwrap_or_else(|why| panic!("there were restartable sequences before: {why}")));
    let register = || -> Guard { Box::new(register_thread()) };
    // A thread takes the lists of the CPU that it runs on, whichever that is.
    let variant = Variant { cpus: possible_cpus(), enter: &register, ..any(name, &make) };
    run(subject, plan, &variant)
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn rseq<P: PerCpu>(_: &str, _: &Plan, name: &'static str, _: fn(Rseq) -> P) -> bool {
    eprintln!("{name}: left out, because restartable sequences are for Linux on x86-64");
    true
}

#[cfg(target_os = "linux")]
mod cpus {
    //! The CPUs that the process may use.

    fn allowed_set() -> libc::cpu_set_t {
        // SAFETY: the set is a local variable of the size that is said.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&set), &raw mut set);
            set
        }
    }

    /// Returns how many CPUs the process may use.
    pub fn allowed() -> usize {
        // SAFETY: it counts the bits of a local variable.
        unsafe { libc::CPU_COUNT(&allowed_set()) as usize }
    }

    /// Keeps the process to two CPUs, so that threads are interrupted in the middle of calls; returns how many it has.
    pub fn keep_to_two() -> usize {
        // SAFETY: the sets are local variables of the size that is said.
        unsafe {
            let (all, mut two): (libc::cpu_set_t, libc::cpu_set_t) = (allowed_set(), std::mem::zeroed());
            let cpus = (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &all)).take(2);
            cpus.for_each(|cpu| libc::CPU_SET(cpu, &mut two));
            libc::sched_setaffinity(0, size_of_val(&two), &raw const two);
        }
        allowed()
    }

    /// Keeps the calling thread to one of the process's CPUs, by turns.
    pub fn keep_to(turn: usize) {
        // SAFETY: the sets are local variables of the size that is said.
        unsafe {
            let (all, mut one): (libc::cpu_set_t, libc::cpu_set_t) = (allowed_set(), std::mem::zeroed());
            let mut cpus = (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &all));
            let cpu = cpus.nth(turn % allowed()).expect("it is one of those allowed");
            libc::CPU_SET(cpu, &mut one);
            assert_eq!(
                libc::sched_setaffinity(0, size_of_val(&one), &raw const one),
                0,
                "the system refuses"
            );
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod cpus {
    //! The CPUs of other systems are all used.

    pub fn allowed() -> usize {
        std::thread::available_parallelism().map_or(1, |n| n.get())
    }

    pub fn keep_to_two() -> usize {
        allowed()
    }

    pub fn keep_to(_: usize) {}
}
