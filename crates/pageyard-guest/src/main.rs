//! `pageyard-guest`: boots a stock kernel, runs a script in it and prints its console; or packs an initial file system.
#![forbid(unsafe_code)]

use pageyard_guest::emulator::Access;
use pageyard_guest::initrd::Initrd;
use pageyard_guest::launch::Launch;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

const USAGE: &str = "usage: pageyard-guest --kernel FILE --folder FOLDER --script FILE [OPTION]..
  --memory MIB  --low MIB  --cpus N  --node MIB[:CPU]..   the machine [512 MiB, 1 CPU]; --low is the most below 4 GiB
  --disk FILE..  --read-only FILE..                       disks: /dev/vda and so on
  --program FILE  --file FILE..                           becomes /bin/pageyard, with its libraries; is copied to /
  --words WORDS                                           for the kernel's command line
  --seconds N                                             the time that the guest may take [300]
  --until LINE                                            fail unless a line of the console begins so
Boots a kernel that is unpacked with its package under QEMU, runs a shell script in it, and prints its console.
FOLDER gets the initial file system and the logs.

       pageyard-guest pack --to FILE --init FILE [--file FILE]..
Only packs an initial file system: BusyBox, /init, and files in /.";

fn main() -> ExitCode {
    if std::env::args().nth(1).is_none_or(|first| first == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    if std::env::args().nth(1).is_some_and(|first| first == "pack") {
        return end(pack(std::env::args().skip(2)));
    }
    let (folder, launch) = match read(std::env::args().skip(1)) {
        Ok(read) => read,
        Err(why) => {
            eprintln!("error: {why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    end(launch.run(&folder, &mut std::io::stdout()))
}

fn end(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Packs an initial file system as the arguments say.
fn pack(mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let (mut to, mut init, mut files) = (None, None, Vec::new());
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} takes a value"))?;
        match name.as_str() {
            "--to" => to = Some(value),
            "--init" => init = Some(value),
            "--file" => files.push(value.into()),
            _ => return Err(format!("{name} is not an option")),
        }
    }
    let init = init.ok_or("--init is missing")?;
    let mut packed = Initrd::with_init(&text(&init)?)?;
    packed.files(&files)?;
    packed.write(Path::new(&to.ok_or("--to is missing")?))
}

fn text(file: &str) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))
}

fn read(mut arguments: impl Iterator<Item = String>) -> Result<(PathBuf, Launch), String> {
    let (mut folder, mut script) = (None, None);
    let mut launch = Launch { cpus: 1, limit: Duration::from_secs(300), ..Launch::default() };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} takes a value"))?;
        match name.as_str() {
            "--kernel" => launch.kernel = value.into(),
            "--folder" => folder = Some(PathBuf::from(value)),
            "--script" => script = Some(value),
            "--memory" => launch.memory_mib = number(&name, &value)?,
            "--low" => launch.low_mib = Some(number(&name, &value)?),
            "--cpus" => launch.cpus = number(&name, &value)?,
            "--node" => launch.nodes.push(match value.split_once(':') {
                Some((mib, cpu)) => (number(&name, mib)?, Some(number(&name, cpu)?)),
                None => (number(&name, &value)?, None),
            }),
            "--disk" => launch.disks.push((value.into(), Access::Written)),
            "--read-only" => launch.disks.push((value.into(), Access::ReadOnly)),
            "--program" => launch.program = Some(value.into()),
            "--file" => launch.files.push(value.into()),
            "--words" => launch.words = value,
            "--seconds" => launch.limit = Duration::from_secs(number(&name, &value)?),
            "--until" => launch.until = Some(value),
            _ => return Err(format!("{name} is not an option")),
        }
    }
    let folder = folder.ok_or("--folder is missing")?;
    let script = script.ok_or("--script is missing")?;
    launch.script = text(&script)?;
    if launch.kernel.as_os_str().is_empty() {
        return Err("--kernel is missing".into());
    }
    if launch.memory_mib == 0 && launch.nodes.is_empty() {
        launch.memory_mib = 512;
    }
    Ok((folder, launch))
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} takes a number, and `{value}` is not one"))
}
