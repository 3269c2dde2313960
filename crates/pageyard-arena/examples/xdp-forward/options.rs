//! The command line.

use crate::board::QUEUES;
use crate::bpf::Mode;
use crate::frames::Kind;
use crate::packet;
use crate::rig::Sizes;
use crate::run::Completion;
use std::time::Duration;

/// The text of `--help`.
pub const USAGE: &str = "Forwards real packets between AF_XDP sockets, with frames from four allocators in turn.

usage: cargo run --release -p pageyard-arena --example xdp-forward -- [options]

  --queues N           queues, each with a worker of its own (2; at most 8)
  --packets N          packets that each run sends (1000000)
  --seconds N          when a run stops sending at the latest (30)
  --rounds N           runs of each allocator, in turn (5)
  --allocators NAMES   pool,engine,mutex,caches (all)
  --completion WHO     same, other, or both: who takes completions (both)
  --kill N             workers killed in each run (0)
  --frames N           frames for each queue (4096)
  --ring N             entries of each ring, a power of two (1024)
  --window N           packets between source and router, for each queue, before the source waits (512)
  --size N             bytes of a packet (128; 66 to 1514)
  --mode MODE          skb or native: where the XDP program runs (skb)
  --seed N             when workers are killed (1)
  --lines              count cache lines that change hands, in one more run of each, which is not timed
  --json               print one document instead of tables
  --help               print this

It needs root, AF_XDP and virtual devices; where it cannot run it says why and ends with status 0.

example: 10 million packets through two queues, with completions taken by other processes and 20 workers killed:
  sudo target/release/examples/xdp-forward --packets 10000000 --seconds 300 --rounds 1 --kill 20 --completion other --allocators pool";

/// The options.
#[derive(Clone, Debug)]
pub struct Options {
    /// How large everything is.
    pub sizes: Sizes,
    /// Packets of a run.
    pub packets: u64,
    /// The longest time of a run.
    pub time: Duration,
    /// Runs of each allocator.
    pub rounds: u32,
    /// Which allocators.
    pub allocators: Vec<Kind>,
    /// Who takes completions.
    pub completions: Vec<Completion>,
    /// Workers killed in each run.
    pub kills: u32,
    /// When they are.
    pub seed: u64,
    /// Whether lines are counted.
    pub lines: bool,
    /// Whether a document is printed.
    pub json: bool,
}

impl Options {
    /// Reads a command line; none where it asks for help.
    ///
    /// # Errors
    /// The fault in the command line, and a replacement.
    pub fn read(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
        let mut options = Options::default();
        let mut frames = 4096;
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("`{name}` takes a value; see --help"));
            let sizes = &mut options.sizes;
            match name.as_str() {
                "--queues" => sizes.queues = number(&name, &value()?, 1, QUEUES as u64)? as u32,
                "--packets" => options.packets = number(&name, &value()?, 1, 1 << 31)?,
                "--seconds" => options.time = Duration::from_secs(number(&name, &value()?, 1, 86_400)?),
                "--rounds" => options.rounds = number(&name, &value()?, 1, 1000)? as u32,
                "--allocators" => options.allocators = allocators(&value()?)?,
                "--completion" => options.completions = completions(&value()?)?,
                "--kill" => options.kills = number(&name, &value()?, 0, 1000)? as u32,
                "--frames" => frames = number(&name, &value()?, 256, 1 << 15)? as u32,
                "--ring" => sizes.entries = ring(&value()?)?,
                "--window" => sizes.window = number(&name, &value()?, 1, 1 << 20)? as u32,
                "--size" => {
                    let (least, most) = (packet::SMALLEST as u64, packet::LARGEST as u64);
                    sizes.packet = number(&name, &value()?, least, most)? as u32;
                }
                "--mode" => sizes.mode = mode(&value()?)?,
                "--seed" => options.seed = number(&name, &value()?, 0, u64::MAX)?,
                "--lines" => options.lines = true,
                "--json" => options.json = true,
                "--help" | "-h" => return Ok(None),
                _ => return Err(format!("`{name}` is not an option; see --help")),
            }
        }
        options.sizes.frames = frames * options.sizes.queues;
        options.check_all_packets()?;
        Ok(Some(options))
    }
}

impl Options {
    /// Refuses more packets on one queue than an index of a ring counts before it wraps: a packet's number is such an
    /// index.
    fn check_all_packets(&self) -> Result<(), String> {
        let runs = u64::from(self.rounds + u32::from(self.lines))
            * (self.allocators.len() * self.completions.len()) as u64;
        let each = self.packets.div_ceil(u64::from(self.sizes.queues)).saturating_mul(runs);
        if each < u64::from(u32::MAX) {
            return Ok(());
        }
        Err(format!(
            "{each} packets in all on each queue are more than can be numbered: use fewer --packets or --rounds"
        ))
    }
}

impl Default for Options {
    fn default() -> Options {
        let sizes = Sizes { queues: 2, entries: 1024, frames: 0, packet: 128, window: 512, mode: Mode::Skb };
        Options {
            sizes,
            packets: 1_000_000,
            time: Duration::from_secs(30),
            rounds: 5,
            allocators: Kind::ALL.to_vec(),
            completions: vec![Completion::Same, Completion::Other],
            kills: 0,
            seed: 1,
            lines: false,
            json: false,
        }
    }
}

fn number(name: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("`{name}` takes a number from {least} to {most}, and `{text}` is not one")),
    }
}

fn ring(text: &str) -> Result<u32, String> {
    let entries = number("--ring", text, 64, 1 << 14)? as u32;
    if entries.is_power_of_two() {
        return Ok(entries);
    }
    let (below, above) = (entries.next_power_of_two() / 2, entries.next_power_of_two());
    Err(format!("a ring has a power of two of entries, and {entries} is none: use {below} or {above}"))
}

fn allocators(text: &str) -> Result<Vec<Kind>, String> {
    let known = |name: &str| Kind::ALL.into_iter().find(|kind| kind.name() == name);
    text.split(',')
        .map(|name| known(name).ok_or(format!("`{name}` is no allocator; there are {}", names())))
        .collect()
}

fn names() -> String {
    Kind::ALL.map(Kind::name).join(", ")
}

fn completions(text: &str) -> Result<Vec<Completion>, String> {
    match text {
        "same" => Ok(vec![Completion::Same]),
        "other" => Ok(vec![Completion::Other]),
        "both" => Ok(vec![Completion::Same, Completion::Other]),
        _ => Err(format!("`--completion` takes same, other or both, and `{text}` is none of them")),
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    let all = [Mode::Skb, Mode::Native];
    all.into_iter()
        .find(|mode| mode.name() == text)
        .ok_or(format!("`--mode` takes skb or native, and `{text}` is neither"))
}
