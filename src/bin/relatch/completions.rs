//! `relatch completions`: what a shell needs to complete our words.

use clap::CommandFactory;

use crate::{
    Failure,
    args::{Cli, Completions},
    say,
};

/// Prints it.
pub(crate) fn print(completions: &Completions) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(completions.shell, &mut Cli::command(), "relatch", &mut text);
    say::out(&String::from_utf8_lossy(&text)).map(|_| 0)
}
