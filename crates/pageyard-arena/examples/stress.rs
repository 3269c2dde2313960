//! The mixed stress of the engine, under each protection of its per-CPU lists.
//!
//! ```text
//! cargo run --release -p pageyard-arena --example stress -- --seconds 600 --percpu rseq
//! ```
//!
//! The load and its invariants: `pageyard_testkit::storm`.

use pageyard::{Alone, Exclusive, PerCpu, TryLock};
use pageyard_arena::rseq::{Rseq, possible_cpus};
use pageyard_testkit::storm::{self, Guard, Make, Mix, Naming, Plan, Report, Rule, Signals, Variant};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

const USAGE: &str = "usage: stress [--seconds N] [--percpu rseq,biased,trylock,exclusive,alone] [--seed N] [--threads N] [--rounds N]
              [--only KINDS] [--without KINDS] [--ignore RULES] [--go-on] [--all-cpus]
Runs every kind of call at once for N seconds under each protection of the per-CPU lists (60 each by default).
KINDS and RULES are names separated by commas; a wrong one is answered with all of them.";

/// The variants, in the order in which they run.
const VARIANTS: [&str; 5] = ["rseq", "biased", "trylock", "exclusive", "alone"];

/// Time between a thread's signals.
const PERIOD: Duration = Duration::from_micros(400);

/// The command line's choices.
struct Asked {
    plan: Plan,
    variants: Vec<&'static str>,
    all_cpus: bool,
}

fn asked(mut args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let plan =
        Plan { seed: now.as_nanos() as u64, time: Duration::from_secs(60), chatty: true, ..Plan::default() };
    let mut asked = Asked { plan, variants: VARIANTS.to_vec(), all_cpus: false };
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
            "--percpu" => {
                let named = value()?;
                let known = |name: &str| VARIANTS.into_iter().find(|v| *v == name);
                asked.variants = named
                    .split(',')
                    .map(|name| {
                        known(name)
                            .ok_or(format!("`{name}` is no variant; there are {}", VARIANTS.join(", ")))
                    })
                    .collect::<Result<_, _>>()?;
            }
            "--help" | "-h" => return Err(USAGE.to_owned()),
            _ => return Err(format!("`{arg}` is not an option\n{USAGE}")),
        }
    }
    Ok(asked)
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
    let mut wrong = 0;
    for name in &asked.variants {
        println!(
            "{name}: {} s, {} threads on {cpus} CPUs, --seed {}",
            asked.plan.time.as_secs(),
            if *name == "alone" { 1 } else { asked.plan.threads },
            asked.plan.seed
        );
        let report = match *name {
            "rseq" => rseq(&asked.plan, "rseq", |rseq| rseq),
            "biased" => rseq(&asked.plan, "biased", Rseq::biased),
            "trylock" => Some(storm::run(&asked.plan, &any("trylock", &|| TryLock))),
            "exclusive" => Some(exclusive(&asked.plan)),
            _ => Some(alone(&asked.plan)),
        };
        let Some(report) = report else { continue };
        println!("{name}: {report}");
        say(&report, asked.plan.go_on);
        wrong += report.faults.len();
        if wrong > 0 && !asked.plan.go_on {
            break;
        }
    }
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints what broke, with what led to it; where the storm went on, the first of each rule, and how often.
fn say(report: &Report, go_on: bool) {
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

fn exclusive(plan: &Plan) -> Report {
    // SAFETY: the storm's threads name their own CPU only, and no handler allocates.
    let make = || unsafe { Exclusive::by_cpu() };
    let variant = Variant { naming: Naming::Own, signals: None, ..any("exclusive", &make) };
    storm::run(plan, &variant)
}

fn alone(plan: &Plan) -> Report {
    // SAFETY: there is one thread, and no handler allocates.
    let make = || unsafe { Alone::by_instance() };
    let variant = Variant { threads: Some(1), signals: None, ..any("alone", &make) };
    storm::run(plan, &variant)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn rseq<P: PerCpu>(plan: &Plan, name: &'static str, of: fn(Rseq) -> P) -> Option<Report> {
    use pageyard_arena::rseq::register_thread;
    if let Err(why) = Rseq::new() {
        eprintln!("{name}: left out, because this process cannot use restartable sequences: {why}");
        return None;
    }
    let make =
        || of(Rseq::new().unwrap_or_else(|why| panic!("there were restartable sequences before: {why}")));
    let register = || -> Guard { Box::new(register_thread()) };
    // A thread takes the lists of the CPU that it runs on, whichever that is.
    let variant = Variant { cpus: possible_cpus(), enter: &register, ..any(name, &make) };
    Some(storm::run(plan, &variant))
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn rseq<P: PerCpu>(_: &Plan, name: &'static str, _: fn(Rseq) -> P) -> Option<Report> {
    eprintln!("{name}: left out, because restartable sequences are for Linux on x86-64");
    None
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
}
