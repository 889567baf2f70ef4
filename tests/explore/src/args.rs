//! What was asked for on the command line.

use std::time::Duration;

use crate::explore;

/// All worlds together take no longer, if nothing else is said.
const SECS: u64 = 90;
const THREADS: usize = 2;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) ids: Vec<String>,
    pub(crate) cap: Option<usize>,
    pub(crate) time: Option<Duration>,
    pub(crate) threads: usize,
    pub(crate) traced: bool,
    pub(crate) task: Task,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// `ids` are worlds.
    Worlds,
    Fair,
}

impl Args {
    pub(crate) fn read(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let full = std::env::var("RELATCH_EXPLORE").is_ok_and(|value| value == "full");
        Self::parse(args, full)
    }

    fn parse(mut args: impl Iterator<Item = String>, full: bool) -> Result<Self, String> {
        let time = (!full).then_some(Duration::from_secs(SECS));
        let mut read = Self { ids: Vec::new(), cap: None, time, threads: THREADS, traced: false, task: Task::Worlds };
        while let Some(arg) = args.next() {
            let mut number = || {
                let value = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
                value.parse::<u32>().map_err(|_| format!("{arg} needs a number, not {value}"))
            };
            match arg.as_str() {
                "--cap" => read.cap = Some(number()? as usize),
                "--secs" => {
                    let secs = Duration::from_secs(number()?.into());
                    read.time = (!full).then_some(secs);
                }
                "--threads" => read.threads = number()?.max(1) as usize,
                "--trace" => {
                    read.traced = true;
                    read.ids.push(args.next().ok_or("--trace needs the name of a world")?);
                }
                "fair" if read.ids.is_empty() => read.task = Task::Fair,
                other => read.ids.push(other.to_owned()),
            }
        }
        let known: Vec<&str> = explore::all()
            .iter()
            .map(|named| named.id)
            .chain(explore::votes::all().iter().map(|named| named.id))
            .collect();
        let is_unknown = |id: &&String| !known.contains(&id.as_str());
        match read.ids.iter().find(is_unknown) {
            Some(id) => Err(format!("there is no world {id}")),
            None => Ok(read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Args, String> {
        Args::parse(args.iter().map(|arg| (*arg).to_owned()), false)
    }

    #[test]
    fn worlds_and_limits_are_read() {
        let args = parse(&["--cap", "9", "t0", "--trace", "ra1"]).expect("they are read");
        assert_eq!((args.ids, args.cap, args.traced), (vec!["t0".to_owned(), "ra1".to_owned()], Some(9), true));
    }

    #[test]
    fn a_full_exploration_has_no_limit_of_time() {
        let read = |full| Args::parse(["--secs", "9"].iter().map(|arg| (*arg).to_owned()), full).expect("it is read");
        assert_eq!((read(false).time, read(true).time), (Some(Duration::from_secs(9)), None));
    }

    #[test]
    fn what_is_no_world_and_no_number_is_refused() {
        assert!(parse(&["nowhere"]).is_err_and(|complaint| complaint.contains("nowhere")));
        assert!(parse(&["--cap", "many"]).is_err());
        assert!(parse(&["--secs"]).is_err());
    }
}
