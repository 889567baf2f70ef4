//! `relatch inspect`: who holds which locks, and which jobs are at work.

mod json;
mod rows;
mod watch;

use std::sync::Arc;

use futures_util::StreamExt;
use relatch::{
    Client, Error,
    operate::{Found, Kind},
};

use crate::{
    Failure,
    args::{Inspect, Server},
    connect,
    say::{self, Printed},
    status,
};

use self::rows::Rows;

/// What is to be shown: some names, or all of a pattern.
enum Wanted {
    Names(Vec<String>),
    Pattern(String),
}

/// What is known of a name.
enum Seen {
    Free(Arc<str>),
    Found(Box<Found>),
}

/// Shows it, and says with which status to end.
pub(crate) async fn run(server: &Server, inspect: Inspect) -> Result<u8, Failure> {
    let wanted = match inspect.pattern {
        Some(pattern) => Wanted::Pattern(pattern),
        None if inspect.names.is_empty() => {
            return Err(Failure::misuse("whose state? write `relatch inspect NAME`, or --pattern '*' for all"));
        }
        None => Wanted::Names(inspect.names),
    };
    if inspect.watch && !say::to_terminal() {
        return Err(Failure::misuse("--watch is for a terminal; leave it out, or write --json for a program"));
    }
    let client = connect::builder(server)?.connect().await?;
    let status = if inspect.watch {
        watch::forever(&client, &wanted).await
    } else if inspect.json {
        in_lines(&client, &wanted).await
    } else {
        in_table(&client, &wanted).await
    };
    client.close().await;
    status
}

async fn in_lines(client: &Client, wanted: &Wanted) -> Result<u8, Failure> {
    let mut status = 0;
    look(client, wanted, |seen| match seen {
        Ok(seen) => say::out(&format!("{}\n", say::json(&json::of(&seen)))),
        Err(failure) => Ok(told(failure, &mut status)),
    })
    .await?;
    Ok(status)
}

/// A table, some of it at a time, so that it is never in memory as a whole.
async fn in_table(client: &Client, wanted: &Wanted) -> Result<u8, Failure> {
    let (mut rows, mut status) = (Rows::default(), 0);
    look(client, wanted, |seen| {
        match seen {
            Ok(seen) => rows.add(&seen),
            Err(failure) => return Ok(told(failure, &mut status)),
        }
        if rows.is_enough() { say::out(&rows.take()) } else { Ok(Printed::All) }
    })
    .await?;
    say::out(&rows.take())?;
    if rows.is_empty() && status == 0 {
        say::line("nothing is held there");
    }
    Ok(status)
}

/// Says what could not be seen. The rest is shown all the same, and the status is that of the first failure.
fn told(failure: Failure, status: &mut u8) -> Printed {
    say::line(&failure.why);
    if *status == 0 {
        *status = failure.status;
    }
    Printed::All
}

/// Tells `each` of all that is wanted, and of what could not be seen, until nobody reads it any more.
async fn look(
    client: &Client,
    wanted: &Wanted,
    mut each: impl FnMut(Result<Seen, Failure>) -> Result<Printed, Failure>,
) -> Result<(), Failure> {
    match wanted {
        Wanted::Names(names) => {
            for name in names {
                for seen in of_name(client, name).await {
                    if each(seen)? == Printed::Unread {
                        return Ok(());
                    }
                }
            }
        }
        Wanted::Pattern(pattern) => {
            let mut search = client.find(pattern);
            while let Some(found) = search.next().await {
                // Where one server fails, another one may know some.
                let seen = found.map(|found| Seen::Found(Box::new(found))).map_err(Failure::from);
                if each(seen)? == Printed::Unread {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// A lock and a job may have one name.
async fn of_name(client: &Client, name: &str) -> Vec<Result<Seen, Failure>> {
    let failed = |error: Error| match error {
        // It names a script alone.
        Error::Protocol { .. } => {
            let why = format!("{} holds something that is not a lock: {}", say::name(name), say::chain(&error));
            Failure { why, status: status::UNREACHABLE }
        }
        error => error.into(),
    };
    let found = |found: Found| Seen::Found(Box::new(found));
    let lock = client.inspect_key(name).await;
    let job = match &lock {
        Ok(None) => return vec![Ok(Seen::Free(name.into()))],
        Ok(Some(found)) if found.kind == Kind::Job => None,
        Err(Error::Invalid { .. } | Error::Unreachable { .. } | Error::Closed) => None,
        _ => client.inspect_job(name).await.transpose(),
    };
    let lock = lock.transpose();
    let mut seen: Vec<_> = lock.into_iter().chain(job).map(|it| it.map(found).map_err(failed)).collect();
    // Where the lock is free, both looks run into the same record.
    seen.dedup_by(|one, other| matches!((one, other), (Err(one), Err(other)) if one.why == other.why));
    seen
}
