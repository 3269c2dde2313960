//! `pageyard doctor`: why allocations fail, and which setting would change it.

use crate::made::CommandLine;
use crate::output::{Failure, print_made, say};
use crate::progress::Progress;
use crate::record;
use clap::Args;
use pageyard_record::host::HostAnswers;
use pageyard_replay::doctor::{Asked, Diagnosis, Facts, Source, of_trace, try_settings};
use pageyard_replay::engine::JUDGED;
use pageyard_replay::replay::Progress as Doing;
use pageyard_trace::failures::gfp_of_names;
use pageyard_trace::{KernelLog, Trace, shown};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Explains why requests for memory fail, with the numbers behind each cause and the setting that would change it.
///
/// Without an option, judges this host as it is now. Root sees more of it, and the page says what.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard doctor\n  dmesg | pageyard doctor --log -\n  pageyard doctor --trace busy.trace\n  pageyard doctor --from host\n  sudo pageyard doctor --record 60\n\ndocs/design/doctor.md says how causes are found, and what the weights and confidences are."
)]
pub struct Doctor {
    /// Explain the failures in a kernel's log, as dmesg prints it; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "record"])]
    log: Option<PathBuf>,

    /// Explain the failures in a recording, and try settings on it
    #[arg(long, value_name = "TRACE", conflicts_with = "record")]
    trace: Option<PathBuf>,

    /// Judge another host by a folder of its files in /proc, saved there without Pageyard; without that folder, or with
    /// one that lacks them, prints the four commands that make it
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["log", "trace", "record"])]
    from: Option<PathBuf>,

    /// Record this host for so many seconds, then do the same (needs root)
    #[arg(long, value_name = "SECONDS", value_parser = record::seconds, allow_negative_numbers = true)]
    record: Option<Duration>,

    /// Where the recording goes
    #[arg(short, long, value_name = "NAME.trace", default_value = "doctor.trace", requires = "record")]
    output: PathBuf,

    /// Try settings on the preset of another kernel than the recorded one, of those compared with their kernels
    #[arg(long, value_name = "NAME", value_parser = JUDGED, conflicts_with = "log")]
    preset: Option<String>,

    /// Judge this host for a request of this order [default: some whose failure is noticed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=10), conflicts_with_all = ["log", "trace", "record"])]
    order: Option<u8>,

    /// The flags of that request
    #[arg(long = "for", value_name = "GFP", requires = "order", default_value = "GFP_KERNEL")]
    gfp: String,
}

impl Doctor {
    /// Runs the verb.
    pub fn run(&self, line: &CommandLine, json: bool) -> Result<(), Failure> {
        let diagnosis = if let Some(log) = &self.log {
            of_log(log)?
        } else if let Some(trace) = &self.trace {
            self.of_trace(&Trace::open(trace)?)?
        } else if let Some(time) = self.record {
            say(&format!("pageyard: recording for {:.0} s\n", time.as_secs_f64()));
            let trace = record::for_a_time(&self.output, time)?;
            say(&format!("pageyard: the recording is {}\n", shown(&self.output.to_string_lossy())));
            self.of_trace(&trace)?
        } else if let Some(folder) = &self.from {
            self.of_answers(HostAnswers::saved(folder)?, Source::Saved)?
        } else {
            self.of_answers(HostAnswers::ask()?, Source::Host)?
        };
        print_made(json, &line.made(), &diagnosis.document(), &diagnosis)
    }

    fn of_answers(&self, answers: HostAnswers, source: Source) -> Result<Diagnosis, Failure> {
        let facts = Facts {
            kernel: Some(answers.kernel).filter(|kernel| !kernel.is_empty()),
            settings: answers.settings,
            ..Facts::of_texts(&answers.texts, &answers.meminfo)?
        };
        let facts = match &answers.pageblocks {
            Some(blocks) => facts.with_contents(blocks),
            None => facts,
        };
        let asked = match self.order {
            Some(order) => vec![self.asked(order)?],
            None => Asked::usual(&facts),
        };
        Ok(Diagnosis::of_host(source, &facts, &asked, &answers.not_read))
    }

    fn asked(&self, order: u8) -> Result<Asked, Failure> {
        let gfp = gfp_of_names(&self.gfp);
        if gfp.is_empty() {
            return Err(Failure(format!(
                "`--for` takes gfp flags by name, such as GFP_ATOMIC or GFP_KERNEL|__GFP_DMA32, not `{}`",
                shown(&self.gfp)
            )));
        }
        Ok(Asked::new(order, gfp))
    }

    fn of_trace(&self, trace: &Trace) -> Result<Diagnosis, Failure> {
        let rows = trace.rows()?;
        let mut progress = Progress::new();
        let mut diagnosis = of_trace(trace, &mut |done| progress.at("reading", done, rows))?;
        try_settings(trace, &mut diagnosis, self.preset.as_deref(), &mut |doing, done, rows| match doing {
            Doing::Opening | Doing::Recorded => progress.at("finding the opening state", done, rows),
            Doing::Preparing(what) | Doing::Replaying(what) => {
                progress.at(&format!("trying settings on {what}"), done, rows);
            }
        })?;
        Ok(diagnosis)
    }
}

fn of_log(path: &Path) -> Result<Diagnosis, Failure> {
    let log = if path == Path::new("-") {
        KernelLog::read("standard input", std::io::stdin().lock())?
    } else {
        let name = shown(&path.to_string_lossy());
        let file = File::open(path)
            .map_err(|e| Failure(format!("{name} cannot be read: {}", pageyard_trace::source::reason(&e))))?;
        KernelLog::read(&name, file)?
    };
    Ok(Diagnosis::of_log(&log))
}
