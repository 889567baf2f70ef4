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
    connect, say, status,
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
    let shown = if inspect.watch {
        watch::forever(&client, &wanted).await
    } else if inspect.json {
        look(&client, &wanted, |seen| say::out(&format!("{}\n", json::of(&seen)))).await
    } else {
        in_table(&client, &wanted).await
    };
    client.close().await;
    shown.map(|complete| if complete { 0 } else { status::UNREACHABLE })
}

/// A table, some of it at a time, so that it is never in memory as a whole.
async fn in_table(client: &Client, wanted: &Wanted) -> Result<bool, Failure> {
    let mut rows = Rows::default();
    let complete = look(client, wanted, |seen| {
        rows.add(&seen);
        rows.is_enough().then(|| rows.take()).is_none_or(|text| say::out(&text))
    })
    .await?;
    say::out(&rows.take());
    if rows.is_empty() {
        say::line("nothing is held there");
    }
    Ok(complete)
}

/// Tells `each` of all that is wanted, until it does not want any more. Whether all was seen.
async fn look(client: &Client, wanted: &Wanted, mut each: impl FnMut(Seen) -> bool) -> Result<bool, Failure> {
    match wanted {
        Wanted::Names(names) => {
            for name in names {
                for seen in of_name(client, name).await? {
                    if !each(seen) {
                        return Ok(true);
                    }
                }
            }
            Ok(true)
        }
        Wanted::Pattern(pattern) => {
            let (mut search, mut complete) = (client.find(pattern), true);
            while let Some(found) = search.next().await {
                match found {
                    Ok(found) => {
                        if !each(Seen::Found(Box::new(found))) {
                            break;
                        }
                    }
                    Err(error @ Error::Invalid { .. }) => return Err(error.into()),
                    // Another server may know some.
                    Err(error) => {
                        complete = false;
                        say::line(&say::chain(&error));
                    }
                }
            }
            Ok(complete)
        }
    }
}

/// A lock and a job may have one name.
async fn of_name(client: &Client, name: &str) -> Result<Vec<Seen>, Failure> {
    let Some(found) = client.inspect_key(name).await? else { return Ok(vec![Seen::Free(name.into())]) };
    let job = if found.kind == Kind::Job { None } else { client.inspect_job(name).await? };
    Ok([Some(found), job].into_iter().flatten().map(|found| Seen::Found(Box::new(found))).collect())
}
