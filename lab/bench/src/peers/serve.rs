//! The other side of a peer's process: an allocator, and requests for samples on standard input.

use super::malloc;
use super::remote::{Request, answer, greet, read_request, taken};
use crate::harness::load::Taken;
use crate::harness::memory::Memory;
use crate::harness::mixed::work::{MixedLoad, Phase, Setting, Work};
use crate::harness::subject::{Shared, Subject};
use crate::harness::team::{Pinned, Team, cpus};
use std::io::{BufReader, Write};
use std::sync::Arc;

/// Serves samples of the peer called `name` until standard input ends. The process that started this one set its
/// environment.
///
/// # Errors
/// Where standard output is closed.
pub fn serve(name: &str) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    let allocator = match malloc::load(name) {
        Ok(allocator) => allocator,
        Err(why) => {
            output.write_all(&greet(1, &why))?;
            return output.flush();
        }
    };
    output.write_all(&greet(0, name))?;
    output.flush()?;
    let cpus = cpus();
    let team = Team::new(&cpus);
    let _pinned = cpus.last().map(|cpu| Pinned::to(*cpu));
    let subject = Shared::new("peer", allocator, false);
    let mut input = BufReader::new(std::io::stdin().lock());
    let mut mixed = None;
    while let Some(request) = read_request(&mut input) {
        let answers = match request {
            Request::Batches(threads, load) => subject.sample(&team, threads, &load),
            Request::Across(groups) => {
                let crossed = subject.cross(&team, groups).map(|c| c.to_words().to_vec());
                Some(vec![Taken { marks: crossed.unwrap_or_default(), ..Taken::default() }])
            }
            Request::Mixed(setting, phase) => {
                let work = Work { load: load_of(&mut mixed, setting, phase), phase };
                subject.mixed(&team, &work).map(|busy| busy.iter().map(taken).collect())
            }
        };
        let Some(answers) = answers else { break };
        for one in &answers {
            output.write_all(&answer(one))?;
        }
        output.flush()?;
    }
    Ok(())
}

/// Returns the mixed load that is worked on; a new one where one is opened.
fn load_of(last: &mut Option<Arc<MixedLoad>>, setting: Setting, phase: Phase) -> Arc<MixedLoad> {
    if phase == Phase::Open {
        *last = None;
    }
    let new = || {
        // The allocator has memory of its own.
        let memory = Arc::new(Memory::none());
        Arc::new(MixedLoad::new(setting, MixedLoad::sequences(&setting), memory))
    };
    last.get_or_insert_with(new).clone()
}
