//! `pageyard map`: a page that shows physical memory at every moment of a recording.

use crate::made::CommandLine;
use crate::output::{Failure, print_made, say};
use crate::progress::Progress;
use crate::setting::knob;
use clap::Args;
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::Progress as Doing;
use pageyard_replay::story::{tell, tell_two};
use pageyard_replay::text::{bytes, count};
use pageyard_trace::{Trace, WholeFile, shown};
use std::path::PathBuf;
use std::time::Instant;

/// The viewer, built from `viewer/`.
const VIEWER: &str = include_str!("../viewer/map.html");

/// Writes one file with everything in it: no network, no server. It shows physical memory at every moment of a
/// recording, on the host itself and on each engine that replays it: where huge frames went, and who keeps them from
/// coming back.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard map data/traces/build.trace -o build.html\n  pageyard map busy.trace -o busy.html --engine linux-6.18,pageyard-exclusive\n  pageyard map busy.trace -o busy.html --engine linux-6.18,linux-6.18:fallback=alike\n  pageyard map before.trace --beside after.trace -o both.html"
)]
pub struct Map {
    /// The trace, a folder NAME.trace [default: the trace built into the command]
    trace: Option<PathBuf>,

    /// Where the page goes; a file that is there is replaced
    #[arg(short, long, value_name = "FILE.html")]
    output: PathBuf,

    /// The engines beside the recorded host, separated by commas, each with its own settings if needed; none for the
    /// host alone [default: the reference nearest to the recorded kernel]
    #[arg(long, value_delimiter = ',', value_name = "NAME[:KNOB=VALUE]..")]
    engine: Vec<String>,

    /// Show another recording beside it, in place of engines: of the same machine, or of one whose zones lie alike
    #[arg(long, value_name = "OTHER.trace", conflicts_with_all = ["engine", "set"])]
    beside: Option<PathBuf>,

    /// Set a knob of every engine that has it, or of one engine alone; may be given several times. `pageyard knobs`
    /// lists them
    #[arg(long, value_name = "[ENGINE:]KNOB=VALUE", value_parser = knob)]
    set: Vec<(String, String)>,
}

impl Map {
    /// Runs the verb.
    pub fn run(&self, mut line: CommandLine, json: bool) -> Result<(), Failure> {
        let trace = crate::carried::open(self.trace.as_deref())?;
        let other = self.beside.as_deref().map(Trace::open).transpose()?;
        let names: Vec<&str> = match &self.engine[..] {
            [] if other.is_some() => Vec::new(),
            [] => vec![EngineSpec::of_kernel(&trace.meta().kernel)],
            [none] if none == "none" => Vec::new(),
            named => named.iter().map(String::as_str).collect(),
        };
        let engines = EngineSpec::parse_all(&names, &self.set)?;
        for part in EngineSpec::partly_set(&names, &self.set) {
            say(&format!("pageyard: {part}\n"));
        }
        // A replay may take long: what is wrong with the file is said before.
        let mut file = WholeFile::create(&self.output)?;
        let mut progress = Progress::new();
        if other.is_none() {
            line.had("--engine", if names.is_empty() { "none".to_owned() } else { names.join(",") });
        }
        let mut tells = |doing: Doing<'_>, done, all| match doing {
            Doing::Opening => progress.at("finding the opening state", done, all),
            Doing::Recorded => progress.at("following the recording", done, all),
            Doing::Preparing(engine) => progress.wait(&format!("preparing {engine}, {done} s")),
            Doing::Replaying(engine) => progress.at(&format!("replaying on {engine}"), done, all),
        };
        let mut story = match &other {
            Some(other) => tell_two(&trace, other, &mut tells)?,
            None => tell(&trace, &engines, &mut tells)?,
        };
        let made = line.made();
        story.made_by(&made);
        progress.wait("writing");
        let start = Instant::now();
        story.write_page(VIEWER, &mut file).map_err(|why| file.refused(&why))?;
        let written = file.finish()?;
        let document = story.document(written, start.elapsed());
        drop(progress);
        let lines: Vec<&str> = document.lines.iter().map(|line| line.line.as_str()).collect();
        let mut text = format!(
            "{}{}: {}, {} pageblocks at {} moments {:.1} ms apart: {}. Open it in a browser.\n",
            document.trust,
            shown(&self.output.to_string_lossy()),
            bytes(written),
            count(document.pageblocks),
            count(document.moments.into()),
            document.resolution_ns as f64 / 1e6,
            shown(&lines.join(", ")),
        );
        for left_out in &document.left_out {
            text += &format!("Left out: {}\n", shown(left_out));
        }
        print_made(json, &made, &document, &text.trim_end())
    }
}
