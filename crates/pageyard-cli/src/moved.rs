//! Verbs that are the laboratory's: the answer names the command that has them now.

use crate::output::Failure;
use clap::Args;

/// Arguments of a verb that moved: taken and ignored.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Moved {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    given: Vec<String>,
}

impl Moved {
    /// Refuses the verb, with the verb of `pageyard-lab` that does the work. `own` are words behind it that are verbs
    /// of their own there.
    pub fn refuse(&self, verb: &str, own: &[&str]) -> Failure {
        let now = own.iter().find(|word| self.given.iter().any(|given| given == *word)).unwrap_or(&verb);
        Failure(format!(
            "`{verb}` is a verb of the laboratory: run `pageyard-lab {now}`, which `cargo build --release -p pageyard-lab` builds"
        ))
    }
}
