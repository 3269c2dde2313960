//! The other side of a peer's process: an allocator, and requests for samples on standard input.

use super::malloc;
use super::remote::{answer, greet, read_request};
use crate::harness::load::Taken;
use crate::harness::subject::{Shared, Subject};
use crate::harness::team::{Pinned, Team, cpus};
use std::io::{BufReader, Write};

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
    while let Some((threads, load)) = read_request(&mut input) {
        if load.order.is_empty() {
            let crossed = subject.cross(&team, load.rounds).map(|c| c.to_words().to_vec());
            output.write_all(&answer(&Taken { marks: crossed.unwrap_or_default(), ..Taken::default() }))?;
            output.flush()?;
            continue;
        }
        let Some(taken) = subject.sample(&team, threads, &load) else { break };
        for one in &taken {
            output.write_all(&answer(one))?;
        }
        output.flush()?;
    }
    Ok(())
}
