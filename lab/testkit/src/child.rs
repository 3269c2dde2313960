//! Runs a test in its own process, so that an abort fails that test instead of ending all others.

use std::process::Command;

/// The environment variable that marks the child process.
const IN_CHILD: &str = "PAGEYARD_TEST_CHILD";

/// The environment variable with the emulator, and its arguments, for a program of another architecture. An emulator
/// runs one process, and the kernel cannot start another one for it.
const RUNNER: &str = "PAGEYARD_TEST_RUNNER";

/// Makes the command that starts this program again.
fn this_program() -> Command {
    let program = std::env::current_exe().unwrap();
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(program) };
    let mut command = Command::new(emulator);
    command.args(words).arg(program);
    command
}

/// Runs `body` in a child process: the test `name` of this program once more.
///
/// # Panics
/// When the child panics, aborts or is killed: with what it printed.
pub fn in_child(name: &str, body: impl FnOnce()) {
    if std::env::var(IN_CHILD).is_ok_and(|n| n == name) {
        return body();
    }
    let child = this_program()
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(IN_CHILD, name)
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    // An abort prints its trace too, whatever the environment says.
    let frame = |l: &str| l.contains("::") && l.starts_with(' ') || l.trim_start().starts_with("at ");
    let last: Vec<_> = text.lines().filter(|l| !l.trim().is_empty() && !frame(l)).collect();
    let last = last[last.len().saturating_sub(25)..].join("\n");
    assert!(text.contains("running 1 test"), "{name} is not the name of a test here:\n{last}");
    assert!(child.status.success(), "{name} in a process of its own: {}\n{last}", child.status);
}
