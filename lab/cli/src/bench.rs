//! `pageyard-lab bench`: what a frame costs, beside floors and peers.

use crate::samples::Samples;
use clap::{Args, Subcommand};
use pageyard_bench as bench;
use pageyard_bench::clear::Preemption;
use pageyard_cli::output::{Failure, show};
use pageyard_cli::progress::Progress;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Measures what a frame costs on this machine, in the engine and in its alternatives.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard-lab bench sweep --quick\n  pageyard-lab bench sweep --order 0 --batch 1,64 --samples 45\n  pageyard-lab bench bulk --json\n  pageyard-lab bench sweep --order 0 --threads 1,2,4,8 --pattern fifo\n  pageyard-lab bench mixed --threads 1 --external other.json\n  pageyard-lab bench stream --elements 40000000\n\n\
                  Close other programs, and pin nothing: the benchmark pins itself. It reports what disturbed a run."
)]
pub struct Bench {
    #[command(subcommand)]
    what: Option<What>,

    /// Measure the most telling settings only, within a minute
    #[arg(long, global = true)]
    quick: bool,
}

#[derive(Subcommand, Clone)]
enum What {
    /// Batches of 1 to 16,384 blocks, allocated and freed, beside floors and peers
    Sweep(Sweep),
    /// Many frames with one call, against the same frames one by one; a receive buffer of 256 KiB
    Bulk(Samples),
    /// What paths are made of: the rows of document 000, and what the engine relies on
    Primitives,
    /// Taken on one CPU, handed over 64 at a time, given back on the other
    Cross(Cross),
    /// Orders by their recorded shares, in bursts, while half of a zone is in use; frames touched or not
    Mixed(Mixed),
    /// Buffers for packets: pools of pages, fragments, and what programs use without them
    Pools(Samples),
    /// From 1 GiB to 1 TiB, bypassing the per-CPU lists
    Scale,
    /// How fast memory becomes zeros: every primitive, by how much is cleared with one call, from 4 KiB to 1 GiB
    Clear(Clear),
    /// What it takes until memory can be used: the kernel's faults, and blocks of an arena, on each kind of memory
    Fault(Samples),
    /// McCalpin's STREAM: bytes a second between processor and memory, with one thread and with one on each CPU
    Stream(Stream),
    /// Count the locked instructions of pairs for the benchmark that started this
    #[command(hide = true)]
    Locked {
        /// What to count, `ORDER:BATCH` each
        settings: Vec<String>,
    },
    /// Serve samples of one peer to the benchmark that started this
    #[command(hide = true)]
    Peer {
        /// Its name
        name: String,
    },
}

#[derive(Args, Clone, Default)]
struct Sweep {
    /// Rows that bench/linux/run left [default: target/linux-uml.json, where it is there]
    #[arg(long, value_name = "FILE")]
    linux_uml: Option<PathBuf>,

    #[command(flatten)]
    external: External,

    #[command(flatten)]
    peers: Peers,

    #[command(flatten)]
    samples: Samples,

    /// Measure these orders only
    #[arg(long, value_delimiter = ',', value_parser = order)]
    order: Vec<pageyard_bench::Order>,

    /// Measure these batches only
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=200_000))]
    batch: Vec<u32>,

    /// Measure these numbers of threads only, each thread on a CPU of its own
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Vec<u8>,

    /// Measure these orders of frees only
    #[arg(long, value_delimiter = ',', value_parser = pattern)]
    pattern: Vec<bench::sweep::Pattern>,
}

#[derive(Args, Clone, Default)]
struct Cross {
    #[command(flatten)]
    samples: Samples,

    #[command(flatten)]
    external: External,

    #[command(flatten)]
    peers: Peers,
}

#[derive(Args, Clone, Default)]
struct Clear {
    #[command(flatten)]
    samples: Samples,

    /// Measure only what a kernel with this model of preemption does: none, voluntary, full or lazy
    #[arg(long, value_name = "MODEL", value_parser = preemption)]
    preempt: Option<Preemption>,
}

#[derive(Args, Clone, Default)]
struct Mixed {
    #[command(flatten)]
    samples: Samples,

    /// Measure these numbers of threads only, each thread on a CPU of its own
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Vec<u8>,

    #[command(flatten)]
    external: External,

    #[command(flatten)]
    peers: Peers,
}

#[derive(Args, Clone, Default)]
#[command(
    after_help = "Examples:\n  pageyard-lab bench stream\n  pageyard-lab bench stream --elements 40000000 --samples 29\n\n\
                  Figures are those of the memory where an array is at least four times as large as the caches. A result that \
                  does not validate is an error."
)]
struct Stream {
    /// Give each of the three arrays this many elements of 8 bytes [default: 10000000]
    #[arg(long, value_name = "N")]
    elements: Option<NonZeroUsize>,

    #[command(flatten)]
    samples: Samples,
}

/// Another allocator's rows.
#[derive(Args, Clone, Default)]
struct External {
    /// Show rows that were measured elsewhere beside these: a document as --json prints it, with other allocators'
    /// names
    #[arg(long, value_name = "FILE.json")]
    external: Option<PathBuf>,
}

/// Allocators of libraries.
#[derive(Args, Clone, Default)]
struct Peers {
    /// Measure the allocator of a library beside the others, turn by turn; bench/llfree/build makes one
    #[arg(long, value_name = "LIBRARY")]
    peer: Vec<PathBuf>,
}

impl Peers {
    fn load(&self) -> Result<bench::Outside, Failure> {
        bench::Outside::load(command(), &self.peer).map_err(Failure)
    }
}

impl External {
    /// Reads the file, if there is one, with the function for the benchmark's rows.
    fn read<T>(&self, read: impl Fn(&Path) -> Result<T, String>) -> Result<Option<T>, Failure> {
        self.external.as_deref().map(read).transpose().map_err(Failure)
    }
}

fn order(text: &str) -> Result<pageyard_bench::Order, String> {
    let order = text.parse().ok().and_then(pageyard_bench::Order::new);
    order.filter(|order| *order <= bench::LARGEST).ok_or_else(|| "an order here is 0 to 9".to_owned())
}

fn preemption(text: &str) -> Result<Preemption, String> {
    let found = Preemption::ALL.into_iter().find(|model| model.name() == text);
    found.ok_or_else(|| {
        format!("models of preemption are {}", Preemption::ALL.map(Preemption::name).join(", "))
    })
}

fn pattern(text: &str) -> Result<bench::sweep::Pattern, String> {
    let all = bench::sweep::Pattern::ALL;
    all.into_iter().find(|p| p.name() == text).ok_or_else(|| "it is fifo, lifo or shuffled".to_owned())
}

impl Sweep {
    fn options(&self, quick: bool) -> Result<bench::sweep::SweepOptions, Failure> {
        use bench::sweep::SweepOptions;
        let mut options = if quick { SweepOptions::quick() } else { SweepOptions::full() };
        options.outside = self.peers.load()?;
        options.linux_uml = self.linux_uml.clone();
        options.external = self.external.read(bench::external::External::read)?;
        options.samples = self.samples.samples.unwrap_or(options.samples);
        set(&mut options.orders, self.order.clone());
        set(&mut options.batches, self.batch.iter().map(|n| *n as usize).collect());
        set(&mut options.threads, self.threads.iter().map(|n| usize::from(*n)).collect());
        set(&mut options.patterns, self.pattern.clone());
        Ok(options)
    }
}

impl Mixed {
    fn options(&self, quick: bool) -> Result<bench::mixed::MixedOptions, Failure> {
        use bench::mixed::MixedOptions;
        let mut options = if quick { MixedOptions::quick() } else { MixedOptions::full() };
        options.outside = self.peers.load()?;
        options.samples = self.samples.samples.unwrap_or(options.samples);
        options.external = self.external.read(bench::external::External::read)?;
        set(&mut options.threads, self.threads.iter().map(|n| usize::from(*n)).collect());
        Ok(options)
    }
}

/// Replaces a default by what was asked for, if anything was.
fn set<T>(default: &mut Vec<T>, asked: Vec<T>) {
    if !asked.is_empty() {
        *default = asked;
    }
}

/// Returns the file of this command, by which it starts peers in processes of their own.
fn command() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

impl Bench {
    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        let mut bar = Progress::new();
        match self.what.clone().unwrap_or(What::Sweep(Sweep::default())) {
            What::Sweep(asked) => {
                if let Some(file) = asked.linux_uml.as_deref() {
                    bench::sweep::check_uml(file).map_err(Failure)?;
                }
                let options = asked.options(self.quick)?;
                let mut result = bench::sweep::sweep(&options, &mut |done, all| bar.at("sweep", done, all));
                drop(bar);
                result.quick = self.quick;
                show(json, &result, bench::sweep::Sweep::text)
            }
            What::Bulk(Samples { samples }) => {
                use bench::bulk::BulkOptions;
                let mut options = if self.quick { BulkOptions::quick() } else { BulkOptions::full() };
                options.outside.command = command();
                options.samples = samples.unwrap_or(options.samples);
                let mut result = bench::bulk::bulk(&options, &mut |done, all| bar.at("bulk", done, all));
                drop(bar);
                result.quick = self.quick;
                show(json, &result, bench::bulk::Bulk::text)
            }
            What::Primitives => {
                let result = bench::primitives::primitives(&mut |done, all| bar.at("primitives", done, all));
                drop(bar);
                show(json, &result, bench::primitives::Primitives::text)
            }
            What::Cross(asked) => {
                use bench::cross::CrossOptions;
                let mut options = if self.quick { CrossOptions::quick() } else { CrossOptions::full() };
                options.outside = asked.peers.load()?;
                options.samples = asked.samples.samples.unwrap_or(options.samples);
                options.external = asked.external.read(bench::external::External::read)?;
                let mut result = bench::cross::cross(&options, &mut |done, all| bar.at("cross", done, all));
                drop(bar);
                result.quick = self.quick;
                show(json, &result, bench::cross::Cross::text)
            }
            What::Mixed(asked) => {
                let options = asked.options(self.quick)?;
                let mut result = bench::mixed::mixed(&options, &mut |done, all| bar.at("mixed", done, all));
                drop(bar);
                result.quick = self.quick;
                show(json, &result, bench::mixed::Mixed::text)
            }
            What::Pools(Samples { samples }) => {
                use bench::pools::PoolsOptions;
                let mut options = if self.quick { PoolsOptions::quick() } else { PoolsOptions::full() };
                options.samples = samples.unwrap_or(options.samples);
                let mut result = bench::pools::pools(&options, &mut |done, all| bar.at("pools", done, all));
                drop(bar);
                result.quick = self.quick;
                show(json, &result, bench::pools::Pools::text)
            }
            What::Scale => {
                use bench::scale::ScaleOptions;
                let options = if self.quick { ScaleOptions::quick() } else { ScaleOptions::full() };
                let mut result = bench::scale::scale(&options, &mut |done, all| bar.at("scale", done, all));
                drop(bar);
                result.quick = self.quick;
                show(json, &result, bench::scale::Scale::text)
            }
            What::Clear(Clear { samples: Samples { samples }, preempt }) => {
                use bench::clear::ClearOptions;
                let mut options = if self.quick { ClearOptions::quick() } else { ClearOptions::full() };
                options.samples = samples.unwrap_or(options.samples);
                options.preempt = preempt;
                let mut result = bench::clear::clear(&options, &mut |done, all| bar.at("clear", done, all));
                drop(bar);
                result.quick = self.quick;
                show(json, &result, bench::clear::Cleared::text)
            }
            What::Fault(Samples { samples }) => {
                use bench::fault::FaultOptions;
                let mut options = if self.quick { FaultOptions::quick() } else { FaultOptions::full() };
                options.samples = samples.unwrap_or(options.samples);
                let mut result = bench::fault::fault(&options, &mut |done, all| bar.at("fault", done, all));
                drop(bar);
                result.quick = self.quick;
                show(json, &result, bench::fault::Faulted::text)
            }
            What::Stream(Stream { elements, samples: Samples { samples } }) => {
                use bench::stream::{ELEMENTS, SAMPLES, Streamed, stream};
                let samples = samples.unwrap_or(if self.quick { bench::FEWEST } else { SAMPLES });
                let elements = elements.map_or(ELEMENTS, NonZeroUsize::get);
                let mut result = stream(elements, samples, &mut |done, all| bar.at("stream", done, all))?;
                drop(bar);
                // With all samples, it is the whole benchmark.
                result.quick = self.quick && samples < SAMPLES;
                show(json, &result, Streamed::text)
            }
            What::Locked { settings } => {
                let pairs = bench::count_locked(&settings).map_err(Failure)?;
                println!("{}", serde_json::to_string(&pairs).map_err(std::io::Error::from)?);
                Ok(())
            }
            What::Peer { name } => bench::peers::serve(&name).map_err(Failure::from),
        }
    }
}
