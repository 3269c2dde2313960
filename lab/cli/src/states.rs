//! `pageyard-lab states`: named states of fragmented memory.

use clap::Args;
use pageyard_bench::states::{
    BANK, Level, Load, MOST_OFF, Memory, Places, State, StateRow, StateTrace, StatesDocument, make,
    write_calls,
};
use pageyard_cli::output::{Failure, show};
use pageyard_cli::size;
use pageyard_trace::{Trace, shown};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Makes a named state of fragmented memory in one of three degrees, and measures it.
///
/// As a recording without events (`--out`) it is an opening for every engine of `pageyard replay`, kernels included; as
/// a list of calls (`--calls`), for any other allocator. The same seed gives the same bytes. Without a name, lists the
/// states.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard-lab states\n  pageyard-lab states slab-scatter --degree high --memory 4G --out high.trace\n  pageyard-lab states --from data/traces/build.trace --at end --calls build.calls\n  pageyard-lab states --from data/traces/build.trace --load --out again.trace"
)]
pub struct States {
    /// The state
    #[arg(conflicts_with = "from")]
    name: Option<String>,

    /// How fragmented it is: low, middle or high
    #[arg(long, value_name = "DEGREE", value_parser = level, default_value = "middle")]
    degree: Level,

    /// How much memory there is, in whole pageblocks
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "4G")]
    memory: u64,

    /// The seed of the places
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Take the state of a recorded host instead
    #[arg(long, value_name = "TRACE", conflicts_with_all = ["degree", "memory"])]
    from: Option<PathBuf>,

    /// When the recorded host was in it: at the start or at the end of the recording
    #[arg(long, value_name = "WHEN", value_parser = ["start", "end"], default_value = "start", requires = "from")]
    at: String,

    /// Add what the recorded host did next: the events about memory that is part of the state
    #[arg(long, requires = "out")]
    load: bool,

    /// Without a name: make every state in every degree, and measure it
    #[arg(long, conflicts_with_all = ["name", "from", "degree"])]
    measure: bool,

    /// Write it as a recording, without events unless there is a load
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Write it as a list of calls
    #[arg(long, value_name = "FILE")]
    calls: Option<PathBuf>,
}

/// Reads a degree.
fn level(text: &str) -> Result<Level, String> {
    let found = Level::ALL.into_iter().find(|level| level.name() == text);
    found.ok_or_else(|| "a degree is low, middle or high".to_owned())
}

impl States {
    /// Runs the verb.
    pub fn run(self, json: bool) -> Result<(), Failure> {
        if self.load && (self.from.is_none() || self.at == "end") {
            let why = "--load is what a recorded host did after the start: name the recording with --from, without --at";
            return Err(Failure(why.to_owned()));
        }
        let mut host = None;
        let (memory, mut row, title) = match (&self.name, &self.from) {
            (Some(name), _) => {
                let state = State::find(name)?;
                let title = format!("{name}, {}, seed {}", self.degree.name(), self.seed);
                let memory = make(state, self.degree, self.memory, self.seed)?;
                (memory, StateRow::listed(state, self.degree), title)
            }
            (None, Some(from)) => {
                let trace = Trace::open(from)?;
                let (memory, places, title) = recorded(&trace, &self.at)?;
                host = Some((trace, places));
                (memory, StateRow::recorded(), title)
            }
            (None, None) => {
                if self.out.is_some() || self.calls.is_some() {
                    let known: Vec<&str> = BANK.iter().map(|state| state.name).collect();
                    let why = format!("name the state that is to be written: {}", known.join(", "));
                    return Err(Failure(why));
                }
                let made = self.measure.then_some((self.memory, self.seed));
                return show(json, &StatesDocument::all(made)?, StatesDocument::text);
            }
        };
        let trace = StateTrace::of(&memory, self.seed)?;
        row.add(&memory, trace.measure()?);
        if let Some(off) = row.off_pct.filter(|off| *off > MOST_OFF * 100.0) {
            return Err(Failure(format!(
                "{title} came out {off:.1} % off what is asked of it; take more --memory"
            )));
        }
        if let Some(path) = &self.out {
            let load = host.as_ref().filter(|_| self.load).map(|(trace, places)| Load::of(trace, places));
            trace.write(path, &title, load.as_ref())?;
        }
        if let Some(path) = &self.calls {
            let fail =
                |why| Failure(format!("{} cannot be written: {why}", shown(&path.display().to_string())));
            let mut file = BufWriter::new(File::create_new(path).map_err(fail)?);
            write_calls(&memory, &title, &mut file).and_then(|()| file.flush()).map_err(fail)?;
        }
        show(json, &StatesDocument { states: vec![row] }, StatesDocument::text)
    }
}

/// Takes the state of a recorded host: memory, where it came to lie, and a title.
fn recorded(trace: &Trace, at: &str) -> Result<(Memory, Places, String), Failure> {
    let snapshot = if at == "end" { trace.after()? } else { trace.before()? };
    let name = shown(trace.name());
    let snapshot = snapshot.ok_or_else(|| {
        Failure(format!("{name} has no snapshot of the {at}; take another recording, or the other --at"))
    })?;
    let (memory, places) = Memory::recorded(&snapshot, &Load::pageblocks(trace)?)?;
    Ok((memory, places, format!("of {name} at the {at}")))
}
