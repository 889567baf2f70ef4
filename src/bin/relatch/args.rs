//! The command line as it may be written. What is wrong with one that may not is said in `misuse.rs`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{duration, status};

/// Locks on Redis, for the command line.
///
/// The server is the one of --url or --url-file, else of RELATCH_URL or RELATCH_URL_FILE, else redis://127.0.0.1:6379.
/// Where others can see which processes run, give an address with a password in a file or a variable.
#[derive(Debug, Parser)]
#[command(
    name = "relatch",
    bin_name = "relatch",
    version,
    max_term_width = 100,
    after_help = "Example:\n  relatch run -n nightly-backup backup.sh"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: Server,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the locks are.
#[derive(Args, Clone, Debug)]
pub(crate) struct Server {
    /// The server: redis://host:port, redis-sentinel://host,host#master, redis-cluster://host,host
    #[arg(long, global = true, value_name = "URL", help_heading = "Server", conflicts_with = "url_file")]
    pub(crate) url: Option<OsString>,
    /// A file with the server's address in it, and nothing else
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) url_file: Option<PathBuf>,
    /// What is put before every name; RELATCH_PREFIX otherwise
    #[arg(long, global = true, value_name = "TEXT", help_heading = "Server")]
    pub(crate) prefix: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock
    Run(Box<Run>),
    /// Run a command once a period, on one of many machines
    Once(Box<Once>),
    /// Show who holds a lock, and for how long
    Inspect(Inspect),
    /// End the hold of somebody who is stuck
    ForceUnlock(ForceUnlock),
    /// Look whether a deployment is fit to be a server of locks
    Doctor(Doctor),
    /// Print what a shell needs to complete the words of this command line
    Completions(Completions),
}

/// Run a command while holding a lock.
///
/// Waits until the lock is free, runs the command, and frees the lock. The status is the command's own; 128 and the signal
/// where it was ended by one. Options end at NAME.
///
/// If the lock cannot be renewed, the command is told to stop (TERM) so early that it is over before the lock is somebody
/// else's, and killed at the end of that.
#[derive(Args, Debug)]
#[command(
    override_usage = "relatch run [OPTIONS] NAME [--] COMMAND...\n       relatch run [OPTIONS] NAME -c STRING",
    after_help = "Statuses: 75 (or -E) somebody else has the lock, 76 the lock was lost, 69 no server, 64 wrong call,\n\
                  127 no such command, 126 it cannot be run, 128+N the command was ended by signal N,\n\
                  71 the system gives no process.\n\n\
                  In the command's environment: RELATCH_LOCK, RELATCH_HOLDER, with --fenced RELATCH_FENCE.\n\n\
                  Examples:\n  relatch run -n -E 0 nightly-backup backup.sh --all\n  \
                  relatch run -w 10m deploy -c 'make deploy && make smoke-test'"
)]
pub(crate) struct Run {
    /// Give up at once if somebody else has the lock
    #[arg(short = 'n', long = "no-wait", aliases = ["nb", "nonblock", "nonblocking"], conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// Give up after so long (10s, 5m; seconds without a unit)
    #[arg(short = 'w', long, alias = "timeout", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration::wait)]
    pub(crate) wait: Option<Duration>,
    /// The status if somebody else has the lock
    #[arg(short = 'E', long = "busy-status", alias = "conflict-exit-code", value_name = "N", default_value_t = status::BUSY)]
    pub(crate) busy_status: u8,
    /// Do not say that somebody else has the lock
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
    /// Stop the command after so long at most, by then it is over
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration::with_unit)]
    pub(crate) max_hold: Option<Duration>,
    /// Get a fencing token: RELATCH_FENCE, greater than those of all holders before
    #[arg(long)]
    pub(crate) fenced: bool,
    #[command(flatten)]
    pub(crate) keep: Keep,
    #[command(flatten)]
    pub(crate) flock: Flock,
    /// The lock's name, and the command with its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["NAME", "COMMAND"], num_args = 1..)]
    pub(crate) words: Vec<OsString>,
}

/// How a command and its lock hang together.
#[derive(Args, Clone, Debug)]
pub(crate) struct Keep {
    /// How soon others may begin if this machine dies; renewed every third of this, so a busy machine loses a short one
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "30s", value_parser = duration::with_unit)]
    pub(crate) lease: Duration,
    /// What becomes of the command if others may begin before it is over
    #[arg(long, value_name = "WHAT", default_value = "term")]
    pub(crate) on_loss: OnLoss,
    /// How long the command has between TERM and KILL; half of the lease at most [default: 5s, or a third of the lease]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration::with_unit)]
    pub(crate) grace: Option<Duration>,
}

/// What becomes of the command whose lock or attempt is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLoss {
    /// TERM in time, and KILL before somebody else may begin
    Term,
    /// KILL before somebody else may begin
    Kill,
    /// It goes on
    Ignore,
}

/// Options of flock: taken where they are right here, too, and refused where they are not.
#[derive(Args, Clone, Debug)]
pub(crate) struct Flock {
    #[arg(short = 'x', short_alias = 'e', long = "exclusive", hide = true)]
    pub(crate) exclusive: bool,
    #[arg(short = 'o', long = "close", hide = true)]
    pub(crate) close: bool,
    #[arg(short = 's', long, hide = true)]
    pub(crate) shared: bool,
    #[arg(short = 'u', long, hide = true)]
    pub(crate) unlock: bool,
    #[arg(short = 'F', long, hide = true)]
    pub(crate) no_fork: bool,
    #[arg(long, hide = true)]
    pub(crate) verbose: bool,
    #[arg(short = 'c', long = "command", hide = true, value_name = "STRING")]
    pub(crate) early_command: Option<OsString>,
}

/// Run a command once a period, on one of many machines.
///
/// For cron, on every machine at the same time: one of them runs the command, the others say why they do not, with status
/// 0. A command that fails may be run again, by whoever asks next. Periods are those of the server's clock. Whoever asks
/// within 10s before a period, or a quarter of one, asks again when it begins.
#[derive(Args, Debug)]
#[command(
    override_usage = "relatch once --every DURATION [OPTIONS] NAME [--] COMMAND...\n       relatch once --every DURATION [OPTIONS] NAME -c STRING",
    after_help = "Statuses: 0 it was done here, or is not to be done here, 76 the attempt was lost, 69 no server, 64 wrong call,\n\
                  127 no such command, 126 it cannot be run, 128+N the command was ended by signal N,\n\
                  71 the system gives no process; any other is the command's own.\n\n\
                  In the command's environment: RELATCH_JOB, RELATCH_PERIOD (when the period began), RELATCH_PERIOD_MS,\n\
                  RELATCH_ATTEMPT, RELATCH_FENCE.\n\n\
                  Example, in the crontab of every machine, a minute after the hour, when all their clocks are past it:\n  \
                  1 * * * *  relatch once --every 1h hourly-report report.sh"
)]
pub(crate) struct Once {
    /// How long a period is, in whole seconds (1h, 1day)
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration::with_unit)]
    pub(crate) every: Duration,
    /// Periods begin this much later
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "0s", value_parser = duration::with_unit)]
    pub(crate) offset: Duration,
    /// How often the command is begun in a period at most, by all machines together
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) attempts: u32,
    /// Do not begin later in a period than this
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration::with_unit)]
    pub(crate) start_within: Option<Duration>,
    /// Wait while another machine runs the command, and run it here if it fails there; wait for a server that does not answer
    #[arg(long)]
    pub(crate) stand_by: bool,
    /// Do not say why the command is not run
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) keep: Keep,
    /// The job's name, and the command with its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["NAME", "COMMAND"], num_args = 1..)]
    pub(crate) words: Vec<OsString>,
}

/// Show who holds a lock, and for how long.
///
/// Who holds it is told by client and hold, and by the label of the client's connections, `host:pid` unless it has another
/// one. Jobs of these names are shown, too. A search looks at few keys at a time, so that nobody waits for it.
#[derive(Args, Debug)]
#[command(
    override_usage = "relatch inspect [OPTIONS] NAME...\n       relatch inspect [OPTIONS] --pattern PATTERN",
    after_help = "Examples:\n  relatch inspect nightly-backup\n  relatch inspect --pattern 'invoice:*' --json | jq .holders"
)]
pub(crate) struct Inspect {
    /// Locks and jobs of these names
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// All whose names are like this: `*`, `?` and `[...]`
    #[arg(long, value_name = "PATTERN", conflicts_with = "names")]
    pub(crate) pattern: Option<String>,
    /// An object a line, for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw the table anew every second, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    pub(crate) watch: bool,
}

/// End the hold of somebody who is stuck.
///
/// It is ended only while it is still this one: the status is 1 if it was not. Who works under it is told with the next
/// renewal at the latest, and may go on until then.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  relatch inspect nightly-backup\n  \
                  relatch force-unlock nightly-backup --holder 6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:42")]
pub(crate) struct ForceUnlock {
    /// The lock, or the job
    pub(crate) name: String,
    /// Whose hold: as `relatch inspect` says it, and RELATCH_HOLDER
    #[arg(long, value_name = "ID")]
    pub(crate) holder: String,
    /// Do not ask
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
}

/// Look whether a deployment is fit to be a server of locks.
///
/// Each finding says what may happen and what to do. The status is 0 if all is well, 1 after a warning, 2 after an error.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  relatch doctor --url redis-sentinel://s1,s2,s3#main")]
pub(crate) struct Doctor {
    /// An object a line, for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Look for keys without a TTL that look like locks, too
    #[arg(long)]
    pub(crate) scan: bool,
}

/// Print what a shell needs to complete the words of this command line.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  relatch completions bash > /etc/bash_completion.d/relatch")]
pub(crate) struct Completions {
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_end_at_the_name() {
        let cli = Cli::try_parse_from(["relatch", "run", "-n", "a", "-n", "--help", "--", "-x"]).expect("it is right");
        let Command::Run(run) = cli.command else { panic!("it is a run") };
        assert_eq!(run.words, ["a", "-n", "--help", "--", "-x"]);
        assert!(run.no_wait);
    }

    #[test]
    fn options_of_flock_are_read_as_flock_reads_them() {
        let cli = Cli::try_parse_from(["relatch", "run", "-xnE1", "a", "b"]).expect("it is right");
        let Command::Run(run) = cli.command else { panic!("it is a run") };
        assert!(run.no_wait && run.flock.exclusive);
        assert_eq!(run.busy_status, 1);
        let cli = Cli::try_parse_from(["relatch", "run", "-ow10", "a", "b"]).expect("it is right");
        let Command::Run(run) = cli.command else { panic!("it is a run") };
        assert_eq!(run.wait, Some(Duration::from_secs(10)));
        assert!(run.flock.close);
    }
}
