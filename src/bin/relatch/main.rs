//! The program `relatch`: from the command line to the exit status. Each command has a file of its own.

mod address;
mod aim;
mod args;
mod child;
mod completions;
mod connect;
mod doctor;
mod duration;
mod force;
mod inspect;
mod misuse;
mod once;
mod releasing;
mod run;
mod say;
mod status;

use std::{
    env, fmt,
    process::{self, ExitCode},
};

use clap::Parser;
use rustix::process::Signal;

use crate::{
    args::{Cli, Command},
    child::Signals,
};

/// Why a call comes to nothing: one line, and the status.
#[derive(Debug)]
pub(crate) struct Failure {
    why: String,
    status: u8,
}

impl Failure {
    pub(crate) fn misuse(why: impl fmt::Display) -> Self {
        Self { why: why.to_string(), status: status::MISUSE }
    }

    pub(crate) fn system(error: impl fmt::Display) -> Self {
        Self { why: format!("the system does not give what is needed: {error}"), status: status::SYSTEM }
    }

    /// Of what is called so here, as in `job "a"`.
    pub(crate) fn of(what: &str, error: &relatch::Error) -> Self {
        Self::said(error, || say::chain_of(what, error))
    }

    fn said(error: &relatch::Error, chain: impl FnOnce() -> String) -> Self {
        let why = match error {
            relatch::Error::Invalid { what, why, .. } => format!("{}: {why}", misuse::as_written(what)),
            _ => chain(),
        };
        Self { why, status: status::of_error(error) }
    }
}

impl From<relatch::Error> for Failure {
    fn from(error: relatch::Error) -> Self {
        Self::said(&error, || say::chain(&error))
    }
}

fn main() -> ExitCode {
    if child::interrupt::end_if_asked_for() {
        return status::of_signal(Signal::INT.as_raw()).into();
    }
    if let Some(arguments) = child::shim::asked_for() {
        let status = child::shim::run(&arguments);
        say::finish();
        return status.into();
    }
    let ended = match Cli::try_parse() {
        Ok(cli) => begin(cli),
        Err(error) => match misuse::line(&error, env::args_os().skip(1)) {
            Some(why) => Err(Failure::misuse(why)),
            None => error.print().map_or_else(say::not_written, |()| say::out("")).map(|_| 0),
        },
    };
    let status = ended.unwrap_or_else(|failure| {
        say::line(&failure.why);
        failure.status
    });
    say::finish();
    if status == status::of_signal(Signal::INT.as_raw()) {
        child::interrupt::end_so();
    }
    status.into()
}

/// As the first process of a container we are ended by no signal that we do not listen to.
async fn until_told(work: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    if process::id() != 1 {
        return work.await;
    }
    let mut signals = Signals::listen().map_err(Failure::system)?;
    tokio::select! {
        biased;
        signal = signals.asked_to_end() => Ok(status::of_signal(signal.as_raw())),
        status = work => status,
    }
}

/// All of it happens on this thread: commands that it starts end with it.
fn begin(cli: Cli) -> Result<u8, Failure> {
    if let Command::Completions(completions) = cli.command {
        return completions::print(&completions);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::system)?;
    let status = runtime.block_on(async {
        match cli.command {
            Command::Run(run) => run::run(&cli.server, *run).await,
            Command::Once(once) => once::run(&cli.server, *once).await,
            Command::Inspect(inspect) => until_told(inspect::run(&cli.server, inspect)).await,
            Command::ForceUnlock(force) => until_told(force::run(&cli.server, force)).await,
            Command::Doctor(doctor) => until_told(doctor::run(&cli.server, doctor)).await,
            Command::Completions(completions) => completions::print(&completions),
        }
    });
    // A host's name that is still being looked up is nothing to wait for.
    runtime.shutdown_background();
    status
}
